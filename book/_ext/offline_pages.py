"""Sphinx extension: pages that open from disk, load nothing from elsewhere and load only the files they use.

Vega, MathJax and the typeface are copied out of installed packages into the built site, so nothing of theirs lies in
the repository. It also says which cell failed when a notebook did.
"""

import re
import shutil
from importlib.metadata import distribution
from pathlib import Path

import font_source_serif_pro
import vl_convert
from fontTools import subset
from myst_nb.sphinx_ import NbMetadataCollector
from sphinx.util import logging

OWN_FILES = {  # what a page must show for files of ours to be loaded
    'moe-chart" id="': ("vendor/vega-embed.js", "moe-table.js", "moe-chart.js"),
    'class="moe-figure': ("controls.css", "moe-chart.css"),
    'class="moe-predict"': ("moe-predict.js",),
    'class="moe-fold': ("code-folds.css", "code-folds.js"),
}
FILES_OF = OWN_FILES | {  # and files of the theme and of extensions
    'class="highlight"': ("pygments.css", "copybutton.css", "copybutton.js", "clipboard.min.js"),
    'class="cell ': ("mystnb.",),
    "dropdown admonition": ("togglebutton.css", "togglebutton.js"),
    'class="exercise': ("exercise.css",),
    "sd-": ("sphinx-design.min.css",),
    "sd-tab-set": ("design-tabs.js",),
    "<!-- templates name these themselves -->": ("moe-search.js", "moe-download.js"),
    "<!-- in place of this there is moe-search.js -->": ("searchtools.js", "language_data.js"),
    "<!-- no page starts a kernel -->": ("thebe",),
}
INLINE_OF = {"thebe": "thebe", "toggle": "dropdown admonition"}  # a word of an inline script, what a page must show
WIDGET_STATE = "application/vnd.jupyter.widget-state+json"
KERNEL_SCRIPTS = re.compile(r'<script type="text/x-thebe.*?</script>\s*<script>kernelName = .*?</script>', re.DOTALL)

MATHJAX_PARTS = ("tex-chtml.js", "input/tex/extensions", "output/chtml/fonts/woff-v2")  # the rest is never asked for
FACES = {"regular": "SourceSerifPro", "italic": "SourceSerifProIt", "semibold": "SourceSerifProSemibold"}
LETTERS = [*range(0x20, 0x180), *range(0x2010, 0x2040), *map(ord, "€™←↑→↓−≈≠≤≥")]
UNUSED_RULES = re.compile(r"@font-face\{[^}]*Awesome[^}]*\}|(?<=[}/])(?:\.fa[bsr]?\b|\.fa-)[^{}]*\{[^{}]*\}")
UNUSED_FILES = ("scripts/fontawesome.js*", "scripts/bootstrap.js*", "scripts/*.map", "styles/*.map", "images",
                "locales", "vendor/fontawesome", "sphinx-thebe.*", "*webpack-macros.html")  # fmt: skip


def copy_vendor(app):
    """Write Vega-Embed, MathJax and the typeface into the site's _static/vendor."""
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
    write_faces(vendor / "fonts")


def write_faces(folder):
    """Write the typeface of the text, cut to the letters of European languages, with its licence."""
    folder.mkdir(exist_ok=True)
    for name in FACES:
        cut_face(name, LETTERS, folder / f"source-serif-{name}.woff2")
    shutil.copyfile(Path(font_source_serif_pro.font_directory, "LICENSE.txt"), folder / "LICENSE.txt")


def cut_face(name, letters, file):
    """Write a face of the typeface for browsers, cut to some letters, into a file or its path."""
    options = subset.Options(flavor="woff2", layout_features=["kern", "liga", "mark", "locl", "ccmp"])
    font = subset.load_font(getattr(font_source_serif_pro, FACES[name]), options)
    cut = subset.Subsetter(options)
    cut.populate(unicodes=letters)
    cut.subset(font)
    subset.save_font(font, file, options)


def keep_used_files(app, pagename, templatename, context, doctree):
    """Drop files that a page does not use, and Thebe and saved widget state from all."""
    body = context["body"] = KERNEL_SCRIPTS.sub("", context.get("body", ""))
    unused = [part for mark, parts in FILES_OF.items() if mark not in body for part in parts]

    def used(file):
        name = str(getattr(file, "filename", None) or "")
        attributes = getattr(file, "attributes", {})
        inline = (attributes.get("body") or "").lower()
        return not (any(part in name for part in unused) or attributes.get("type") == WIDGET_STATE
                    or any(word in inline and mark not in body for word, mark in INLINE_OF.items()))

    for files in ("script_files", "css_files"):
        context[files] = [file for file in context.get(files, []) if used(file)]


def drop_unused(app, exception):
    """Take icon fonts, Bootstrap's script and source maps of the theme out of the site."""
    static = Path(app.outdir, "_static")
    for path in (path for pattern in UNUSED_FILES for path in static.glob(pattern)):
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    styles = static / "styles" / "pydata-sphinx-theme.css"
    if styles.is_file():
        styles.write_text(UNUSED_RULES.sub("", styles.read_text(encoding="utf-8")), encoding="utf-8")


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
    own = [name for names in OWN_FILES.values() for name in names]
    for priority, name in enumerate((name for name in own if name.endswith(".js")), start=600):
        app.add_js_file(name, priority=priority, loading_method="defer")
    for name in (name for name in own if name.endswith(".css")):
        app.add_css_file(name, priority=900)
    app.connect("builder-inited", copy_vendor)
    app.connect("html-page-context", keep_used_files, priority=990)
    app.connect("build-finished", drop_unused, priority=900)
    app.connect("build-finished", name_failed_cells)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
