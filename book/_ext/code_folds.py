"""Sphinx extension: code that is not the argument stays out of its way, each piece under a name of its own.

The tags of a code cell say what becomes of it, on the page as in JupyterLab. `check`: it asserts what the text says,
and is a small mark at the end of that text, which opens it. `hide-input`: it is wired, and folds below what it shows.
`hide-cell`: it computes a solution, and folds. Other code is part of the argument, and folds on a phone alone.
"""

import json
import re
from html import escape

from docutils import nodes
from sphinx.transforms.post_transforms import SphinxPostTransform
from sphinx.util import logging

FOLDED = {"check", "hide-input", "hide-cell"}
PLACES = re.compile(r"<!--\s*check: ([^>]+?)\s*-->")
TEXTS = (nodes.paragraph, nodes.bullet_list, nodes.enumerated_list, nodes.definition_list, nodes.block_quote,
         nodes.table, nodes.math_block, nodes.Admonition)  # fmt: skip
LAST_WORDS = re.compile(r"(.*?)((?:\S+\s)?\S*)\s*", re.DOTALL)
BOXES = (nodes.Admonition, nodes.block_quote, nodes.section)  # what a text ends in is the last that stands in it
MARK = (
    '<button type="button" class="moe-check" aria-expanded="false" aria-controls="%s" title="Checked by code">'
    '<svg viewBox="0 0 16 16" aria-hidden="true"><path d="M3 8.5l3.4 3.4L13 4.600"/></svg>'
    '<span class="moe-check-word">checked</span></button>'
)


def name_cells(app, docname, source):
    """Note the id of each code cell in its metadata, which reach the transform below; its id does not."""
    if app.env.doc2path(docname).endswith(".ipynb"):
        notebook = json.loads(source[0])
        for cell in notebook["cells"]:
            if cell["cell_type"] == "code" and "id" in cell:
                cell["metadata"]["cell_id"] = cell["id"]
        source[0] = json.dumps(notebook)


def tags_of(cell):
    """Tags of a code cell."""
    return {name.removeprefix("tag_") for name in cell["classes"]}


def part_of(cell, name):
    """What a code cell has of this name, `cell_code_source` or `cell_code_output`, or None."""
    return next((part for part in cell.children if part.get("nb_element") == name and part.children), None)


def own_name(metadata, code):
    """The name that an author gave a cell, in its metadata or in a comment on its first line; "" without one.

    >>> own_name({"name": "The workshop in code"}, "figures.workshop()")
    'The workshop in code'
    >>> own_name({}, "# Set up: the models of this page\\nimport numpy as np")
    'Set up: the models of this page'
    """
    first = code.strip().partition("\n")[0]
    return metadata.get("name") or (first.removeprefix("#").strip() if first.startswith("#") else "")


def first_words(code):
    """Words by which code is told without a name: its first line.

    >>> first_words("total, active = 671e9, 37e9\\ne = total / 248")
    'total, active = 671e9, 37e9'
    """
    return code.strip().partition("\n")[0].rstrip("(:[{").strip()


def name_of(cell):
    """The name under which a cell's code folds, as HTML."""
    code = part_of(cell, "cell_code_source").astext()
    name = own_name(cell.get("cell_metadata", {}), code)
    if not name and "solution" in tags_of(cell):
        name = f"The solution in code: {exercise_before(cell)}"
    return escape(name, quote=False) or f"The code: <code>{escape(first_words(code), quote=False)}</code>"


def exercise_before(cell):
    """Title of the exercise that a solution belongs to."""
    before = cell.parent.children[: cell.parent.index(cell)]
    exercises = [node for node in before if "exercise" in node.get("classes", ())]
    title = exercises[-1].next_node(nodes.title).astext() if exercises else ""
    return title.strip(" ()")


def fold(name, parts, shown=False):
    """Parts of a page that fold under a name; what is shown folds on a phone alone."""
    kind = '"moe-fold moe-shown" open' if shown else '"moe-fold"'
    opening = f"<details class={kind}><summary>{name}</summary>"
    return [_html(opening), *parts, _html("</details>")]


def _html(text):
    return nodes.raw("", text, format="html")


def proved(cell, places):
    """The text that a check proves, and the comment within that names its id or None.

    Without such a comment it is the last text before the check; a comment between two texts means the one before it.
    """
    at = places.get(cell["cell_metadata"].get("cell_id"), cell)
    if isinstance(at.parent, nodes.paragraph):
        return at.parent, at
    before = at.parent.children[: at.parent.index(at)]
    return next((node for node in reversed(before) if isinstance(node, TEXTS)), None), None


def put_mark(mark, text):
    """Put a mark at the end of a text: of its last paragraph, or on a line below where it ends in a list or a table."""
    parts = [part for part in text.children if not isinstance(part, nodes.raw | nodes.comment)]
    if isinstance(text, nodes.paragraph):
        mark_words(mark, text, len(text))
    elif isinstance(text, BOXES) and parts:
        put_mark(mark, parts[-1])
    else:
        line = nodes.paragraph("", "", mark, classes=["moe-check-line"])
        text.parent.insert(text.parent.index(text) + 1, line)


def mark_words(mark, paragraph, at):
    """Put a mark into a paragraph, on one line with the words before it: two of them, since one may be a unit."""
    last = paragraph[at - 1]
    if not isinstance(last, nodes.Text):
        paragraph.insert(at, mark)
        return
    before, words = LAST_WORDS.fullmatch(last.astext()).groups()
    kept = nodes.inline("", words, mark, classes=["moe-keep"])
    paragraph[at - 1 : at] = [nodes.Text(before), kept]


class FoldCode(SphinxPostTransform):
    """Fold the code of a page."""

    default_priority = 198  # before MyST-NB folds code under one name for all
    formats = ("html",)

    def run(self, **kwargs):
        """Change the page in place."""
        cells = [cell for cell in self.document.findall(nodes.container)
                 if cell.get("nb_element") == "cell_code" and part_of(cell, "cell_code_source")]
        for cell in cells:
            cell.attributes.pop("hide_mode", None)
        self.mark_checks([cell for cell in cells if "check" in tags_of(cell)])
        for cell in cells:
            if "check" not in tags_of(cell):
                fold_cell(cell)

    def mark_checks(self, checks):
        """Put a mark at the end of each text that checks prove; it opens their code, right below the text."""
        places = {name: node for node in self.document.findall(nodes.raw)
                  for said in PLACES.findall(node.astext()) for name in said.split()}
        found = {}
        for check in checks:
            text, within = proved(check, places)
            if text is None:
                logging.getLogger(__name__).warning("a check has no text to prove before it", location=check)
            else:
                found.setdefault(id(within or text), (text, within, []))[2].append(check)
        for text, within, proofs in found.values():
            name = f"check-{proofs[0]['cell_metadata'].get('cell_id')}"
            for proof in proofs:
                proof.parent.remove(proof)
            code = [_html(f'<div class="moe-fold moe-checked" id="{name}" hidden>'), *proofs, _html("</div>")]
            at = text.parent.index(text) + 1
            text.parent[at:at] = code
            mark = _html(MARK % name)
            if within is None:
                put_mark(mark, text)
            else:
                at = text.index(within)
                text.remove(within)
                mark_words(mark, text, at)


def fold_cell(cell):
    """Fold the code of a cell: below what it shows, with the wired code right before it, where it is wired."""
    name, code, output = name_of(cell), part_of(cell, "cell_code_source"), part_of(cell, "cell_code_output")
    tags = tags_of(cell)
    if "hide-input" not in tags:
        at = cell.index(code)
        cell[at : at + 1] = fold(name, [code], shown=not tags & FOLDED)
        return
    following = next_cell(cell)
    if output is None and following is not None:
        following.setdefault("carried", []).extend([*cell.get("carried", []), (name, code)])
        cell.parent.remove(cell)
        return
    carried = [*cell.attributes.pop("carried", []), (name, code)]
    cell.remove(code)
    cell += fold(" · ".join(name for name, _ in carried), [code for _, code in carried])


def next_cell(cell):
    """The wired cell that follows with nothing but comments between, or None."""
    after = cell.parent.children[cell.parent.index(cell) + 1 :]
    node = next((node for node in after if not isinstance(node, nodes.raw | nodes.comment)), None)
    is_cell = isinstance(node, nodes.container) and node.get("nb_element") == "cell_code"
    return node if is_cell and "hide-input" in tags_of(node) and part_of(node, "cell_code_source") else None


def setup(app):
    """Register the hooks."""
    app.connect("source-read", name_cells)
    app.add_post_transform(FoldCode)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
