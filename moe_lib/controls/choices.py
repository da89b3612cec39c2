"""What several controls share: models, devices, precisions and batches to choose, and a step for them."""

import itertools

from .. import charts
from ..hardware import DEVICES, devices_needed
from ..models import CATALOG, from_config, from_counts
from ..roofline import compute_time, memory_time, step_time
from ..steps import decode_step, resident_bytes
from ..two_faces import HALF_OCTAVES, Choice

PRECISIONS = {"BF16": "bf16", "FP8": "fp8", "4-bit": "fp4"}
WEIGHT_BYTES = {"bf16": 2, "fp8": 1, "fp4": 0.5}
FP8_BLOCK = 128  # weights along a side that share a scale, as DeepSeek-V3's release has them
SKEWS = {"uniform": 0, "1/√rank": 0.5, "1/rank": 1}
COMPUTING = {slug: device for slug, device in DEVICES.items() if "bf16" in device.peak_flops_per_s}  # peak published
PLATE = {"plate-deepseek-v3": from_counts("DeepSeek-V3, rounded counts", 671e9, 37e9, 256, 8),
         "plate-mixtral-8x7b": from_counts("Mixtral 8x7B, rounded counts", 46.7e9, 12.9e9, 8, 2)}
STATIC_MODELS = ("deepseek-v3", "plate-deepseek-v3", "mixtral-8x7b", "plate-mixtral-8x7b", "qwen3-235b-a22b",
                 "qwen3-30b-a3b", "gpt-oss-120b", "glm-4.5", "llama-4-maverick", "llama-4-scout", "olmoe",
                 "phi-3.5-moe", "jamba", "minimax-text-01", "deepseek-v4-flash", "gemma-4-26b-a4b", "glm-5.2",
                 "minimax-m3", "nemotron-3-super-120b-a12b", "qwen3.6-35b-a3b")


class Models(dict):
    """The catalogue, the plate's rounded counts and the reader's own: what a control may name."""

    def __init__(self, config=None):
        super().__init__({**{slug: m for slug, m in CATALOG.items() if m.num_experts > 1}, **PLATE})
        self.own = None if config is None else self.add(config)

    def add(self, config, file="yours"):
        model = from_config(config)
        more = (f"{model.name}, {file} ({number})" for number in itertools.count(2))
        names = itertools.chain([f"{model.name}, {file}"], more)
        name = next(name for name in names if name not in self)
        self[name] = model
        return name

    def choice(self, static, start):
        """The menu of models: `static` on the page, all of them live, a reader's own first and chosen.

        The plate's counts know no widths and no caches, so they are there only where `static` names them.
        """
        static = [*filter(None, [self.own]), *(slug for slug in static if slug in self)]
        named = {self[slug].name: slug for slug in static}
        more = {model.name: slug for slug, model in self.items() if slug not in static and slug not in PLATE}
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
    return f"{charts.digits(experts)} of {num_experts:,.0f} ({charts.percent(share)})"


def per_expert_words(over_all, touched):
    return f"{charts.digits(over_all)} (touched: {charts.digits(touched)})"


def precision_choice():
    return Choice("precision", "Weights", PRECISIONS, "bf16", "radio")


def device_choice(static, devices=DEVICES):
    """The menu of devices: `static` on the page, all of `devices` live."""
    return Choice("device", "Device", {DEVICES[slug].name: slug for slug in static}, "h200",
                  more={device.name: slug for slug, device in devices.items() if slug not in static})


def numbered(values):
    """Options of a choice of numbers, each labelled by itself."""
    return {f"{value:,}": value for value in values}


def batch_choice(batches=HALF_OCTAVES):
    return Choice("batch", "Batch", numbered(batches), 64, "batch")


def devices_for(model, precision, device):
    return int(devices_needed(resident_bytes(model, weight_bytes=WEIGHT_BYTES[precision]), DEVICES[device]))


def amount(num_bytes):
    return charts.gigabytes(num_bytes) if num_bytes >= 1e9 else f"{charts.digits(num_bytes / 1e6)} MB"
