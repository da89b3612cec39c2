"""Sphinx extension: the text of each section, written into the site for a search that works from disk."""

import json
from pathlib import Path

from docutils import nodes
from sphinx import addnodes

SILENT = (nodes.raw, nodes.literal_block, nodes.math_block, nodes.comment, nodes.title, addnodes.glossary)


def has_heading(node):
    """Whether a node is a section with a heading: the body of an exercise is a section too, without one."""
    return isinstance(node, nodes.section) and isinstance(node.next_node(descend=True), nodes.title)


def words(node):
    """The text of a section without its heading, its code and the sections within it."""
    if isinstance(node, SILENT) or has_heading(node):
        return ""
    if isinstance(node, nodes.Text | nodes.TextElement):
        return node.astext()
    return " ".join(filter(None, map(words, node.children)))


def sections(doctree):
    """(place, heading, text) of each section of a page, the first with its title, and of each word of a glossary."""
    for section in doctree.findall(has_heading):
        text = " ".join(" ".join(map(words, section.children)).split())
        yield section["ids"][0], section.next_node(nodes.title).astext(), text
    for glossary in doctree.findall(addnodes.glossary):
        for item in glossary.findall(nodes.definition_list_item):
            term = item.next_node(nodes.term)
            yield term["ids"][0], term.astext(), " ".join(item.next_node(nodes.definition).astext().split())


def collect(app, pagename, templatename, context, doctree):
    """Keep the texts of a page until the end."""
    if doctree is not None:
        address = app.builder.get_target_uri(pagename)
        (_, title, opening), *rest = sections(doctree)
        texts = [(address, title, "", opening)] + [(f"{address}#{place}", title, *said) for place, *said in rest]
        app.builder.moe_search_texts = getattr(app.builder, "moe_search_texts", []) + texts


def write(app, exception):
    """Write all texts as a script: a page opened from disk may load scripts, but not data."""
    texts = getattr(app.builder, "moe_search_texts", [])
    if exception is None and texts:
        data = json.dumps(texts, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")
        Path(app.outdir, "_static", "search-texts.js").write_text(f"window.searchTexts = {data};\n", encoding="utf-8")


def setup(app):
    """Register the hooks."""
    app.connect("html-page-context", collect)
    app.connect("build-finished", write)
    return {"parallel_read_safe": True, "parallel_write_safe": False}
