"""Sphinx extension: figures are counted by page, and their addresses are short.

"Figure 2.3" is the third figure of page 2; on a page without a number they are counted alone. A figure is found again
at the name that its function gave it, #fig-coverage; a second one of that name on a page is #fig-coverage-2.
"""

import itertools
import re

PLACE = re.compile(r"fig-([\w-]+)@(\d+-\d+)")
CAPTION = re.compile(
    r'(<figure class="moe-figure\b.*?(?:<span class="moe-source">|<figcaption>(?!<span class="moe-dr)))', re.DOTALL)


def short_names(body):
    """Addresses of figures without the place of their cell.

    >>> short_names('<figure id="fig-a@3-0"></figure><script data-chart="fig-a@3-0"></script><figure id="fig-a@9-0">')
    '<figure id="fig-a"></figure><script data-chart="fig-a"></script><figure id="fig-a-2">'
    """
    seen = {}

    def short(found):
        places = seen.setdefault(found[1], [])
        if found[2] not in places:
            places.append(found[2])
        count = places.index(found[2]) + 1
        return f"fig-{found[1]}" + (f"-{count}" if count > 1 else "")

    return PLACE.sub(short, body)


def numbered(body, page=""):
    """Every figure's number, before its source where the caption tells one.

    >>> numbered('<figure class="moe-figure"><figcaption>A line.</figcaption></figure>', "2")
    '<figure class="moe-figure"><figcaption><span class="moe-no">Figure 2.1</span> A line.</figcaption></figure>'
    """
    count = itertools.count(1)
    prefix = f"{page}." if page else ""
    return CAPTION.sub(lambda found: f'{found[1]}<span class="moe-no">Figure {prefix}{next(count)}</span> ', body)


def number_figures(app, pagename, templatename, context, doctree):
    """Put numbers and short names into the body of a page."""
    place = app.env.toc_secnumbers.get(pagename, {}).get("", ())
    if "body" in context:
        context["body"] = numbered(short_names(context["body"]), str(place[0]) if place else "")


def setup(app):
    """Register the hook."""
    app.connect("html-page-context", number_figures, priority=910)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
