"""Book side of a two-faced output: how a page draws its Vega-Lite face (a myst-nb plugin, found by entry point)."""

import json

from docutils import nodes
from myst_nb.core.render import MimeRenderPlugin

VEGALITE = "application/vnd.vegalite.v5+json"


class VegaLiteRenderer(MimeRenderPlugin):
    """Puts the chart's specification on the page; `book/_static/moe-chart.js` draws it."""

    mime_priority_overrides = [(builder, VEGALITE, 1) for builder in ("html", "dirhtml")]  # widget views have 10

    @staticmethod
    def handle_mime(renderer, data, inline):
        """Nodes for a Vega-Lite output, None for anything else."""
        if data.mime_type != VEGALITE or inline:
            return None
        name = f"chart-{data.cell_index}-{data.output_index}"
        spec = json.dumps(data.content, separators=(",", ":")).replace("<", "\\u003c")
        html = (
            f'<div class="moe-chart" id="{name}"></div>\n'
            f'<script type="application/json" data-chart="{name}">{spec}</script>'
        )
        return [nodes.raw(text=html, format="html", classes=["output"])]
