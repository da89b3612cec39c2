"""Lift one deck of slides a page out of the built site: `make slides`, and as PDF: `make slides-pdf`.

What authors mark in the notebooks becomes slides; CONTRIBUTING.md has the marks. Decks show what the page shows: the
same formulas with their numbers, the same boxes, the same live charts. They are written to `slides/` in the site,
reveal.js beside them, and open from disk.
"""

import copy
import html
import json
import os
import re
import shutil
import sys
from dataclasses import dataclass, field
from importlib.metadata import distribution
from pathlib import Path, PurePosixPath
from string import Template

from bs4 import BeautifulSoup, Comment, Tag

HERE = Path(__file__).resolve().parent
SITE = HERE.parent / "_build" / "html"
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
REVEAL = ("dist/reveal.js", "dist/reveal.css", "plugin/notes/notes.js", "LICENSE")
NOTES = re.compile(r"notes (\d+(?:\.\d+)?) min:(.*)", re.DOTALL)
ON_SLIDE = {"slide", "slide-more", "fragment"}
MARK = re.compile(r"cell\b.*|(?:slide|slide-more|slide-end|fragment)(?: *: *(?P<title>.+))?")
PAGE_ONLY = (".headerlink, .copybtn, .solution, .moe-computed, .moe-library, "
             ".moe-fold:not(.moe-shown), .moe-shown > summary, .moe-check, .moe-check-line")
SCRIPTS = re.compile(r"mathjax|vega-embed|moe-table|moe-chart|moe-predict", re.IGNORECASE)


@dataclass(slots=True, kw_only=True)
class Slide:
    """A heading, what stands under it, and what the speaker says in how many minutes."""

    heading: str
    body: list = field(default_factory=list)
    notes: list = field(default_factory=list)
    minutes: float = 0


def flow(node):
    """Everything on a page in reading order: comments, headings and blocks, sections opened."""
    for child in node.children:
        if isinstance(child, Tag) and child.name == "section":
            yield from flow(child)
        elif isinstance(child, Comment | Tag):
            yield child


def read_slides(article):
    """The slides that a page's marks make, the title slide first.

    Parameters
    ----------
    article : bs4.Tag
        The rendered page.

    Returns
    -------
    list of Slide
        The first one has the page's title and goals. It is alone where nothing is marked.

    >>> page = "<h1>Why?</h1><h2>How</h2><!-- cell slide --><p>So.</p><!-- notes 2 min: Ask. --><!-- cell --><p>On.</p>"
    >>> for slide in read_slides(BeautifulSoup(page, "html.parser")):
    ...     print(slide.heading, [str(block) for block in slide.body], slide.notes, slide.minutes)
    Why? [] [] 0
    How ['<p>So.</p>'] ['Ask.'] 2.0
    """
    slides, heading = [Slide(heading=_inside(article.find("h1")))], ""
    shown = due = False  # what follows is on a slide; it begins a new one
    step, own = None, ""  # the fragment that it joins; a slide's own heading
    for node in flow(article):
        words, title = _marks(node)
        if "cell" in _classes(node) and words.isdisjoint(ON_SLIDE):
            continue  # a heading given before it is for a figure after it
        if words is not None:
            own = title or (own if due else "")
            shown = not words.isdisjoint(ON_SLIDE)
            due = "slide" in words or (due and shown)
            step = BeautifulSoup('<div class="fragment"></div>', "html.parser").div if "fragment" in words else None
        said = NOTES.fullmatch(node.strip()) if isinstance(node, Comment) else None
        if node.name in ("h2", "h3"):
            heading, due = _inside(node), shown
        elif "moe-learn" in _classes(node):
            slides[0].body.append(_lifted(node))
        elif said or (shown and isinstance(node, Tag) and node.name != "h1" and not node.css.match(PAGE_ONLY)):
            if due:
                slides.append(Slide(heading=own or heading))
                due, own = False, ""
            if said:
                slides[-1].minutes += float(said[1])
                slides[-1].notes += [" ".join(part.split()) for part in re.split(r"\n\s*\n", said[2].strip())]
            elif step is None:
                slides[-1].body.append(_lifted(node))
            else:
                step.append(_lifted(node))
                slides[-1].body += [step] if len(step.contents) == 1 else []
    return slides


def _classes(node):
    return node.get("class", ()) if isinstance(node, Tag) else ()


def _marks(node):
    """Words that a comment or a code cell marks what follows with, or None; and the heading that it gives."""
    if "cell" in _classes(node):
        return {name.removeprefix("tag_") for name in node["class"]}, ""
    mark = MARK.fullmatch(node.strip()) if isinstance(node, Comment) else None
    if mark is None:
        return None, ""
    return set(re.split(r"[ :]+", mark[0])), html.escape((mark["title"] or "").replace("'", "’"))


def _inside(node):
    return "".join(map(str, _lifted(node).contents)) if node else ""


def _lifted(node):
    """A copy of a block without what belongs to the page alone, and without code that has an output to show."""
    block = copy.copy(node)
    show_code = "tag_slide-code" in _classes(node) or not node.select_one(".cell_output")
    for section in block.select("section"):  # in an exercise; to reveal.js it would be a slide
        section.name = "div"
    for script in block.select("script[data-chart]"):
        spec = json.loads(script.string)
        if "height" in spec:
            spec["height"] = min(spec["height"], _highest(**spec.get("usermeta", {})))
            script.string = json.dumps(spec, separators=(",", ":")).replace("<", "\\u003c")
    for part in block.select(PAGE_ONLY if show_code else f"{PAGE_ONLY}, .cell_input"):
        part.decompose()
    for code in block.select(".moe-shown"):  # a slide has room for it
        code.unwrap()
    for figure in block.select(".moe-schematic"):  # its first step stands at once, the next key brings the others
        steps = BeautifulSoup('<span class="fragment"></span>' * (len(figure.select("input")) - 1), "html.parser")
        figure.append(steps)
    return block


def _highest(choices=(), **_):
    """How high a figure's plot may be, in px before deck.js zooms it."""
    return 330 if choices else 390


def relink(soup, page, root="../", places=True):
    """Addresses on `page` (its path in the site), turned into addresses in a folder from which the site is `root`.

    With `places`, links to a place on the page lead to the page; else they stay.
    """
    for node in soup.select("[href], [src]"):
        name = "href" if node.has_attr("href") else "src"
        if not re.match(r"[a-z]+:|//", node[name]):
            path, mark, place = node[name].partition("#")
            if not (path or places):
                continue
            parts = PurePosixPath(page).parent / path if path else PurePosixPath(page)
            node[name] = root + _normal(parts) + mark + place
    return soup


def _normal(path):
    parts = []
    for part in path.parts:
        parts = parts[:-1] if part == ".." else [*parts, part]
    return "/".join(parts)


def deck_html(page_html, page):
    """HTML of a page's deck, or None where the page marks no slides.

    Parameters
    ----------
    page_html : str
    page : str
        The page's path in the site, such as ``notebooks/02_coverage.html``.

    Returns
    -------
    tuple of str and list of Slide, or None
    """
    if "<!-- cell slide" not in page_html and "tag_slide" not in page_html:
        return None
    soup = relink(BeautifulSoup(page_html, "html.parser"), page)
    slides = read_slides(soup.select_one("article"))
    head = [*soup.head.select("link[rel=stylesheet], link[rel=icon]"),
            *(script for script in soup.head.select("script") if SCRIPTS.search(str(script)))]
    title = BeautifulSoup(slides[0].heading, "html.parser").get_text()
    template = Template((HERE / "decks" / "deck.html").read_text(encoding="utf-8"))
    book = soup.title.get_text().rpartition(" — ")[2].partition(":")[0]
    shown, sections = set(), []  # headings that a slide has shown: a box shows its own
    for slide in slides:
        box = _box_of(slide)
        sections.append(_section(slide, slide is slides[0], book, box, opens=slide.heading not in shown))
        if box is None:
            shown.add(slide.heading)
    fields = {"title": html.escape(title), "book": html.escape(book), "page": f"../{page}",
              "slides": "\n".join(sections), "head": "\n".join(map(str, head))}
    return template.substitute(fields), slides


def _is_short(body):
    """Whether a slide holds so little that it is set larger: words alone, a few lines of them, at most one formula."""
    if any(block.select_one("pre, table, .moe-chart, .moe-schematic") for block in body):
        return False
    formulas = [formula for block in body for formula in [block, *block.select("div")] if "math" in _classes(formula)]
    return len(formulas) <= 1 and len(" ".join(block.get_text(" ") for block in body).split()) <= 85


def _box_of(slide):
    """The box that is all of a slide, or None."""
    boxes = [box for block in slide.body for box in [block, *block.select(".moe-predict")]
             if not {"admonition", "moe-predict"}.isdisjoint(_classes(box))]
    return boxes[0] if len(boxes) == len(slide.body) == 1 else None


def _section(slide, first, book, box, opens):
    kind, heading = ("opens" if opens else "goes-on"), f"<h2>{slide.heading}</h2>"
    if first:
        of = "" if slide.heading == book else f'<p class="of">{html.escape(book)}</p>'
        kind, heading = "title", f"<header>{of}<h1>{slide.heading}</h1></header>"
    elif box is not None:
        title = box.select_one(".admonition-title")
        kind, heading = "boxed", f"<h2>{title.get_text() if title else slide.heading}</h2>"
    kind += " short" if not first and _is_short(slide.body) else ""
    notes = "".join(f"<p>{html.escape(note)}</p>" for note in slide.notes)
    body = "\n".join(map(str, slide.body))
    return (f'<section class="{kind}" data-timing="{60 * slide.minutes:.0f}">\n<div class="sheet">\n{heading}\n'
            f'<div class="slide-body">\n{body}\n</div>\n</div>\n<aside class="notes">{notes}</aside>\n</section>')


def write_decks(site=SITE):
    """Write every deck, reveal.js and the index of decks into a built site; returns {page: its slides}."""
    site = Path(site)
    folder = site / "slides"
    shutil.rmtree(folder, ignore_errors=True)
    decks = {}
    for path in sorted(site.glob("notebooks/*.html")):
        page = path.relative_to(site).as_posix()
        made = deck_html(path.read_text(encoding="utf-8"), page)
        if made:
            folder.mkdir(exist_ok=True)
            (folder / path.name).write_text(made[0], encoding="utf-8")
            decks[page] = made[1]
    if decks:
        package = distribution("sphinx-revealjs")
        (folder / "reveal").mkdir()
        for part in REVEAL:
            source = package.locate_file(f"sphinx_revealjs/_static/revealjs/{part}")
            shutil.copyfile(source, folder / "reveal" / Path(part).name)
        for name in ("deck.css", "deck.js"):
            shutil.copyfile(HERE / "decks" / name, folder / name)
        write_index(site, decks)
    return decks


def write_index(site, decks):
    """Write slides/index.html: the frame of the site's own index around a list of the decks."""
    soup = relink(BeautifulSoup((site / "genindex.html").read_text(encoding="utf-8"), "html.parser"),
                  "genindex.html", places=False)
    rows = []
    for page, slides in decks.items():
        deck = Path(page).name
        minutes = sum(slide.minutes for slide in slides)
        pdf = Path(deck).with_suffix(".pdf")
        formats = f'<a href="{pdf}">PDF</a>' if (site / "slides" / pdf).is_file() else ""
        rows.append(f'<tr><td><a href="{deck}">{slides[0].heading}</a></td><td>{len(slides)}</td>'
                    f'<td>{minutes:g}</td><td><a href="../{page}">page</a> {formats}</td></tr>')
    listing = Template((HERE / "decks" / "index.html").read_text(encoding="utf-8")).substitute(rows="\n".join(rows))
    soup.select_one("article").replace_with(BeautifulSoup(listing, "html.parser"))
    book = soup.title.get_text().rpartition(" — ")[2]
    soup.title.string = f"Slides — {book}"
    for node in soup.select("script"):
        if "pagename" in node.get_text():
            node.decompose()
    (site / "slides" / "index.html").write_text(str(soup), encoding="utf-8")


def find_chromium():
    """Path of Chromium or Chrome: the environment variable CHROMIUM, or what is on PATH; None without one."""
    return os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, BROWSERS)), None)


def print_decks(site=SITE):
    """Print every deck as PDF beside it, one page a slide, and list the PDFs in the index; needs Chromium."""
    from playwright.sync_api import sync_playwright

    chromium = find_chromium()
    if not chromium:
        sys.exit("Chromium is needed to print slides: install it, or name it by the environment variable CHROMIUM.")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        page = browser.new_page(viewport={"width": 1280, "height": 720}, color_scheme="light")
        for deck in sorted(Path(site, "slides").glob("[0-9]*.html")):
            print_deck(page, deck, deck.with_suffix(".pdf"))
        browser.close()


def print_deck(page, deck, pdf):
    """Print one deck with a page of a browser; returns the path of the PDF. A slide that is lost is an error."""
    page.set_viewport_size({"width": 1280, "height": 720})
    page.emulate_media(media="screen")  # slides as they are shown, not as a page is printed
    page.goto(f"{deck.as_uri()}?print-pdf")
    page.wait_for_function("document.documentElement.dataset.ready === 'true'")
    page.pdf(path=pdf, prefer_css_page_size=True, print_background=True)
    printed = len(re.findall(rb"/Type\s*/Page\b", pdf.read_bytes()))
    slides = page.locator(".slides section").count()
    if printed != slides:
        sys.exit(f"{pdf} has {printed} pages, its deck {slides} slides.")
    return pdf


if __name__ == "__main__":
    if not (SITE / "index.html").is_file():
        sys.exit("There is no site in _build/html yet: make book builds it, decks too.")
    made = write_decks()
    if not made:
        sys.exit("No page marks a slide.")
    if "--pdf" in sys.argv:
        print_decks()
        write_index(SITE, made)
    print(f"Open {SITE / 'slides' / 'index.html'}: {len(made)} decks, {sum(map(len, made.values()))} slides")
