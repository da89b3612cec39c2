"""What a draft gains: it touches more experts, so on a mixture it may cost more than it saves."""

import itertools

import numpy as np

from ..hardware import DEVICES
from ..models import CATALOG, from_config
from ..records import shipped
from ..speculation import speculation_gain
from ._choices import numbered
from ._face import Choice, TwoFaces
from ._style import (
    DASHED, DENSE, DOTTED, LIMIT, MEASURED, MOE, MUTED, SOLID, WIDTH, alt, batch_axis, counted, dots, finish, line,
    log_axis, named, rows, rule, same, words,
)

DRAFT_BATCHES = np.unique(np.rint(2 ** np.arange(0, 13.25, 0.25)).astype(int))
DRAFTED = ("deepseek-v3", "mixtral-8x7b", "llama-3.1-70b")
ACCEPTANCES = {f"{a:.2f}": a for a in np.arange(0.3, 1.01, 0.05).round(2).tolist()}
COPIES = {"independently": 0, "repeating 0.3 of them": 0.3}  # 0.32 and 0.30: data/measured/expert_overlap.jsonl

def _gains(names, server):
    """Gain of a draft against batch, a line a model. Data sets: ``curve`` and ``measured``, see `speculation`."""
    chosen, x = same("acceptance", "draft", "copy"), batch_axis("sequences being served", domain=(0.85, 8192))
    looks = dict(zip(names, [(MOE, SOLID), (MUTED, DASHED), (DENSE, DASHED), (MOE, DOTTED)], strict=False))
    layers, smooth = [], {"interpolate": "monotone", "clip": True}
    for i, (name, (color, dash)) in enumerate(looks.items()):
        y = log_axis(f"g{i}", "speed with the draft over without", (0.5, 4.2), format=".1f")
        at = named("curve", chosen, f"datum.batch == {[32, 4, 8, 256][i]}").transform_calculate(says=repr(name))
        layers += [line(named("curve", chosen), x, y, color, dash, name=name, **smooth),
                   words(at, "says", color, "left", 6,
                         [18, 16, -12, 16][i], True, x=x, y=y)]
    one, y = [{"gain": 1, "batch": 8192, "over": "pays", "under": "costs"}], log_axis(
        "gain", "speed with the draft over without", (0.5, 4.2), format=".1f")
    seen = named("measured", "datum.draft == draft")
    return finish(alt.layer(
        rule(one, LIMIT, y=y), *layers, dots(seen, x, y, MEASURED, 150, "diamond", name=server),
        *(words(one, field, LIMIT, dx=5, dy=dy, x=x, y=y) for field, dy in (("over", -9), ("under", 10))),
        words(seen.transform_calculate(says="'measured'"), "says", MEASURED, dx=-6, dy=-16, bold=True, x=x, y=y),
    ).properties(width=WIDTH, height=330), "speculation",
        "Speed with a draft over speed without, against the sequences being served. Above the dashed rule the draft "
        f"pays. Diamond: {server}.",
        source="Computed: bounds on H200 in FP8, weights alone, the draft free, page 02. Measured by others (third "
        "party).")


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
            curve += rows(acceptance=a, draft=draft, copy=copy, batch=batch, **gains)
        measured = rows(draft=r1["draft"][1:], batch=1, gain=r1["speedup"][1:])
        return {"curve": curve, "measured": [row for row in measured if row["draft"] in selection["draft"]]}

    def dip(model, acceptance, draft, copy):
        batch = np.arange(1, 513)
        gains = gain(model, acceptance, draft, copy, batch)
        at = batch[gains.argmin()]
        return f"{gains.min():.2f} times, at {counted(at, 'sequence')}"

    def until(model, acceptance, draft, copy):
        batch = np.arange(1, 8193)
        paying = batch[gain(model, acceptance, draft, copy, batch) > 1]
        return counted(paying[-1], "sequence") if paying.size else "never gains"

    readouts = {
        f"{moe.name}, one sequence": lambda acceptance, draft, copy: (
            f"{gain(moe, acceptance, draft, copy, 1):.2f} times"),
        f"{moe.name}, at its dip": lambda acceptance, draft, copy: dip(moe, acceptance, draft, copy),
        f"{moe.name} loses beyond": lambda acceptance, draft, copy: until(moe, acceptance, draft, copy),
        f"{dense.name} loses beyond": lambda acceptance, draft, copy: until(dense, acceptance, draft, copy),
    }
    if own is not None:
        readouts[f"{yours}, at its dip"] = lambda acceptance, draft, copy: dip(own, acceptance, draft, copy)
    says = {
        "finding": f"With a draft {moe.name} is {{alone}} as fast for one sequence, {{dip}}",
        "sentence": f"The drafted tokens ask for experts of their own, so a step reads more. {dense.name} reads the "
        "same weights for one token or several, so a draft pays until arithmetic decides.",
        "dip": lambda acceptance, draft, copy: dip(moe, acceptance, draft, copy).replace(", at", " for"),
        "alone": lambda acceptance, draft, copy: f"{gain(moe, acceptance, draft, copy, 1):.2f} times",
    }
    choices = [Choice("acceptance", "Chance that a drafted token is accepted", ACCEPTANCES, 0.8, "slider"),
               Choice("draft", "Tokens drafted", numbered((1, 2, 3)), 1, "radio"),
               Choice("copy", "Drafted tokens choose experts", COPIES, 0, "radio")]
    return TwoFaces(choices, tables, _gains(list(models), server), says, readouts)
