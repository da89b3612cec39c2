"""Decks of slides: complete, legible from the back row, working from disk, and printed without loss."""

import doctest
import re

import pytest
import slides
from browsing import watched_page
from bs4 import BeautifulSoup
from conftest import NOTEBOOKS
from test_pages import COLOUR_RULES, LIGHTEN

DECKS = [path.stem for path in NOTEBOOKS if path.stem[0].isdigit()]
SIZES = [(1280, 720), (1920, 1080)]
every_deck = pytest.mark.parametrize("name", DECKS)

# Rectangles of everything on every slide, against the slide without its foot and against all that would cut it off.
# Marks may leave a plot, which cuts them off; formulas are measured as a whole.
OVERFLOW = """() => {
  const scale = Reveal.getScale(), faults = [];
  const name = (node) => `${node.localName}.${node.getAttribute("class") ?? ""}`;
  const past = (box, edge) => Math.max(edge.left - box.left, edge.top - box.top,
                                       box.right - edge.right, box.bottom - edge.bottom) / scale;
  document.querySelectorAll(".slides > section").forEach((slide, index) => {
    const at = slide.getBoundingClientRect(), foot = slide.matches(".title") ? 0 : 44;
    const room = { left: at.left, top: at.top, right: at.left + 1280 * scale, bottom: at.top + (720 - foot) * scale };
    for (const node of slide.querySelectorAll(".sheet *")) {
      const box = node.getBoundingClientRect();
      if (!box.width || !box.height || getComputedStyle(node).clipPath !== "none") continue;
      if ((node.ownerSVGElement && node.localName !== "text") || node.closest("mjx-container *")) continue;
      const edges = [["the slide", room]];
      for (let out = node.parentElement; out !== slide; out = out.parentElement)
        if (getComputedStyle(out).overflow !== "visible") edges.push([name(out), out.getBoundingClientRect()]);
      for (const [what, edge] of edges)
        if (past(box, edge) > 1.5)
          faults.push(`slide ${index + 1}: ${name(node)} leaves ${what} by ${Math.ceil(past(box, edge))} px: ` +
                      node.textContent.trim().slice(0, 40));
    }
  });
  return faults;
}"""

# Words smaller than 18 px, or 14 px in a figure, on a slide of 1280 x 720. Formulas are as large as text beside them.
SMALL = """() => {
  const scale = Reveal.getScale(), faults = [];
  document.querySelectorAll(".slides > section").forEach((slide, index) => {
    for (const node of slide.querySelectorAll(".sheet *")) {
      const words = [...node.childNodes].map((child) => (child.nodeType === 3 ? child.data.trim() : "")).join("");
      if (!words || !node.getBoundingClientRect().width) continue;
      if (node.closest("mjx-container, script, noscript, sup, sub, option")) continue;
      const matrix = node.ownerSVGElement && node.getScreenCTM();
      const zoom = matrix ? Math.hypot(matrix.a, matrix.b) / scale : node.currentCSSZoom;
      const size = zoom * parseFloat(getComputedStyle(node).fontSize);
      if (size < (matrix ? 13.9 : 17.9))
        faults.push(`slide ${index + 1}: ${node.localName} has ${size.toFixed(1)} px: ${words.slice(0, 40)}`);
    }
  });
  return [...new Set(faults)];
}"""


# All slides below one another, as if each were the present one.
UNFOLD = """() => {
  const style = document.head.appendChild(document.createElement("style"));
  style.textContent = `html.deck.deck, html.deck.deck body, .deck :is(main, .reveal, .slides, .deck-foot),
    .deck .slides > section { position: static !important; height: auto !important; overflow: visible !important;
    transform: none !important; visibility: visible !important; opacity: 1 !important; }`;
  document.querySelector(".backgrounds").remove();
  for (const slide of document.querySelectorAll(".slides > section")) {
    slide.hidden = false;
    slide.ariaHidden = null;
  }
}"""


def sections(site, name):
    """The slides of a deck as they are written."""
    html = (site / "slides" / f"{name}.html").read_text(encoding="utf-8")
    return BeautifulSoup(html, "html.parser").select(".slides > section")


@pytest.fixture(scope="module")
def deck(request, site, browser):
    """A deck in a browser, opened once for all tests of it; `faults` as in the fixture `page`."""
    page = watched_page(browser, *SIZES[0])
    page.goto((site / "slides" / f"{request.param}.html").as_uri())
    page.wait_for_function("document.documentElement.dataset.ready === 'true'")
    yield page
    page.close()


opened = pytest.mark.parametrize("deck", DECKS, indirect=True)


def test_the_example_of_the_slides_runs():
    assert doctest.testmod(slides) == (0, 2)


def test_marks_start_continue_end_and_step_through_slides():
    page = """<h1>T</h1><h2>A</h2><!-- cell slide --><p>1</p><!-- slide-end --><p>-</p><!-- slide: B --><p>2</p>
        <!-- fragment --><p>3</p><p>4</p><!-- cell --><p>-</p>
        <div class="cell tag_slide-more"><b class="cell_input">c</b><b class="cell_output">5</b></div>
        <div class="cell tag_slide tag_slide-code"><b class="cell_input">c</b><b class="cell_output">6</b></div>"""
    found = slides.read_slides(BeautifulSoup(page, "html.parser"))
    texts = [(slide.heading, "".join(block.get_text() for block in slide.body)) for slide in found]
    assert texts == [("T", ""), ("A", "1"), ("B", "2345"), ("A", "c6")]
    assert [step.get_text() for step in found[2].body if "fragment" in step.get("class", ())] == ["34"]


def test_every_page_of_the_chapter_has_a_deck_in_the_index(site):
    index = BeautifulSoup((site / "slides" / "index.html").read_text(encoding="utf-8"), "html.parser")
    links = [link["href"] for link in index.select("article a[href]")]
    assert [link for link in links if not link.startswith("..")] == [f"{name}.html" for name in DECKS]
    assert [link for link in links if not (site / "slides" / link).is_file()] == []


@every_deck
def test_a_deck_has_12_to_25_slides_each_with_something_on_it(site, name):
    found = sections(site, name)
    assert 12 <= len(found) <= 25
    full = [slide.select_one(".slide-body").get_text(strip=True) or slide.select_one(".moe-chart") for slide in found]
    assert [i for i, something in enumerate(full, start=1) if not something] == []
    assert [i for i, slide in enumerate(found, start=1) if not slide.select_one("h1, h2").get_text(strip=True)] == []


def test_a_heading_that_a_box_hides_is_large_on_the_next_slide(site):
    found = [slide for slide in sections(site, "01_active_vs_total") if "cache does a token take" in slide.text[:200]]
    assert [slide["class"][0] for slide in found][:2] == ["boxed", "opens"]


@every_deck
def test_a_speaker_has_notes_for_every_slide_and_45_minutes(site, name):
    found = sections(site, name)
    assert [i for i, slide in enumerate(found, 1) if not slide.select_one("aside.notes").get_text(strip=True)] == []
    assert 40 <= sum(float(slide["data-timing"]) for slide in found) / 60 <= 50


@every_deck
def test_links_of_a_deck_lead_somewhere(site, name):
    html = (site / "slides" / f"{name}.html").read_text(encoding="utf-8")
    pages = {link.partition("#")[0] for link in re.findall(r'(?:href|src)="(\.\./[^"?]+|[\w.]+/?[\w.]+)', html)}
    assert [link for link in pages if not (site / "slides" / link).is_file()] == []


@opened
def test_nothing_leaves_its_slide(deck):
    faults = {}
    for width, height in SIZES[::-1]:
        deck.set_viewport_size({"width": width, "height": height})
        deck.wait_for_function(f"Math.abs(Reveal.getScale() - {width / 1280}) < 1e-3")
        faults[width] = deck.evaluate(OVERFLOW)
    assert faults == {1280: [], 1920: []}


@opened
def test_words_and_labels_can_be_read_from_the_back_row(deck):
    assert deck.evaluate(SMALL) == []


@opened
def test_a_slider_on_a_slide_redraws_and_gives_the_arrows_back(deck):
    slider = deck.locator(".slides input[type=range]:enabled").first
    if not slider.count():
        pytest.skip("no slider in this deck")
    chart = deck.locator(".moe-chart:has(input[type=range])").first
    deck.evaluate("slider => Reveal.slide(Reveal.getIndices(slider.closest('section')).h)", slider.element_handle())
    drawn, at = chart.locator(".moe-plot").inner_html(), deck.evaluate("Reveal.getIndices().h")
    slider.focus()
    slider.press("ArrowLeft")
    plot = chart.locator(".moe-plot").element_handle()
    deck.wait_for_function("([plot, drawn]) => plot.innerHTML !== drawn", arg=[plot, drawn])
    assert deck.evaluate("Reveal.getIndices().h") == at
    deck.keyboard.press("Escape")
    deck.keyboard.press("ArrowRight")
    deck.keyboard.press("ArrowLeft")
    assert deck.evaluate("Reveal.getIndices().h") == at
    slider.click()
    deck.keyboard.press("ArrowRight")
    assert deck.evaluate("Reveal.getIndices().h") == at + 1


LAST = """(part) => document.querySelectorAll(".moe-chart .moe-input").forEach((field) => {
  const [input, kind] = [field.querySelector("select, input"), field.querySelector("input")?.type ?? "select"];
  if (kind === "range") input.value = input[part === "first" ? "min" : "max"];
  else if (kind === "select") input.selectedIndex = part === "first" ? 0 : input.options.length - 1;
  else return [...field.querySelectorAll("input")].at(part === "first" ? 0 : -1).click();
  for (const kind of ["input", "change"]) input.dispatchEvent(new Event(kind, { bubbles: true }));
})"""


@opened
def test_what_a_figure_says_stays_on_its_slide_at_either_end_of_its_inputs(deck):
    if not deck.locator(".moe-inputs").count():
        pytest.skip("no input in this deck")
    for part in ("last", "first"):
        deck.evaluate(LAST, part)
        assert deck.evaluate(OVERFLOW) == []


@opened
def test_a_deck_asked_for_nothing_elsewhere_and_reported_no_error(deck):
    assert deck.faults == []


@opened
def test_axe_finds_no_fault_on_any_slide_light_or_dark(deck, axe):
    deck.evaluate(UNFOLD)
    deck.evaluate(LIGHTEN)
    faults = {"light": axe(deck)}
    deck.evaluate("document.documentElement.dataset.theme = 'dark'")
    assert faults | {"dark": axe(deck, *COLOUR_RULES)} == {"light": [], "dark": []}


def test_keys_turn_pages_show_all_slides_and_change_the_theme(site, page):
    page.goto((site / "slides" / f"{DECKS[2]}.html").as_uri())
    page.wait_for_function("document.documentElement.dataset.ready === 'true'")
    page.keyboard.press("ArrowRight")
    assert page.evaluate("Reveal.getIndices().h") == 1
    page.keyboard.press("o")
    assert page.evaluate("Reveal.isOverview()")
    page.keyboard.press("o")
    before = page.evaluate("document.documentElement.dataset.theme")
    page.keyboard.press("t")
    assert {before, page.evaluate("document.documentElement.dataset.theme")} == {"light", "dark"}
    assert page.faults == []


def test_a_phone_held_upright_reads_slides_in_one_column(site, page):
    page.set_viewport_size({"width": 390, "height": 844})
    page.goto((site / "slides" / f"{DECKS[2]}.html").as_uri())
    page.wait_for_function("document.documentElement.dataset.ready === 'true'")
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    assert page.locator(".sheet:visible").count() == len(sections(site, DECKS[2]))


def test_axe_finds_no_fault_in_the_index(site, page, axe):
    page.goto((site / "slides" / "index.html").as_uri())
    assert axe(page) == [] and page.faults == []


def test_the_speaker_window_shows_notes_and_the_next_slide(site, page):
    page.goto((site / "slides" / f"{DECKS[0]}.html").as_uri())
    page.wait_for_function("document.documentElement.dataset.ready === 'true'")
    note = sections(site, DECKS[0])[1].select_one("aside.notes").get_text(strip=True)
    with page.expect_popup() as popup:
        page.keyboard.press("s")
    page.keyboard.press("ArrowRight")
    popup.value.wait_for_function("note => document.body.innerText.includes(note)", arg=note[:40])
    popup.value.frame_locator("#upcoming-slide iframe").locator(".reveal.ready section.present").wait_for()
    popup.value.close()
    assert page.faults == []


@pytest.mark.parametrize("name", [DECKS[2], DECKS[-1]])
def test_a_printed_deck_has_a_page_for_every_slide_and_no_solution(site, page, tmp_path, name):
    pdf = slides.print_deck(page, site / "slides" / f"{name}.html", tmp_path / "deck.pdf").read_bytes()
    assert len(re.findall(rb"/Type\s*/Page\b", pdf)) == len(sections(site, name))
    assert page.locator(".solution").count() == 0 and page.locator(".exercise").count() == 1
    assert page.faults == []
