"""How many experts a step touches: the wall, the curve, other routers, and what a layer's time shows of it."""

import itertools

import numpy as np

from .. import routing
from ..models import from_config
from ..records import inclusion, router_loads
from ..routing import (
    batch_for_coverage, coverage_of, experts_touched_std, sample_routing, tokens_per_expert, zipf_inclusion,
)
from ._choices import SKEWS, batch_choice, numbered, per_expert_words, touched_words
from ._face import HALF_OCTAVES, Choice, Refusal, TwoFaces
from ._style import (
    CACHE, DASHED, DENSE, DOTTED, HEIGHT, LIMIT, LIT, MEASURED, MOE, MUTED, NIGHT, SOLID, UNLIT, WIDTH, alt, around,
    batch_axis, beside, counted, digits, dots, finish, line, lines, log_axis, named, rows, rule, same, share_axis,
    spans, words,
)

WALL_TOKENS, WALL_SIDE, GAP = 512, 16, 0.14
WALL_BATCHES = [b for b in HALF_OCTAVES if b <= WALL_TOKENS]
WALL_ROUTERS = {"DeepSeek-V3: 8 of 256, uniform": "deepseek-v3", "OLMoE: 8 of 64, if uniform": "olmoe-uniform",
                "OLMoE: 8 of 64, loads counted by others": "olmoe"}
WALL_LOADS = ("OLMoE-1B-7B", "wikipedia", 15)  # of the nine counted, the one that touches fewest experts


def _lights():
    """Squares on a navy ground, lit by tokens, beside the expected curve. Data sets: see `wall`."""
    here, router = same("router", "batch"), same("router")
    square = named("wall", here).transform_flatten(["tokens", "expert", "row", "column"]).transform_calculate(
        right="datum.column + datum.size", below="datum.row + datum.size")
    ends = [-0.6, WALL_SIDE + 0.45]
    x = alt.X("column:Q", axis=None, scale=alt.Scale(domain=ends, nice=False))
    y = alt.Y("row:Q", axis=None, scale=alt.Scale(domain=ends[::-1], nice=False))
    place = {"x": x, "x2": "right:Q", "y": y, "y2": "below:Q"}
    lamp = alt.Color("tokens:Q", title="tokens", legend=None,
                     scale=alt.Scale(type="log", domain=[1, 4, 32], range=list(LIT), clamp=True))
    squares = alt.layer(
        square.transform_filter("datum.tokens == 0").mark_rect(cornerRadius=2, color=UNLIT).encode(**place),
        square.transform_filter("datum.tokens > 0").mark_rect(cornerRadius=2).encode(**place, color=lamp),
        view=alt.ViewBackground(fill=NIGHT, cornerRadius=6)).properties(width=300, height=300, title="this step")
    x, y, smooth = batch_axis(domain=(1, 512)), share_axis("share"), {"interpolate": "monotone"}
    curve, at = named("curve", router), named("curve", here)
    bold = {"bold": True, "x": x, "y": y}
    expected = alt.layer(
        curve.transform_filter("isValid(datum.low)").mark_area(color=MOE, opacity=0.2, **smooth).encode(
            x=x, y=share_axis("low"), y2="high:Q"),
        line(curve.transform_filter("isValid(datum.uniform)"), x, share_axis("uniform"), LIMIT, DASHED, 2,
             "if uniform", **smooth),
        line(curve, x, y, name="expected", **smooth), rule(at, MUTED, SOLID, 1, x=x),
        words(curve.transform_filter("datum.batch == 11").transform_calculate(says="'expected'"), "says", MOE, "left",
              10, 12, **bold),
        words(curve.transform_filter("datum.batch == 16 && isValid(datum.uniform)").transform_calculate(
            share="datum.uniform", says="'if uniform'"), "says", LIMIT, "right", -10, -8, **bold),
        dots(at, x, y, MOE, 190, filled=False),
        dots(named("step", here), x, y, CACHE, 120, "diamond", name="this step"),
        words(named("step", here), "share,.0%", CACHE, **beside("batch", 150, 12), dy=14, size=15, **bold),
    ).properties(width=300, height=300, title="over many steps")
    return finish(alt.hconcat(squares, expected, spacing=24), "wall",
        "Left, a square for each expert of a layer: dark has no token, the brighter the more tokens. Right, the "
        "expected share of experts lit, with a band of two standard deviations, and this step as a diamond.",
        source="Computed, page 02: one seeded step. Loads of OLMoE as its authors counted them (third party).")


def wall():
    """The wall of experts: one simulated step, square by square, beside the expected coverage.

    Data sets: ``wall`` (router, batch, and the lists tokens, expert, row, column), ``curve`` (router, batch, share,
    low, high, uniform), ``step`` (router, batch, share).

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
            side = int(np.sqrt(E))
            row, column = (WALL_SIDE * at / side for at in np.divmod(np.arange(E), side))
            share, bound = expected(router, batches), routing.coverage(E, k, batches)
            spread = 2 * experts_touched_std(E, k, batches) / E
            more = {"uniform": bound} if p is not None else {"low": np.maximum(share - spread, 0),
                                                             "high": np.minimum(share + spread, 1)}
            curve += rows(router=router, batch=batches, share=share, **more)
            for batch in selection["batch"]:
                lit = tokens(router, batch)
                walls.append({"router": router, "batch": batch, "tokens": lit.tolist(), "expert": np.arange(E).tolist(),
                              "row": row.tolist(), "column": column.tolist(), "size": (1 - GAP) * WALL_SIDE / side})
                steps += rows(router=router, batch=batch, share=np.mean(lit > 0))
        return {"wall": walls, "curve": curve, "step": steps}

    def unlit(router, batch):
        E, k, p = routers[router]
        mean, spread = E * (1 - expected(router, batch)), experts_touched_std(E, k, batch) if p is None else 0
        if mean < 0.05:
            return "under 0.1"
        return f"{mean:.1f} ± {spread:.1f}" if spread >= 0.05 else digits(mean)

    def per_expert(router, batch):
        load = tokens(router, batch)
        return f"{digits(load[load > 0].mean())} (over all: {digits(load.mean())})"

    readouts = {
        "Unlit in this step": lambda router, batch: f"{np.sum(tokens(router, batch) == 0)} of {routers[router][0]}",
        "Unlit, expected": unlit,
        "Tokens per lit expert": per_expert,
        "Busiest expert": lambda router, batch: counted(tokens(router, batch).max(), "token"),
    }
    says = {
        "finding": lambda batch: "{tokens} light{s} {lit} of {count} experts and leave{s} {dark} dark".replace(
            "{s}", "s" if batch == 1 else ""),
        "sentence": "The busiest expert serves {Busiest expert}. Over many steps {Unlit, expected} of {count} stay "
        "dark.",
        "tokens": lambda batch: counted(batch, "token"), "count": lambda router: f"{routers[router][0]}",
        "lit": lambda router, batch: f"{np.sum(tokens(router, batch) > 0)}",
        "dark": lambda router, batch: f"{np.sum(tokens(router, batch) == 0) or 'none'}",
    }
    choices = [Choice("router", "Router", WALL_ROUTERS, "deepseek-v3", "radio"),
               batch_choice(WALL_BATCHES, drag="concat_1_x")]
    return TwoFaces(choices, tables, _lights(), says, readouts)


EXPERTS, TOP_K = (8, 16, 32, 64, 128, 256, 512), (1, 2, 4, 6, 8)  # every pair is possible
BATCHES = [b for b in HALF_OCTAVES if b <= 8192]


def _drawn():
    """The chosen router's curve under the uniform one's. Data sets: ``curve`` and ``label``, see `coverage`."""
    router, x, y = same("num_experts", "top_k", "skew"), batch_axis(domain=(1, 8192)), share_axis("share")
    curve, here, uniform = named("curve", router), same("batch"), share_axis("uniform")
    smooth, names = {"interpolate": "monotone"}, {"size": 14, "bold": True}
    return finish(alt.layer(
        curve.mark_area(color=MOE, opacity=0.1, **smooth).encode(x=x, y=y, y2="uniform:Q"),
        line(curve, x, uniform, LIMIT, DASHED, 2, "uniform router", **smooth),
        line(curve, x, y, name="this router", **smooth),
        rule(named("curve", router, here), MUTED, SOLID, 1, x=x),
        words(named("label", router, "datum.of == 'uniform'"), "says", LIMIT, "right", -10, -4, x=x, y=y, **names),
        words(named("label", router, "datum.of == 'own'"), "says", MOE, "left", 10, 12, x=x, y=y, **names),
        dots(named("curve", router, here), x, y, size=150),
        words(named("curve", router, here), "share,.0%", **beside("batch", 2000, 11), dy=16, bold=True, size=15, x=x,
              y=y),
    ).properties(width=WIDTH, height=HEIGHT), "coverage",
        "Share of a layer's experts that a step touches, against the tokens in the step. Dashed, a uniform router, "
        "which bounds every other one; shaded, what this router leaves untouched.",
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
                key = {"num_experts": E, "top_k": k, "skew": skew}
                mine, bound = share(E, k, skew, batches), routing.coverage(E, k, batches)
                curve += rows(**key, batch=batches, share=mine, uniform=bound)
                of = {"uniform": ("uniform router", bound, 0.6), "own": ("this router", mine, 0.3)}
                for kind, (says, shares, at) in of.items() if skew else [("uniform", of["uniform"])]:
                    i = np.abs(shares - at).argmin()
                    label += rows(**key, of=kind, batch=batches[i], share=shares[i], says=says)
        return {"curve": curve, "label": label}

    def touched(num_experts, top_k, skew, batch):
        part = share(num_experts, top_k, skew, batch)
        return touched_words(num_experts * part, num_experts, part)

    def per_expert(num_experts, top_k, skew, batch):
        touched_share = share(num_experts, top_k, skew, batch)
        mean = tokens_per_expert(num_experts, top_k, batch)
        return per_expert_words(mean, mean / touched_share)

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
        "finding": lambda skew: "{tokens} {count} of {num_experts} experts" + (
            ", where a uniform router touches {bound}" if skew else ""),
        "sentence": lambda skew: "The most popular expert sees {Most popular expert}, {others}." if skew else
        "No expert is preferred. No other router touches more experts in the mean.",
        "others": lambda num_experts, top_k: "so others are left with fewer" if top_k < num_experts else
        "as do all others",
        "tokens": lambda batch: f"{counted(batch, 'token')} touch{'es' if batch == 1 else ''}", "bound": bound,
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


def covered(panels, by_others=False):
    """Share of experts touched against batch in views side by side: curves, and points simulated.

    Parameters
    ----------
    panels : dict of str to dict
        Title to {"batch": [n], "lines": {name: [n] or [curves, n]}, "points": {name: [n]}}, points optional. The first
        line is the uniform formula, drawn dashed, a third one the active experts alone; names are the same in every
        panel.
    by_others : bool
        The second line comes from what others measured.
    """
    views, gaps = [], {}
    single, size = len(panels) == 1, {"width": WIDTH, "height": HEIGHT} if len(panels) == 1 else {
        "width": 290, "height": 260}
    for title, panel in panels.items():
        batch = np.asarray(panel["batch"], float)
        x, y = batch_axis(domain=(1, float(batch.max()))), share_axis("share")
        looks = zip(panel["lines"], [(LIMIT, DASHED), (MEASURED if by_others else MOE, SOLID), (DENSE, DOTTED)],
                    strict=False)
        layers, first = [], None
        for name, (color, dash) in looks:
            curves = np.atleast_2d(np.asarray(panel["lines"][name], float))
            layers = [line(rows(batch=batch, share=share, series=name), x, y, color, dash, 2, interpolate="monotone")
                      for share in curves] + layers
            middle = curves.mean(axis=0)
            i = np.abs(middle - (0.72 if first is None else 0.36)).argmin()
            side = ("right", -9, -7) if first is None else ("left", 9, 9)
            says = name.partition(":")[0]
            layers.append(words(rows(batch=batch[i], share=middle[i], says=says), "says", color, *side, bold=True, x=x,
                                y=y))
            if first is None:
                first = middle
            else:
                gaps.setdefault(name, []).append((np.abs(first - middle).max(), title))
        for name, share in panel.get("points", {}).items():
            share = np.asarray(share, float)
            i = np.abs(share - 0.5).argmin()
            layers += [dots(rows(batch=batch, share=share, series=name), x, y, CACHE, 60),
                       words(rows(batch=batch[i], share=share[i], says=name), "says", CACHE, "left", 9, 9, True, x=x,
                             y=y)]
            gaps.setdefault(name, []).append((np.abs(first - share).max(), title))
        views.append(alt.layer(*layers).properties(title=title if not single else "", **size))
    (name, of), bound = next(iter(gaps.items())), next(iter(next(iter(panels.values()))["lines"]))
    far, where = max(of)
    return finish(views[0] if single else alt.hconcat(*views), "covered",
        "Share of a layer's experts that a step touches, against its tokens. Dashed, the uniform formula.",
        f"{_capital(name)}: at most {digits(100 * far)} points from {bound.partition(':')[0]}, in {where}",
        "Loads counted by the models' authors (third party), steps computed, page 02." if by_others else
        "Computed and simulated, page 02.",
        " ".join(f"{title}: {spans({name: np.ravel(of) for name, of in panel['lines'].items()}, '%', 100)}."
                 for title, panel in panels.items()))


def _capital(text):
    return text[:1].upper() + text[1:]


def layer_times(batch, bounds, measured):
    """Time of a layer's experts against batch, log-log: computed lines, and points measured by others.

    Parameters
    ----------
    batch : array_like [n]
    bounds : dict of str to array_like [n]
        Seconds by name, at most three: the most experts, those of a uniform router, the active ones alone.
    measured : dict of str to (array_like, array_like)
        Name to batches and seconds, at most two.
    """
    ms = {name: 1e3 * np.asarray(seconds, float) for name, seconds in bounds.items()}
    seen = {name: (np.asarray(at, float), 1e3 * np.asarray(of, float)) for name, (at, of) in measured.items()}
    batch = np.asarray(batch, float)
    x = batch_axis(domain=(1, float(batch.max())))
    y = log_axis("ms", "milliseconds", around([*ms.values(), *(of for _, of in seen.values())]), format=".1~f")
    looks = dict(zip(ms, [(LIMIT, DASHED), (MOE, SOLID), (DENSE, DOTTED)], strict=False))
    layers = lines(ms, x, y, looks, batch, smooth=True, wrap=16)
    for (name, (at, of)), (shape, dy) in zip(seen.items(), [("circle", 22), ("diamond", -14)], strict=False):
        layers += [dots(rows(batch=at, ms=of, series=name), x, y, MEASURED, 90, shape),
                   words(rows(batch=at[-3:-2], ms=of[-3:-2], says=name), "says", MEASURED, "right", -10, dy, True, x=x,
                         y=y)]
    name, (at, of) = next(iter(seen.items()))
    ratio = of[-1] / of[0]
    return finish(alt.layer(*layers).properties(width=WIDTH, height=HEIGHT), "layer_times",
        "Milliseconds of a layer's routed experts, against the tokens in the step: measured dots, and lines of what "
        "reading so many experts takes.",
        f"From {counted(at[0], 'token')} to {at[-1]:,.0f} the measured layer goes from {digits(of[0])} to "
        f"{digits(of[-1])} ms, {digits(ratio)} times",
        "Measured by NVIDIA, AIConfigurator (third party); lines computed from published bandwidth, page 02.",
        f"Lines: {spans(ms)}. Dots: {spans({name: of for name, (_, of) in seen.items()})}.")
