"""Controls of page 02: coverage, skew, drafts."""

import functools
import itertools

import numpy as np

from .. import charts, routing
from ..hardware import DEVICES
from ..models import CATALOG, from_config
from ..records import inclusion, router_loads, shipped
from ..routing import (
    batch_for_coverage,
    coverage_of,
    experts_touched_std,
    sample_routing,
    tokens_per_expert,
    zipf_inclusion,
)
from ..speculation import speculation_gain
from ..two_faces import HALF_OCTAVES, Choice, TwoFaces
from .choices import SKEWS, batch_choice, numbered, per_expert_words, touched_words

WALL_TOKENS = 512
WALL_BATCHES = [b for b in HALF_OCTAVES if b <= WALL_TOKENS]
WALL_ROUTERS = {"DeepSeek-V3: 8 of 256, uniform": "deepseek-v3", "OLMoE: 8 of 64, if uniform": "olmoe-uniform",
                "OLMoE: 8 of 64, loads counted by others": "olmoe"}
WALL_LOADS = ("OLMoE-1B-7B", "wikipedia", 15)  # of the nine counted, the one that touches fewest experts


def wall():
    """The wall of experts: one simulated step, square by square, beside the expected coverage.

    The step's tokens are the first of one seeded stream, so a larger batch lights more squares and puts none out.
    OLMoE's loads are third-party counts (`records.router_loads`); their tokens are simulated from them.

    Returns
    -------
    TwoFaces

    >>> said = wall().readout(router="deepseek-v3", batch=64)
    >>> print(said["Unlit in this step"], "|", said["Unlit, expected"], "|", said["Tokens per lit expert"])
    34 of 256 | 33.6 ± 4.5 | 2.31 (over all: 2.0)
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

    def unlit(router, batch):
        E, k, p = routers[router]
        mean, spread = E * (1 - expected(router, batch)), experts_touched_std(E, k, batch) if p is None else 0
        if mean < 0.05:
            return "under 0.1"
        return f"{mean:.1f} ± {spread:.1f}" if spread >= 0.05 else charts.digits(mean)

    def per_expert(router, batch):
        load = tokens(router, batch)
        return f"{charts.digits(load[load > 0].mean())} (over all: {charts.digits(load.mean())})"

    readouts = {
        "Unlit in this step": lambda router, batch: f"{np.sum(tokens(router, batch) == 0)} of {routers[router][0]}",
        "Unlit, expected": unlit,
        "Tokens per lit expert": per_expert,
        "Busiest expert": lambda router, batch: charts.counted(tokens(router, batch).max(), "token"),
    }
    choices = [Choice("router", "Router", WALL_ROUTERS, "deepseek-v3", "radio"),
               batch_choice(WALL_BATCHES)]
    return TwoFaces(choices, tables, charts.wall(), readouts)


COVERAGE_EXPERTS, COVERAGE_TOP_K = (8, 16, 32, 64, 128, 256, 512), (1, 2, 4, 6, 8)  # every pair is possible
COVERAGE_BATCHES = [b for b in HALF_OCTAVES if b <= 8192]
DRAFT_BATCHES = np.unique(np.rint(2 ** np.arange(0, 13.25, 0.25)).astype(int))


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
        return touched_words(num_experts * part, num_experts, part)

    def per_expert(num_experts, top_k, skew, batch):
        mean = tokens_per_expert(num_experts, top_k, batch)
        return per_expert_words(mean, mean / share(num_experts, top_k, skew, batch))

    def enough(num_experts, top_k):
        return f"{charts.digits(batch_for_coverage(0.95, num_experts, top_k))} tokens if uniform"

    def favourite(num_experts, top_k, skew):
        return f"{charts.digits(100 * zipf_inclusion(num_experts, top_k, skew).max())} % of tokens"

    readouts = {"Experts touched": possible(touched), "Tokens per expert": possible(per_expert),
                "95 % from": possible(enough), "Most popular expert": possible(favourite)}
    choices = [Choice("num_experts", "Experts E", numbered(sorted({*COVERAGE_EXPERTS, E})), E,
                      more=numbered(n for n in (4, 60, 160, 384) if n != E)),
               Choice("top_k", "Chosen k", numbered(sorted({*COVERAGE_TOP_K, k})), k,
                      more=numbered(n for n in (3, 10, 12, 16) if n != k)),
               Choice("skew", "Popularity", SKEWS, 0, "radio"),
               batch_choice(COVERAGE_BATCHES)]
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
    record = shipped("drafts")[0]
    r1, server = record.data, f"DeepSeek-R1 on {record.on.partition(',')[0]}, measured by {record.by}"

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
        return f"{gains.min():.2f} times, at {charts.counted(at, 'sequence')}"

    def until(model, acceptance, draft, copy):
        batch = np.arange(1, 8193)
        paying = batch[gain(model, acceptance, draft, copy, batch) > 1]
        return charts.counted(paying[-1], "sequence") if paying.size else "never gains"

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
               Choice("draft", "Tokens drafted", numbered((1, 2, 3)), 1, "radio"),
               Choice("copy", "Drafted tokens choose experts", COPIES, 0, "radio")]
    return TwoFaces(choices, tables, charts.speculation(list(models), server), readouts)
