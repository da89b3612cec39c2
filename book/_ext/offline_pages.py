"""Sphinx extension: pages that open from disk, load nothing from elsewhere and load only the scripts they use.

Vega and MathJax are copied out of installed packages into the built site, so nothing of theirs lies in the repository.
It also says which cell failed when a notebook did.
"""

import re
import shutil
from importlib.metadata import distribution
from pathlib import Path

import vl_convert
from myst_nb.sphinx_ import NbMetadataCollector
from sphinx.util import logging

FILES_OF = {  # what a page must show for a file to be loaded
    'class="moe-chart"': ("vendor/vega-embed.js", "moe-chart.js", "controls.css", "moe-chart.css"),
    'class="moe-predict"': ("moe-predict.js",),
}
MATHJAX_PARTS = ("tex-svg.js", "input/tex/extensions", "output/svg/fonts")  # the rest is never asked for
WIDGET_STATE = "application/vnd.jupyter.widget-state+json"


def copy_vendor(app):
    """Write Vega-Embed and MathJax into the site's _static/vendor."""
    vendor = Path(app.outdir, "_static", "vendor")
    vendor.mkdir(parents=True, exist_ok=True)
    bundle = vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;")
    (vendor / "vega-embed.js").write_text(f"(() => {{{bundle}}})();\n", encoding="utf-8")
    mathjax = Path(distribution("sphinx-mathjax-offline").locate_file("sphinx-mathjax-offline/static/mathjax"))
    for part in MATHJAX_PARTS:
        source, target = mathjax / part, vendor / "mathjax" / part
        if source.is_dir():
            shutil.copytree(source, target, dirs_exist_ok=True)
        else:
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, target)


def keep_used_files(app, pagename, templatename, context, doctree):
    """Drop files that a page does not use, and Thebe and saved widget state from all."""
    body = context.get("body", "")
    unused = tuple(name for mark, names in FILES_OF.items() if mark not in body for name in names)

    def used(file):
        name = str(getattr(file, "filename", None) or "")
        attributes = getattr(file, "attributes", {})
        if "thebe" in name or "thebe" in (attributes.get("body") or "").lower():
            return False
        if attributes.get("type") == WIDGET_STATE:
            return False
        return not name.endswith(unused)

    for files in ("script_files", "css_files"):
        context[files] = [file for file in context.get(files, []) if used(file)]


def name_failed_cells(app, exception):
    """Say at the end of the build which cell of which notebook failed and how."""
    for docname in sorted(app.env.found_docs) if app.env else ():
        run = NbMetadataCollector.get_exec_data(app.env, docname)
        if run and run["traceback"]:
            text = re.sub(r"\x1b\[[0-9;]*m", "", run["traceback"]).strip()
            cell = re.search(r"Cell In\s*\[(\d+)\]", text)
            where = f"code cell {cell[1]}" if cell else "a code cell that did not end in time"
            message = re.findall(r"^\w+: .*|^\w*(?:Error|Interrupt)$", text, flags=re.MULTILINE)
            why = message[-1] if message else text
            logging.getLogger(__name__).error("%s.ipynb: %s failed: %s", docname, where, why)


def setup(app):
    """Register the files and the hooks."""
    own = [name for names in FILES_OF.values() for name in names]
    for priority, name in enumerate((name for name in own if name.endswith(".js")), start=600):
        app.add_js_file(name, priority=priority, loading_method="defer")
    for name in (name for name in own if name.endswith(".css")):
        app.add_css_file(name, priority=900)
    app.connect("builder-inited", copy_vendor)
    app.connect("html-page-context", keep_used_files, priority=990)
    app.connect("build-finished", name_failed_cells)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
