"""The landing page: a wall of experts for one batch, the workshop, and a server over its bound."""

import functools
import itertools

import numpy as np

from ..hardware import DEVICES
from ..models import CATALOG, dense_twin
from ..roofline import ridge_point
from ..routing import sample_routing
from ..steps import decode_step, resident_bytes
from ._choices import (
    COMPUTING, STATIC_MODELS, WEIGHT_BYTES, Models, batch_choice, device_choice, devices_for, dtype_of, numbered,
    per_expert_words, precision_choice, step_of, time_of, touched_words,
)
from ._face import HALF_OCTAVES, Choice, TwoFaces
from ._style import (
    DASHED, DENSE, DOTTED, HEIGHT, LIMIT, LIT, MEASURED, MOE, MUTED, NIGHT, SOLID, UNLIT, WIDTH, alt, batch_axis,
    beside, counted, digits, dots, finish, gigabytes, line, linear_axis, lines, log_axis, named, percent, rows, rule,
    same, spans, words,
)

STATIC_DEVICES = ("h100", "h200", "b200", "mi300x", "a100-80gb", "rtx-4090")
COVER_BATCHES, SIDE, GAP = (1, 8, 64, 256), 16, 0.14  # squares along the wall; share of a square between two


def _wall_and_numbers():
    """A wall on a navy ground with three numbers beside it. Data sets: ``wall`` and ``step``, see `cover`."""
    here, wide = same("batch"), {"expr": f"width < 450 ? {SIDE + 1} : {2.15 * SIDE}"}
    x = alt.X("left:Q", axis=None, scale=alt.Scale(domain=[0, {"expr": wide["expr"]}], nice=False))
    y = alt.Y("top:Q", axis=None, scale=alt.Scale(domain=[SIDE + 1, 0], nice=False))
    square = named("wall", here).transform_flatten(["tokens", "expert", "left", "top"]).transform_calculate(
        right=f"datum.left + {1 - GAP}", bottom=f"datum.top + {1 - GAP}")
    place, seen = {"x": x, "x2": "right:Q", "y": y, "y2": "bottom:Q"}, {"expr": "width < 450 ? 0 : 1"}
    place["tooltip"] = [alt.Tooltip("expert:Q", title="expert"), alt.Tooltip("tokens:Q", title="tokens")]
    lamp = alt.Color("tokens:Q", legend=None,
                     scale=alt.Scale(type="log", domain=[1, 3, 12], range=list(LIT), clamp=True))

    def said(text, top, size, color="white"):
        return words(named("step", here).transform_calculate(left=str(SIDE + 1.6), top=str(top)), text, color, dx=0,
                     bold=size > 20, size=size, opacity=seen, x=x, y=y)

    return finish(alt.layer(
        square.transform_filter("datum.tokens == 0").mark_rect(cornerRadius=2, color=UNLIT).encode(**place),
        square.transform_filter("datum.tokens > 0").mark_rect(cornerRadius=2).encode(**place, color=lamp),
        said("experts", 2.6, 58, LIT[1]), said("of", 5.4, 18), said("bytes", 8.6, 34), said("read", 10.5, 16),
        said("work", 13, 34), said("each", 14.9, 16),
        view=alt.ViewBackground(fill=NIGHT, cornerRadius=8),
    ).properties(width=WIDTH, height=320), "cover",
        "Each square is an expert of one layer, lit if the step reads it; the brighter, the more tokens it serves.",
        source="Computed: one simulated step with a uniform router; bytes and work expected over many, BF16 weights.")


def cover(model="deepseek-v3"):
    """One step as a wall of experts, lit by the tokens that chose them.

    Data sets: ``wall`` (batch, and the lists tokens, expert, left, top), ``step`` (batch, and the words experts, of,
    bytes, read, work, each). The tokens are the first of one seeded stream, so a larger batch puts no light out.

    Parameters
    ----------
    model : str
        A mixture of the catalogue.

    Returns
    -------
    TwoFaces

    >>> print(cover().say("finding", batch=64))
    64 tokens already read 87 % of DeepSeek-V3
    """
    of = CATALOG[model]
    stream = sample_routing(np.random.default_rng(0), max(COVER_BATCHES), of.num_experts, of.top_k)
    side = int(np.ceil(np.sqrt(of.num_experts)))
    row, column = np.divmod(np.arange(of.num_experts), side)
    left, top = ((0.5 + GAP / 2 + SIDE * at / side) for at in (column, row))

    def tokens(batch):
        return np.bincount(stream[:batch].ravel(), minlength=of.num_experts)

    def step(batch):
        return decode_step(of, batch, weight_bytes=2)

    def tables(selection):
        walls = [{"batch": batch, "tokens": tokens(batch).tolist(), "expert": list(range(of.num_experts)),
                  "left": left.tolist(), "top": top.tolist()} for batch in selection["batch"]]
        steps = [{"batch": batch, "experts": lit(batch), "of": f"of {of.num_experts} experts read",
                  "bytes": gigabytes(step(batch).bytes_read), "read": "read in a step",
                  "work": f"{digits(step(batch).intensity)} FLOP", "each": "for each byte read"}
                 for batch in selection["batch"]]
        return {"wall": walls, "step": steps}

    def lit(batch):
        return f"{np.sum(tokens(batch) > 0)}"

    def share(batch):
        return percent(step(batch).bytes_read / resident_bytes(of, weight_bytes=2))

    says = {
        "finding": lambda batch: f"{{tokens}} {'already read' if batch > 1 else 'reads'} {{share}} of {of.name}",
        "sentence": lambda batch: f"Each token computes with {of.top_k} of {of.num_experts} experts in a layer. " + (
            "Together {tokens} need {lit}, and a step reads them all." if batch > 1 else
            f"All {of.num_experts} must be held, because the next token may ask for any of them."),
        "tokens": lambda batch: counted(batch, "token"), "share": share, "lit": lit,
    }
    return TwoFaces([Choice("batch", "Tokens in a step", numbered(COVER_BATCHES), 64, "radio",
                            more=numbered((2, 4, 16, 32, 128)))], tables, _wall_and_numbers(), says, {})


def _intensity():
    """Work per byte against batch. Data sets: ``curve`` and ``ridge``, see `workshop`."""
    mine, device, here = same("model", "precision"), same("device", "precision"), same("batch")
    x, domain = batch_axis(), (0.3, 5e5)
    y, twin, ridge = (log_axis(field, "FLOP per byte read", domain) for field in ("moe", "twin", "ridge"))
    curve, at, bold = named("curve", mine), named("curve", mine, here), {"bold": True, "size": 14, "x": x}
    return finish(alt.layer(
        rule(named("ridge", device), y=ridge),
        words(named("ridge", device).transform_calculate(says="'above: arithmetic decides'"), "says", LIMIT, dy=-9,
              x=alt.value(4), y=ridge),
        words(named("ridge", device).transform_calculate(says="'below: reading decides'"), "says", LIMIT, dy=11,
              x=alt.value(4), y=ridge),
        rule(at, MUTED, SOLID, 1, x=x),
        line(curve, x, twin, DENSE, name="its dense twin"), line(curve, x, y, name="this mixture"),
        words(named("curve", mine, "datum.batch == 2048").transform_calculate(says="'its dense twin'"), "says", DENSE,
              "right", -10, -6, y=twin, **bold),
        words(named("curve", mine, "datum.batch == 1024").transform_calculate(says="'this mixture'"), "says", MOE,
              "left", 10, 14, y=y, **bold),
        dots(at, x, twin, DENSE, 130), dots(at, x, y, MOE, 170),
        words(at, "twin,.3~s", DENSE, "right", -11, -10, y=twin, **bold),
        words(at, "moe,.3~s", MOE, **beside("batch", 20000, 11), dy=14, y=y, **bold),
    ).properties(width=WIDTH, height=HEIGHT), "workshop",
        "FLOP per byte that a decode step reads, against its tokens. Dashed, the ridge point of the device.",
        source="Computed for a uniform router, page 03; peaks and bandwidths as vendors publish them.")


def workshop(config=None):
    """The plate's workshop: pick a model, a precision, a device and a batch; see what a decode step touches and reads.

    Data sets: ``curve`` (model, precision, batch, moe, twin), ``ridge`` (device, precision, ridge).

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
    models = Models(config)

    @functools.lru_cache(maxsize=4096)  # the page asks for each step once a device and readout
    def step(model, precision, batch):
        return step_of(models[model], precision, batch)

    def tables(selection):
        batches = np.union1d(HALF_OCTAVES, selection["batch"])
        curve, ridge = [], []
        for model, precision in itertools.product(selection["model"], selection["precision"]):
            twin = step_of(dense_twin(models[model]), precision, batches)
            curve += rows(model=model, precision=precision, batch=batches.astype(int),
                          moe=step_of(models[model], precision, batches).intensity, twin=twin.intensity)
        for device, precision in itertools.product(selection["device"], selection["precision"]):
            ridge += rows(device=device, precision=precision,
                          ridge=ridge_point(DEVICES[device], dtype_of(precision, device)))
        return {"curve": curve, "ridge": ridge}

    def touched(model, batch):
        of = step(model, "bf16", batch)
        return touched_words(of.experts_touched, of.num_experts, of.share_touched)

    def tokens(model, batch):
        of = step(model, "bf16", batch)
        return per_expert_words(of.tokens_per_expert, of.tokens_per_touched_expert)

    def fits(model, precision, device):
        needed = devices_for(models[model], precision, device)
        return "fits on one" if needed == 1 else f"does not fit: needs {needed:,}"

    def time(model, precision, device, batch):
        _, reads, bounds = time_of(step(model, precision, batch), models[model], precision, device)
        return f"{digits(bounds.lower * 1e3)} ms ({'reading' if reads else 'computing'})"

    def work(model, precision, batch):
        return digits(step(model, precision, batch).intensity)

    says = {
        "finding": "With {tokens} {model} does {work} FLOP for each byte it reads, its dense twin {twin}",
        "sentence": "The step touches {Experts touched} experts of a layer and reads {Read in a step}. With a uniform "
        "router it takes at least {Takes at least}.",
        "tokens": lambda batch: counted(batch, "token"), "work": work,
        "twin": lambda model, precision, batch: digits(step_of(dense_twin(models[model]), precision, batch).intensity),
    }
    readouts = {
        "Experts touched": touched,
        "Tokens per expert": tokens,
        "Resident": lambda model, precision: gigabytes(
            resident_bytes(models[model], weight_bytes=WEIGHT_BYTES[precision])),
        "Read in a step": lambda model, precision, batch: gigabytes(step(model, precision, batch).bytes_read),
        "Intensity": lambda model, precision, batch: f"{work(model, precision, batch)} FLOP/byte",
        "On this device": fits,
        "Takes at least": time,
    }
    choices = [models.choice(STATIC_MODELS, "deepseek-v3"),
               precision_choice(), device_choice(STATIC_DEVICES, COMPUTING), batch_choice(drag="x")]
    return TwoFaces(choices, tables, _intensity(), says, readouts, models.add)


def served(batch, computed, measured, by):
    """Time of a step against batch: computed lines, measured points.

    Parameters
    ----------
    batch : array_like [n]
    computed : dict of str to array_like [n]
        Seconds by name, at most three: the coverage bound, an active-only estimate, the bound with fitted constants.
    measured : (array_like, array_like)
        Batches and seconds.
    by : str
        Who measured what.
    """
    ms = {name: 1e3 * np.asarray(seconds, float) for name, seconds in computed.items()}
    at, seen = np.asarray(measured[0], float), 1e3 * np.asarray(measured[1], float)
    x = batch_axis("requests in flight", domain=(1, max(256, float(np.max(batch)))))
    y = linear_axis("ms", "milliseconds per step", (0, 1.12 * float(max(map(np.max, [*ms.values(), seen])))))
    looks = dict(zip(ms, [(MOE, SOLID), (DENSE, DASHED), (LIMIT, DOTTED)], strict=False))
    first, last = (float(np.interp(end, at, seen)) for end in (at.min(), at.max()))
    bound = np.interp(at, batch, next(iter(ms.values())))
    finding = (f"From {counted(at.min(), 'request')} to {at.max():,.0f} the measured step goes from {digits(first)} to "
               f"{digits(last)} ms; the bound from {digits(bound[0])} to {digits(bound[-1])} ms")
    return finish(alt.layer(
        *lines(ms, x, y, looks, batch, smooth=True),
        dots(rows(batch=at, ms=seen, series="measured"), x, y, MEASURED, 110),
        words(rows(batch=at[-1:], ms=seen[-1:], says="measured"), "says", MEASURED, "right", -10, -10, True, x=x,
              y=y),
    ).properties(width=WIDTH, height=HEIGHT), "served",
        "Milliseconds per step against requests in flight: computed lines and measured dots.", finding,
        f"Measured by {by} (third party); lines computed, page 03.",
        f"Lines: {spans(ms)}. Dots: {spans({'measured': seen})}.")
