"""Sphinx extension: the picture that shows where a link to a page is shared, 1200 x 630 pixels, made at each build.

A page with figures has a card of its own: what the figure finds, and the figure, light on the book's navy. The figure
is the one whose cell has the tag `card`, else the first. All other pages share the cover: one simulated step of
DeepSeek-V3 at four batches, computed here by the library. A page names its card in its head and never loads it.
"""

import html
import json
import re
import time
from functools import cache
from io import BytesIO
from pathlib import Path

import font_source_serif_pro
import numpy as np
import vl_convert
from docutils import nodes
from fontTools.ttLib import TTFont
from page_frame import UNIT
from PIL import Image
from sphinx.util import logging

from moe_lib.figures._style import SERIES, counted, digits, gigabytes, percent
from moe_lib.models import CATALOG
from moe_lib.routing import sample_routing
from moe_lib.steps import decode_step, resident_bytes

SIZE = WIDTH, HEIGHT = 1200, 630
MARGIN, FOOT = 56, 590  # px: left and right of everything, and the line on which the footer stands
NAVY, UNLIT, PALE, QUIET, AMBER = "#14304C", "#25425F", "#F4F7FA", "#A9BCCF", "#F2A65A"
LIT = ("#A8662B", "#F2A65A", "#FFD08A", "#FFF6E4")  # from one token to the busiest expert
FONT = "Source Serif Pro"
FACES = {400: "SourceSerifPro-Regular.ttf", 600: "SourceSerifPro-Semibold.ttf"}
HEADLINES = ((50, 1), (46, 2), (38, 2), (34, 3))  # px of the letters, and how many lines of them there may be
FIGURE_SCALE, ROW_SCALE = 1.7, 1.35  # a figure's 12 px letters are so many times as large; those of views in a row
CONTRAST = 4.5  # of a figure's colours on the navy
COVER_BATCHES = 1, 8, 64, 256
COVER = "_static/cards/cover.png", "Four walls of 256 experts, lit by the tokens of one step: 1, 8, 64 and 256 of them"
CHART = re.compile(r'<script type="application/json" data-chart="[^"]*">(.*?)</script>', re.DOTALL)


def finding_of(spec):
    """What a figure finds, in a sentence, for the state in which it starts."""
    found = spec.get("usermeta", {}).get("finding")
    if isinstance(found, str):
        return found.removesuffix(".")
    return re.split(r"\.(?:\s|$)", spec.get("description", ""), maxsplit=1)[0]


def best_figure(doctree):
    """Specification of the figure for a page's card; None where the page has none."""
    charts = {node: CHART.search(node.astext()) for node in doctree.findall(nodes.raw)}
    charts = {node: json.loads(found[1]) for node, found in charts.items() if found}
    tagged = [spec for node, spec in charts.items() if any("tag_card" in each for each in _classes(node))]
    return next(iter([*tagged, *charts.values()]), None)


def _classes(node):
    while node is not None:
        yield getattr(node, "attributes", {}).get("classes", [])
        node = node.parent


@cache
def _face(weight):
    font = TTFont(Path(font_source_serif_pro.font_directory, FACES[weight]))
    return font.getBestCmap(), font["hmtx"], font["head"].unitsPerEm


def text_width(text, size, weight=400):
    """Width of a line in px, kerning left out.

    >>> print(round(text_width("64 tokens", 46, 600)))
    198
    """
    letters, advances, em = _face(weight)
    return sum(advances[letters.get(ord(letter), ".notdef")][0] for letter in text) * size / em


def wrapped(text, size, weight, width):
    """The lines of a text, as few as fit and then about equally long.

    >>> print(wrapped("64 tokens already read most of the experts", 46, 600, 700))
    ['64 tokens already read', 'most of the experts']
    """
    def filled(width):
        lines = []
        for word in UNIT.sub("\u00a0", text).split(" "):
            longer = f"{lines[-1]} {word}" if lines else word
            if lines and text_width(longer, size, weight) <= width:
                lines[-1] = longer
            else:
                lines.append(word)
        return lines

    fewest = filled(width)
    narrower = (filled(width * step / 20) for step in range(10, 20))
    return next((lines for lines in narrower if len(lines) == len(fewest)), fewest)


def said(text, x, y, size, fill=PALE, weight=400, anchor="start"):
    """A line of text as SVG."""
    return (f'<text x="{x:g}" y="{y:g}" font-size="{size}" font-weight="{weight}" fill="{fill}" '
            f'text-anchor="{anchor}">{html.escape(text)}</text>')


def headline(text, top):
    """(SVG of a headline, the line on which it ends): the largest letters with which it takes few lines."""
    for size, most in HEADLINES:
        lines = wrapped(text, size, 600, WIDTH - 2 * MARGIN)
        if len(lines) <= most:
            break
    lines = lines if len(lines) <= most else [*lines[:most - 1], f"{lines[most - 1]} …"]
    ends = [top + size * (0.82 + 1.14 * i) for i in range(len(lines))]
    return "".join(said(line, MARGIN, y, size, weight=600) for line, y in zip(lines, ends, strict=True)), ends[-1]


def card(drawn, left, right=""):
    """A whole card as SVG: its drawing on the ground, and the footer below."""
    foot = said(left, MARGIN, FOOT, 19, QUIET, 600) + said(right, WIDTH - MARGIN, FOOT, 19, QUIET, anchor="end")
    return (f'<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" width="{WIDTH}" '
            f'height="{HEIGHT}" font-family="{FONT}"><rect width="{WIDTH}" height="{HEIGHT}" fill="{NAVY}"/>'
            f'<rect width="{WIDTH}" height="8" fill="{AMBER}"/>{drawn}{foot}</svg>')


def channels(colour):
    """Red, green and blue of #RRGGBB in 0-1."""
    return np.array([int(colour[at:at + 2], 16) for at in (1, 3, 5)]) / 255


def mixed(colours, share):
    """The colour at a share of the way through some colours.

    >>> print(mixed(("#000000", "#FF0000", "#FFFFFF"), 0.75))
    #FF8080
    """
    parts = np.array([channels(colour) for colour in colours]).T
    found = [np.interp(share, np.linspace(0, 1, len(colours)), part) for part in parts]
    return "#{:02X}{:02X}{:02X}".format(*(round(255 * part) for part in found))


def luminance(colour):
    """Relative luminance of a colour, as contrast is computed from it."""
    parts = channels(colour)
    return float(np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4) @ (0.2126, 0.7152, 0.0722))


def brightened(colour):
    """A colour with as much white in it as it needs on the navy."""
    tints = (mixed((colour, "#FFFFFF"), share) for share in np.linspace(0, 1, 21))
    return next(tint for tint in tints if luminance(tint) + 0.05 >= CONTRAST * (luminance(NAVY) + 0.05))


def fitted(spec, width, height):
    """A figure for a frame, in its own px: a single view fills it; views in a row do, but for their axes.

    Its letters are the book's, which come with a package. The name of a y axis lies above it, where there is room.
    """
    above = {"titleAngle": 0, "titleAlign": "left", "titleBaseline": "bottom", "titleX": 0, "titleY": -8}
    config = spec.get("config", {})
    config = {**config, "font": FONT, "axisY": {**above, "titleLimit": width},
              "legend": {**config.get("legend", {}), "offset": 26}}
    spec = {**spec, "config": config}
    if "hconcat" not in spec:
        return {**spec, "width": width, "height": height, "autosize": {"type": "fit", "contains": "padding"}}
    views, whole = spec["hconcat"], sum(view.get("width", 300) for view in spec["hconcat"])
    return {**spec, "hconcat": [{**view, "width": view.get("width", 300) * width / whole, "height": height}
                                for view in views]}


def drawn_in(spec, x, y, width, height):
    """A figure as SVG within a frame of the card: light lines, and colours that stand out on navy."""
    frame = np.array((width, height)) / (ROW_SCALE if "hconcat" in spec else FIGURE_SCALE)
    svg, own = _drawn(spec, frame)
    if "hconcat" in spec:  # now it is known what the axes of its views take
        svg, own = _drawn(spec, 2 * frame - own)
    for colour in SERIES:
        svg = re.sub(colour, brightened(colour), svg, flags=re.IGNORECASE)
    scale = min((width, height) / own)
    x += (width - own[0] * scale) / 2
    return f'<g transform="translate({x:.1f} {y:.1f}) scale({scale:.4f})" color="{PALE}">{svg}</g>'


def _drawn(spec, frame):
    """(SVG of a figure, its size) that was meant for a frame."""
    svg = vl_convert.vegalite_to_svg(fitted(spec, *frame), vl_version="5.8")
    return svg, np.array([float(re.search(rf'\b{side}="([\d.]+)"', svg)[1]) for side in ("width", "height")])


def figure_card(question, spec, book):
    """The card of a page: the question, what its figure finds, and the figure."""
    found, end = headline(finding_of(spec), 92)
    top = end + 30
    drawn = drawn_in(spec, MARGIN, top, WIDTH - 2 * MARGIN, FOOT - 34 - top)
    source = spec.get("usermeta", {}).get("source", "An executable textbook chapter")
    return card(said(question, MARGIN, 70, 22, AMBER) + found + drawn, book, source)


def wall(tokens, x, y, side):
    """One layer as squares, an expert each, brighter the more tokens it got; none: unlit."""
    across = int(np.sqrt(len(tokens)))
    pitch = side / across
    squares = []
    for expert, count in enumerate(tokens):
        row, column = divmod(expert, across)
        colour = mixed(LIT, np.log(count) / np.log(16)) if count else UNLIT
        squares.append(f'<rect x="{x + column * pitch:.2f}" y="{y + row * pitch:.2f}" width="{pitch - 2:.2f}" '
                       f'height="{pitch - 2:.2f}" rx="2" fill="{colour}"/>')
    return "".join(squares)


def cover_card(book):
    """The cover: the experts that 1, 8, 64 and 256 tokens light, what such a step reads, and its intensity."""
    model = CATALOG["deepseek-v3"]
    step = decode_step(model, np.array(COVER_BATCHES), weight_bytes=2)
    chosen = sample_routing(np.random.default_rng(0), max(COVER_BATCHES), model.num_experts, model.top_k)
    share = step.bytes_read[2] / resident_bytes(model, weight_bytes=2)
    found, end = headline(f"{COVER_BATCHES[2]} tokens already read {percent(share)} of {model.name}", 46)
    drawn = [found, said(f"Each square is an expert of one layer; brighter, more tokens. A token picks {model.top_k} "
                         f"of {model.num_experts}.", MARGIN, end + 44, 23, QUIET)]
    side, top = 242, end + 128
    for i, batch in enumerate(COVER_BATCHES):
        x = MARGIN + i * (WIDTH - 2 * MARGIN - side) / (len(COVER_BATCHES) - 1)
        tokens = np.bincount(chosen[:batch].ravel(), minlength=model.num_experts)
        lit = str(np.count_nonzero(tokens))
        of = f" of {model.num_experts} read"
        drawn += [said(counted(batch, "token"), x, top - 16, 24, weight=600), wall(tokens, x, top, side),
                  said(lit, x, top + side + 36, 30, AMBER, 600),
                  said(of, x + text_width(lit, 30, 600) + 6, top + side + 36, 22),
                  said(f"{gigabytes(step.bytes_read[i])} a step · {digits(step.intensity[i])} FLOP/byte",
                       x, top + side + 66, 17, QUIET)]
    return card("".join(drawn), book, "One simulated step; bytes and FLOP expected over many. Uniform router, BF16.")


def choose(app, pagename, templatename, context, doctree):
    """Put into the context of a page the file of its card and what it shows; keep the figure that goes on it."""
    spec = None if doctree is None or pagename == app.config.root_doc else best_figure(doctree)
    context["moe_card"] = (f"_static/cards/{Path(pagename).name}.png", finding_of(spec)) if spec else COVER
    if spec:
        app.moe_cards[context["moe_card"][0]] = app.env.titles[pagename].astext(), spec


def smaller(png):
    """A PNG of the colours that matter: a quarter of the bytes, and no eye sees it."""
    found = BytesIO()
    Image.open(BytesIO(png)).convert("RGB").quantize(256, dither=Image.Dither.NONE).save(found, "PNG", optimize=True)
    return found.getvalue()


def write(app, exception):
    """Draw all cards."""
    if exception is not None or app.builder.format != "html":
        return
    start, book = time.perf_counter(), app.config.html_title
    Path(app.outdir, "_static", "cards").mkdir(exist_ok=True)
    vl_convert.register_font_directory(str(font_source_serif_pro.font_directory))
    cards = {file: figure_card(*of, book) for file, of in app.moe_cards.items()} | {COVER[0]: cover_card(book)}
    for file, drawn in cards.items():
        Path(app.outdir, file).write_bytes(smaller(vl_convert.svg_to_png(drawn)))
    logging.getLogger(__name__).info("%d share cards in %.1f s", len(cards), time.perf_counter() - start)


def setup(app):
    """Register the hooks."""
    app.moe_cards = {}
    app.connect("html-page-context", choose)
    app.connect("build-finished", write)
    return {"parallel_read_safe": True, "parallel_write_safe": False}  # figures are kept in this process
