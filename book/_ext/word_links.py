"""Sphinx extension: the first use of a word of the glossary links to it; "page 03" and "equation 3.1" lead there too.

Notebooks write no links to the glossary themselves: JupyterLab reads one notebook at a time and could not follow them.
Headings, code, formulas, links and outputs are left alone. A link to the glossary carries the definition as its title.
"""

import re

from api_reference import anchor_of, equation_numbers
from docutils import nodes
from sphinx import addnodes
from sphinx.transforms.post_transforms import SphinxPostTransform
from sphinx.util.nodes import make_refnode

CLOSED = (nodes.title, nodes.literal, nodes.literal_block, nodes.reference, nodes.math, nodes.math_block, nodes.raw,
          nodes.term, nodes.label, nodes.thead, nodes.citation, addnodes.pending_xref, addnodes.desc_signature,
          addnodes.literal_strong)  # fmt: skip
AMBIGUOUS = {"bound"}  # also a verb
PAGE = re.compile(r"(?<=[Pp]age )\d\d\b|(?<=[Pp]ages )\d\d\b|(?<=\d\d and )\d\d\b|(?<=\d\d, )\d\d\b")
EQUATION = re.compile(r"\b(?i:equations?)\s(\d\.\d)\b(?:\sand\s(\d\.\d)\b)?")


def terms(env):
    """Every word of the glossary, in small letters, with the page and place of its entry."""
    objects = env.get_domain("std").get_objects()
    return {name.lower(): (page, anchor) for name, _, kind, page, anchor, _ in objects if kind == "term"}


def definitions(env):
    """{place of an entry of the glossary: its text}."""
    found = {}
    for page in {page for page, _ in terms(env).values()}:
        for item in env.get_doctree(page).findall(nodes.definition_list_item):
            text = next(item.findall(nodes.definition)).astext().replace("\n", " ")
            found |= {place: text for term in item.findall(nodes.term) for place in term["ids"]}
    return found


def open_texts(doctree):
    """The pieces of text in which a word may become a link."""
    for text in list(doctree.findall(nodes.Text)):
        node = text.parent
        while node is not None and not isinstance(node, CLOSED):
            if {"cell", "bibliography", "citation"} & set(getattr(node, "attributes", {}).get("classes", [])):
                break
            node = node.parent
        if node is None:
            yield text


class WordLinks(SphinxPostTransform):
    """Links words of the glossary and numbers of pages and equations; runs before references are resolved."""

    default_priority = 5

    def run(self, **kwargs):
        """Change the page in place."""
        here, known = self.env.docname, terms(self.env)
        if any(page == here for page, _ in known.values()):
            return  # the glossary itself
        used = {known[node["reftarget"].lower()] for node in self.document.findall(addnodes.pending_xref)
                if node["reftype"] == "term" and node["reftarget"].lower() in known}
        words = "|".join(map(re.escape, sorted(known.keys() - AMBIGUOUS, key=len, reverse=True)))
        named = re.compile(rf"(?<![\w-])({words})s?(?![\w-])" if words else "(?!)", re.IGNORECASE)
        numbers = {page: of.get("", ()) for page, of in self.env.toc_secnumbers.items()}
        pages = {f"{number[0]:02}": page for page, number in numbers.items() if len(number) == 1 and page != here}
        equations = {number: (page, anchor_of(label)) for number, (label, page) in equation_numbers(self.env).items()}
        for text in open_texts(self.document):
            links = []
            for found in named.finditer(text):
                place = known[found[1].lower()]
                if place not in used:
                    used.add(place)
                    links.append((found.span(), *place, "std-term"))
            links += [(at.span(), pages[at[0]], "", "doc") for at in PAGE.finditer(text) if at[0] in pages]
            links += [(at.span(group), *equations[at[group]], "doc") for at in EQUATION.finditer(text)
                      for group in (1, 2) if at[group] in equations]
            if links:
                text.parent.replace(text, list(self.pieces(str(text), sorted(links))))

    def pieces(self, text, links):
        """The nodes that take the place of a text with links at some spans."""
        end = 0
        for (start, stop), page, anchor, kind in links:
            yield nodes.Text(text[end:start])
            word = nodes.inline(text[start:stop], text[start:stop], classes=["std", kind])
            yield make_refnode(self.app.builder, self.env.docname, page, anchor, word)
            end = stop
        yield nodes.Text(text[end:])


def explain(app, doctree, docname):
    """Put the definition of a word of the glossary on every link to it."""
    known = definitions(app.env)
    for link in doctree.findall(nodes.reference):
        if link.children and "std-term" in getattr(link[0], "attributes", {}).get("classes", []):
            target = link.get("refuri", "").partition("#")[2] or link.get("refid", "")
            link["reftitle"] = known.get(target, "")


def setup(app):
    """Register the transform and the hook."""
    app.add_post_transform(WordLinks)
    app.connect("doctree-resolved", explain)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
