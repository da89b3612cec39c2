"""The built site: complete, self-contained, and working when its files are opened from disk."""

import re
import shutil
import subprocess
import sys

import nbformat
import pytest
from conftest import ROOT

LOADED = re.compile(r"""<(?:script|img|iframe|source|video|link)\b[^>]*?(?:src|href)=["']((?:https?:)?//[^"']+)""")
IMPORTED = re.compile(r"""(?:url\(|@import )["']?((?:https?:)?//[^)]+)""")


def _page_names():
    text = (ROOT / "_toc.yml").read_text()
    return re.findall(r"(?:root|file): (\S+)", text)


every_page = pytest.mark.parametrize("name", _page_names())


def test_every_page_of_the_table_of_contents_was_built(site, toc_pages):
    assert toc_pages == _page_names()
    assert [name for name in toc_pages if not (site / f"{name}.html").is_file()] == []
    assert (site / "index.html").is_file()


def test_no_page_or_style_names_a_file_elsewhere_to_load(site):
    for pattern, ending in ((LOADED, "html"), (IMPORTED, "css")):
        for path in site.rglob(f"*.{ending}"):
            assert pattern.findall(path.read_text()) == [], path


def test_scripts_are_loaded_only_where_they_are_used(site, toc_pages):
    for name in toc_pages:
        html = (site / f"{name}.html").read_text()
        assert ("vega-embed.js" in html) == ("moe-chart.js" in html) == ('class="moe-chart"' in html), name
        assert ("mathjax/tex-svg.js" in html) == ('class="math' in html), name
        assert "require.js" not in html and "widget-state" not in html and "sphinx-thebe.js" not in html, name


@every_page
def test_a_page_opened_from_disk_asks_for_nothing_elsewhere_and_reports_no_error(site, page, name):
    page.goto((site / f"{name}.html").as_uri())
    page.wait_for_load_state("networkidle")
    assert page.faults == []


@every_page
def test_formulas_and_charts_of_a_page_are_drawn(site, page, name):
    page.goto((site / f"{name}.html").as_uri())
    formulas = page.locator(".math").count()
    page.wait_for_function("window.MathJax?.startup?.promise" if formulas else "true")
    page.evaluate("window.MathJax?.startup?.promise")
    assert page.locator(".math mjx-container").count() >= formulas
    assert page.locator("mjx-merror").count() == 0
    for chart in page.locator(".moe-chart").all():
        chart.scroll_into_view_if_needed()
        page.wait_for_function("chart => chart.dataset.ready === 'true'", arg=chart.element_handle())
    assert page.faults == []


def test_the_theme_button_turns_the_page_dark(site, page, toc_pages):
    page.goto((site / f"{toc_pages[0]}.html").as_uri())
    background = {}
    for _ in range(3):
        page.locator("button.theme-switch-button:visible").first.click()
        theme = page.evaluate("document.documentElement.dataset.theme")
        background[theme] = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert background.keys() == {"light", "dark"} and background["light"] != background["dark"]
    assert page.faults == []


@pytest.fixture
def small_book(tmp_path):
    """A copy of the book's set-up with one notebook, whose second code cell is given."""

    def build(code, toc="format: jb-book\nroot: only\n"):
        shutil.copytree(ROOT / "book", tmp_path / "book", ignore=shutil.ignore_patterns("*.md"))
        shutil.copy(ROOT / "_config.yml", tmp_path)
        (tmp_path / "moe_lib").symlink_to(ROOT / "moe_lib")  # styles that the pages share with JupyterLab
        (tmp_path / "_toc.yml").write_text(toc)
        cells = [nbformat.v4.new_markdown_cell("# Only"), *map(nbformat.v4.new_code_cell, ["one = 1", code])]
        nbformat.write(nbformat.v4.new_notebook(cells=cells), tmp_path / "only.ipynb")
        return subprocess.run([sys.executable, tmp_path / "book" / "build.py"], capture_output=True, text=True)

    return build


def test_a_failing_cell_fails_the_build_and_is_named(small_book):
    run = small_book("assert one == 2, 'not two'")
    assert run.returncode != 0
    assert "only.ipynb: code cell 2 failed: AssertionError: not two" in run.stderr


def test_a_page_that_is_missing_fails_the_build(small_book):
    run = small_book("pass", toc="format: jb-book\nroot: only\nchapters:\n- file: absent\n")
    assert run.returncode != 0
    assert "absent" in run.stderr
