"""What several figures share: models, devices, precisions and batches to choose, and a step for them."""

import itertools

from ..hardware import DEVICES, devices_needed
from ..models import CATALOG, from_config
from ..roofline import compute_time, memory_time, step_time
from ..steps import decode_step, resident_bytes
from ._face import HALF_OCTAVES, Choice
from ._style import digits, gigabytes, percent

PRECISIONS = {"BF16": "bf16", "FP8": "fp8", "4-bit": "fp4"}
WEIGHT_BYTES = {"bf16": 2, "fp8": 1, "fp4": 0.5}
FP8_BLOCK = 128  # weights along a side that share a scale, as DeepSeek-V3's release has them
SKEWS = {"uniform": 0, "1/√rank": 0.5, "1/rank": 1}
COMPUTING = {slug: device for slug, device in DEVICES.items() if "bf16" in device.peak_flops_per_s}  # peak published
STATIC_MODELS = ("deepseek-v3", "mixtral-8x7b", "qwen3-235b-a22b", "qwen3-30b-a3b", "gpt-oss-120b",
                 "glm-4.5", "llama-4-maverick", "llama-4-scout", "olmoe",
                 "phi-3.5-moe", "jamba", "minimax-text-01", "deepseek-v4-flash", "gemma-4-26b-a4b", "glm-5.2",
                 "minimax-m3", "nemotron-3-super-120b-a12b", "qwen3.6-35b-a3b")


class Models(dict):
    """The catalogue and the reader's own: what a control may name."""

    def __init__(self, config=None):
        super().__init__({slug: model for slug, model in CATALOG.items() if model.num_experts > 1})
        self.own = None if config is None else self.add(config)

    def add(self, config, file="yours"):
        model = from_config(config)
        more = (f"{model.name}, {file} ({number})" for number in itertools.count(2))
        names = itertools.chain([f"{model.name}, {file}"], more)
        name = next(name for name in names if name not in self)
        self[name] = model
        return name

    def choice(self, static, start):
        """The menu of models: `static` on the page, all of them live, a reader's own first and chosen."""
        static = [*filter(None, [self.own]), *(slug for slug in static if slug in self)]
        named = {self[slug].name: slug for slug in static}
        more = {model.name: slug for slug, model in self.items() if slug not in static}
        return Choice("model", "Model", named, self.own or start, more=more, upload="config.json")


def dtype_of(precision, device):
    return DEVICES[device].arithmetic(WEIGHT_BYTES[precision])


def step_of(model, precision, batch):
    return decode_step(model, batch, weight_bytes=WEIGHT_BYTES[precision])


def time_of(step, model, precision, device):
    """(least number of devices that hold the weights, whether reading binds, bounds on the step's time in seconds)."""
    needed, on = devices_for(model, precision, device), (DEVICES[device], dtype_of(precision, device))
    return needed, memory_time(step, on[0]) > compute_time(step, *on), step_time(step, *on, needed)


def touched_words(experts, num_experts, share):
    return f"{digits(experts)} of {num_experts:,.0f} ({percent(share)})"


def per_expert_words(over_all, touched):
    return f"{digits(over_all)} (touched: {digits(touched)})"


def precision_choice():
    return Choice("precision", "Weights", PRECISIONS, "bf16", "radio")


def device_choice(static, devices=DEVICES):
    """The menu of devices: `static` on the page, all of `devices` live."""
    return Choice("device", "Device", {DEVICES[slug].name: slug for slug in static}, "h200",
                  more={device.name: slug for slug, device in devices.items() if slug not in static})


def numbered(values):
    """Options of a choice of numbers, each labelled by itself."""
    return {f"{value:,}": value for value in values}


def batch_choice(batches=HALF_OCTAVES, drag=""):
    return Choice("batch", "Batch", numbered(batches), 64, "batch", drag=drag)


def devices_for(model, precision, device):
    return int(devices_needed(resident_bytes(model, weight_bytes=WEIGHT_BYTES[precision]), DEVICES[device]))


def amount(num_bytes):
    return gigabytes(num_bytes) if num_bytes >= 1e9 else f"{digits(num_bytes / 1e6)} MB"
