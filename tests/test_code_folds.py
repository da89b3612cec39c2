"""Code of a page: a check is a mark at the text that it proves, wired code has a name, on a phone all code folds."""

import ast
import doctest
import re
import sys

import pytest
from browsing import read, watched_page
from bs4 import BeautifulSoup
from conftest import NOTEBOOKS, ROOT, page_names
from docutils import nodes
from page_rules import cells, tree

sys.path.insert(0, str(ROOT / "book" / "_ext"))
import code_folds  # noqa: E402

every_notebook = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
every_page = pytest.mark.parametrize("name", [name for name in page_names() if name.startswith("notebooks/")])
DRAWN = re.compile(r"\bfigures\.\w+\(")
SLOT = re.compile(r"<!--\s*check: ([^>]+?)\s*-->")


def tags(cell):
    return set(cell.metadata.get("tags", []))


def cell(name, *tagged, code="assert 1", output=""):
    """A code cell as MyST-NB leaves it in a page."""
    source = nodes.container("", nodes.literal_block(code, code), nb_element="cell_code_source")
    shown = nodes.container("", nodes.paragraph("", output), nb_element="cell_code_output")
    return nodes.container("", source, *([shown] if output else []), nb_element="cell_code", classes=[
        "cell", *(f"tag_{tag}" for tag in tagged)], cell_metadata={"cell_id": name})


def folded(*parts):
    """A page of these parts after the transform: its text, `[` and `]` around what a mark opens, `(` and `)` a fold."""
    document = nodes.document("", None)
    document += nodes.section("", nodes.title("", "T"), *parts)
    transform = code_folds.FoldCode.__new__(code_folds.FoldCode)
    transform.document = document
    transform.run()
    signs = ((r"<button.*?</button>", "*"), (r"<div[^>]*>", "["), (r"</div>", "]"), (r"</details>", ")"),
             (r"<details[^>]*><summary>(.*?)</summary>", r"(\1:"), (r"<!--.*?-->", ""))  # fmt: skip
    text = "\n".join(node.astext() for node in document.findall(nodes.Text))
    for pattern, sign in signs:
        text = re.sub(pattern, sign, text, flags=re.DOTALL)
    return [line for line in text.split("\n") if line][1:]


def words(text):
    return nodes.paragraph("", text)


def comment(text):
    return nodes.raw("", f"<!-- {text} -->", format="html")


def test_a_check_is_a_mark_at_the_end_of_the_text_before_it_and_figures_stand_between():
    found = folded(words("It reads 5 GB."), cell("figure", "hide-input", code="# Rows", output="drawn"),
                   cell("a", "check", code="assert a"))
    assert found[:4] == ["It reads ", "5 GB.", "*", "["]
    assert found.index("*") < found.index("[") < found.index("assert a") < found.index("]") < found.index("drawn")


def test_checks_at_one_text_share_a_mark():
    found = folded(words("It is so."), cell("a", "check", code="assert a"), cell("b", "check", code="assert b"))
    assert found == ["It ", "is so.", "*", "[", "assert a", "assert b", "]"]


def test_a_comment_names_the_check_of_the_text_before_it_or_of_the_sentence():
    second = nodes.paragraph("", "", nodes.Text("Two. "), comment("check: b"), nodes.Text("Three."))
    found = folded(words("One. "), comment("check: a"), second,
                   cell("a", "check", code="assert a"), cell("b", "check", code="assert b"))
    assert "".join(found) == "One. *[assert a]Two. *Three.[assert b]"


def test_below_a_list_or_a_table_a_mark_has_a_line_of_its_own_within_its_box():
    items = nodes.bullet_list("", nodes.list_item("", words("a")), nodes.list_item("", words("b")))
    box = nodes.admonition("", items)
    folded(box, cell("a", "check"))
    assert box[-1]["classes"] == ["moe-check-line"] and "moe-check" in box[-1].astext()


def test_wired_code_folds_below_what_it_shows_with_the_wired_code_before_it():
    found = folded(cell("setup", "hide-input", code="# Set up\nimport x"), comment("notes 2 min: Ask."),
                   cell("figure", "hide-input", code="# The <rows>", output="drawn"), words("Text."))
    assert found == ["drawn", "(Set up · The &lt;rows&gt;:", "# Set up", "import x", "# The <rows>", ")", "Text."]


def test_shown_code_is_known_by_its_first_words():
    assert folded(cell("a", code="a = 1 < 2\nb")) == ["(The code: <code>a = 1 &lt; 2</code>:", "a = 1 < 2", "b", ")"]


def test_the_examples_of_the_extension_run():
    assert doctest.testmod(code_folds) == (0, 3)


@every_notebook
def test_a_check_shows_nothing(path):
    for each in cells(path, "code"):
        if "check" in tags(each):
            assert not isinstance(tree(each).body[-1], ast.Expr) and not DRAWN.match(each.source), each.id


@every_notebook
def test_a_cell_that_only_asserts_out_of_sight_is_a_check(path):
    """What is folded under a name sets up, draws, or computes rows."""
    for each in cells(path, "code"):
        if "hide-input" in tags(each):
            assert not all(isinstance(node, ast.Assert) for node in tree(each).body), each.id


@every_notebook
def test_the_code_of_a_figure_is_wired(path):
    for each in cells(path, "code"):
        last = each.source.rstrip().splitlines()[-1]
        drawn = isinstance(tree(each).body[-1], ast.Expr) and DRAWN.search(ast.unparse(tree(each).body[-1]))
        assert not drawn or "hide-input" in tags(each), f"{each.id}: {last}"


@every_notebook
def test_wired_code_has_a_name_of_its_own_on_its_page(path):
    wired = [each for each in cells(path, "code") if "hide-input" in tags(each)]
    names = [code_folds.own_name(each.metadata, each.source) for each in wired]
    assert [each.id for each, name in zip(wired, names, strict=True) if not 5 < len(name) < 80] == []
    assert len(set(names)) == len(names)


@every_notebook
def test_a_comment_that_names_a_check_names_one(path):
    named = [name for each in cells(path, "markdown") for said in SLOT.findall(each.source) for name in said.split()]
    assert set(named) <= {each.id for each in cells(path, "code") if "check" in tags(each)}
    assert len(set(named)) == len(named)


def page_of(site, name):
    return BeautifulSoup((site / f"{name}.html").read_text(encoding="utf-8"), "html.parser")


@every_page
def test_each_mark_of_a_page_opens_code_and_no_fold_is_empty_or_nameless(site, name):
    page = page_of(site, name)
    opened = [mark["aria-controls"] for mark in page.select("button.moe-check")]
    assert opened == [code["id"] for code in page.select(".moe-checked[hidden]")] and len(set(opened)) == len(opened)
    assert all("assert" in page.find(id=each).get_text() for each in opened)
    assert all(mark.get_text(strip=True) == "checked" for mark in page.select("button.moe-check"))
    names = [fold.summary.get_text(strip=True) for fold in page.select("details.moe-fold")]
    assert all(names) and not re.search("Show the code|Toggle hidden", str(page.select_one("article")))
    assert all(fold.select_one("pre").get_text(strip=True) for fold in page.select(".moe-fold"))
    assert not page.select(".cell_input:not(.moe-fold *), details.hide")


def test_no_code_and_no_fold_stands_before_the_first_figure_of_the_landing_page(site):
    article = page_of(site, page_names()[0]).select_one("article")
    first = article.select_one(".moe-chart, .moe-figure")
    assert first and first.find_all_previous(class_=["moe-fold", "cell_input"]) == []


@pytest.mark.parametrize("name", [path.stem for path in NOTEBOOKS if path.stem[0].isdigit()])
def test_no_mark_and_no_fold_is_on_a_slide(site, name):
    deck = page_of(site, f"slides/{name}")
    assert deck.select(".moe-check, .moe-check-line, .moe-fold, summary:not(.moe-chart *)") == []


@pytest.fixture(scope="module")
def coverage_page(site, browser):
    page = watched_page(browser)
    read(page, site / "notebooks" / "02_coverage.html")
    yield page
    page.close()


def test_a_mark_opens_its_check_by_mouse_and_by_key_and_says_so(coverage_page):
    mark = coverage_page.locator("button.moe-check").first
    code = coverage_page.locator(f"#{mark.get_attribute('aria-controls')}")
    assert not code.is_visible() and mark.get_attribute("aria-expanded") == "false"
    mark.click()
    assert code.is_visible() and mark.get_attribute("aria-expanded") == "true"
    below = code.bounding_box()["y"] - mark.bounding_box()["y"]
    assert 0 < below < 80 and coverage_page.evaluate("document.documentElement.scrollWidth") <= 1440
    for key in ("Enter", "Space"):
        mark.press(key)
    assert code.is_visible()
    mark.press("Enter")
    assert not code.is_visible() and mark.get_attribute("aria-expanded") == "false"


def test_on_a_phone_all_code_folds_and_on_paper_what_is_argument_unfolds(coverage_page):
    shown = coverage_page.locator("details.moe-shown .cell_input")
    marks = coverage_page.locator("button.moe-check")
    assert shown.count() and all(code.is_visible() for code in shown.all())
    coverage_page.set_viewport_size({"width": 390, "height": 844})
    coverage_page.wait_for_function("!document.querySelector('details.moe-shown[open]')")
    assert coverage_page.locator(".cell_input:visible").count() == 0
    coverage_page.locator("details.moe-shown > summary").first.click()
    marks.first.click()
    assert coverage_page.locator(".cell_input:visible").count() == 2
    assert coverage_page.evaluate("document.documentElement.scrollWidth") <= 390
    coverage_page.emulate_media(media="print")
    coverage_page.wait_for_function("document.querySelectorAll('details.moe-shown:not([open])').length === 0")
    assert coverage_page.locator(".cell_input:visible").count() == shown.count() and marks.first.is_visible()
    assert coverage_page.locator("details.moe-fold > summary:visible").count() == 0
    coverage_page.emulate_media(media="screen")
    marks.first.click()


def test_without_scripts_all_code_can_be_reached(site, browser):
    page = browser.new_page(java_script_enabled=False)
    page.goto((site / "notebooks" / "02_coverage.html").as_uri())
    for code in (".moe-checked pre", "details.moe-shown pre"):
        assert page.locator(code).first.is_visible()
    fold = page.locator("details.moe-fold:not(.moe-shown)").first
    fold.locator("summary").click()
    assert fold.locator("pre").is_visible() and not page.locator(".moe-check:visible").count()
    page.close()


def test_axe_finds_no_fault_in_an_open_check_light_or_dark(coverage_page, axe):
    coverage_page.set_viewport_size({"width": 1440, "height": 900})
    coverage_page.locator("button.moe-check").first.click()
    rules = ("color-contrast", "button-name", "aria-valid-attr-value", "target-size", "nested-interactive")
    faults = {}
    for theme in ("light", "dark"):
        coverage_page.evaluate("theme => { document.documentElement.dataset.theme = theme; }", theme)
        faults[theme] = axe(coverage_page, *rules)
    assert faults == {"light": [], "dark": []}
