"""What a reader can move: `workshop`, `memory_bill`, `wall`, `coverage`, `speculation`, `roofline`, `context`,
`chunks`, `measured`, `offloading`, `parallel`, `balance`, `plan`, `predict`.

A notebook cell ends in one line, such as ``controls.workshop()``; `two_faces` shows it live in JupyterLab and as an
in-page chart everywhere else.
"""

import functools
import inspect
import itertools
import textwrap

import numpy as np

from . import charts, kernels, routing
from .balance import balance as balance_experts
from .balance import max_over_mean, rank_times, rank_work
from .hardware import DEVICES, LINKS, devices_needed
from .models import CATALOG, dense_twin, from_config, from_counts
from .offload import expert_bytes, expert_slots, host_time, missed_bytes, reuse_hit_rate, token_time
from .parallel import Layout, layout_sequences, layouts, link_time, problems, rank_resident_bytes, rank_step
from .plan import cost_per_million_tokens, time_per_token, time_to_first_token
from .records import inclusion, parse, read, router_loads, shipped
from .roofline import attainable_flops_per_s, compute_bound_batch, ridge_point, speculation_gain, step_time
from .routing import (
    batch_for_coverage,
    coverage_of,
    experts_touched_std,
    sample_routing,
    tokens_per_expert,
    zipf_inclusion,
)
from .steps import (
    context_of_equal_bytes,
    context_of_equal_flops,
    decode_step,
    part_bytes,
    prefill,
    resident_bytes,
)
from .two_faces import HALF_OCTAVES, Choice, TwoFaces, predict

__all__ = ["balance", "chunks", "context", "coverage", "measured", "memory_bill", "offloading", "parallel", "plan",
           "predict", "roofline", "speculation", "wall", "workshop"]

PRECISIONS = {"BF16": "bf16", "FP8": "fp8", "4-bit": "fp4"}
WEIGHT_BYTES = {"bf16": 2, "fp8": 1, "fp4": 0.5}
COMPUTING = {slug: device for slug, device in DEVICES.items() if "bf16" in device.peak_flops_per_s}  # peak published
STATIC_DEVICES = ("h100", "h200", "b200", "mi300x", "a100-80gb", "rtx-4090")
PLATE = {"plate-deepseek-v3": from_counts("DeepSeek-V3, rounded counts", 671e9, 37e9, 256, 8),
         "plate-mixtral-8x7b": from_counts("Mixtral 8x7B, rounded counts", 46.7e9, 12.9e9, 8, 2)}
STATIC_MODELS = ("deepseek-v3", "plate-deepseek-v3", "mixtral-8x7b", "plate-mixtral-8x7b", "qwen3-235b-a22b",
                 "qwen3-30b-a3b", "gpt-oss-120b", "glm-4.5", "llama-4-maverick", "llama-4-scout", "olmoe",
                 "phi-3.5-moe", "jamba", "minimax-text-01", "deepseek-v4-flash", "gemma-4-26b-a4b", "glm-5.2",
                 "minimax-m3", "nemotron-3-super-120b-a12b", "qwen3.6-35b-a3b")


class _Models(dict):
    """The catalogue, the plate's rounded counts and the reader's own: what a control may name."""

    def __init__(self, config=None):
        super().__init__({**{slug: m for slug, m in CATALOG.items() if m.num_experts > 1}, **PLATE})
        self.own = None if config is None else self.add(config)

    def add(self, config):
        model = from_config(config)
        more = (f"{model.name}, yours ({number})" for number in itertools.count(2))
        names = itertools.chain([f"{model.name}, yours"], more)
        name = next(name for name in names if name not in self)
        self[name] = model
        return name

    def choice(self, static, start):
        """The menu of models: `static` on the page, all of them live. A reader's own stands first and is chosen."""
        static = [*filter(None, [self.own]), *(slug for slug in static if slug in self)]
        named = {self[slug].name: slug for slug in static}
        more = {model.name: slug for slug, model in self.items() if slug not in static}
        return Choice("model", "Model", named, self.own or start, more=more, upload="config.json")


def _dtype(precision, device):
    return DEVICES[device].arithmetic(WEIGHT_BYTES[precision])


def _step(model, precision, batch):
    return decode_step(model, batch, weight_bytes=WEIGHT_BYTES[precision])


def _time(model, precision, device, batch):
    """(least number of devices that hold the weights, whether reading binds, bounds on the step's time in seconds)."""
    needed, dtype = _devices_needed(model, precision, device), _dtype(precision, device)
    step = _step(model, precision, batch)
    reads = step.intensity < ridge_point(DEVICES[device], dtype)
    return needed, reads, step_time(step, DEVICES[device], dtype, needed)


def _touched(experts, num_experts, share):
    return f"{charts.digits(experts)} of {num_experts:,.0f} ({100 * share:.0f} %)"


def _per_expert(over_all, touched):
    return f"{charts.digits(over_all)} (touched: {charts.digits(touched)})"


def _precision():
    return Choice("precision", "Weights", PRECISIONS, "bf16", "radio")


def _device(static, devices=DEVICES):
    """The menu of devices: `static` on the page, all of `devices` live."""
    return Choice("device", "Device", {DEVICES[slug].name: slug for slug in static}, "h200",
                  more={device.name: slug for slug, device in devices.items() if slug not in static})


def _numbers(values):
    """Options of a choice of numbers, each labelled by itself."""
    return {f"{value:,}": value for value in values}


def _batch(batches=HALF_OCTAVES):
    return Choice("batch", "Batch", _numbers(batches), 64, "batch")


def _devices_needed(model, precision, device):
    return int(devices_needed(resident_bytes(model, weight_bytes=WEIGHT_BYTES[precision]), DEVICES[device]))


def workshop(config=None):
    """The plate's workshop: pick a model, a precision, a device and a batch; see what a decode step touches and reads.

    Parameters
    ----------
    config : path, dict or JSON text, optional
        A reader's own config.json, added to the models and chosen.

    Returns
    -------
    TwoFaces

    Raises
    ------
    ValueError
        If config cannot be counted (`from_config`).

    >>> print(workshop().readout(model="deepseek-v3", precision="bf16", device="h200", batch=64)["Experts touched"])
    222 of 256 (87 %)
    """
    models = _Models(config)

    def step(model, precision, batch):
        return _step(models[model], precision, batch)

    def tables(selection):
        batches = np.union1d(HALF_OCTAVES, selection["batch"])
        curve, ridge = [], []
        for model, precision in itertools.product(selection["model"], selection["precision"]):
            twin = _step(dense_twin(models[model]), precision, batches)
            curve += charts.rows(model=model, precision=precision, batch=batches.astype(int),
                                 moe=step(model, precision, batches).intensity, twin=twin.intensity)
        for device, precision in itertools.product(selection["device"], selection["precision"]):
            ridge += charts.rows(device=device, precision=precision,
                                 ridge=ridge_point(DEVICES[device], _dtype(precision, device)))
        return {"curve": curve, "ridge": ridge}

    def touched(model, batch):
        of = step(model, "bf16", batch)
        return _touched(of.experts_touched, of.num_experts, of.share_touched)

    def tokens(model, batch):
        of = step(model, "bf16", batch)
        return _per_expert(of.tokens_per_expert, of.tokens_per_touched_expert)

    def fits(model, precision, device):
        needed = _devices_needed(models[model], precision, device)
        return "fits on one" if needed == 1 else f"does not fit: needs {needed:,}"

    def time(model, precision, device, batch):
        _, reads, bounds = _time(models[model], precision, device, batch)
        return f"{charts.digits(bounds.lower * 1e3)} ms ({'reading' if reads else 'computing'})"

    readouts = {
        "Experts touched": touched,
        "Tokens per expert": tokens,
        "Resident": lambda model, precision: charts.gigabytes(
            resident_bytes(models[model], weight_bytes=WEIGHT_BYTES[precision])),
        "Read in a step": lambda model, precision, batch: charts.gigabytes(step(model, precision, batch).bytes_read),
        "Intensity": lambda model, precision, batch: f"{step(model, precision, batch).intensity:,.1f} FLOP/byte",
        "On this device": fits,
        "Takes at least": time,
    }
    choices = [models.choice(STATIC_MODELS, "deepseek-v3"),
               _precision(), _device(STATIC_DEVICES, COMPUTING), _batch()]
    return TwoFaces(choices, tables, charts.workshop(), readouts, models.add)


ROOF_MODELS = ("deepseek-v3", "plate-deepseek-v3", "mixtral-8x7b", "qwen3-235b-a22b", "qwen3-30b-a3b", "gpt-oss-120b",
               "llama-4-maverick", "glm-5.2")
ROOF_DEVICES = ("h100", "h200", "b200", "mi300x", "a100-80gb")


def roofline(config=None):
    """A decode step as a dot on a device's roof, and its dense twin as a second, batch by batch.

    Parameters
    ----------
    config : path, dict or JSON text, optional
        A reader's own config.json, added to the models and chosen.

    Returns
    -------
    TwoFaces

    Raises
    ------
    ValueError
        If config cannot be counted (`from_config`).

    >>> print(roofline().readout(model="deepseek-v3", precision="bf16", device="h200", batch=64)["Compute-bound from"])
    3,770 tokens (twin: 206)
    """
    models = _Models(config)

    def rate(intensity, precision, device):
        return attainable_flops_per_s(intensity, DEVICES[device], _dtype(precision, device))

    def tables(selection):
        batches = np.union1d(HALF_OCTAVES, selection["batch"])
        roof, moe, twin = [], [], []
        for precision in selection["precision"]:
            dense = _step(dense_twin(models[selection["model"][0]]), precision, batches).intensity
            sparse = {model: _step(models[model], precision, batches).intensity for model in selection["model"]}
            for device in selection["device"]:
                key = {"precision": precision, "device": device}
                ridge = ridge_point(DEVICES[device], _dtype(precision, device))
                ends = np.array([charts.ROOF[0], ridge, charts.ROOF[1]])
                roof += charts.rows(**key, intensity=ends, rate=rate(ends, **key))
                twin += charts.rows(**key, batch=batches.astype(int), intensity=dense, rate=rate(dense, **key))
                for model, of in sparse.items():
                    moe += charts.rows(model=model, **key, batch=batches.astype(int), intensity=of,
                                       rate=rate(of, **key))
        return {"roof": roof, "moe": moe, "twin": twin}

    def intensity(model, precision, batch):
        pair = (_step(of, precision, batch).intensity for of in (models[model], dense_twin(models[model])))
        return "{} FLOP/byte (twin: {})".format(*map(charts.digits, pair))

    def ridge(precision, device):
        dtype = _dtype(precision, device)
        return f"{ridge_point(DEVICES[device], dtype):.0f} FLOP/byte, {dtype.upper()}"

    def share(model, precision, device, batch):
        peak = DEVICES[device].peak(_dtype(precision, device))
        at_most = rate(_step(models[model], precision, batch).intensity, precision, device) / peak
        return f"at most {charts.digits(100 * at_most)} %"

    def time(model, precision, device, batch):
        needed, _, bounds = _time(models[model], precision, device, batch)
        return "{} to {} ms on {:,}".format(*(charts.digits(1e3 * seconds) for seconds in bounds), needed)

    def enough(model, precision, device):
        machine = {"device": DEVICES[device], "dtype": _dtype(precision, device)}
        both = (compute_bound_batch(of, **machine, weight_bytes=WEIGHT_BYTES[precision])
                for of in (models[model], dense_twin(models[model])))
        return "{:,.0f} tokens (twin: {:,.0f})".format(*both)

    readouts = {"Intensity": intensity, "Ridge point": ridge, "Share of peak": share, "Step takes": time,
                "Compute-bound from": enough}
    choices = [models.choice(ROOF_MODELS, "deepseek-v3"),
               _precision(), _device(ROOF_DEVICES, COMPUTING), _batch()]
    return TwoFaces(choices, tables, charts.roofline(), readouts, models.add)


BILL = {"routed experts": ("routed_experts",), "shared experts": ("shared_experts",), "attention": ("attention",),
        "embedding, head": ("embedding", "head"), "other": ("dense_ffn", "router", "norms", "other")}
BILL_DEVICES = ("h100", "h200", "b200", "mi300x", "rtx-4090")
MOST_RULES = 64  # devices drawn; the readout counts on


def _params(count):
    return f"{count / 1e9:,.1f}B" if count >= 1e9 else f"{count / 1e6:,.1f}M"


def _amount(num_bytes):
    return charts.gigabytes(num_bytes) if num_bytes >= 1e9 else f"{charts.digits(num_bytes / 1e6)} MB"


def memory_bill(config=None):
    """What must be held: parameters by part and caches, and how many devices hold them.

    Parameters
    ----------
    config : path, dict or JSON text, optional
        A reader's own config.json, added to the models and chosen.

    Returns
    -------
    TwoFaces

    Raises
    ------
    ValueError
        If config cannot be counted (`from_config`).

    >>> setting = {"precision": "released", "device": "h200", "sequences": 64, "context": 8192}
    >>> bill = memory_bill().readout(model="deepseek-v3", **setting)
    >>> print(bill["Resident"], "|", bill["Devices needed"], "|", bill["Read by one token"])
    710 GB | 6 | 38.2 GB
    """
    models, weight_bytes = _Models(config), {"released": None, **WEIGHT_BYTES}

    def bill(name, precision):
        model, start = models[name], 0
        parts = part_bytes(model, weight_bytes[precision])
        read_of = {"routed_experts": model.top_k / model.num_experts, "embedding": float(model.tied_embeddings)}
        for order, (item, of) in enumerate(BILL.items()):
            size = sum(parts[part] for part in of) / 1e9
            used = sum(parts[part] * read_of.get(part, 1) for part in of) / 1e9
            series = item if item == "routed experts" else "always used"
            if size:
                yield {"key": f"{name}|{precision}", "order": order, "label": f"{item}: {_amount(1e9 * size)}",
                       "series": series, "start": start, "end": start + size, "used": start + used}
            start += size

    def tables(selection):
        items, devices = [], []
        for name, precision in itertools.product(selection["model"], selection["precision"]):
            model, weights = models[name], list(bill(name, precision))
            items += itertools.chain.from_iterable(charts.rows(**item) for item in weights)
            for sequences, context in itertools.product(selection["sequences"], selection["context"]):
                cache, start = model.kv_bytes_per_sequence(context) + model.state_bytes_per_sequence, weights[-1]["end"]
                read = model.kv_bytes_read(context) + model.state_bytes_per_sequence
                items += charts.rows(key=f"{name}|{precision}|{sequences}|{context}", series="cache", start=start,
                                     order=len(BILL), label=f"cache: {_amount(sequences * cache)}",
                                     end=start + sequences * cache / 1e9, used=start + read / 1e9)
        for device in selection["device"]:
            usable, count = DEVICES[device].usable_bytes / 1e9, np.arange(1, MOST_RULES + 1)
            devices += charts.rows(device=device, count=count, begins=(count - 1) * usable, ends=count * usable,
                                   most=MOST_RULES * usable)
        return {"bill": items, "devices": devices}

    def resident(model, precision, sequences, context):
        return resident_bytes(models[model], weight_bytes=weight_bytes[precision], sequences=sequences, context=context)

    def per_weight(model, precision):
        of = models[model]
        mean = resident_bytes(of, weight_bytes=weight_bytes[precision]) / of.total_params
        assumed = precision == "released" and "assumed" in of.released_precision
        return charts.digits(mean) + (", BF16 assumed" if assumed else "")

    def per_token(model):
        of = models[model]
        text = f"{'at most ' if of.kv_is_upper_bound else ''}{of.kv_bytes_per_token():,.0f} B"
        fixed = of.state_bytes_per_sequence / 1e6
        return f"{text}, and {charts.digits(fixed)} MB a sequence" if fixed else text

    readouts = {
        "Parameters": lambda model: _params(models[model].total_params),
        "Active": lambda model: _params(models[model].active_params),
        "Active, input embedding left out": lambda model: _params(models[model].active_params_read),
        "Resident": lambda model, precision, sequences, context: charts.gigabytes(
            resident(model, precision, sequences, context)),
        "Read by one token": lambda model, precision, context: charts.gigabytes(
            decode_step(models[model], 1, weight_bytes=weight_bytes[precision], context=context).bytes_read),
        "Cache per token": per_token,
        "Bytes a weight": per_weight,
        "Devices needed": lambda model, precision, device, sequences, context: (
            f"{devices_needed(resident(model, precision, sequences, context), DEVICES[device]):,}"),
    }
    choices = [models.choice([slug for slug in STATIC_MODELS if slug not in PLATE], "deepseek-v3"),
               Choice("precision", "Weights", {"as released": "released", **PRECISIONS}, "released", "radio"),
               _device(BILL_DEVICES),
               Choice("sequences", "Sequences", _numbers((1, 8, 32, 64, 256, 1024)), 64, "batch"),
               Choice("context", "Tokens of context in each", _numbers((1024, 4096, 8192, 32768, 131072)), 8192,
                      "batch")]
    return TwoFaces(choices, tables, charts.memory_bill(), readouts, models.add)


WALL_TOKENS = 512
WALL_BATCHES = [b for b in HALF_OCTAVES if b <= WALL_TOKENS]
WALL_ROUTERS = {"DeepSeek-V3: 8 of 256, uniform": "deepseek-v3", "OLMoE: 8 of 64, if uniform": "olmoe-uniform",
                "OLMoE: 8 of 64, loads counted by others": "olmoe"}
WALL_LOADS = ("OLMoE-1B-7B", "wikipedia", 15)  # of the nine counted, the one that touches fewest experts


def wall():
    """The wall of experts: one simulated step, square by square, beside the expected coverage.

    The step's tokens are the first of one seeded stream, so a larger batch lights more squares and darkens none.
    OLMoE's loads are third-party counts (`records.router_loads`); their tokens are simulated from them.

    Returns
    -------
    TwoFaces

    >>> said = wall().readout(router="deepseek-v3", batch=64)
    >>> print(said["Dark in this step"], "|", said["Dark, expected"], "|", said["Tokens per lit expert"])
    34 of 256 | 33.6 ± 4.5 | 2.3 (over all: 2.0)
    """
    loads = next(record for record in router_loads()
                 if tuple(record.data[key] for key in ("model", "domain", "layer")) == WALL_LOADS)
    routers = {"deepseek-v3": (256, 8, None), "olmoe-uniform": (64, 8, None), "olmoe": (64, 8, inclusion(loads))}
    stream = {router: sample_routing(np.random.default_rng(0), WALL_TOKENS, E, k, inclusion=p)
              for router, (E, k, p) in routers.items()}

    def tokens(router, batch):
        return np.bincount(stream[router][:batch].ravel(), minlength=routers[router][0])

    def expected(router, batch):
        E, k, p = routers[router]
        return routing.coverage(E, k, batch) if p is None else coverage_of(p, batch)

    def tables(selection):
        batches = np.union1d(WALL_BATCHES, selection["batch"]).astype(int)
        walls, curve, steps = [], [], []
        for router in selection["router"]:
            E, k, p = routers[router]
            row, column = np.divmod(np.arange(E), int(np.sqrt(E)))
            share, bound = expected(router, batches), routing.coverage(E, k, batches)
            spread = 2 * experts_touched_std(E, k, batches) / E
            more = {"uniform": bound} if p is not None else {"low": np.maximum(share - spread, 0),
                                                             "high": np.minimum(share + spread, 1)}
            curve += charts.rows(router=router, batch=batches, share=share, **more)
            for batch in selection["batch"]:
                lit = tokens(router, batch)
                walls.append({"router": router, "batch": batch, "tokens": lit.tolist(), "expert": np.arange(E).tolist(),
                              "row": row.tolist(), "column": column.tolist()})
                steps += charts.rows(router=router, batch=batch, share=np.mean(lit > 0))
        return {"wall": walls, "curve": curve, "step": steps}

    def dark(router, batch):
        E, k, p = routers[router]
        spread = f" ± {experts_touched_std(E, k, batch):.1f}" if p is None else ""
        return f"{E * (1 - expected(router, batch)):.1f}{spread}"

    def per_expert(router, batch):
        load = tokens(router, batch)
        return f"{load[load > 0].mean():.1f} (over all: {load.mean():.1f})"

    readouts = {
        "Dark in this step": lambda router, batch: f"{np.sum(tokens(router, batch) == 0)} of {routers[router][0]}",
        "Dark, expected": dark,
        "Tokens per lit expert": per_expert,
        "Busiest expert": lambda router, batch: f"{tokens(router, batch).max()} tokens",
    }
    choices = [Choice("router", "Router", WALL_ROUTERS, "deepseek-v3", "radio"),
               _batch(WALL_BATCHES)]
    return TwoFaces(choices, tables, charts.wall(), readouts)


COVERAGE_EXPERTS, COVERAGE_TOP_K = (8, 16, 32, 64, 128, 256, 512), (1, 2, 4, 6, 8)  # every pair is possible
COVERAGE_BATCHES = [b for b in HALF_OCTAVES if b <= 8192]
DRAFT_BATCHES = np.unique(np.rint(2 ** np.arange(0, 13.25, 0.25)).astype(int))
SKEWS = {"uniform": 0, "1/√rank": 0.5, "1/rank": 1}


def coverage(config=None):
    """Share of experts touched for any number of experts, chosen per token, batch and skew.

    Parameters
    ----------
    config : path, dict or JSON text, optional
        A reader's own config.json: its E and k are added and chosen.

    Returns
    -------
    TwoFaces

    Raises
    ------
    ValueError
        If config cannot be counted (`from_config`).

    >>> said = coverage().readout(num_experts=256, top_k=8, skew=0, batch=64)
    >>> print(said["Experts touched"], "|", said["95 % from"])
    222 of 256 (87 %) | 94.4 tokens if uniform
    >>> print(coverage().readout(num_experts=4, top_k=8, skew=0, batch=64)["Experts touched"])
    cannot be: 8 of 4 experts
    """
    own = None if config is None else from_config(config)
    E, k = (256, 8) if own is None else (own.num_experts, own.top_k)

    def share(num_experts, top_k, skew, batch):
        return coverage_of(zipf_inclusion(num_experts, top_k, skew), batch)

    def tables(selection):
        batches, curve = np.union1d(COVERAGE_BATCHES, selection["batch"]).astype(int), []
        for E, k, skew in itertools.product(*(selection[name] for name in ("num_experts", "top_k", "skew"))):
            if k <= E:
                curve += charts.rows(num_experts=E, top_k=k, skew=skew, batch=batches, share=share(E, k, skew, batches),
                                     uniform=routing.coverage(E, k, batches))
        return {"curve": curve}

    def possible(say):
        @functools.wraps(say)
        def checked(num_experts, top_k, *rest, **named):
            if top_k > num_experts:
                return f"cannot be: {top_k:,} of {num_experts:,} experts"
            return say(num_experts, top_k, *rest, **named)

        return checked

    def touched(num_experts, top_k, skew, batch):
        part = share(num_experts, top_k, skew, batch)
        return _touched(num_experts * part, num_experts, part)

    def per_expert(num_experts, top_k, skew, batch):
        mean = tokens_per_expert(num_experts, top_k, batch)
        return _per_expert(mean, mean / share(num_experts, top_k, skew, batch))

    def enough(num_experts, top_k):
        return f"{charts.digits(batch_for_coverage(0.95, num_experts, top_k))} tokens if uniform"

    def favourite(num_experts, top_k, skew):
        return f"{charts.digits(100 * zipf_inclusion(num_experts, top_k, skew).max())} % of tokens"

    readouts = {"Experts touched": possible(touched), "Tokens per expert": possible(per_expert),
                "95 % from": possible(enough), "Most popular expert": possible(favourite)}
    choices = [Choice("num_experts", "Experts E", _numbers(sorted({*COVERAGE_EXPERTS, E})), E,
                      more=_numbers(n for n in (4, 60, 160, 384) if n != E)),
               Choice("top_k", "Chosen k", _numbers(sorted({*COVERAGE_TOP_K, k})), k,
                      more=_numbers(n for n in (3, 10, 12, 16) if n != k)),
               Choice("skew", "Popularity", SKEWS, 0, "radio"),
               _batch(COVERAGE_BATCHES)]
    return TwoFaces(choices, tables, charts.coverage(), readouts)


DRAFTED = ("deepseek-v3", "mixtral-8x7b", "llama-3.1-70b")
ACCEPTANCES = {f"{a:.2f}": a for a in np.arange(0.3, 1.01, 0.05).round(2).tolist()}
COPIES = {"independently": 0, "repeating 0.3 of them": 0.3}  # 0.32 and 0.30: data/measured/expert_overlap.jsonl


def speculation(config=None):
    """What a draft gains on two mixtures and a dense model: FP8 weights on H200, weights alone, the draft free.

    Parameters
    ----------
    config : path, dict or JSON text, optional
        A reader's own config.json, drawn as one more line.

    Returns
    -------
    TwoFaces

    Raises
    ------
    ValueError
        If config cannot be counted (`from_config`).

    >>> said = speculation().readout(acceptance=0.8, draft=1, copy=0)
    >>> print(said["DeepSeek-V3, one sequence"], "|", said["DeepSeek-V3, at its dip"])
    1.17 times | 1.04 times, at 5 sequences
    """
    models = {CATALOG[slug].name: CATALOG[slug] for slug in DRAFTED}
    own = None if config is None else from_config(config)
    yours = None if own is None else f"{own.name}, yours"
    models |= {} if own is None else {yours: own}
    moe, dense = (CATALOG[DRAFTED[i]] for i in (0, -1))
    r1 = shipped("drafts")[0].data

    def gain(model, acceptance, draft, copy, batch):
        return speculation_gain(model, batch, acceptance, DEVICES["h200"], draft=draft, dtype="fp8", weight_bytes=1,
                                copy=copy)

    def tables(selection):
        curve = []
        for draft, copy in itertools.product(selection["draft"], selection["copy"]):
            a, batch = np.array(selection["acceptance"])[:, None], DRAFT_BATCHES
            gains = {f"g{i}": gain(model, a, draft, copy, batch) for i, model in enumerate(models.values())}
            curve += charts.rows(acceptance=a, draft=draft, copy=copy, batch=batch, **gains)
        measured = charts.rows(draft=r1["draft"][1:], batch=1, gain=r1["speedup"][1:])
        return {"curve": curve, "measured": [row for row in measured if row["draft"] in selection["draft"]]}

    def dip(model, acceptance, draft, copy):
        batch = np.arange(1, 513)
        gains = gain(model, acceptance, draft, copy, batch)
        at = batch[gains.argmin()]
        return f"{gains.min():.2f} times, at {at} sequence{'s' if at > 1 else ''}"

    def until(model, acceptance, draft, copy):
        batch = np.arange(1, 8193)
        paying = batch[gain(model, acceptance, draft, copy, batch) > 1]
        return f"{paying[-1]:,} sequences" if paying.size else "never gains"

    readouts = {
        f"{moe.name}, one sequence": lambda acceptance, draft, copy: (
            f"{gain(moe, acceptance, draft, copy, 1):.2f} times"),
        f"{moe.name}, at its dip": lambda acceptance, draft, copy: dip(moe, acceptance, draft, copy),
        f"{moe.name} loses beyond": lambda acceptance, draft, copy: until(moe, acceptance, draft, copy),
        f"{dense.name} loses beyond": lambda acceptance, draft, copy: until(dense, acceptance, draft, copy),
    }
    if own is not None:
        readouts[f"{yours}, at its dip"] = lambda acceptance, draft, copy: dip(own, acceptance, draft, copy)
    choices = [Choice("acceptance", "Chance that a drafted token is accepted", ACCEPTANCES, 0.8, "slider"),
               Choice("draft", "Tokens drafted", _numbers((1, 2, 3)), 1, "radio"),
               Choice("copy", "Drafted tokens choose experts", COPIES, 0, "radio")]
    return TwoFaces(choices, tables, charts.speculation(list(models)), readouts)


CONTEXT_MODELS = ("deepseek-v3", "mixtral-8x7b", "qwen3-235b-a22b", "qwen3-30b-a3b", "qwen1.5-moe", "gpt-oss-120b",
                  "glm-5.2", "qwen3.6-35b-a3b", "minimax-text-01", "gemma-4-26b-a4b")
CONTEXT_BATCHES = [2**power for power in range(11)]
CONTEXTS = {f"{2**(power - 10):,}k" if power < 20 else "1M": 2**power for power in range(10, 21)}
LINE_CONTEXTS = np.rint(2 ** np.arange(10, 20.5, 0.5)).astype(int)


def _tokens(count, never="never"):
    return ("any context" if count == 0 else f"{count:,.0f} tokens") if np.isfinite(count) else never


def context(config=None):
    """What a decode step reads: weights against the caches of its sequences, kept in BF16, as the context grows.

    Parameters
    ----------
    config : path, dict or JSON text, optional
        A reader's own config.json, added to the models and chosen.

    Returns
    -------
    TwoFaces

    Raises
    ------
    ValueError
        If config cannot be counted (`from_config`).

    >>> said = context().readout(model="deepseek-v3", precision="bf16", batch=1, context=131072)
    >>> print(said["Weights read"], "|", said["Cache read"], "|", said["As many bytes from"])
    73.3 GB | 9.21 GB | 1,042,395 tokens
    """
    models = _Models(config)

    def step(model, precision, batch, context=0):
        return decode_step(models[model], batch, weight_bytes=WEIGHT_BYTES[precision], context=context)

    def equal(model, precision, batch):
        return context_of_equal_bytes(models[model], batch, weight_bytes=WEIGHT_BYTES[precision])

    def tables(selection):
        contexts, cache, weights, crossing = np.union1d(LINE_CONTEXTS, selection["context"]), [], [], []
        for model, batch in itertools.product(selection["model"], selection["batch"]):
            read = step(model, "bf16", batch, contexts).kv_bytes_read / 1e9
            cache += charts.rows(model=model, batch=batch, context=contexts[read > 0], cache=read[read > 0])
            for precision in selection["precision"]:
                twin = _step(dense_twin(models[model]), precision, batch).bytes_read / 1e9
                key = {"model": model, "precision": precision, "batch": batch}
                weights += charts.rows(**key, weights=step(**key).weight_bytes_read / 1e9, twin=twin)
                at = equal(**key)
                if contexts[0] <= at <= contexts[-1]:
                    crossing += charts.rows(**key, at=at, weights=weights[-1]["weights"])
        return {"cache": cache, "weights": weights, "equal": crossing}

    def time(model, precision, batch, context):
        of, device = models[model], DEVICES["h200"]
        held = resident_bytes(of, weight_bytes=WEIGHT_BYTES[precision], context=context, sequences=batch)
        needed = int(devices_needed(held, device))
        seconds = step_time(step(model, precision, batch, context), device, _dtype(precision, "h200"), needed).lower
        return f"{charts.digits(1e3 * seconds)} ms on {needed:,} H200"

    def share(model, precision, batch, context):
        of = step(model, precision, batch, context)
        return f"{charts.digits(100 * of.kv_bytes_read / of.bytes_read)} %"

    readouts = {
        "Weights read": lambda model, precision, batch: _amount(step(model, precision, batch).weight_bytes_read),
        "Cache read": lambda model, batch, context: _amount(step(model, "bf16", batch, context).kv_bytes_read),
        "Cache in all bytes": share,
        "As many bytes from": lambda model, precision, batch: _tokens(equal(model, precision, batch)),
        "As many FLOP from": lambda model: _tokens(context_of_equal_flops(models[model])),
        "Takes at least": time,
    }
    choices = [models.choice(CONTEXT_MODELS, "deepseek-v3"), _precision(),
               Choice("batch", "Sequences (batch)", _numbers(CONTEXT_BATCHES), 64, "batch"),
               Choice("context", "Tokens of context in each", CONTEXTS, 131072, "batch")]
    return TwoFaces(choices, tables, charts.context(), readouts, models.add)


CHUNK_MODELS = ("deepseek-v3", "mixtral-8x7b", "qwen3-235b-a22b", "qwen3-30b-a3b", "gpt-oss-120b", "glm-5.2",
                "qwen3.6-35b-a3b", "llama-4-maverick")
CHUNKS = [2**power for power in range(7, 16)]
LINE_CHUNKS = np.rint(2 ** np.arange(7, 15.5, 0.5)).astype(int)
PROMPTS = (2048, 8192, 32768, 131072)
SETUPS = {"8 H100": "h100", "8 H200": "h200", "8 B200": "b200"}


def chunks(config=None):
    """Chunked prefill in FP8 on eight devices: time to the first token, and the longest pause of other sequences.

    Bounds: weights and caches read once a chunk, arithmetic in full, no communication. The last token alone goes
    through the head.

    Parameters
    ----------
    config : path, dict or JSON text, optional
        A reader's own config.json, added to the models and chosen.

    Returns
    -------
    TwoFaces

    Raises
    ------
    ValueError
        If config cannot be counted (`from_config`).

    >>> said = chunks().readout(model="deepseek-v3", setup="h200", prompt=8192, chunk=2048)
    >>> print(said["Time to first token"], "|", said["Longest pause"])
    69.8 ms | 17.5 ms
    """
    models = _Models(config)

    @functools.lru_cache(maxsize=4096)
    def steps(model, prompt, chunk, twin=False):
        of = dense_twin(models[model]) if twin else models[model]
        return prefill(of, int(prompt), chunk=int(chunk), weight_bytes=1, all_logits=False)

    def times(model, setup, prompt, chunk, twin=False):
        return 1e3 * step_time(steps(model, prompt, min(chunk, prompt), twin), DEVICES[setup], "fp8", 8).lower

    def knee(model, setup):
        return compute_bound_batch(models[model], DEVICES[setup], "fp8", weight_bytes=1)

    def tables(selection):
        sizes, curve, knees = np.union1d(LINE_CHUNKS, selection["chunk"]).astype(int), [], []
        for model, setup in itertools.product(selection["model"], selection["setup"]):
            knees += charts.rows(model=model, setup=setup, knee=knee(model, setup))
            for prompt in selection["prompt"]:
                mine = [times(model, setup, prompt, chunk) for chunk in sizes]
                twin = [times(model, setup, prompt, chunk, twin=True).sum() for chunk in sizes]
                curve += charts.rows(model=model, setup=setup, prompt=prompt, chunk=sizes, twin=twin,
                                     ttft=[each.sum() for each in mine], pause=[each.max() for each in mine])
        return {"curve": curve, "knee": knees}

    def in_chunks(prompt, chunk):
        count = -(-prompt // chunk)
        return f"{count:,} chunk{'s' if count > 1 else ''}"

    def read(model, prompt, chunk):
        step = steps(model, prompt, min(chunk, prompt))
        return f"{charts.gigabytes(step.weight_bytes_read.sum())}, cache {_amount(step.kv_bytes_read.sum())}"

    readouts = {
        "The prompt goes in": in_chunks,
        "Time to first token": lambda model, setup, prompt, chunk: (
            f"{charts.digits(times(model, setup, prompt, chunk).sum())} ms"),
        "Longest pause": lambda model, setup, prompt, chunk: (
            f"{charts.digits(times(model, setup, prompt, chunk).max())} ms"),
        "First token, dense twin": lambda model, setup, prompt, chunk: (
            f"{charts.digits(times(model, setup, prompt, chunk, twin=True).sum())} ms"),
        "Read in all": read,
        "Computing binds, attention aside": lambda model, setup: f"from {_tokens(knee(model, setup))}",
    }
    choices = [models.choice(CHUNK_MODELS, "deepseek-v3"),
               Choice("setup", "FP8 on", SETUPS, "h200", "radio"),
               Choice("prompt", "Prompt, tokens", _numbers(PROMPTS), 8192, "radio"),
               Choice("chunk", "Tokens in a chunk", _numbers(CHUNKS), 2048, "batch")]
    return TwoFaces(choices, tables, charts.chunks(), readouts, models.add)


OFFLOADED_MODELS = ("mixtral-8x7b", "deepseek-v3", "qwen3-235b-a22b", "qwen3-30b-a3b", "gpt-oss-120b", "olmoe")
OFFLOADED_TO = ("rtx-4090", "rtx-5090", "h200", "gb200")
WAYS = {"copied, PCIe 3": "pcie3-x16", "copied, PCIe 4": "pcie4-x16", "copied, PCIe 5": "pcie5-x16",
        "copied, NVLink-C2C": "nvlink-c2c", "computed, desktop host": "desktop-ddr5",
        "computed, server host": "server-ddr5"}
REUSES = {"none": 0, "0.15": 0.15, "0.45": 0.45}  # about Mixtral's middle layer and Qwen3-30B-A3B's
OFFLOADED_CONTEXT = 4096  # one sequence
HOST_FLOPS_PER_S = 21.3e12  # one Xeon socket with AMX, measured: data/measured/offloading.jsonl
OFFLOADED_POINTS = 17
OFFLOADED_KEY = ("model", "device", "way", "precision", "reuse")


def offloading(config=None):
    """Time of a token whose experts live outside the card, against the share of them that the card holds.

    Routing is uniform, the cache is LRU and asked for one expert after the other, one sequence of 4,096 tokens, nothing
    overlaps. Times are bounds for that hit rate: a better cache goes lower. A desktop has 2 channels of
    DDR5-5600, a server 12 of DDR5-4800. Slots serve from k up only: a token's own experts take that many.

    Parameters
    ----------
    config : path, dict or JSON text, optional
        A reader's own config.json, added to the models and chosen.

    Returns
    -------
    TwoFaces

    Raises
    ------
    ValueError
        If config cannot be counted (`from_config`).

    >>> setting = {"model": "mixtral-8x7b", "device": "rtx-4090", "way": "pcie4-x16", "precision": "fp8", "reuse": 0}
    >>> said = offloading().readout(**setting)
    >>> print(said["Slots a layer"], "|", said["Hit rate, modelled"], "|", said["A token, at least"])
    3 of 8 | 33 % | 253 ms, 3.94 tokens/s
    """
    models = _Models(config)

    def card(model, device, precision):
        """Whole slots of a layer on the card; nan where not even the rest fits."""
        return np.floor(expert_slots(models[model], DEVICES[device].usable_bytes, weight_bytes=WEIGHT_BYTES[precision],
                                     context=OFFLOADED_CONTEXT, sequences=1))

    @functools.cache
    def hit_rate(model, reuse, slots):
        of = models[model]
        serves = slots >= of.top_k
        return float(serves and reuse_hit_rate([1] * of.num_experts, slots, reuse, top_k=of.top_k))

    def hits(model, reuse, slots):
        return np.array([hit_rate(model, reuse, n) for n in np.atleast_1d(slots).tolist()])

    def possible(device, way):
        return way != "nvlink-c2c" or DEVICES[device].host_link == "nvlink-c2c"

    def rate(device, way):
        return min(LINKS[way].bytes_per_s, LINKS[DEVICES[device].host_link].bytes_per_s)

    def seconds(model, device, way, precision, reuse, slots):
        of, weight_bytes, hit = models[model], WEIGHT_BYTES[precision], hits(model, reuse, slots)
        step = decode_step(of, 1, weight_bytes=weight_bytes, context=OFFLOADED_CONTEXT).bytes_read
        outside = {"weight_bytes": weight_bytes, "hit_rate": hit}
        if way not in LINKS:
            here = (step - missed_bytes(of, **outside)) / DEVICES[device].bandwidth_bytes_per_s
            return host_time(of, DEVICES[way].bandwidth_bytes_per_s, HOST_FLOPS_PER_S, compute_time=here, **outside)
        here = step / DEVICES[device].bandwidth_bytes_per_s
        return token_time(of, rate(device, way), compute_time=here, **outside)

    def tables(selection):
        curve, cards = [], []
        ways = dict.fromkeys([*selection["way"], "server-ddr5"])
        for chosen in itertools.product(*({**selection, "way": ways}[name] for name in OFFLOADED_KEY)):
            model, device, way, precision, reuse = chosen
            if not possible(device, way):
                continue
            of, held = models[model], card(model, device, precision)
            steps = np.rint(np.linspace(of.top_k, of.num_experts, OFFLOADED_POINTS - 1))
            slots, key = np.unique([0, of.top_k - 1, *steps]), "|".join(map(str, chosen))
            ms = 1e3 * seconds(*chosen, slots)
            points = charts.rows(share=slots / of.num_experts, ms=ms)
            curve.append({"key": key, **{name: [point[name] for point in points] for name in ("share", "ms")}})
            if held >= 0 and way in selection["way"]:
                cards += charts.rows(key=key, share=held / of.num_experts, ms=1e3 * seconds(*chosen, held),
                                     text=time(*chosen, held))
        return {"curve": curve, "card": cards}

    def told(say):
        """Say it for whole slots held, or why nothing can be said."""
        def checked(model, device, way, precision, reuse):
            if not possible(device, way):
                return "cannot be: this card has no NVLink-C2C"
            held = card(model, device, precision)
            return say(model, device, way, precision, reuse, held) if held >= 0 else "cannot be: the rest does not fit"

        return checked

    def slots(model, device, precision):
        held = card(model, device, precision)
        return f"{held:.0f} of {models[model].num_experts:,.0f}" if held >= 0 else "cannot be: the rest does not fit"

    def hit(model, device, precision, reuse):
        held = card(model, device, precision)
        return f"{100 * hits(model, reuse, held)[0]:.0f} %" if held >= 0 else "none"

    def time(*chosen):
        return f"{charts.digits(1e3 * seconds(*chosen)[0])} ms"

    def token(*chosen):
        return f"{time(*chosen)}, {charts.digits(1 / seconds(*chosen)[0])} tokens/s"

    def on_host(model, device, precision, reuse):
        return told(token)(model, device, "server-ddr5", precision, reuse)

    readouts = {"Slots a layer": slots, "Hit rate, modelled": hit, "A token, at least": told(token),
                "If a server's host computes": on_host}
    choices = [models.choice(OFFLOADED_MODELS, "mixtral-8x7b"),
               Choice("device", "Card", {DEVICES[slug].name: slug for slug in OFFLOADED_TO}, "rtx-4090"),
               Choice("way", "Missing experts", WAYS, "pcie4-x16"),
               Choice("precision", "Weights", PRECISIONS, "fp8", "radio"),
               Choice("reuse", "Reuse by the next token", REUSES, 0, "radio")]
    return TwoFaces(choices, tables, charts.offloading(), readouts, models.add)


SPREAD_MODELS = ("deepseek-v3", "qwen3-235b-a22b", "mixtral-8x7b", "glm-4.5")
SPREAD_ON = {"H800": ("h800", "nvlink-h800"), "H200": ("h200", "nvlink4"), "B200": ("b200", "nvlink5")}
SPREAD_KEY = ("model", "setup", "gpus", "attention", "experts", "context")
FP8_BLOCK = 128  # weights that share a scale, as DeepSeek-V3's release has them


def parallel(config=None):
    """One model in FP8 over 8 to 64 GPUs: what a GPU holds, sequences that fit, a step's time, and its exchanges.

    Nodes of eight GPUs, NVLink within, 400 Gbit/s of InfiniBand for each GPU between them. Each GPU that holds some of
    a token's experts gets one copy. Caches in BF16, FP8 weights in blocks of 128, usable bytes as
    `Device.usable_bytes`.

    Parameters
    ----------
    config : path, dict or JSON text, optional
        A reader's own config.json, added to the models and chosen.

    Returns
    -------
    TwoFaces

    Raises
    ------
    ValueError
        If config cannot be counted (`from_config`).

    >>> setting = {"model": "deepseek-v3", "setup": "H200", "gpus": 8, "experts": 1, "context": 8192}
    >>> for attention in 1, 8:
    ...     said = parallel().readout(attention=attention, **setting)
    ...     print(said["Layout"], "|", said["A GPU holds"], "|", said["Sequences that fit"])
    DP8+EP8 | 98.9 GB, 36.8 GB left | 504
    TP8+EP8 | 83.9 GB, 51.8 GB left | 89
    """
    models = _Models(config)

    def layout(gpus, attention, experts):
        return Layout(attention, gpus // attention, experts, gpus // experts)

    def wrong(model, gpus, attention, experts):
        return problems(models[model], layout(gpus, attention, experts), weight_block=FP8_BLOCK)

    @functools.cache
    def most(model, setup, gpus, attention, experts, context):
        """Sequences that fit; 0 where the layout cannot be."""
        usable = DEVICES[SPREAD_ON[setup][0]].usable_bytes
        fit = layout_sequences(models[model], layout(gpus, attention, experts), usable, weight_bytes=1, context=context)
        return 0 if wrong(model, gpus, attention, experts) else int(min(fit, HALF_OCTAVES[-1]))

    def times(model, setup, gpus, attention, experts, context, batch):
        """Seconds of a step with its exchanges hidden and in the open, and of these."""
        device, within = SPREAD_ON[setup]
        spread = layout(gpus, attention, experts)
        step = rank_step(models[model], batch, spread, weight_bytes=1, context=context)
        work = step_time(step, DEVICES[device], DEVICES[device].arithmetic(1)).lower
        link = link_time(models[model], batch, spread, LINKS[within], network=LINKS["ib-ndr"])
        return np.maximum(work, link), work + link, link

    @functools.cache
    def full(*setting):
        """The most sequences, and milliseconds of a step of them as `times`."""
        return most(*setting), *(1e3 * seconds for seconds in times(*setting, most(*setting)))

    def tables(selection):
        curve, end = [], []
        split = {**selection, "attention": [8], "experts": [8]}  # drawn beside every choice
        chosen = itertools.chain(*(itertools.product(*(of[name] for name in SPREAD_KEY)) for of in (selection, split)))
        for setting in dict.fromkeys(chosen):
            fit, key = most(*setting), "|".join(map(str, setting))
            if fit:
                batch = np.union1d(2 ** np.arange(int(np.log2(fit)) + 1), fit)
                hidden, in_open, _ = times(*setting, batch)
                points = charts.rows(batch=batch, ms=1e3 * hidden, open=1e3 * in_open)
                curve.append({"key": key, **{name: [point[name] for point in points] for name in points[0]}})
                end += charts.rows(key=key, batch=fit, ms=1e3 * hidden[-1])
        return {"curve": curve, "end": end}

    def name(model, gpus, attention, experts):
        why = wrong(model, gpus, attention, experts)
        return f"cannot be: {'; '.join(why)}" if why else str(layout(gpus, attention, experts))

    def held(model, setup, gpus, attention, experts):
        if wrong(model, gpus, attention, experts):
            return "cannot be"
        weights = rank_resident_bytes(models[model], layout(gpus, attention, experts), weight_bytes=1)
        left = DEVICES[SPREAD_ON[setup][0]].usable_bytes - weights
        return f"{charts.gigabytes(weights)}, {charts.gigabytes(abs(left))} {'left' if left >= 0 else 'too much'}"

    def told(say):
        def checked(model, setup, gpus, attention, experts, context):
            setting = model, setup, gpus, attention, experts, context
            return say(*full(*setting), gpus) if most(*setting) else "none"

        return checked

    readouts = {
        "Layout": name,
        "A GPU holds": held,
        "Sequences that fit": told(lambda fit, *_: f"{fit:,}"),
        "A step of all of them": told(lambda fit, hidden, in_open, link, gpus: (
            f"{charts.digits(hidden)} to {charts.digits(in_open)} ms")),
        "Exchanges in it": told(lambda fit, hidden, in_open, link, gpus: f"{charts.digits(link)} ms"),
        "Tokens/s of a GPU": told(lambda fit, hidden, in_open, link, gpus: (
            f"{charts.digits(1e3 * fit / hidden / gpus)} at most")),
    }
    choices = [models.choice(SPREAD_MODELS, "deepseek-v3"),
               Choice("setup", "FP8 on", {name: name for name in SPREAD_ON}, "H200", "radio"),
               Choice("gpus", "GPUs", _numbers((8, 16, 32, 64)), 8, "radio"),
               Choice("attention", "Attention split over", _numbers((1, 2, 4, 8)), 1, "radio"),
               Choice("experts", "Each expert split over", _numbers((1, 8)), 1, "radio"),
               Choice("context", "Tokens of context", _numbers((4096, 8192, 32768)), 8192, "radio")]
    return TwoFaces(choices, tables, charts.parallel(), readouts, models.add)


SPARES = (0, 1 / 8, 1 / 4, 1 / 2)  # spare slots over experts
BALANCE_GPUS, BALANCE_BATCHES = (8, 16, 32), [b for b in HALF_OCTAVES if b >= 8]
BALANCE_SKEWS = {f"1/rank^{exponent}": exponent for exponent in (0.25, 0.75)}  # more of them, live


def balance(config=None):
    """Copy and place the experts of a layer in FP8 on H200: loads before and after, the slowest GPU, and what it costs.

    Popularity falls with rank as chosen, and ranks are dealt to the experts at random, once. Before, experts lie on the
    GPUs in the order of their numbers. Bounds; no exchange between GPUs.

    Parameters
    ----------
    config : path, dict or JSON text, optional
        A reader's own config.json, instead of DeepSeek-V3.

    Returns
    -------
    TwoFaces

    Raises
    ------
    ValueError
        If config cannot be counted (`from_config`), or its experts do not divide over 8, 16 or 32 GPUs.

    >>> said = balance().readout(skew=1, slots=288, gpus=32, batch=64)
    >>> print(said["Fullest GPU over mean"], "|", said["Slowest GPU"], "|", said["Spare experts take"])
    4.74 → 1.00 | 52.6 → 52.5 µs (reading) | 2.55 GB a GPU, or 36,349 tokens of cache
    """
    model, device = CATALOG["deepseek-v3"] if config is None else from_config(config), DEVICES["h200"]
    E, k = int(model.num_experts), int(model.top_k)
    dealt = [gpus for gpus in BALANCE_GPUS if E % gpus == 0]
    if not dealt:
        raise ValueError(f"num_experts must be a multiple of 8, got {E}")
    static = sorted({E + gpus * round(share * E / gpus) for share in SPARES for gpus in dealt[-1:]})
    rank = np.random.default_rng(0).permutation(E)

    @functools.lru_cache(maxsize=512)
    def held(skew, gpus, slots):
        """Experts by slot, placed by load; in the order of their numbers for slots = 0; None where it cannot be."""
        if (slots or E) % gpus:
            return None
        return balance_experts(loads(skew), gpus, slots).expert_of_slot[0] if slots else np.arange(E)

    def loads(skew):
        return zipf_inclusion(E, k, skew)[rank]

    def work(skew, gpus, slots, batch):
        return rank_work(loads(skew), held(skew, gpus, slots), gpus, int(batch))

    def slowest(*chosen):
        return float(rank_times(model, work(*chosen), device, "fp8", weight_bytes=1).max())

    def evenness(skew, gpus, slots):
        return float(max_over_mean(work(skew, gpus, slots, 1).tokens))

    def sorted_loads(skew, gpus, slots):
        tokens = work(skew, gpus, slots, 1).tokens
        return {"skew": skew, "gpus": gpus, "at": np.arange(1, gpus + 1), "load": np.sort(tokens / tokens.mean())[::-1]}

    def tables(selection):
        batches, before, after, time = np.union1d(BALANCE_BATCHES, selection["batch"]).astype(int), [], [], []
        for skew, gpus in itertools.product(selection["skew"], selection["gpus"]):
            named = {"as numbered": [0], "placed, no spare": [E], "placed, these slots": selection["slots"]}
            for series, every in named.items():
                for slots in (slots for slots in every if held(skew, gpus, slots) is not None):
                    key = {"slots": slots} if series == "placed, these slots" else {}
                    time += charts.rows(series=series, skew=skew, gpus=gpus, **key, batch=batches, us=np.array(
                        [1e6 * slowest(skew, gpus, slots, batch) for batch in batches]))
                    if key:
                        after += charts.rows(**sorted_loads(skew, gpus, slots), **key)
                    elif not slots and held(skew, gpus, slots) is not None:
                        before += charts.rows(**sorted_loads(skew, gpus, slots))
        return {"before": before, "after": after, "time": time}

    def possible(say):
        @functools.wraps(say)
        def checked(*args, **named):
            chosen = inspect.signature(say).bind(*args, **named).arguments
            for count, what in ((E, "experts"), (chosen["slots"], "slots")):
                if count < E or count % chosen["gpus"]:
                    return f"cannot be: {count:,} {what} on {chosen['gpus']:,} GPUs"
            return say(*args, **named)

        return checked

    def fullest(skew, gpus, slots):
        return f"{evenness(skew, gpus, 0):.2f} → {evenness(skew, gpus, slots):.2f}"

    def seconds(skew, gpus, slots, batch):
        first, last = (1e6 * slowest(skew, gpus, which, batch) for which in (0, slots))
        reads = np.argmax(rank_times(model, of := work(skew, gpus, slots, batch), device, "fp8", weight_bytes=1))
        reading = of.experts_touched[reads] * ridge_point(device, "fp8") / 2 > of.tokens[reads]
        return f"{charts.digits(first)} → {charts.digits(last)} µs ({'reading' if reading else 'computing'})"

    def against_none(skew, gpus, slots, batch):
        ratio = slowest(skew, gpus, slots, batch) / slowest(skew, gpus, E, batch)
        return f"{ratio:.2f} times"

    def taken(gpus, slots):
        spare, a_token = (slots - E) / gpus * model.num_moe_layers * expert_bytes(model, 1), model.kv_bytes_per_token()
        return f"{_amount(spare)} a GPU" + (f", or {spare / a_token:,.0f} tokens of cache" if spare and a_token else "")

    readouts = {
        "Fullest GPU over mean": possible(fullest),
        "Slowest GPU": possible(seconds),
        "Time over that with no spare": possible(against_none),
        "Spare experts take": possible(taken),
    }
    choices = [Choice("skew", "Popularity", SKEWS, 1, "radio", more=BALANCE_SKEWS),
               Choice("slots", "Slots in all", _numbers(static), static[1],
                      more=_numbers(n for n in (E + 8, E + 16, E + 48, 2 * E) if n not in static)),
               Choice("gpus", "GPUs", _numbers(dealt), dealt[-1], more=_numbers((4, 64, 128))),
               Choice("batch", "Tokens in a step, all GPUs", _numbers(BALANCE_BATCHES), 16384, "batch")]
    return TwoFaces(choices, tables, charts.balance(), readouts)


PLAN_MODELS = ("deepseek-v3", "qwen3-235b-a22b", "glm-4.5", "mixtral-8x7b")
PLAN_ON = ("h100", "h200", "b200", "mi300x")
PLAN_GPUS = (2, 4, 8)
PLAN_CONTEXTS = (2048, 8192, 32768)
PLAN_TARGETS = (8, 10, 12, 15, 20, 25, 30, 40, 60, 100)  # milliseconds a token
PLAN_PRICES = (1, 2, 3, 4, 6)  # a GPU-hour
MOST_PLANNED = 65536  # sequences


def plan(config=None):
    """Your frontier: every way to spread a model over the GPUs of a node, and the best that meets a target.

    Weights in FP8 with a scale for 128 x 128 of them, caches in BF16. Bounds: nothing that GPUs send is counted, so how
    the experts are cut makes no difference; the line and the name are those of the legal layout that cuts them least.

    Parameters
    ----------
    config : path, dict or JSON text, optional
        A reader's own config.json, added to the models and chosen.

    Returns
    -------
    TwoFaces

    Raises
    ------
    ValueError
        If config cannot be counted (`from_config`).

    >>> setting = {"model": "deepseek-v3", "device": "h200", "gpus": 8, "context": 8192, "tpot": 30, "price": 2}
    >>> print(*list(plan().readout(**setting).values())[:4], sep=" | ")
    DP8+EP8 | 504 sequences | 28 ms | 232 ms
    """
    models = _Models(config)

    @functools.lru_cache(maxsize=4096)
    def lines(model, device, gpus, context):
        """{GPUs that share the attention: (layout, why not, seconds of steps of 1, 2, .. the most sequences)}."""
        found, of = {}, models[model]
        for layout in sorted(layouts(of, gpus), key=lambda layout: layout.expert_tp):
            why = problems(of, layout, weight_block=128)
            if layout.attention_tp in found and (why or not found[layout.attention_tp][1]):
                continue
            most = layout_sequences(of, layout, DEVICES[device].usable_bytes, weight_bytes=1, context=context)
            batches = np.arange(1, min(most, MOST_PLANNED) + 1)
            found[layout.attention_tp] = layout, why, time_per_token(of, batches, layout, DEVICES[device],
                                                                     context=context, weight_bytes=1)
        return {tp: line for tp, line in found.items() if line[2].size}

    def best(model, device, gpus, context, tpot):
        """(layout, sequences, seconds a step) with most tokens/s of the layouts that can be; None if none is."""
        found = []
        for layout, why, seconds in lines(model, device, gpus, context).values():
            sequences = int(np.searchsorted(seconds, tpot / 1e3, "right"))
            if sequences and not why:
                found.append((layout, sequences, seconds[sequences - 1]))
        return max(found, key=lambda point: (round(point[1] / point[2] / gpus, 6), -point[0].expert_tp), default=None)

    def barred(model, device, gpus, context):
        """(how many layouts cannot be, why not in sentences)."""
        of = models[model]
        if not lines(model, device, gpus, context):
            needed = devices_needed(resident_bytes(of, weight_bytes=1), DEVICES[device])
            return f"all: {needed:,} GPUs needed", ["fewer cannot hold the weights"]
        found = [problems(of, layout, weight_block=128) for layout in layouts(of, gpus)]
        return (f"{sum(map(bool, found))} of {len(found)} layouts",
                list(dict.fromkeys(itertools.chain.from_iterable(found))))

    def tables(selection):
        line, full, ring, grey, target = [], [], [], [], charts.rows(
            tpot=np.array(selection["tpot"]), user=1e3 / np.array(selection["tpot"], float))
        for chosen in itertools.product(*(selection[name] for name in ("model", "device", "gpus", "context"))):
            key, gpus = "|".join(map(str, chosen)), chosen[2]
            for tp, (layout, why, seconds) in lines(*chosen).items():
                sequences = np.unique([*(2 ** np.arange(17))[2 ** np.arange(17) < seconds.size], seconds.size])
                each = seconds[sequences - 1]
                points = charts.rows(user=1 / each, gpu=sequences / each / gpus)
                named = {"key": key, "layout": str(layout), "legal": not why,
                         "series": charts.shared_by(tp) if not why else charts.CANNOT_BE}
                line.append({**named, **{name: [point[name] for point in points] for name in ("user", "gpu")}})
                full.append({**named, **points[-1], "batch": seconds.size})
            for tpot in selection["tpot"]:
                if point := best(*chosen, tpot):
                    layout, sequences, each = point
                    ring += charts.rows(key=key, tpot=tpot, layout=str(layout), batch=sequences, user=1 / each,
                                        gpu=sequences / each / gpus)
            many, why = barred(*chosen)
            if why:
                grey += charts.rows(key=key, text="\n".join(textwrap.fill(text, 34) for text in (
                    f"cannot be: {many}", *why)))
        return {"line": line, "full": full, "best": ring, "target": target, "barred": grey}

    def told(say):
        def checked(model, device, gpus, context, tpot):
            if point := best(model, device, gpus, context, tpot):
                return say(model, gpus, context, device, *point)
            of = lines(model, device, gpus, context)
            return "none meets the target" if of else "does not fit"

        return checked

    def first_token(model, gpus, context, device, layout, sequences, each):
        seconds = time_to_first_token(models[model], context, layout, DEVICES[device], weight_bytes=1)
        return f"{charts.digits(1e3 * seconds)} ms"

    def cost(model, device, gpus, context, tpot, price):
        def say(model, gpus, context, device, layout, sequences, each):
            return f"$ {cost_per_million_tokens(sequences / each, price * gpus):.2f}"

        return told(say)(model, device, gpus, context, tpot)

    def left_out(model, device, gpus, context):
        many, why = barred(model, device, gpus, context)
        return many if why else "none"

    readouts = {
        "Best layout": told(lambda model, gpus, context, device, layout, sequences, each: str(layout)),
        "Sequences at once": told(lambda model, gpus, context, device, layout, sequences, each: (
            f"{sequences:,} sequence{'s' if sequences > 1 else ''}")),
        "Time per token": told(lambda model, gpus, context, device, layout, sequences, each: (
            f"{charts.digits(1e3 * each)} ms")),
        "To the first token": told(first_token),
        "Tokens/s of a GPU": told(lambda model, gpus, context, device, layout, sequences, each: (
            f"{charts.digits(sequences / each / gpus)}")),
        "A million tokens": cost,
        "Cannot be": left_out,
    }
    choices = [models.choice(PLAN_MODELS, "deepseek-v3"), _device(PLAN_ON, COMPUTING),
               Choice("gpus", "GPUs", _numbers(PLAN_GPUS), 8, "radio", more=_numbers([1])),
               Choice("context", "Tokens of context", _numbers(PLAN_CONTEXTS), 8192, "radio",
                      more=_numbers([512, 131072])),
               Choice("tpot", "Target, ms a token", _numbers(PLAN_TARGETS), 20, "batch"),
               Choice("price", "Dollars a GPU-hour", _numbers(PLAN_PRICES), 2, "radio")]
    return TwoFaces(choices, tables, charts.frontier(), readouts, models.add)


TIMED_ON = ("h200", "h100", "b200", "a100-80gb")
TIMED_PRECISIONS = {"BF16": "bf16", "FP8": "fp8", "FP8 in blocks": "fp8_block"}
TIMED_MODELS = ("deepseek-v3", "qwen3-235b-a22b", "qwen3-30b-a3b", "mixtral-8x7b")


def measured(own=None):
    """Measured times of one layer over their limit and over two fitted constants; a reader's own machine beside them.

    Parameters
    ----------
    own : path or list of Record, optional
        What `python -m moe_lib.bench` wrote, or `bench.suite.quick` returned; its layers are added, the mixture chosen.

    Returns
    -------
    TwoFaces

    Raises
    ------
    ValueError
        If a line is no record, or no record holds a timed layer.

    >>> layer = {"device": "h200", "framework": "SGLang", "precision": "bf16", "model": "deepseek-v3"}
    >>> said = measured().readout(**layer, routing="balanced")
    >>> print(said["Closest to its limit"], "|", said["Two constants"], "|", said["They are off by"])
    1.13 times, at 16 tokens | 31 µs and 0.81 | 10.6 % up to 512 tokens
    """
    layers, sources, mine = {}, {}, {}
    for record in kernels.timed():
        of = record.data
        if of.get("exponent", 1.01) == 1.01:
            family = of["framework"].split()[0]
            key = "|".join([of["device"], family, of["dtype"], of["model"], of["distribution"]])
            if key not in layers:  # H200 has one layer of a newer, defective SGLang too
                layers[key], sources[key] = of | {"fitted": kernels.constants(family)}, f"NVIDIA, {of['framework']}"

    def add(found):
        names = []
        for record in found:
            if "touched" in record.data:
                layer, name = kernels.from_bench(record), f"{record.what}, {record.on}"
                names.append(f"{name} ({len(mine) + 1})" if name in mine else name)
                layers[names[-1]] = layer | {"fitted": kernels.fit([kernels.first(layer, 32)])}
                sources[names[-1]], mine[names[-1]] = f"this machine, {record.software}", record.what
        if not names:
            raise ValueError("no record of a timed layer: run python -m moe_lib.bench --only moe_decode")
        return next((name for name in names if mine[name] == "moe_decode"), names[0])

    start = None if own is None else add(own if isinstance(own, list) else read(own))

    def key_of(*chosen):
        return chosen[0] if chosen[0] in mine else "|".join(chosen)

    def tables(selection):
        chosen = itertools.product(*(selection[name] for name in ("device", "framework", "precision", "model",
                                                                   "routing")))
        times = []
        for key in dict.fromkeys(itertools.starmap(key_of, chosen)):
            if layer := layers.get(key):
                times += charts.rows(key=key, batch=np.array(layer["num_tokens"]), limit=kernels.limit(layer),
                                     measured=np.array(layer["latency_s"]), valid=~kernels.impossible(layer),
                                     fitted=kernels.predicted(layer, layer["fitted"]),
                                     active=kernels.limit(layer, layer["top_k"]))
        return {"times": times}

    def said(say):
        def checked(device, framework, precision, model, routing):
            key = key_of(device, framework, precision, model, routing)
            return say(layers[key], sources[key]) if key in layers else "not timed"

        return checked

    def at(tokens):
        def say(layer, _):
            where = np.flatnonzero(np.array(layer["num_tokens"]) == tokens)
            return f"{charts.digits(kernels.over_limit(layer)[where[0]])} times" if where.size else "not timed"

        return said(say)

    def closest(layer, _):
        over = np.where(kernels.impossible(layer), np.inf, kernels.over_limit(layer))
        return f"{charts.digits(over.min())} times, at {layer['num_tokens'][over.argmin()]:,} tokens"

    def off(layer, _):
        if not kernels.trusted(layer).any():
            return "never near"
        miss = 100 * kernels.error([layer], layer["fitted"])
        return f"{charts.digits(miss)} % up to {kernels.LARGEST} tokens"

    def defects(layer, _):
        many = int(kernels.impossible(layer).sum())
        slowly = f"slow: above {kernels.SLOW} times at every batch up to 256" if kernels.slow(layer) else "none"
        return f"{many} of {len(layer['num_tokens'])} times, below the limit" if many else slowly

    readouts = {
        "Timed by": said(lambda layer, source: source),
        "Layer": said(lambda layer, _: "{num_experts} experts of {d_model:,} × {d_expert:,}, {top_k} chosen".format(
            **layer)),
        "At one token, over the limit": at(1),
        "Closest to its limit": said(closest),
        "At 512 tokens": at(512),
        "Two constants": said(lambda layer, _: "{:.0f} µs and {:.2f}".format(1e6 * layer["fitted"][0],
                                                                             layer["fitted"][1])),
        "They are off by": said(off),
        "Not to be trusted": said(defects),
    }
    devices = {name: name for name in mine} | {DEVICES[slug].name: slug for slug in TIMED_ON}
    choices = [Choice("device", "Machine", devices, start or "h200", upload="moe_bench.jsonl", reads=parse),
               Choice("framework", "Software", {"SGLang": "SGLang", "TRT-LLM": "TRT-LLM", "vLLM": "vLLM"}, "SGLang",
                      "radio"),
               Choice("precision", "Weights", TIMED_PRECISIONS, "bf16", "radio"),
               Choice("model", "Layer of", {CATALOG[slug].name: slug for slug in TIMED_MODELS}, "deepseek-v3"),
               Choice("routing", "Routing", {"balanced": "balanced", "power law": "power law"}, "balanced", "radio")]
    return TwoFaces(choices, tables, charts.measured(), readouts, add)
