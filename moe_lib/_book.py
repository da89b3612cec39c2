"""Book side of outputs with two faces: how a page draws its own one (a myst-nb plugin, found by entry point)."""

import html
import json
import re

from docutils import nodes
from myst_nb.core.render import MimeRenderPlugin

VEGALITE = "application/vnd.vegalite.v5+json"
PREDICTION = "application/vnd.moe.prediction+json"


class OwnFaces(MimeRenderPlugin):
    """Puts a chart's specification, or a prediction's form, on the page; scripts in book/_static bring them to life."""

    # widget views have 10, and the lowest is taken; Markdown goes before HTML, because its links are resolved
    mime_priority_overrides = [(builder, mime, priority) for builder in ("html", "dirhtml")
                               for mime, priority in ((VEGALITE, 1), (PREDICTION, 1), ("text/markdown", 15))]

    @staticmethod
    def handle_mime(renderer, data, inline):
        """Nodes for an output of ours, None for anything else."""
        draw = {VEGALITE: _chart, PREDICTION: _prediction}.get(data.mime_type)
        if draw is None or inline:
            return None
        text = draw(data.content, f"{data.cell_index}-{data.output_index}")
        return [nodes.raw(text=text, format="html", classes=["output"])]


def short_name(description):
    """The name of a figure in a few words: its description up to the first full stop, colon or semicolon.

    >>> print(short_name("Rows computed, against the batch. Left, log-log, rows that carry a token."))
    Rows computed, against the batch
    """
    return re.split(r"[.:;](?:\s|$)", description, maxsplit=1)[0]


def _chart(spec, place):
    name, words = f"chart-{place}", spec.get("description", "")
    label, words = html.escape(short_name(words)), html.escape(words)
    spec = json.dumps(spec, separators=(",", ":")).replace("<", "\\u003c")
    words = f"<noscript><p>A figure, drawn by a script: {words}</p></noscript>"
    return (f'<div class="moe-chart" id="{name}" role="figure" aria-label="{label}">{words}</div>\n'
            f'<script type="application/json" data-chart="{name}">{spec}</script>')


def _prediction(asked, place):
    said = {key: html.escape(str(value)) for key, value in asked.items()}
    return (f'<form class="moe-predict" autocomplete="off" data-answer="{said["answer"]}">\n'
            f'<p class="question" id="ask-{place}">{said["question"]}</p>\n'
            f'<label for="guess-{place}">Your prediction</label> <input id="guess-{place}" type="number" step="any" '
            f'required aria-describedby="ask-{place}"> <span class="unit">{said["unit"]}</span> '
            f'<button type="submit">Commit</button>\n<div role="status"><p class="answer" hidden>'
            f'<span class="verdict"></span> {said["source"]}: <strong>{said["text"]}</strong>. {said["why"]}</p></div>'
            f'<noscript><p>{said["source"]}: {said["text"]}. {said["why"]}</p></noscript></form>')
