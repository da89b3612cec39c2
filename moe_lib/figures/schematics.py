"""Schematics: pictures of how things work, to scale where that is possible, with steps to click through.

Each is a function of models, devices and counts that returns a `Schematic`. Colours mean what they mean in charts, and
a square is an expert.
"""

import numpy as np

from ..balance import balance, gpu_loads, max_over_mean
from ..hardware import DEVICES, LINKS
from ..layouts import Layout, layout_sequences, linear_placement
from ..models import CATALOG
from ..offload import expert_bytes
from ..roofline import compute_time, memory_time, step_time, transfer_time
from ..routing import experts_touched
from ..steps import decode_step, prefill, resident_bytes
from ._drawing import AMBER, INK, WIDTH, Schematic, arrow, box, circle, grid, in_rows, line, rect, square, text, tip
from ._style import ALWAYS, CACHE, MOE, MUTED, NIGHT, UNLIT, counted, digits, gigabytes, percent, times

V3, H200, SERVER, PCIE5 = CATALOG["deepseek-v3"], DEVICES["h200"], DEVICES["server-ddr5"], LINKS["pcie5-x16"]


def three_sizes(model=V3, batch=64, weight_bytes=2):
    """What is resident, read and computed with, as areas: one token beside a batch."""
    held, side = float(resident_bytes(model, weight_bytes=weight_bytes)), 250
    one, many = decode_step(model, [1, batch], weight_bytes=weight_bytes).bytes_read.tolist()
    titles, parts = "", []
    for x, tokens, read in ((2, 1, one), (352, batch, many)):
        titles += text(x, 24, counted(tokens, "token"), "start", bold=True)
        areas = [(held, "held:", NIGHT), (read, "read:", AMBER), (one, "a token uses", "#FFF")]
        for n, (size, words, color) in enumerate(areas):
            edge = side * np.sqrt(size / held)
            look = {"opacity": 0.55, "stroke": NIGHT} if n == 2 else {}
            parts.append(rect(x, 40 + side - edge, edge, edge, color, **look) + text(
                x + 26, 322 + 31 * n, f"{words} {gigabytes(size)}", "start") + rect(
                x + 1, 307 + 31 * n, 16, 16, color, radius=3, stroke=INK, stroke_width=1))
    grows = many / one
    return Schematic(
        name="three-sizes", height=396, marks=titles,
        finding=f"A step of {counted(batch, 'token')} reads {times(grows)} {'as much ' if grows >= 1.005 else ''}as a "
                f"step of one, and each token still computes with {gigabytes(one)}",
        drawing=f"Areas are to scale: weights of {model.name}, {counted(weight_bytes, 'byte')} each, uniform router, "
                "no caches.",
        description="Two equal squares, all weights that are held. In the left one the part that one token reads is "
                    f"small; in the right one {percent(many / held)} is read, for {batch} tokens.",
        steps=[(f"All weights are held, because any token may ask for any expert: {gigabytes(held)}.",
                parts[0] + parts[3]),
               (f"One token reads what it computes with, {gigabytes(one)}.", parts[1] + parts[2]),
               (f"{batch} tokens ask for different experts. Together they read {gigabytes(many)}, "
                f"{percent(many / held)} of what is held." if grows >= 1.005 else f"{batch} tokens read the same.",
                parts[4]),
               (f"Still, each of them computes with {gigabytes(one)}.", parts[5])])


def layer(model=V3):
    """A layer: attention, a router that scores all experts, the chosen ones, the shared one, their sum."""
    E, k, shared = model.num_experts, model.top_k, model.num_shared_experts
    places, size = in_rows(360, 44, 168, E)
    bottom = places[-1][1] + size / 1.6
    y, low = (44 + bottom) / 2, bottom + 66
    scores = np.random.default_rng(9).random(E) ** 2
    chosen = [places[i] for i in np.argsort(-scores)[:k]]
    glow = "".join(grid([places[i] for i in np.flatnonzero(np.ceil(5 * scores) == n)], size, AMBER, 0.15 * n)
                   for n in range(1, 6))
    steps = [("Attention lets the token look at those before it.",
              arrow(52, y, 74, y) + box(80, y - 28, 116, 56, ALWAYS, 0.15, "attention")),
             (f"The router gives each of the {E} experts a score.",
              arrow(200, y, 226, y) + box(232, y - 28, 84, 56, ALWAYS, 0.15, "router")
              + f'<g style="--to:2;--ghost:0">{glow}</g>'),
             (f"The {k} with the highest scores compute. This token reads no other." if k < E else "All compute.",
              "".join(line(f"M320 {y:g}C{(320 + a) / 2:g} {y:g} {(320 + a) / 2:g} {b:g} {a:g} {b:g}", AMBER, 1.5)
                      for a, b in chosen) + grid(chosen, size, AMBER))]
    if shared:
        named = "shared expert" if shared == 1 else f"{shared} shared experts"
        steps.append((f"The {named} {'serves' if shared == 1 else 'serve'} every token.",
                      line(f"M138 {y + 32:g}V{low - 12:g}q0 12 12 12H346{tip(346, low)}", ALWAYS)
                      + box(352, low - 24, 184, 48, ALWAYS, 0.15, named)
                      + line(f"M540 {low:g}h28q12 0 12 -12V{y + 22:g}{tip(580, y + 22, 0, -6)}", ALWAYS)))
    steps.append(("Their outputs, weighted by the scores, are added up.",
                  arrow(540, y, 558, y) + arrow(600, y, 632, y) + circle(580, y, 16)
                  + line(f"M572 {y:g}h16M580 {y - 8:g}v16")))
    ground = rect(352, 36, 184, bottom - 28, NIGHT, radius=8) + grid(places, size, UNLIT)
    return Schematic(
        name="layer", height=low + 26 if shared else bottom + 20, steps=steps,
        marks=circle(34, y, 12, filled=1.0) + text(34, y + 44, "token") + ground + text(444, 24, counted(E, "expert")),
        finding=f"In a layer of {model.name} a token reads " + (
            f"{k} of {E} experts, and which ones shows only when it gets there" if k < E else f"all {E} experts"),
        drawing="One token in one layer. Magenta: what every token uses. Amber: the experts that this one is sent to. "
                "The scores are made up; norms, and the way around each block, are left out.",
        description=f"From left to right a token, attention, a router, {E} experts of which {k} are lit, and a sum"
                    f"{'; the shared expert lies below, on a way around the router' if shared else ''}.")


def waking(choices=(2, 0, 2, 3), num_experts=4):
    """Tokens that arrive one at a time, and the experts that they light up; each picks one."""
    names, low, steps = [chr(65 + i) for i in range(num_experts)], 72 + 60 * num_experts, []
    for n, chosen in enumerate(choices, start=1):
        x, lit, new = 168 + 440 / max(len(choices) - 1, 1) * (n - 1), set(choices[:n]), chosen not in choices[:n - 1]
        column = "".join(square(x, 84 + 60 * i, 50, i in lit, name) for i, name in enumerate(names))
        steps.append((f"Token {n} picks expert {names[chosen]}, which {'lights up' if new else 'is lit already'}.",
                      text(x, 32, f"{n}", bold=True) + column + box(x - 29, 55 + 60 * chosen, 58, 58)
                      + text(x, low + 16, f"{len(lit)}", bold=True)
                      + text(x, low + 48, f"{experts_touched(num_experts, 1, n):.2f}")))
    late = len(choices) - len(set(choices))
    return Schematic(
        name="waking", height=low + 58, steps=steps,
        marks=text(0, 32, "token", "start") + text(0, low + 16, "lit\nin the mean", "start", leading=32),
        finding=f"{counted(len(choices), 'token')} touch{'es' if len(choices) == 1 else ''} {len(set(choices))} of "
                f"{num_experts} experts, because " + (
                    f"{late} of them find{'s' if late == 1 else ''} one that is lit already" if late else
                    "each picks another one" if len(choices) > 1 else "it picks one"),
        drawing=f"A layer of {num_experts} experts after each token, which picks one of them (ringed). Amber: lit, so "
                "a step reads it. Last line: the mean over all cases.",
        description=f"A column of {num_experts} squares for each token; lit are "
                    + ", ".join(str(len(set(choices[:n + 1]))) for n in range(len(choices))) + ".")


def pipe_and_wheel(model=V3, device=H200, batches=(64, 8192), weight_bytes=2):
    """The roofline as a machine: bytes come through a pipe, arithmetic is a wheel; one of them waits."""
    dtype, r, frames, flows, said = device.arithmetic(weight_bytes), 46, ["", ""], [], []
    for n, B in enumerate(batches):
        step, y = decode_step(model, B, weight_bytes=weight_bytes), 126 + 152 * n
        seconds = np.array([memory_time(step, device), compute_time(step, device, dtype)])
        pipe, wheel = (seconds / seconds.max()).tolist()
        said.append(f"the pipe is full and the wheel turns {percent(wheel)} of the time" if pipe >= wheel else
                    f"the wheel never rests and the pipe is busy {percent(pipe)} of the time")
        frames[0] += box(2, y - 44, 106, 88, words="memory") + line(f"M108 {y - 20}H436M108 {y + 20}H436")
        spokes = "".join(f"M506 {y}l{r * np.sin(a):.1f} {-r * np.cos(a):.1f}" for a in np.arange(6) * np.pi / 3)
        frames[1] += circle(506, y, r, stroke_opacity=0.25, stroke_width=13) + line(spokes, stroke_opacity=0.25)
        turn = 2 * np.pi * min(wheel, 0.9999)
        arc = f"M506 {y - r}A{r} {r} 0 {int(turn > np.pi)} 1 {506 + r * np.sin(turn):.2f} {y - r * np.cos(turn):.2f}"
        flows.append(text(2, y - 58, counted(B, "token"), "start", bold=True)
                     + rect(110, y + 18 - 36 * pipe, 326, 36 * pipe, MOE, radius=0)
                     + text(272, y + 46, f"busy {percent(pipe)}") + line(arc, MOE, 13, stroke_linecap="butt")
                     + text(638, y - 6, f"busy\n{percent(wheel)}", "end"))
    rates = f"{device.bandwidth_bytes_per_s / 1e12:.1f} TB/s", f"{device.peak(dtype) / 1e12:.0f} TFLOP/s"
    return Schematic(
        name="pipe-and-wheel", height=332,
        marks=text(272, 24, f"pipe: {rates[0]}") + text(506, 24, f"wheel: {rates[1]}"),
        finding=f"With {counted(batches[0], 'token')} {said[0]}; with {batches[1]:,} {said[1]}",
        drawing=f"A step of {model.name} on one {device.name}, {counted(weight_bytes, 'byte')} a weight, uniform "
                "router, no caches. Blue: how much of the time each of the two is busy, if they overlap fully.",
        description="Two rows, one for each batch: a pipe that leads from memory to a wheel, filled as far as they are "
                    "busy.",
        steps=[(f"Weights come through a pipe: {rates[0]}, and no faster.", frames[0]),
               (f"Arithmetic is a wheel: {rates[1]}, if it never waits.", frames[1]),
               *((f"{counted(B, 'token')}: {are}.", flow) for B, are, flow in zip(batches, said, flows, strict=True))])


def one_step(model=V3, contexts=(8192, 2048, 16384, 4096), weight_bytes=1):
    """A decode step with caches: what its sequences share, and what each brings."""
    caches = [float(model.kv_bytes_read(context)) for context in contexts]
    weights = float(decode_step(model, len(contexts), weight_bytes=weight_bytes).bytes_read)
    people = cells = reads = tokens = ""
    for n, size in enumerate(caches):
        y, end = 70 + 60 * n, 46 + 190 * size / max(caches)
        people += circle(17, y, 15, words=chr(65 + n))
        ticks = "".join(f"M{x:.1f} {y - 17}v34" for x in np.arange(46, end - 1, 9.5)[1:])
        cells += box(46, y - 17, end - 46, 34, CACHE, 0.2, radius=5) + line(ticks, CACHE, 1)
        reads += arrow(end + 22, y, 346, y, CACHE)
        tokens += (arrow(498, y, 554, y) + rect(564, y - 12, 24, 24, INK, radius=4)
                   + box(end, y - 17, 10, 34, CACHE, dash="3 4", radius=3))
    total = sum(caches)
    return Schematic(
        name="one-step", height=48 + 60 * len(caches),
        marks=people + text(46, 24, "a cache each", "start") + text(576, 24, "next token"),
        finding=f"{counted(len(caches), 'sequence')} share {gigabytes(weights)} of weights, but each brings a cache of "
                f"its own: together {gigabytes(total)}" + (", more than the weights" if total > weights else ""),
        drawing=f"One step of {model.name} in {8 * weight_bytes:g}-bit weights, uniform router. Caches of "
                f"{', '.join(f'{context:,}' for context in contexts)} tokens, to scale among themselves.",
        description=f"{len(caches)} rows that lead from a cache through one block of weights to a next token each.",
        steps=[("What a sequence has so far is kept as keys and values, in a cache of its own.", cells),
               (f"All {len(caches)} share the weights: a step reads them once.",
                box(352, 38, 140, 60 * len(caches) - 4, MOE, 0.15, f"weights,\nread once:\n{gigabytes(weights)}")),
               (f"Each cache is read for its own sequence alone, {gigabytes(total)} together.", reads),
               ("Each sequence gets one token, which makes its cache longer.", tokens)])


def chunks_beside_decoding(model=V3, device=H200, num_gpus=8, tokens=8192, chunk=2048, sequences=64, context=8192):
    """A prompt in one piece and in chunks, between the decode steps of others, on a time axis."""
    def ms(step):
        return 1e3 * np.ravel(step_time(step, device, "fp8", num_gpus).lower)

    (step,) = ms(decode_step(model, sequences, weight_bytes=1, context=context)).tolist()
    pieces = [ms(prefill(model, tokens, chunk=size, weight_bytes=1, all_logits=False)) for size in (tokens, chunk)]
    cut, scale = counted(len(pieces[1]), "chunk"), 636 / (step * (len(pieces[1]) + 1) + pieces[1].sum())
    waits, firsts = zip(*((digits(of.max()), digits(of.sum() + step * (len(of) - 1))) for of in pieces), strict=True)
    tracks, titles = [], ""
    for y, durations, title, wait, first in zip((50, 206), pieces, ("one piece", cut), waits, firsts, strict=True):
        starts = scale * (step * np.arange(1, len(durations) + 1) + np.cumsum(durations) - durations)
        end, widths = starts[-1] + scale * durations[-1], scale * durations
        steps = [*(starts - scale * step), *np.arange(end, WIDTH + 1 - scale * step, scale * step)]
        others = "".join(box(2 + x, y, scale * step - 4, 46, MOE, 0.2, radius=5) for x in steps)
        prompt = "".join(rect(1 + x, y, width - 2, 46, AMBER) for x, width in zip(starts, widths, strict=True))
        longest = int(np.argmax(durations > 0.98 * durations.max()))
        left, right = starts[longest] + 2, starts[longest] + widths[longest] - 2
        bracket = line(f"M{left:.1f} {y + 56}v8H{right:.1f}v-8") + text(
            np.clip((left + right) / 2, 110, 530), y + 88, f"others wait {wait} ms")
        side, shift = ("start", 8) if end < 320 else ("end", -8)
        flag = line(f"M{end:.1f} {y - 6}v-22") + text(end + shift, y - 13, f"first token at {first} ms", side)
        titles += text(2, y - 13, title, "start", bold=True)
        tracks.append((others, prompt + bracket, flag))
    (others_1, whole, soon), (others_n, parts, late) = tracks
    return Schematic(
        name="chunks-beside-decoding", height=330,
        marks=titles + arrow(566, 316, 634, 316) + text(554, 322, "time", "end"),
        finding=f"In {cut} a prompt makes the others wait {waits[1]} ms instead of {waits[0]}, but its own first token "
                f"comes after {firsts[1]} ms instead of {firsts[0]}",
        drawing=f"Bounds, to scale: {model.name} in FP8 on {num_gpus} {device.name}, a prompt of {tokens:,} tokens "
                f"(amber) between steps of {sequences} sequences of {context:,} tokens (blue).",
        description="Two rows of blocks along a time axis. Above, the prompt is one block between short steps; below "
                    f"it is {cut}, with a step before each.",
        steps=[(f"{counted(sequences, 'sequence')} decode. Each gets a token every {digits(step)} ms.",
                others_1 + others_n),
               (f"A prompt in one piece reads all weights once, and the others wait {waits[0]} ms.", whole + soon),
               (f"In {cut} it lets them through in between: they wait {waits[1]} ms at a time.", parts),
               ("But each chunk reads the weights again, so the prompt is done later.", late)])


def three_pipes(model=V3, device=H200, link=PCIE5, host=SERVER, weight_bytes=1):
    """The host's memory, the link and the card's memory as pipes of their true widths."""
    rates = np.array([host.bandwidth_bytes_per_s, link.bytes_per_s, device.bandwidth_bytes_per_s])
    size = expert_bytes(model, weight_bytes)
    took = [f"{digits(1e6 * seconds)} µs" for seconds in transfer_time(size, rates)]
    pipes = [rect(x1 + 2, 112 - 70 * rate / rates.max(), x2 - x1 - 4, 140 * rate / rates.max(), MOE, radius=0)
             + text((x1 + x2) / 2, 230, f"{rate / 1e9:,.0f}", bold=True) + text((x1 + x2) / 2, 256, "GB/s")
             + text((x1 + x2) / 2, 298, time)
             for x1, x2, rate, time in zip((100, 268, 472), (170, 374, 540), rates, took, strict=True)]
    boxes = "".join(box(x, 32, 98, 160, words=words) for x, words in (
        (2, "CPU"), (170, "host\nmemory\n "), (374, "card\nmemory\n "), (540, "GPU")))
    stock = "".join(square(x + 32 * n, 158, 24, n == 0 and x < 200) for x in (187, 391) for n in range(3))
    return Schematic(
        name="three-pipes", height=310,
        marks=boxes + stock + text(2, 230, "rate", "start") + text(2, 298, "expert", "start"),
        finding=f"A missing expert takes {took[1]} over the link and {took[0]} where it lies: for one token, " + (
            "the host should compute it" if rates[0] > rates[1] else "copy it"),
        drawing=f"Widths are to scale: {device.name}, {link.name.partition(',')[0]}, {host.name.partition(' (')[0]}. "
                f"One expert of a layer of {model.name} has {size / 1e6:.0f} MB.",
        description="CPU, host memory, card memory and GPU in a row, joined by three pipes; that of the "
                    f"{('host', 'link', 'card')[int(rates.argmin())]} is the narrowest.",
        steps=[(f"What lies on the card, the GPU reads in {took[2]} an expert.", pipes[2]),
               (f"An expert in host memory has to come over the link first, in {took[1]}.", pipes[1]),
               (f"Or the CPU multiplies it where it lies: {took[0]}, and only the token crosses.", pipes[0])])


def split_or_spread(model=V3, device=H200, num_gpus=8, context=8192, weight_bytes=1):
    """Two GPUs, four experts, two users: everything split, beside experts spread and attention copied."""
    ways = Layout(attention_tp=num_gpus, expert_tp=num_gpus), Layout(attention_dp=num_gpus, expert_parallel=num_gpus)
    fit = [f"{layout_sequences(model, way, device.usable_bytes, context=context, weight_bytes=weight_bytes):,.0f}"
           for way in ways]
    divides, whole, half = model.num_kv_heads > 1, (0.0, 1.0), [(0.0, 0.5), (0.5, 1.0)]

    def slab(x, y, height, color, part, words=""):
        return rect(x + 88 * part[0], y, 88 * (part[1] - part[0]), height, color, 0.3) + box(
            x, y, 88, height, color, words=words, radius=5, dash="" if part == whole else "4 5")

    frames, drawn = "", [["", "", ""], ["", "", ""]]  # of each way: attention and experts, caches, what is sent
    for spread, left in enumerate((124, 400)):
        middle = left + 117
        for n in range(2):
            x, part = left + 12 + 122 * n, whole if spread else half[n]
            frames += box(x - 12, 58, 112, 288) + text(x + 44, 50, f"GPU {n}")
            drawn[spread][0] += slab(x, 86, 40, ALWAYS, part)
            for i in range(2 * n, 2 * n + 2) if spread else range(4):
                at = x + 20 + 48 * (i % 2), 170 + (0 if spread else 48 * (i // 2))
                slot = "" if spread else box(at[0] - 20, at[1] - 20, 40, 40, MUTED, radius=4, dash="4 5")
                drawn[spread][0] += slot + square(*at, 40, words="ABCD"[i], share=part)
            for i, user in enumerate([n] if spread else [0, 1]):
                share = half[n] if divides and not spread else whole
                drawn[spread][1] += slab(x, 262 + 38 * i, 30, CACHE, share, f"{user + 1}")
        frames += text(middle, 22, ("split", "spread")[spread], bold=True)
        drawn[spread][2] = line(f"M{middle - 61} 354v10q0 8 8 8h106q8 0 8 -8v-10{tip(middle - 61, 354, 0, -6)}"
                                 f"{tip(middle + 61, 354, 0, -6)}") + text(
            middle, 398, ("partial sums", "tokens")[spread])
    (matrices, caches, sums), spread = drawn
    labels = {112: "attention", 176: "experts", 284: "caches", 398: "sent", 436: "fit"}
    return Schematic(
        name="split-or-spread", height=446,
        marks=frames + "".join(text(0, y, label, "start") for y, label in labels.items()),
        finding=("Split or spread, no cache is held twice" if divides else
                 "Split, every GPU holds everyone's cache; spread, only those of its own users")
        + f": {fit[0]} or {fit[1]} sequences fit",
        drawing="Two GPUs, four experts (A to D), two users. Dashed: the part that the other GPU holds. Last line: how "
                f"many sequences of {context:,} tokens {num_gpus} {device.name} hold beside {model.name} in "
                f"{8 * weight_bytes:g}-bit weights.",
        description="Two pairs of GPUs. Left, each has half of the attention, half of every expert and "
                    f"{'half of both caches' if divides else 'both caches'}. Right, each has all of the attention, two "
                    "whole experts and one cache.",
        steps=[("Split: each GPU holds half of every matrix.", matrices),
               ("Cached heads are split like the rest." if divides else
                "But heads share one cached entry, so each GPU keeps all caches.", caches),
               ("Spread: whole experts, a copy of the attention, the caches of own users.", spread[0] + spread[1]),
               ("Split, GPUs send partial sums to be added. Spread, they send tokens to experts, and back.",
                sums + spread[2]),
               (f"So {num_gpus} GPUs hold {fit[0]} sequences if split, {fit[1]} if spread.",
                text(241, 436, fit[0], bold=True) + text(517, 436, fit[1], bold=True))])


def there_and_back(choices, home, place, shown=0):
    """Dispatch and combine: tokens leave for the GPUs of their experts, and results come home.

    `choices` has the experts of each token, `home` and `place` the GPU of each token and of each expert; tokens of the
    GPU `shown` stand out.
    """
    choices, home, place = map(np.asarray, (choices, home, place))
    touched = set(choices.ravel().tolist())
    trips = [(n, gpu) for n, of in enumerate(choices) for gpu in sorted(set(place[of].tolist()))]
    copies, away = sum(gpu != home[n] for n, gpu in trips), int((place[choices] != home[:, None]).sum())
    tops = [38 + 84 * gpu for gpu in range(int(place.max()) + 1)]

    def column(x, owner, draw, frame=True):
        parts = [box(x, y, 124, 74) + text(x + 62, y + 23, f"GPU {gpu}") for gpu, y in enumerate(tops) if frame]
        for gpu, y in enumerate(tops):
            items = np.flatnonzero(owner == gpu).tolist()
            parts += [draw(x + 62 + 38 * (i - (len(items) - 1) / 2), y + 48, item) for i, item in enumerate(items)]
        return "".join(parts)

    def token(x, y, n):
        return circle(x, y, 15, MOE if home[n] == shown else MUTED, 0.25, f"{n}")

    def expert(x, y, n, lit=False):
        return square(x, y, 30, lit, words=f"{n}")

    def meets(gpu, items, n, pitch):  # the height at which a line meets the box of a GPU, one of several
        return tops[gpu] + 37 + pitch * (items.index(n) - (len(items) - 1) / 2)

    out = back = ""
    for n, gpu in sorted(trips, key=lambda trip: home[trip[0]] == shown):
        near = meets(home[n], np.flatnonzero(home == home[n]).tolist(), n, 22)
        far = meets(gpu, [m for m, to in trips if to == gpu], n, 9)
        look = (*((MOE, 2.5) if home[n] == shown else (MUTED, 1.5)), "1 5" if gpu == home[n] else "")
        out += arrow(130, near, 252, far, *look)
        back += arrow(388, far, 508, near, *look)
    return Schematic(
        name="there-and-back", height=tops[-1] + 78,
        marks=text(64, 22, "at home") + text(320, 22, "experts") + text(576, 22, "home again") + column(2, home, token)
        + column(258, place, expert),
        finding=f"Of {choices.size} choices {away} lie on another GPU, " + (
            f"but only {copies} copies travel, because one serves all experts of a GPU" if copies < away else
            "and as many copies travel"),
        drawing=f"{len(choices)} tokens (circles) on {len(tops)} GPUs choose {choices.shape[1]} of {len(place)} "
                f"experts (squares) each. Blue: tokens of GPU {shown}. Dotted: what stays on its GPU.",
        description="Three columns of GPUs, with the tokens, with the experts and with the tokens again, and lines "
                    "that lead from token to expert and back.",
        steps=[(f"Dispatch: a token goes to each GPU that holds one of its experts. {copies} copies travel.", out),
               ("Experts compute for whatever came.",
                column(258, place, lambda x, y, n: expert(x, y, n, n in touched), frame=False)),
               ("Combine: what they made of a token comes home, and is added up there.",
                back + column(514, home, token))])


def queue(loads=(8, 4, 2, 2), num_gpus=4, num_slots=8):
    """Tokens that queue for experts: one slot for each, then more slots, with replicas of the popular ones."""
    loads = np.asarray(loads, float)
    E, popular, base = len(loads), int(loads.argmax()), 262
    unit = 240 / gpu_loads(loads, range(E), num_gpus).max()
    placed = linear_placement(E, num_gpus), balance(loads, num_gpus, num_slots).expert_of_slot[0]
    queues, doors = ["", ""], ["", ""]
    for way, held in enumerate(placed):
        pieces, slots = gpu_loads(loads, held, len(held))[0].tolist(), len(held) // num_gpus
        for gpu in range(num_gpus):
            x, top = 36 + 352 * way + 72 * gpu, base
            for n, slot in enumerate(range(gpu * slots, gpu * slots + slots)):
                hot, rest = held[slot] == popular, pieces[slot] % 1
                look = (AMBER, 1.0) if hot else (INK, 0.35)
                for part in [1.0] * int(pieces[slot]) + [rest] * (rest > 0):
                    top -= unit * part
                    queues[way] += rect(x - 17, top + 1.5, 34, max(unit * part - 3, 1), *look)
                doors[way] += square(x - 16 * (slots - 1) + 32 * n, base + 24, 30, hot, chr(65 + held[slot]))
            doors[way] += text(x, base + 64, f"GPU {gpu}")
    worst = [float(max_over_mean(gpu_loads(loads, held, num_gpus))[0]) for held in placed]
    before, after = map(digits, worst)
    copies = len({slot * num_gpus // num_slots for slot in np.flatnonzero(placed[1] == popular).tolist()})
    level, name = base - unit * loads.sum() / num_gpus, chr(65 + popular)
    rules = [line(f"M{x} {level:g}h284", stroke_dasharray="6 6") for x in (2, 354)]
    return Schematic(
        name="queue", height=base + 72, marks=doors[0],
        finding=f"The fullest GPU has {before} times the mean" + (
            f"; with expert {name} on {counted(copies, 'GPU')}, {after} times" if worst[1] < worst[0] - 0.005 else
            ", and replicas do not change that"),
        drawing=f"{loads.sum():g} tokens at the GPUs of their experts, {E} slots beside {num_slots}. Dashed: the mean. "
                f"Amber: expert {name}, the most popular, and its tokens.",
        description=f"Queues of {', '.join(f'{load:g}' for load in loads)} tokens for {E} experts, and beside them the "
                    f"same tokens with {num_slots} slots.",
        steps=[("Tokens queue at the GPU of their expert.", queues[0]),
               (f"A layer is done when the fullest GPU is done, which has {before} times the mean.", rules[0]),
               (f"With {num_slots} slots, popular experts get replicas that share their tokens. The fullest GPU has "
                f"{after} times the mean.", queues[1] + doors[1] + rules[1]),
               (f"But a GPU now has {num_slots // num_gpus} experts to read instead of {E // num_gpus}, which pays "
                "only if computing takes longer than reading.", "")])
