"""Sphinx extension: what a page says of itself to search engines and to those who are sent a link to it.

A description and a picture in the head of every page, its public address once the repository is named, and two files in
the root of the site: index.html, which opens the first page, and 404.html for addresses that lead nowhere.
"""

import base64
import posixpath
import re
from io import BytesIO
from pathlib import Path

from docutils import nodes
from offline_pages import cut_face
from page_frame import repository_on_github
from search_texts import words
from share_cards import COVER
from sphinx.util.osutil import relative_uri

MOST, FEW = 160, 60  # letters of a description; with fewer, the next paragraph goes on
SENTENCE = re.compile(r"(?<=[.?!])\s+(?=[A-Z0-9“\"(])")
WITHOUT_TEXT = {  # pages that no file was written for: what they are called, and what they are
    "genindex": ("Index", "Every function, record and constant of moe_lib and the words of the glossary, from A to Z."),
    "search": ("Search", "Search pages, equations, functions and the glossary of Serving a Mixture of Experts."),
}
LOST = "This address leads to no page of Serving a Mixture of Experts. Search it, or start from its contents."


def site_address(repository):
    """Address of a GitHub repository's pages; empty without such a repository.

    >>> print(site_address("https://github.com/Someone/chapter"), site_address("https://github.com/a/a.github.io"))
    https://someone.github.io/chapter/ https://a.github.io/
    """
    owner, _, name = repository_on_github(repository).partition("/")
    host = f"{owner.lower()}.github.io"
    return "" if not name else f"https://{host}/" + ("" if name.lower() == host else f"{name}/")


def sentences(texts):
    """The first sentences of some paragraphs, MOST letters of them; a long one is cut between words.

    >>> print(sentences(["What is read? This:", "Two sizes matter, and a page says which of them is read, and when."]))
    What is read? Two sizes matter, and a page says which of them is read, and when.
    """
    found = ""
    for text in texts:
        for sentence in SENTENCE.split(" ".join(text.split())):
            longer = f"{found} {sentence}".strip()
            if len(longer) > MOST:
                return found or longer[:MOST - 1].rpartition(" ")[0].rstrip(",;:") + "…"
            found = longer if sentence.endswith((".", "?", "!")) else found
        if len(found) >= FEW:
            break
    return found


def description_of(doctree, metadata):
    """What a page is about: the `description` in its metadata, else its first sentences."""
    if "description" in metadata:
        return metadata["description"]
    return sentences(words(each, {}) for each in doctree.findall(nodes.paragraph)
                     if isinstance(each.parent, nodes.section))


def name_site(app, config):
    """Pages have a public address once the repository is named: Sphinx then writes it into them."""
    config.html_baseurl = site_address(config.html_theme_options.get("repository_url") or "")


def about(app, page, address, title, text, card=COVER):
    """What the template about.html asks for. The picture's address is absolute where that of the site is known."""
    base = app.config.html_baseurl
    picture = posixpath.join(base, card[0]) if base else relative_uri(address, card[0])
    return {"title": title, "text": text, "picture": picture, "words": card[1], "book": app.config.html_title,
            "kind": "article" if page in app.env.found_docs and page != app.config.root_doc else "website",
            "address": base and posixpath.join(base, app.builder.get_target_uri(page))}


def describe(app, pagename, templatename, context, doctree):
    """Put into the context of a page what its head says of it."""
    if pagename in app.env.found_docs:
        title, text = app.env.titles[pagename].astext(), description_of(doctree, app.env.metadata[pagename])
    else:
        title, text = WITHOUT_TEXT.get(pagename, (pagename, pagename))
    address = app.builder.get_target_uri(pagename)
    context["moe_about"] = about(app, pagename, address, title, text, context["moe_card"])


def typeface():
    """The typeface of titles as text, to stand within a style: nothing has to be found beside the page."""
    found = BytesIO()
    cut_face("semibold", range(0x20, 0x7F), found)
    return base64.b64encode(found.getvalue()).decode()


def chapters(app):
    """(address, title) of the pages of the chapter, the first page first."""
    numbered = sorted((of[""], page) for page, of in app.env.toc_secnumbers.items() if len(of.get("", ())) == 1)
    pages = [app.config.root_doc, *(page for _, page in numbered)]
    return [(app.builder.get_target_uri(page), app.env.titles[page].astext()) for page in pages]


def write_root(app, exception):
    """Write index.html and 404.html into the root of the site."""
    if exception is not None or app.builder.format != "html":
        return
    root, book = app.config.root_doc, app.config.html_title
    text = description_of(app.env.get_doctree(root), app.env.metadata[root])
    context = {"book": book, "chapters": chapters(app), "first": app.builder.get_target_uri(root),
               "font": typeface(), "root": app.config.html_baseurl or "/"}
    said = {"index.html": ("moved.html", about(app, root, "", book, text)),
            "404.html": ("lost.html", about(app, "404", "", "Page not found", LOST))}
    for name, (template, told) in said.items():
        page = app.builder.templates.render(template, {**context, "moe_about": told})
        Path(app.outdir, name).write_text(page, encoding="utf-8")


def setup(app):
    """Register the hooks, after the theme's own and that of the cards."""
    app.connect("config-inited", name_site, priority=900)
    app.connect("html-page-context", describe, priority=960)
    app.connect("build-finished", write_root)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
