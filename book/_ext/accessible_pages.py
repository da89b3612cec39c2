"""Sphinx extension: what Sphinx and the theme write so that a screen reader or a keyboard cannot use it well, mended.

Each function names one fault and its cure. tests/test_accessibility.py looks for what is left, with axe-core.
"""

import re
from itertools import count

from docutils import nodes

HEADING = re.compile(r"<h[1-6][^>]*>(.*?)</h[1-6]>", re.DOTALL)
TABLE_FRAME = '<div class="pst-scrollable-table-container">'


def name_rows(app, doctree):
    """A table whose first heading is empty names its rows in the first column: its cells become row headings."""
    for table in doctree.findall(nodes.table):
        head = next(table.findall(nodes.thead), None)
        if head is not None and not next(head.findall(nodes.entry)).astext():
            next(table.findall(nodes.colspec))["stub"] = 1


def head_tables(body):
    """Say what each heading of a table is for; an empty one is a plain cell.

    >>> print(head_tables('<th class="head stub"><p></p></th><th class="head"><p>A</p></th><th class="stub">b</th>'))
    <td></td><th scope="col" class="head"><p>A</p></th><th scope="row" class="stub">b</th>
    """
    body = re.sub(r'<th class="(?:head|stub)[^"]*">(<p>\s*</p>)?\s*</th>', "<td></td>", body)
    for kind, scope in (("head", "col"), ("stub", "row")):
        body = body.replace(f'<th class="{kind}', f'<th scope="{scope}" class="{kind}')
    return body


def name_table_frames(body):
    """A table that scrolls sideways is reached by keyboard, so its frame says what it is: the last heading before it.

    >>> framed = name_table_frames('<h2>Sizes<a class="headerlink" href="#s">#</a></h2>' + 2 * TABLE_FRAME)
    >>> print(re.findall('aria-label="([^"]+)"', framed))
    ['Table: Sizes', 'Table: Sizes (2)']
    """
    seen = {}

    def named(match):
        before = HEADING.findall(body, 0, match.start())
        words = re.sub(r"<a class=\"headerlink.*?</a>|<[^>]+>", "", before[-1] if before else "").strip()
        number = next(seen.setdefault(words, count(1)))
        name = f"Table: {words}" + (f" ({number})" if number > 1 else "")
        return TABLE_FRAME.replace(">", f' role="region" aria-label="{name.replace(chr(34), "&quot;")}">')

    return re.sub(re.escape(TABLE_FRAME), named, body)


def list_references(body):
    """Entries of a bibliography have a role that ARIA gave up; they are items of a list."""
    return body.replace('role="doc-biblioentry"', 'role="listitem"')


def head_items(body):
    """A list item that opens with a bold paragraph has a heading there, which Markdown cannot write in a list.

    >>> print(head_items("<li><p><strong>Learn it</strong></p><p>Start.</p></li>"))
    <li><h3>Learn it</h3><p>Start.</p></li>
    """
    return re.sub(r"<li><p><strong>([^<]*)</strong></p>(\s*<p>)", r"<li><h3>\1</h3>\2", body)


def name_folded_pages(contents):
    """In the list of pages, what unfolds the pages below another has no name: it gets that of the page.

    >>> print(name_folded_pages('<a href="a.html">A page</a><details><summary><i></i></summary></details>'))
    <a href="a.html">A page</a><details><summary aria-label="Pages of A page"><i></i></summary></details>
    """
    pattern = re.compile(r"(>\s*([^<>]*?)\s*</a>\s*<details[^>]*>\s*<summary)>")
    return pattern.sub(r'\1 aria-label="Pages of \2">', str(contents))


def mend(app, pagename, templatename, context, doctree):
    """Mend a page: its body, and the list of pages beside it."""
    if "body" in context:
        for cure in (head_tables, name_table_frames, list_references, head_items):
            context["body"] = cure(context["body"])
    if "generate_toctree_html" in context:
        make = context["generate_toctree_html"]
        context["generate_toctree_html"] = lambda *args, **options: name_folded_pages(make(*args, **options))


def setup(app):
    """Register the hooks and the style that all pages share: focus, motion, forced colours."""
    app.add_css_file("accessible.css", priority=950)
    app.connect("doctree-read", name_rows)
    app.connect("html-page-context", mend, priority=950)  # after the theme's own
    return {"parallel_read_safe": True, "parallel_write_safe": True}
