"""Sphinx extension: what pages say about decks, homework and devices is read where it is kept, not typed again.

`{deck-minutes} 02_coverage` gives the minutes of a deck by part, from its speaker notes; `{homework-questions}` the
questions of every homework with their points; `{device-table}` the devices of `moe_lib` with their ridge points.
"""

import json
import re
from pathlib import Path

from docutils import nodes
from docutils.statemachine import StringList
from sphinx.util.docutils import SphinxDirective

from moe_lib.hardware import DEVICES
from moe_lib.roofline import ridge_point

PART = re.compile(r"^(## .+)$|<!--\s*notes (\d+(?:\.\d+)?) min:", re.MULTILINE)  # notes as book/slides.py reads them
QUESTION = re.compile(r"^## q(\d+)\. (.+?) \((\d+) points?(, in words)?\)$", re.MULTILINE)


def prose(notebook):
    """The Markdown of a notebook, one text."""
    cells = json.loads(Path(notebook).read_text(encoding="utf-8"))["cells"]
    return "\n\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown")


def minutes_by_part(text):
    """[(heading, minutes)] of a page's speaker notes: what stands before the first heading counts as the opening.

    >>> minutes_by_part("# A\\n<!-- notes 2 min: Hello. -->\\n## B\\n<!-- notes 3 min: So. --><!-- notes 1.5 min: -->")
    [('Opening', 2.0), ('B', 4.5)]
    """
    part, parts = "Opening", {}
    for heading, minutes in PART.findall(text):
        part = heading.removeprefix("## ") or part
        parts[part] = parts.get(part, 0.0) + float(minutes or 0)
    return [(part, minutes) for part, minutes in parts.items() if minutes]


def questions(text):
    """[(number, title, points, whether a person grades it)] of a homework.

    >>> questions("## q1. What a step reads (3 points)\\n## q2. Why? (4 points, in words)")
    [(1, 'What a step reads', 3, False), (2, 'Why?', 4, True)]
    """
    return [(int(number), title, int(points), bool(words)) for number, title, points, words in QUESTION.findall(text)]


def device_rows(devices):
    """A Markdown table of devices: what can be used of their memory, how fast it is read, and work for each byte.

    >>> print(device_rows([DEVICES["h200"]]).splitlines()[-1])
    | NVIDIA H200 SXM 141GB | 136 | 4.8 | 989 | 206 | 412 |
    """
    lines = ["| device | usable, GB | TB/s | TFLOP/s in BF16 | FLOP per byte, BF16 | FP8 |",
             "|---|--:|--:|--:|--:|--:|"]
    for device in devices:
        peaks = device.peak_flops_per_s
        ridges = [f"{ridge_point(device, dtype):.0f}" if dtype in peaks else "–" for dtype in ("bf16", "fp8")]
        peak = f"{peaks['bf16'] / 1e12:,.4g}" if "bf16" in peaks else "–"
        lines.append(f"| {device.name} | {device.usable_bytes / 1e9:,.3g} | "
                     f"{device.bandwidth_bytes_per_s / 1e12:.3g} | {peak} | {' | '.join(ridges)} |")
    return "\n".join(lines)


class MadeOfFacts(SphinxDirective):
    """A directive that becomes the Markdown which `says` makes of what it reads."""

    def says(self):
        """Markdown to show."""
        raise NotImplementedError

    def notebooks(self, pattern):
        """Notebooks of the book by their names; the page is read anew when one changes."""
        found = sorted(Path(self.env.srcdir, "notebooks").glob(f"{pattern}.ipynb"))
        if not found:
            raise self.error(f"no notebook is called {pattern}")
        for path in found:
            self.env.note_dependency(str(path))
        return found

    def run(self):
        """Show it."""
        node, lines = nodes.container(), StringList(self.says().splitlines(), source=self.env.docname)
        self.state.nested_parse(lines, self.content_offset, node)
        return node.children


class DeckMinutes(MadeOfFacts):
    """Minutes of a deck by part, in a line; nothing where it has no speaker notes."""

    required_arguments = 1

    def says(self):
        """One line."""
        (path,) = self.notebooks(self.arguments[0])
        parts = minutes_by_part(prose(path))
        each = " · ".join(f"{part} {minutes:g}" for part, minutes in parts)
        return f"**{sum(minutes for _, minutes in parts):g} minutes.** {each}" if parts else ""


class HomeworkQuestions(MadeOfFacts):
    """The questions of every homework and their points; what a person grades is marked."""

    def says(self):
        """A list."""
        lines = []
        for path in self.notebooks("homework/hw*"):
            text = prose(path)
            title = re.search(r"^# (?:Homework \d+\. )?(.+)$", text, re.MULTILINE)[1]
            points = sum(each[2] for each in questions(text))
            asked = " · ".join(f"{name} ({worth}{', in words' if words else ''})"
                               for _, name, worth, words in questions(text))
            lines.append(f"1. [{title}](../notebooks/homework/{path.name}) {points} points: {asked}")
        return "\n".join(lines)


class DeviceTable(MadeOfFacts):
    """All devices of `moe_lib`, a row each."""

    def says(self):
        """A table."""
        return device_rows(DEVICES.values())


def setup(app):
    """Register the directives."""
    app.add_directive("device-table", DeviceTable)
    app.add_directive("deck-minutes", DeckMinutes)
    app.add_directive("homework-questions", HomeworkQuestions)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
