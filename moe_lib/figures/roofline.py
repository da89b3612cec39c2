"""Work for a byte: a step on a device's roof, run-time shapes, and how much batch is enough."""

import functools

import numpy as np

from ..hardware import DEVICES
from ..models import dense_twin
from ..roofline import attainable_flops_per_s, compute_bound_batch, compute_time, memory_time, ridge_point
from ._choices import (
    COMPUTING, WEIGHT_BYTES, Models, batch_choice, device_choice, dtype_of, precision_choice, step_of, time_of,
)
from ._face import HALF_OCTAVES, TwoFaces
from ._style import (
    DASHED, DENSE, DOTTED, HEIGHT, LIMIT, MEASURED, MOE, MUTED, SOLID, WIDTH, alt, around, as_much, batch_axis, between,
    counted, digits, dots, drawn, finish, line, linear_axis, lines, list_row, log_axis, named, percents, rows, rule,
    same, spans, words,
)

ROOF = (0.4, 3e5)  # FLOP per byte from one end of a roof to the other
RULED = (1, 64, 512, 4096, 32768)  # batches written beside it
ROOF_MODELS = ("deepseek-v3", "mixtral-8x7b", "qwen3-235b-a22b", "qwen3-30b-a3b", "gpt-oss-120b", "llama-4-maverick",
               "glm-5.2")
ROOF_DEVICES = ("h100", "h200", "b200", "mi300x", "a100-80gb")


def _intensity_axis(title, domain):
    return alt.X("intensity:Q", title=title, axis=alt.Axis(values=[10.0**n for n in range(-1, 7)], format="~s"),
                 scale=alt.Scale(type="log", domain=list(domain), nice=False, clamp=True))


def _roof():
    """A device's roof with two rulers of batches along it. Data sets: ``roof``, ``moe``, ``twin``, see `roofline`."""
    x, y = _intensity_axis("FLOP per byte read", ROOF), log_axis("rate", "FLOP/s at most", (5e11, 1e16))
    here, layers, on_top = same("precision", "device"), [], []
    rulers = (("moe", MOE, "this mixture", [same("model")], {"align": "left", "dx": 8, "dy": 16}, 1024),
              ("twin", DENSE, "its dense twin", [], {"align": "right", "dx": -8, "dy": -12}, 23))
    for data, color, says, also, place, at in rulers:
        steps = named(data, here, *also).transform_flatten(["batch", "intensity", "rate"])
        ticks = steps.transform_filter(f"indexof({list(RULED)}, datum.batch) >= 0 && datum.batch != batch")
        chosen, name = steps.transform_filter(same("batch")), steps.transform_filter(f"datum.batch == {at}")
        far = {**place, "dx": 3.5 * place["dx"], "dy": 2.4 * place["dy"]}
        layers += [dots(steps, x, y, color, 16, "stroke", angle=0, name=says), dots(ticks, x, y, color, 60, name=says),
                   words(ticks, "batch,,d", color, **place, x=x, y=y),
                   words(name.transform_calculate(says=repr(says)), "says", color, **far, bold=True, size=14, x=x, y=y)]
        on_top += [dots(chosen, x, y, color, 190, name=says),
                   words(chosen, "batch,,d", color, **place, bold=True, size=17, x=x, y=y)]
    roof = line(named("roof", here), x, y, LIMIT, width=4, name="the roof")
    return finish(alt.layer(roof, *layers, *on_top).properties(width=WIDTH, height=340), "roofline",
        "FLOP per second that a device allows, against FLOP per byte of the work. The purple roof slopes where reading "
        "limits and is level where arithmetic does. Numbers along it are batches.",
        source="Computed for a uniform router; peaks and bandwidths as vendors publish them, page 03.")


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
    models = Models(config)

    @functools.lru_cache(maxsize=4096)  # the page asks for each step once a device and readout
    def step(model, precision, batch):
        return step_of(models[model], precision, batch)

    def rate(intensity, precision, device):
        return attainable_flops_per_s(intensity, DEVICES[device], dtype_of(precision, device))

    def tables(selection):
        batches = np.union1d(HALF_OCTAVES, selection["batch"])
        roof, moe, twin = [], [], []
        for precision in selection["precision"]:
            dense = step_of(dense_twin(models[selection["model"][0]]), precision, batches).intensity
            sparse = {model: step_of(models[model], precision, batches).intensity for model in selection["model"]}
            for device in selection["device"]:
                key = {"precision": precision, "device": device}
                ridge = ridge_point(DEVICES[device], dtype_of(precision, device))
                ends = np.array([ROOF[0], ridge, ROOF[1]])
                roof += rows(**key, intensity=ends, rate=rate(ends, **key))
                twin.append(list_row(key, batch=batches.astype(int), intensity=dense, rate=rate(dense, **key)))
                for model, of in sparse.items():
                    moe.append(list_row({"model": model, **key}, batch=batches.astype(int), intensity=of,
                                               rate=rate(of, **key)))
        return {"roof": roof, "moe": moe, "twin": twin}

    def intensity(model, precision, batch):
        pair = step(model, precision, batch), step_of(dense_twin(models[model]), precision, batch)
        return "{} FLOP/byte (twin: {})".format(*(digits(of.intensity) for of in pair))

    def ridge(precision, device):
        dtype = dtype_of(precision, device)
        return f"{ridge_point(DEVICES[device], dtype):.0f} FLOP/byte, {dtype.upper()}"

    def share(model, precision, device, batch):
        peak = DEVICES[device].peak(dtype_of(precision, device))
        at_most = rate(step(model, precision, batch).intensity, precision, device) / peak
        return f"at most {digits(100 * at_most)} %"

    def time(model, precision, device, batch):
        needed, _, bounds = time_of(step(model, precision, batch), models[model], precision, device)
        low, high = (1e3 * seconds for seconds in bounds)
        return f"{between(low, high, 'ms')} on {counted(needed, 'device')}"

    def enough(model, precision, device):
        machine = {"device": DEVICES[device], "dtype": dtype_of(precision, device)}
        both = (compute_bound_batch(of, **machine, weight_bytes=WEIGHT_BYTES[precision])
                for of in (models[model], dense_twin(models[model])))
        mine, twin = both
        return f"{counted(mine, 'token')} (twin: {twin:,.0f})"

    readouts = {"Intensity": intensity, "Ridge point": ridge, "Share of peak": share, "Step takes": time,
                "Compute-bound from": enough}
    def limits(model, precision, device, batch):
        of = step(model, precision, batch)
        on = DEVICES[device], dtype_of(precision, device)
        slow, fast = memory_time(of, on[0]), compute_time(of, *on)
        decides, other = ("reading", "arithmetic") if slow > fast else ("arithmetic", "reading")
        return f"{decides} takes {as_much('long', max(slow, fast) / min(slow, fast))} as {other}"

    says = {
        "finding": "With {tokens} a step of {model} waits: {limits}",
        "sentence": "It uses {Share of peak} of the arithmetic. Arithmetic decides from {Compute-bound from}.",
        "tokens": lambda batch: counted(batch, "token"), "limits": limits,
    }
    choices = [models.choice(ROOF_MODELS, "deepseek-v3"),
               precision_choice(), device_choice(ROOF_DEVICES, COMPUTING), batch_choice()]
    return TwoFaces(choices, tables, _roof(), says, readouts, models.add)


def ridges(intensity, mark, mark_says):
    """Ridge points as bars, with a rule at a tempting number.

    Parameters
    ----------
    intensity : dict of str to float
        FLOP per byte by device.
    mark : float
        Where the rule stands.
    mark_says : str
    """
    top = 1.12 * max([*intensity.values(), mark])
    table = rows(label=list(intensity), ridge=np.array(list(intensity.values()), float))
    y = alt.Y("label:N", title=None, sort=None, axis=alt.Axis(labelLimit=0, ticks=False, domain=False))
    x = alt.X("ridge:Q", title="FLOP per byte, or tokens per expert in BF16", scale=alt.Scale(domain=[0, top]),
              axis=alt.Axis(tickCount=5))
    least, most = (of(intensity, key=intensity.get) for of in (min, max))
    one = [{"ridge": mark, "says": mark_says}]
    return finish(alt.layer(
        drawn(table).mark_bar(color=LIMIT, height=14).encode(x=x, y=y),
        words(table, "ridge,.0f", dx=5, size=12, x=x, y=y),
        rule(one, "currentColor", x=x), words(one, "says", dx=5, x=x, y=alt.value(-8)),
    ).properties(width=WIDTH, height=26 * len(intensity)), "ridges",
        f"Ridge points in FLOP per byte, a bar a device. The dashed rule marks {mark_says}.",
        f"To keep a device busy takes {digits(intensity[least])} FLOP a byte on {least}" + (
            f" and {digits(intensity[most])} on {most}" if most != least else ""),
        "Computed from published dense peaks and bandwidths, page 03.",
        ", ".join(f"{name} {value:.0f}" for name, value in intensity.items()) + ".")


def shapes(batch, computed, dropped):
    """Run-time shapes: rows computed for a token's row, and choices dropped, both against batch.

    Parameters
    ----------
    batch : array_like [n]
        Marked by points: between them a capacity, a whole number, jumps.
    computed : dict of str to array_like [n]
        Rows computed over rows that carry a token: three tiles, then two capacities.
    dropped : dict of str to array_like [n]
        Shares of choices dropped by those capacities.
    """
    x = batch_axis(domain=(1, float(max(batch))))
    styles = [(MOE, SOLID), (MOE, DASHED), (MOE, DOTTED), (MUTED, SOLID), (MUTED, DASHED)]
    looks = dict(zip(computed, styles, strict=False))
    share = {name: 100 * np.asarray(of, float) for name, of in dropped.items()}
    left = log_axis("value", "rows computed per token's row", around([*computed.values(), [1]]), format="~g")
    right = linear_axis("value", "% of choices dropped", (0, 1.1 * max(map(np.max, share.values()))))
    views = [alt.layer(*lines(of, x, y, looks, batch, wrap=12, size=12, narrow=0, height=260)).properties(
        width=200, height=260) for of, y in ((computed, left), (share, right))]
    tile, capacity = next(iter(computed)), next(iter(share))
    return finish(alt.hconcat(*views, spacing=16), "shapes",
        "Left, rows computed for every row that carries a token, against the batch. Right, the share "
        "of choices that a fixed capacity leaves out.",
        f"With {counted(batch[0], 'token')} {tile} compute {digits(computed[tile][0])} rows for each that counts; "
        f"{capacity} drops up to {digits(max(share[capacity]))} % of choices",
        "Computed for a uniform router, page 03.",
        f"Rows computed: {spans(computed)}. Dropped: {spans(share, '%')}.", beside=100)


def time_ratio(batch, ratios, peak, peak_says, ends):
    """Step time of mixtures over that of their dense twins, against batch.

    Parameters
    ----------
    batch : array_like [n]
    ratios : dict of str to array_like [n]
        Time ratios by model, the first one under study, at most three.
    peak, peak_says : float, str
        The batch at which a rule stands and the ratios are written, and what the rule says.
    ends : dict of str to float
        The batch by model from which the ratio is 1 again.
    """
    x, top = batch_axis(domain=(1, float(max(batch)))), 1.12 * max(map(np.max, ratios.values()))
    y, one = linear_axis("ratio", "step time, MoE over its twin", (0, top)), [{"batch": peak, "says": peak_says}]
    looks = dict(zip(ratios, [(MOE, SOLID), (MUTED, SOLID), (MUTED, DASHED)], strict=False))
    layers = [rule(one, LIMIT, x=x), words(one, "says", LIMIT, dy=10, x=x, y=alt.value(0))]
    study = next(iter(ratios))
    for name, values in ratios.items():
        color, at = looks[name][0], float(np.interp(peak, batch, values))
        mark, end = rows(batch=peak, ratio=at, says=f"{name}: {at:.1f}"), rows(batch=ends[name], ratio=1.0)
        layers += [line(rows(batch=batch, ratio=np.asarray(values, float), series=name), x, y, *looks[name],
                        interpolate="monotone"), dots(mark, x, y, color, 80), dots(end, x, y, color, 80),
                   words(mark, "says", color, "right", -9, -8, True, x=x, y=y)]
    return finish(alt.layer(*layers).properties(width=WIDTH, height=HEIGHT), "time_ratio",
        "Step time of a mixture over that of a dense model of its active size, against the batch. Dots at the dashed "
        "rule and where both take the same.",
        f"{study} takes up to {digits(np.max(ratios[study]))} times as long as its dense twin, and just as long from "
        f"{counted(ends[study], 'token')} on", "Computed: bounds for a uniform router, weights alone, page 03.",
        "; ".join(f"{name} the same from {ends[name]:,.0f}" for name in ratios) + ".")


def ladder(rungs):
    """Batches on one log axis, one a row, each with what it is.

    Parameters
    ----------
    rungs : dict of str to float
        Tokens in a step by what they are, at most 50 characters, so that a phone shows them.
    """
    batches = np.array(list(rungs.values()), float)
    table, domain = rows(batch=batches, says=list(rungs), row=np.arange(len(rungs)), low=16), (16, 32768)
    x, y = batch_axis(domain=domain), alt.Y("row:O", title=None, axis=None, sort="descending")
    return finish(alt.layer(
        rule(table, MOE, SOLID, 2, x=batch_axis(name="low", domain=domain), x2="batch:Q", y=y),
        dots(table, x, y, MOE, 110), words(table, "batch,,.0f", dx=9, bold=True, size=14, x=x, y=y),
        words(table, "says", dx=0, dy=-17, x=alt.value(2), y=y),
    ).properties(width=WIDTH, height=50 * len(rungs)), "ladder", "Batches on a log axis, one a row, with what each is.",
        f"Enough batch means anything from {batches.min():,.0f} to {counted(batches.max(), 'token')}",
        "Computed for a uniform router on an H200, page 03.",
        "; ".join(f"{batch:,.0f}, {what}" for what, batch in rungs.items()) + ".")


def kernels(roof, points):
    """Measured kernels under the roof of their device.

    Parameters
    ----------
    roof : (array_like, array_like)
        FLOP per byte and FLOP/s along the roof.
    points : dict of str to (array_like, array_like)
        FLOP per byte and measured FLOP/s, by model and software, at most three.
    """
    x = _intensity_axis("FLOP per byte of weights", around([roof[0]], pad=0.01))
    y = log_axis("rate", "FLOP/s", around([roof[1], *(rate for _, rate in points.values())]))
    layers = [line(rows(intensity=np.asarray(roof[0], float), rate=np.asarray(roof[1], float), series="the roof"), x, y,
                   LIMIT, width=3)]
    shares = []
    glyphs = [("circle", "●", 14), ("square", "■", 30), ("triangle-up", "▲", 46)]
    for (name, (at, rate)), (shape, glyph, dy) in zip(points.items(), glyphs, strict=False):
        at, rate = (np.asarray(of, float) for of in (at, rate))
        shares.append(rate / np.interp(at, *map(np.asarray, roof)))
        layers += [dots(rows(intensity=at, rate=rate, series=name), x, y, MEASURED, 75, shape),
                   words([{"says": f"{glyph} {name}"}], "says", MEASURED, "right", bold=True, x=alt.value("width"),
                         y=alt.value(220 + dy))]
    every = np.concatenate(shares)
    return finish(alt.layer(*layers).properties(width=WIDTH, height=320), "kernels",
        "Measured FLOP per second of expert layers, against FLOP per byte: green marks under the device's purple roof.",
        f"Measured expert layers reach {percents(every.min(), every.max())} of the roof",
        "Measured by NVIDIA, AIConfigurator (third party); roof from published figures.",
        spans({name: rate for name, (_, rate) in points.items()}, "TFLOP/s", 1e-12) + ".")


def contexts(batch, intensity, models, kinds, ridge, ridge_says):
    """Intensity against batch with and without a cache to read.

    Parameters
    ----------
    batch : array_like [n]
    intensity : array_like [2, 2, n]
        FLOP per byte by model and context; the first model is under study, the second context dashed.
    models, kinds : list of str
        What the models and the contexts are called.
    ridge, ridge_says : float, str
    """
    every = {f"{model}, {kind}": np.asarray(values, float) for model, of in zip(models, intensity, strict=True)
             for kind, values in zip(kinds, of, strict=True)}
    looks = dict(zip(every, [(MOE, SOLID), (MOE, DASHED), (MUTED, SOLID), (MUTED, DASHED)], strict=True))
    x, y = batch_axis(domain=(1, float(max(batch)))), log_axis(
        "intensity", "FLOP per byte read", around([*every.values(), [ridge]]))
    one, (without, cached) = [{"intensity": ridge, "batch": 1, "says": ridge_says}], list(every.values())[:2]
    return finish(alt.layer(
        rule(one, LIMIT, DOTTED, y=y), words(one, "says", LIMIT, dy=-9, x=x, y=y),
        *lines(every, x, y, looks, batch, smooth=True, wrap=18, size=12),
    ).properties(width=WIDTH, height=HEIGHT), "contexts",
        f"FLOP per byte read against the batch: solid, {kinds[0]}; dashed, {kinds[1]}.",
        f"With {max(batch):,.0f} sequences {models[0]} does {digits(without[-1])} FLOP a byte with {kinds[0]}, "
        f"{digits(cached[-1])} with {kinds[1]}", "Computed for a uniform router, page 03.", spans(every) + ".")
