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


def _chart(spec, place):
    told = spec.get("usermeta", {})
    spec.pop("title", None) if told.get("finding") else None  # JupyterLab's; a page has a heading of its own
    name = f"fig-{told.get('name', 'figure')}@{place}"  # book/_ext/figure_numbers.py makes it short
    first = re.split(r"[.:;](?:\s|$)", spec.get("description", ""), maxsplit=1)[0]
    said = {part: html.escape(told.get(part) or instead) for part, instead in (
        ("finding", first), ("drawing", ""), ("source", ""), ("sentence", ""))}
    spec = json.dumps(spec, separators=(",", ":")).replace("<", "\\u003c")
    return (f'<figure class="moe-figure moe-chart" id="{name}" aria-labelledby="{name}-finding">\n'
            f'<div class="moe-finding" id="{name}-finding">{said["finding"]}</div>\n'
            f'<noscript><p>A script draws this figure. {said["sentence"]}</p></noscript>\n'
            f'<figcaption><span class="moe-drawing">{said["drawing"]}</span> '
            f'<span class="moe-source">{said["source"]}</span></figcaption></figure>\n'
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
