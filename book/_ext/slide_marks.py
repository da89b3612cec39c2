"""Sphinx extension: the tags of Markdown cells reach the rendered page, where `book/slides.py` finds them.

Code cells carry their tags as classes already. A Markdown cell has no element of its own on a page, so each is preceded
by a comment that names its tags: `<!-- cell slide -->`. Speaker notes are comments too: who reads the page sees none.
"""

import json

CELL = "cell"


def mark_cells(app, docname, source):
    """Put a comment with a cell's tags before each Markdown cell of a notebook but the first, which holds the title."""
    if app.env.doc2path(docname).endswith(".ipynb"):
        notebook = json.loads(source[0])
        for cell in notebook["cells"][1:]:
            if cell["cell_type"] == "markdown":
                mark = " ".join([CELL, *cell["metadata"].get("tags", [])])
                cell["source"] = [f"<!-- {mark} -->\n", "".join(cell["source"])]
        source[0] = json.dumps(notebook)


def setup(app):
    """Register the hook."""
    app.connect("source-read", mark_cells)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
