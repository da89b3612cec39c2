"""Sphinx extension: the text of each section, written into the site for a search that works from disk."""

import json
import re
from pathlib import Path

from api_reference import equation_labels
from docutils import nodes
from sphinx import addnodes

SILENT = (nodes.raw, nodes.literal_block, nodes.math_block, nodes.comment, nodes.title, addnodes.glossary,
          addnodes.desc_parameterlist)  # fmt: skip


def has_heading(node):
    """Whether a node is a section with a heading: the body of an exercise is a section too, without one."""
    return isinstance(node, nodes.section) and isinstance(node.next_node(descend=True), nodes.title)


def words(node, numbers):
    """The text of a section without its heading, its code and the sections within it; formulas without commands.

    A reference to an equation is its number, which `numbers` has by label.
    """
    if isinstance(node, SILENT) or has_heading(node):
        return ""
    if isinstance(node, addnodes.pending_xref) and node["reftype"] == "eq":
        return f"({numbers[node['reftarget']]})"
    if isinstance(node, nodes.Text):
        return node.astext()
    if isinstance(node, nodes.math):
        return re.sub(r"\\[a-z]+|\\.|[{}]", "", node.astext())
    parts = (words(child, numbers) for child in node.children)
    return ("" if isinstance(node, nodes.TextElement) else " ").join(filter(None, parts))


def sections(doctree, numbers):
    """(place, heading, text) of each section of a page, the first with its title, and of each word of a glossary."""
    for section in doctree.findall(has_heading):
        text = " ".join(" ".join(words(child, numbers) for child in section.children).split())
        yield section["ids"][0], section.next_node(nodes.title).astext(), text
    for glossary in doctree.findall(addnodes.glossary):
        for item in glossary.findall(nodes.definition_list_item):
            term = item.next_node(nodes.term)
            yield term["ids"][0], term.astext(), " ".join(item.next_node(nodes.definition).astext().split())


def texts(app):
    """(address, page, heading, text) of every section of the site, in the order of the pages' names."""
    numbers = equation_labels(app.env)
    for page in sorted(app.env.found_docs):
        address, doctree = app.builder.get_target_uri(page), app.env.get_doctree(page)
        (_, title, opening), *rest = sections(doctree, numbers)
        yield from [(address, title, "", opening), *((f"{address}#{place}", title, *said) for place, *said in rest)]


def write(app, exception):
    """Write all texts as a script: a page opened from disk may load scripts, but not data."""
    if exception is None and app.builder.format == "html":
        data = json.dumps(list(texts(app)), ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")
        Path(app.outdir, "_static", "search-texts.js").write_text(f"window.searchTexts = {data};\n", encoding="utf-8")


def setup(app):
    """Register the hook."""
    app.connect("build-finished", write)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
