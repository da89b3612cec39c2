"""What schematics are made of: a drawing with its words and steps, and text, boxes, experts and arrows to draw it from.

The HTML of a schematic needs no script. Colours, dashes and the like are named as in SVG.
"""

import html
from dataclasses import dataclass
from importlib import resources

import numpy as np

from ._style import LIT, NIGHT, UNLIT

INK, AMBER = "currentColor", LIT[1]
WIDTH = 640  # of every drawing: type of 20 is 11 px on a phone
OWN_KEYS = "data-lm-suppress-shortcuts"  # to JupyterLab: arrows move the step here, and not the cell
STYLE = (resources.files("moe_lib") / "data" / "schematic.css").read_text(encoding="utf-8")


@dataclass(frozen=True, slots=True, kw_only=True)
class Schematic:
    """A drawing with its words.

    Attributes
    ----------
    name : str
        What it is called in addresses: "layer" becomes #fig-layer.
    finding : str
        The title: what it shows, in a sentence computed from what is drawn.
    drawing, source : str
        The caption: what is drawn, what is left out, where numbers come from.
    description : str
        What one sees, for who does not see it.
    height : float
        Of the drawing, which is 640 wide.
    marks : str
        SVG that every step shows.
    steps : list of (str, str)
        A short sentence each, and the SVG that it adds.
    """

    name: str
    finding: str
    drawing: str
    description: str
    height: float
    marks: str
    steps: list
    source: str = ""

    def svg(self):
        """The drawing alone."""
        parts = "".join(f'<g style="--at:{n}">{marks}</g>' for n, (_, marks) in enumerate(self.steps, start=1))
        return tag("svg", self.marks + parts, xmlns="http://www.w3.org/2000/svg", role="img",
                   viewBox=f"0 0 {WIDTH} {self.height:g}", aria_label=html.escape(self.description), font_size=20,
                   fill=INK, stroke_width=2, stroke_linecap="round", stroke_linejoin="round")

    def _repr_mimebundle_(self, include=None, exclude=None, **_):
        steps = "".join(
            f'<label style="--at:{n}"><input type="radio" name="step" value="{n}" {OWN_KEYS}>'
            f'<b aria-hidden="true">{n}</b><span>{html.escape(said)}</span></label>'
            for n, (said, _) in enumerate(self.steps, start=1))
        said = {key: html.escape(getattr(self, key)) for key in ("finding", "drawing", "source")}
        name = f"fig-{self.name}"
        figure = (f'<figure class="moe-figure moe-schematic" id="{name}" aria-labelledby="{name}-finding">'
                  f'<style>{STYLE}</style><div class="moe-finding" id="{name}-finding">{said["finding"]}</div>'
                  f'<div class="moe-stage">{self.svg()}<form method="dialog" autocomplete="off"><fieldset>'
                  f"<legend>Steps of the drawing</legend>{steps}</fieldset>"  # a form of method "dialog" goes nowhere
                  f'<button type="reset" {OWN_KEYS}><b></b>All of it</button></form></div>'
                  f'<figcaption><span class="moe-drawing">{said["drawing"]}</span> '
                  f'<span class="moe-source">{said["source"]}</span></figcaption></figure>')
        return {"text/html": figure, "text/plain": f"{self.finding}. {self.description}"}


def tag(name, inside="", **look):
    said = {key if key == "viewBox" else key.replace("_", "-"): value for key, value in look.items() if value != ""}
    return f"<{name}{''.join(f' {key}=' + _quoted(value) for key, value in said.items())}>{inside}</{name}>"


def _quoted(value):
    return f'"{value:.5g}"' if isinstance(value, float) else f'"{value}"'


def text(x, y, words, anchor="middle", bold=False, color=INK, leading=25):
    return "".join(tag("text", html.escape(said), x=x, y=y + leading * n, fill=color, text_anchor=anchor,
                       font_weight=650 if bold else "") for n, said in enumerate(words.split("\n")))


def rect(x, y, width, height, color, opacity=1.0, radius=5, **look):
    return tag("rect", x=x, y=y, width=width, height=height, rx=radius, fill=color, fill_opacity=opacity, **look)


def box(x, y, width, height, color=INK, filled=0.0, words="", dash="", radius=8):
    """A frame with words in its middle."""
    return (rect(x, y, width, height, color, filled, radius, stroke=color, stroke_dasharray=dash)
            + (text(x + width / 2, y + height / 2 + 7 - 12.5 * words.count("\n"), words) if words else ""))


def circle(x, y, radius, color=INK, filled=0.0, words="", **look):
    return tag("circle", cx=x, cy=y, r=radius, fill=color, fill_opacity=filled, stroke=color, **look) + (
        text(x, y + 7, words) if words else "")


def square(x, y, size, lit=False, words="", share=(0.0, 1.0)):
    """A square around a middle, lit where it is read; `share` says which slice of it."""
    left, width = x + size * (share[0] - 0.5), size * (share[1] - share[0])
    return rect(left, y - size / 2, width, size, AMBER if lit else UNLIT, radius=max(1.5, size / 9)) + (
        text(left + width / 2, y + 7, words, color=NIGHT if lit else "#FFFFFF") if words else "")


def grid(places, size, color, opacity=1.0):
    """Squares without names, as one path."""
    inner = 0.8 * size  # a stroke rounds the corners
    path = "".join(f"M{x - inner / 2:.4g} {y - inner / 2:.4g}h{inner:.3g}v{inner:.3g}h{-inner:.3g}z" for x, y in places)
    return tag("path", d=path, fill=color, stroke=color, stroke_width=0.2 * size, opacity=opacity)


def line(path, color=INK, width=2.0, **look):
    return tag("path", d=path, fill="none", stroke=color, stroke_width=width, **look)


def tip(x, y, dx=6, dy=0):
    """The path of an arrow's head that points along (dx, dy)."""
    return f"M{x - dx - dy:g} {y - dy - dx:g}L{x:g} {y:g}L{x - dx + dy:g} {y - dy + dx:g}"


def arrow(x1, y1, x2, y2, color=INK, width=2.0, dash=""):
    """An arrow to the right that leaves and arrives level."""
    turn = (x1 + x2) / 2
    path = f"M{x1:g} {y1:g}C{turn:g} {y1:g} {turn:g} {y2:g} {x2:g} {y2:g}"
    return line(path, color, width, stroke_dasharray=dash) + line(tip(x2, y2), color, width)


def in_rows(x, y, side, count):
    """Middles of `count` squares in rows, as wide as `side` together, and their size."""
    columns = int(np.ceil(np.sqrt(count)))
    pitch = side / columns
    return [(x + pitch * (i % columns + 0.5), y + pitch * (i // columns + 0.5)) for i in range(count)], 0.8 * pitch
