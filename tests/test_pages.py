"""Every page of the built site, in a browser that opened it from disk: drawn, light, accessible, fit for every width.

A page is opened once for all tests of it. They run in the order in which they stand: later ones change what they see.
"""

import pytest
import yaml
from browsing import comes_true, resize, undrawn, watched_page
from conftest import ROOT, page_names
from weight import LANDING_BYTES, PAGE_BYTES, loaded, weights

COLOUR_RULES = ("color-contrast", "link-in-text-block")  # what the theme changes
# Words of code in their colours, strokes of drawings and formulas, rows of numbers, the list of all pages: alike
# everywhere, and four fifths of all elements.
WHOLE_PAGES = ("notebooks/02_coverage", "book/api/routing")
LIGHTEN = """document.querySelectorAll(".highlight pre, dt.sig, .moe-plot svg, mjx-math")
               .forEach(el => { el.textContent = el.textContent; });
             document.querySelectorAll(".moe-numbers tr, .bd-sidebar-primary li:not(.current)")
               .forEach(el => el.matches(":nth-child(n + 4)") && el.remove())"""
WIDTH = "document.documentElement.scrollWidth"
every_page = pytest.mark.parametrize("visit", [*page_names(), "genindex", "search"], indirect=True)


@pytest.fixture(scope="module")
def visit(request, site, browser):
    """A page that was read from top to bottom; has its `name`, and all files that it `asked` for."""
    page = watched_page(browser)
    page.name = request.param
    page.asked = loaded(page, site / f"{page.name}.html")
    yield page
    page.close()


@pytest.fixture(scope="session")
def landing(site, browser):
    """The files that the first page of the chapter asks for."""
    page = watched_page(browser)
    yield loaded(page, site / f"{page_names()[0]}.html")
    page.close()


@every_page
def test_a_page_opened_from_disk_asks_for_nothing_elsewhere_and_reports_no_error(visit):
    assert visit.faults == []


@every_page
def test_formulas_and_charts_of_a_page_are_drawn(visit):
    assert undrawn(visit) == []
    assert visit.locator(".math:not(:has(mjx-container))").all_inner_texts() == []
    assert visit.locator("mjx-merror").all_inner_texts() == []


@every_page
def test_the_first_page_and_what_every_further_page_adds_are_light(visit, landing):
    first = visit.name == page_names()[0]
    added = weights(visit.asked - (set() if first else landing))
    assert sum(added.values()) <= (LANDING_BYTES if first or visit.name == "search" else PAGE_BYTES), added


FIGURES = """() => [...document.querySelectorAll(".moe-chart")].map(chart => {
  const pictures = chart.querySelectorAll("[role=img]");
  return { id: chart.id, tag: chart.tagName, pictures: pictures.length,
           name: document.getElementById(chart.getAttribute("aria-labelledby")).textContent,
           finding: chart.querySelector(".moe-finding").innerText, number: chart.querySelector(".moe-no").innerText,
           drawing: chart.querySelector("figcaption .moe-drawing").innerText,
           source: chart.querySelector("figcaption .moe-source").innerText,
           picture: pictures[0].getAttribute("aria-label"), cells: chart.querySelectorAll(".moe-numbers td").length,
           empty: [...chart.querySelectorAll(".moe-numbers :is(th, caption)")].filter(x => !x.textContent).length,
           bare: chart.innerText.includes("A drawing: there are no numbers") };
})"""
OPEN = "open => document.querySelectorAll('.moe-numbers, .bd-article details').forEach(box => { box.open = open; })"


@every_page
def test_every_figure_shows_its_finding_what_is_drawn_its_source_and_numbers_or_is_a_drawing(visit):
    visit.evaluate(OPEN, True)
    visit.wait_for_function("[...document.querySelectorAll('.moe-numbers')].every(box => box.querySelector('p'))")
    figures = visit.evaluate(FIGURES)
    visit.evaluate(OPEN, False)
    for figure in figures:
        assert 10 < len(figure["finding"]) < 175 and figure["name"] == figure["picture"], figure
        assert figure["tag"] == "FIGURE" and figure["pictures"] == 1 and not figure["empty"], figure
        assert len(figure["drawing"]) > 20 and len(figure["source"]) > len(figure["number"]) + 5, figure
        assert (figure["cells"] >= 4) != figure["bare"], figure
    assert len({figure["id"] for figure in figures}) == len(figures)
    assert sum(figure["bare"] for figure in figures) <= (visit.name == "notebooks/07_expert_parallelism"), figures


@every_page
def test_figures_are_counted_in_the_order_of_the_page(visit):
    numbers = visit.locator(".moe-figure .moe-no").all_inner_texts()
    assert [number.rpartition(".")[2].split()[-1] for number in numbers] == [str(i + 1) for i in range(len(numbers))]
    assert visit.locator(".moe-figure").count() == len(numbers)


TALL = """(height) => [...document.querySelectorAll(".moe-chart:has(input[type=range])")].map((chart) => {
  const top = chart.querySelector(".moe-plot").getBoundingClientRect().top;
  return [chart.id, chart.querySelector("input[type=range]").getBoundingClientRect().bottom - top];
}).filter(([, tall]) => tall > height)"""


@every_page
def test_a_slider_and_its_plot_are_on_one_screen(visit):
    if visit.locator(".moe-chart input[type=range]").count():
        for width, height in ((1440, 900), (720, 450), (390, 780)):  # the second is the first at 200 %
            resize(visit, width, height)
            assert visit.evaluate(TALL, height) == [], (width, height)
        resize(visit, 1440)


CUT = """[...document.querySelectorAll(".moe-plot:has(svg)")].flatMap((plot) => {
  const boxes = [plot, plot.querySelector("svg")].map((node) => node.getBoundingClientRect());
  return [...plot.querySelectorAll("text")].filter((text) => {
    const at = text.getBoundingClientRect();
    const outside = boxes.some(({ left, right }) => at.right > right + 1.5 || at.left < left - 1.5);
    return at.width && getComputedStyle(text).opacity > 0 && outside;
  }).map((text) => text.textContent);
})"""


@every_page
def test_no_text_of_a_figure_is_cut_at_the_width_of_a_phone_a_tablet_or_a_small_window(visit):
    cut = {}
    for width in (1024, 600, 390) if visit.locator(".moe-chart").count() else ():
        resize(visit, width)
        cut[width] = visit.evaluate(CUT)
    assert {width: texts for width, texts in cut.items() if texts} == {}


@every_page
def test_a_page_is_no_wider_than_a_phone_and_neither_is_unfolded_code_of_the_reference(visit):
    resize(visit, 390)
    assert visit.evaluate(WIDTH) <= 390
    if visit.name.startswith("book/api/"):
        visit.evaluate(OPEN, True)
        wide = "[...document.querySelectorAll('.bd-article pre')].filter(pre => pre.scrollWidth > pre.clientWidth)"
        assert visit.evaluate(f"{wide}.map(pre => pre.textContent)") == [] and visit.evaluate(WIDTH) <= 390
        visit.evaluate(OPEN, False)


LINKED_WORDS = """[...document.querySelectorAll("article a:has(> .std-term):not(.glossary *)")].map((link) =>
  [link.getAttribute("href"), link.title, Boolean(link.closest("h1, h2, h3, code, pre"))])"""


@every_page
def test_the_first_use_of_a_glossary_word_on_a_page_links_to_it_and_says_what_it_means(visit, site):
    explained = (site / "book" / "glossary.html").read_text(encoding="utf-8")
    links = visit.evaluate(LINKED_WORDS)
    for address, meaning, misplaced in links:
        assert f'id="{address.partition("#")[2]}"' in explained and meaning and not misplaced, address
    once = [address for address, *_ in links].count("../book/glossary.html#term-touched")
    assert once == 1 or visit.name != "notebooks/02_coverage"


@every_page
def test_without_a_repository_no_page_links_to_one(visit):
    if yaml.safe_load((ROOT / "_config.yml").read_text(encoding="utf-8"))["repository"]["url"]:
        pytest.skip("this checkout has a repository")
    links = ".moe-actions a[href^=http], .moe-facts a, .bd-sidebar-primary a[href^=http]"
    assert visit.locator(links).all_inner_texts() == []


# What a chart has shown since: its drawing and its readouts after every change.
STATES = """chart => {
  const shown = () => chart.querySelector(".moe-plot svg").innerHTML + (chart.querySelector("dl")?.innerText ?? "");
  chart.states = new Set([shown()]);
  chart.watch = new MutationObserver(() => chart.states.add(shown()));
  chart.watch.observe(chart, { subtree: true, childList: true, attributes: true, characterData: true });
}"""


@every_page
def test_on_a_phone_the_arrow_keys_move_every_input_and_its_figure(visit):
    resize(visit, 390)
    still = []
    for chart in visit.locator(".moe-chart:has(.moe-inputs)").all():
        for box in chart.locator(".moe-input:not(:has(:disabled)):not(:disabled)").all():
            box.locator("select, input[type=range], input:checked").focus()
            chart.evaluate(STATES)
            for key in ("ArrowDown", "ArrowUp", "ArrowUp", "ArrowDown"):
                visit.keyboard.press(key)
            moved = comes_true(visit, "chart => chart.states.size > 1", chart.element_handle())
            still += [] if moved else [box.inner_text()]
            chart.evaluate("chart => chart.watch.disconnect()")
    assert still == [] and visit.evaluate(WIDTH) <= 390


@every_page
def test_axe_finds_nothing_on_a_page_in_light_and_dark(visit, axe):
    resize(visit, 1440)
    for control in visit.locator(".moe-chart:has(.moe-inputs)").all()[:1]:
        control.locator("select, input").first.press("ArrowDown")
        control.locator(".moe-numbers > summary").press("Enter")
        control.locator(".moe-numbers table").first.wait_for()
    if visit.name not in WHOLE_PAGES:
        visit.evaluate(LIGHTEN)
    faults = {"light": axe(visit)}
    visit.evaluate("document.documentElement.dataset.theme = 'dark'")
    assert faults | {"dark": axe(visit, *COLOUR_RULES)} == {"light": [], "dark": []}


@every_page
def test_nothing_that_was_done_on_a_page_asked_for_something_elsewhere_or_made_an_error(visit):
    assert visit.faults == []
