"""Find links that lead nowhere: `python book/links.py` in the sources, `python book/links.py SITE` in a built site.

Only links within the project count. Nothing is asked of a network.
"""

import json
import re
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

ROOT = Path(__file__).resolve().parent.parent
SKIPPED = {".git", "_build", "node_modules"}  # and whatever starts with a dot
MARKDOWN = re.compile(r"(?<!`)\[[^\]\[]*\]\(([^()\s]+)\)")


class Page(HTMLParser):
    """What a page offers to be linked to, and what it links to.

    Attributes
    ----------
    anchors, links : set of str
    """

    def __init__(self, text):
        super().__init__()
        self.anchors, self.links = {"", "top"}, set()
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        """Note the anchors and links of an element."""
        found = dict(attrs)
        self.anchors.add(found.get("id") or "")
        self.links |= {found[key] for key in ("href", "src") if found.get(key)}


def within(link):
    """(path, anchor) of a link to a place in the project; None for an address elsewhere."""
    parts = urlsplit(link)
    if parts.scheme or parts.netloc:
        return None
    return unquote(parts.path), unquote(parts.fragment)


def broken_in_site(site):
    """(page, link) of every link of a built site that leads to no file, or to a file without that anchor."""
    site = Path(site).resolve()
    files = (path for path in sorted(site.rglob("*.html")) if "_static" not in path.relative_to(site).parts)
    pages = {path: Page(path.read_text(encoding="utf-8")) for path in files}
    found = []
    for path, page in pages.items():
        for link in sorted(page.links):
            place = within(link)
            if place is None:
                continue
            target = (path.parent / place[0]).resolve() if place[0] else path
            known = place[1].startswith("/") or target not in pages or place[1] in pages[target].anchors  # /2: a slide
            if not (target.is_file() and target.is_relative_to(site) and known):
                found.append((path.relative_to(site).as_posix(), link))
    return found


def texts(root=ROOT):
    """(path, Markdown) of every Markdown file and notebook of the project."""
    for path in sorted((*root.rglob("*.md"), *root.rglob("*.ipynb"))):
        if not any(part in SKIPPED or part.startswith(".") for part in path.relative_to(root).parts):
            text = path.read_text(encoding="utf-8")
            if path.suffix == ".ipynb":
                cells = (cell for cell in json.loads(text)["cells"] if cell["cell_type"] == "markdown")
                text = "\n".join("".join(cell["source"]) for cell in cells)
            yield path, re.sub(r"```.*?```", "", text, flags=re.DOTALL)


def headings(text):
    """Anchors that GitHub gives the headings of a Markdown file."""
    titles = re.findall(r"^#+ (.*)$", text, flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).strip().replace(" ", "-") for title in titles}


def broken_in_sources(root=ROOT):
    """(file, link) of every relative link in Markdown that leads to no file, or in a README to no heading.

    Anchors of pages are left to the built site, where they are made.
    """
    known, found = dict(texts(root)), []
    for path, text in known.items():
        for link in MARKDOWN.findall(text):
            place = within(link)
            if place is None:
                continue
            target = (path.parent / place[0]).resolve() if place[0] else path
            page = path.is_relative_to(root / "book") or path.suffix == ".ipynb"
            named = page or target.suffix != ".md" or not place[1] or place[1] in headings(known.get(target, ""))
            if not (target.exists() and named):
                found.append((path.relative_to(root).as_posix(), link))
    return found


if __name__ == "__main__":
    broken = [each for site in sys.argv[1:] for each in broken_in_site(site)] if sys.argv[1:] else broken_in_sources()
    for page, link in broken:
        print(f"{page}: the link {link} leads nowhere")
    sys.exit(bool(broken))
