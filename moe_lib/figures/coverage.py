"""How many experts a step touches: the wall, the curve, other routers, and what a layer's time shows of it."""

import itertools

import numpy as np

from .. import routing
from ..charts import covered, layer_times  # noqa: F401  being redrawn
from ..controls import wall  # noqa: F401  being redrawn
from ..models import from_config
from ..routing import batch_for_coverage, coverage_of, tokens_per_expert, zipf_inclusion
from ._choices import SKEWS, batch_choice, numbered, per_expert_words, touched_words
from ._face import HALF_OCTAVES, Choice, Refusal, TwoFaces
from ._style import (
    DASHED,
    HEIGHT,
    LIMIT,
    MOE,
    MUTED,
    SOLID,
    WIDTH,
    alt,
    batch_axis,
    beside,
    counted,
    digits,
    dots,
    finish,
    line,
    named,
    percent,
    rows,
    rule,
    same,
    share_axis,
    words,
)

EXPERTS, TOP_K = (8, 16, 32, 64, 128, 256, 512), (1, 2, 4, 6, 8)  # every pair is possible
BATCHES = [b for b in HALF_OCTAVES if b <= 8192]


def _drawn():
    """The chosen router's curve under the uniform one's. Data sets: ``curve`` and ``label``, see `coverage`."""
    router, x, y = same("num_experts", "top_k", "skew"), batch_axis(domain=(1, 8192)), share_axis("share")
    curve, here, uniform = named("curve", router), same("batch"), share_axis("uniform")
    smooth, names = {"interpolate": "monotone"}, {"size": 14, "bold": True}
    return finish(alt.layer(
        curve.mark_area(color=MOE, opacity=0.1, **smooth).encode(x=x, y=y, y2="uniform:Q"),
        line(curve, x, uniform, LIMIT, DASHED, 2, **smooth), line(curve, x, y, **smooth),
        rule(named("curve", router, here), MUTED, SOLID, 1, x=x),
        words(named("label", router, "datum.of == 'uniform'"), "says", LIMIT, "right", -10, -4, x=x, y=y, **names),
        words(named("label", router, "datum.of == 'own'"), "says", MOE, "left", 10, 12, x=x, y=y, **names),
        dots(named("curve", router, here), x, y, size=150),
        words(named("curve", router, here), "share,.0%", **beside("batch", 2000, 11), dy=16, bold=True, size=15, x=x,
              y=y),
    ).properties(width=WIDTH, height=HEIGHT), "coverage",
        "Share of a layer's experts that a step touches, against the tokens in the step. Dashed, a uniform router, which "
        "bounds every other one; shaded, what this router leaves untouched.",
        source="Computed: the chance that no token of the step chooses an expert, page 02.")


def coverage(config=None):
    """Share of experts touched for any number of experts, chosen per token, batch and skew.

    Data sets: ``curve`` (num_experts, top_k, skew, batch, share, uniform), ``label`` (num_experts, top_k, skew, of,
    batch, share, says).

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

    def possible(num_experts, top_k):
        if top_k > num_experts:
            raise Refusal(f"cannot be: {top_k:,} of {num_experts:,} experts")

    def share(num_experts, top_k, skew, batch):
        possible(num_experts, top_k)
        return coverage_of(zipf_inclusion(num_experts, top_k, skew), batch)

    def tables(selection):
        batches, curve, label = np.union1d(BATCHES, selection["batch"]).astype(int), [], []
        for E, k, skew in itertools.product(*(selection[name] for name in ("num_experts", "top_k", "skew"))):
            if k <= E:
                key, mine, bound = {"num_experts": E, "top_k": k, "skew": skew}, *(
                    of(batches) for of in (lambda b: share(E, k, skew, b), lambda b: routing.coverage(E, k, b)))
                curve += rows(**key, batch=batches, share=mine, uniform=bound)
                for of, says, shares, at in (("uniform", "uniform router", bound, 0.6), ("own", "this router", mine, 0.3)):
                    i = np.abs(shares - at).argmin()
                    label += rows(**key, of=of, batch=batches[i], share=shares[i], says=says) if of != "own" or skew else []
        return {"curve": curve, "label": label}

    def touched(num_experts, top_k, skew, batch):
        part = share(num_experts, top_k, skew, batch)
        return touched_words(num_experts * part, num_experts, part)

    def per_expert(num_experts, top_k, skew, batch):
        mean = tokens_per_expert(num_experts, top_k, batch)
        return per_expert_words(mean, mean / share(num_experts, top_k, skew, batch))

    def enough(num_experts, top_k):
        possible(num_experts, top_k)
        return f"{digits(batch_for_coverage(0.95, num_experts, top_k))} tokens if uniform"

    def favourite(num_experts, top_k, skew):
        possible(num_experts, top_k)
        return f"{digits(100 * zipf_inclusion(num_experts, top_k, skew).max())} % of tokens"

    def bound(num_experts, top_k, batch):
        possible(num_experts, top_k)
        return digits(num_experts * routing.coverage(num_experts, top_k, batch))

    says = {
        "finding": lambda skew: "{tokens} touch {count} of {num_experts} experts" + (
            ", where a uniform router touches {bound}" if skew else ""),
        "sentence": lambda skew: "The most popular expert sees {Most popular expert}, so other experts wait longer for "
        "their first token." if skew else "No expert is preferred. No other router touches more experts in the mean.",
        "tokens": lambda batch: counted(batch, "token"), "bound": bound,
        "count": lambda num_experts, top_k, skew, batch: digits(num_experts * share(num_experts, top_k, skew, batch)),
    }
    readouts = {"Experts touched": touched, "Tokens per expert": per_expert, "95 % from": enough,
                "Most popular expert": favourite}
    choices = [Choice("num_experts", "Experts E", numbered(sorted({*EXPERTS, E})), E,
                      more=numbered(n for n in (4, 60, 160, 384) if n != E)),
               Choice("top_k", "Chosen k", numbered(sorted({*TOP_K, k})), k,
                      more=numbered(n for n in (3, 10, 12, 16) if n != k)),
               Choice("skew", "Popularity", SKEWS, 0.5, "radio"),
               batch_choice(BATCHES, drag="x")]
    return TwoFaces(choices, tables, _drawn(), says, readouts)
