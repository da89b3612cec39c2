"""The built site: complete, self-contained, light, and working when its files are opened from disk."""

import importlib.util
import json
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import nbformat
import pytest
import yaml
from bs4 import BeautifulSoup
from conftest import NOTEBOOKS, ROOT, page_names
from page_rules import shape_faults

LOADED = re.compile(
    r"""<(?:script|img|iframe|source|video|link(?! rel="canonical"))\b[^>]*?(?:src|href)=["']((?:https?:)?//[^"']+)""")
IMPORTED = re.compile(r"""(?:url\(|@import )["']?((?:https?:)?//[^)]+)""")


def test_every_page_of_the_table_of_contents_was_built(site, book):
    assert book.pages(yaml.safe_load((ROOT / "_toc.yml").read_text())) == page_names()
    assert [name for name in page_names() if not (site / f"{name}.html").is_file()] == []
    assert (site / "index.html").is_file()


def test_no_page_or_style_names_a_file_elsewhere_to_load(site):
    for pattern, ending in ((LOADED, "html"), (IMPORTED, "css")):
        for path in site.rglob(f"*.{ending}"):
            assert pattern.findall(path.read_text()) == [], path


def test_scripts_are_loaded_only_where_they_are_used(site):
    for name in page_names():
        html = (site / f"{name}.html").read_text()
        assert ("vega-embed.js" in html) == ("moe-chart.js" in html) == ('moe-chart" id="' in html), name
        assert ("mathjax/tex-chtml.js" in html) == ('class="math' in html), name
        assert "require.js" not in html and "widget-state" not in html and "sphinx-thebe.js" not in html, name


def test_no_icon_font_and_no_script_of_bootstrap_is_left_in_the_site(site):
    assert [path.name for path in site.rglob("*") if re.search("fontawesome|fa-solid|bootstrap|thebe", path.name)] == []
    styles = (site / "_static" / "styles" / "pydata-sphinx-theme.css").read_text()
    assert not re.search(r"@font-face|[}/]\.fa-[a-z-]+:before", styles)


def test_the_theme_button_turns_the_page_dark(site, page):
    page.goto((site / f"{page_names()[0]}.html").as_uri())
    background = {}
    for _ in range(3):
        page.locator("button.theme-switch-button:visible").first.click()
        theme = page.evaluate("document.documentElement.dataset.theme")
        background[theme] = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert background.keys() == {"light", "dark"} and background["light"] != background["dark"]
    assert page.faults == []


def test_the_search_works_from_disk_and_shows_the_words_found(site, page):
    page.goto((site / f"{page_names()[2]}.html").as_uri())
    page.keyboard.press("Control+k")
    page.keyboard.type("ridge po")
    page.keyboard.press("Enter")
    page.wait_for_url("**/search.html?q=ridge+po")
    results = page.locator("#search-results li")
    assert results.count() > 3 and page.locator("#search-results mark").count() > results.count()
    assert not re.search("©|Previous|On this page", " ".join(results.all_inner_texts()))  # the frame is no text
    assert results.locator("a").first.inner_text() == "ridge point"
    results.locator("a").first.click()
    page.wait_for_url("**/book/glossary.html#term-ridge-point")
    assert page.faults == []


def test_words_that_occur_nowhere_are_said_to(site, page):
    page.goto((site / "search.html").as_uri() + "?q=xyzzy")
    assert page.locator(".moe-found").inner_text().startswith("Nothing found")
    page.locator(".moe-find input").fill("coverage (+[")  # no pattern, only letters that do not occur in a row
    assert page.locator("#search-results li").count() == 0 and page.faults == []


def test_the_notebook_of_a_page_is_downloaded_from_disk(site, page):
    page.goto((site / "notebooks" / "02_coverage.html").as_uri())
    with page.expect_download() as download:
        page.get_by_role("link", name="Notebook", exact=True).click()
    assert download.value.suggested_filename == "02_coverage.ipynb"
    assert json.loads(Path(download.value.path()).read_text()) == json.loads(
        (ROOT / "notebooks" / "02_coverage.ipynb").read_text())


def test_the_search_knows_equations_by_their_numbers_and_functions_without_their_arguments(site):
    texts = (site / "_static" / "search-texts.js").read_text(encoding="utf-8")
    assert "(2.1)" in texts and not re.search(r"eq-\d\d-", texts)
    assert "token_time" in texts and "token_timemodel" not in texts


def test_a_number_keeps_its_unit_in_texts_and_not_in_code(site):
    html = (site / "notebooks" / "04_tokens_weights_cache.html").read_text(encoding="utf-8")
    page = BeautifulSoup(html, "html.parser")
    texts = " ".join(paragraph.get_text() for paragraph in page.select("article section > p"))
    assert "69.8\u00a0ms" in page.get_text() and not re.search(r"\d ms\b", texts)
    reference = (site / "book" / "api" / "offload.html").read_text(encoding="utf-8")
    assert "352 MB" in re.sub("<[^>]+>", "", reference) and "352\u00a0MB" not in reference


def test_the_page_tells_who_measured_the_answer_to_a_prediction(site):
    page = (site / "notebooks" / "08_load_balance.html").read_text(encoding="utf-8")
    assert page.count("Measured by NVIDIA: <strong>") == 2


def test_a_phone_opens_pages_and_headings_from_the_bar_and_words_found_fit_it(site, page):
    page.set_viewport_size({"width": 390, "height": 844})
    page.goto((site / "search.html").as_uri() + "?q=token_time")
    assert page.locator("#search-results li").count() and page.evaluate("document.documentElement.scrollWidth") <= 390
    page.goto((site / "book" / "sources.html").as_uri())
    for button, link in (("Pages of the chapter", "Glossary"), ("On this page", "Bibliography")):
        page.get_by_role("button", name=button, exact=True).click()
        page.locator("dialog[open]").get_by_role("link", name=link).wait_for()
        page.keyboard.press("Escape")


def test_the_foot_of_a_page_states_version_and_last_change(site):
    foot = BeautifulSoup((site / "notebooks" / "02_coverage.html").read_text(), "html.parser").select_one(".moe-facts")
    said = subprocess.run(["git", "log", "-1", "--format=%cs", "--", "notebooks/02_coverage.ipynb"], cwd=ROOT,
                          capture_output=True, text=True).stdout.strip()  # fmt: skip
    assert f"Version {yaml.safe_load((ROOT / 'CITATION.cff').read_text())['version']}." in foot.text
    assert (foot.time["datetime"] if foot.time else "") == said


@pytest.fixture
def repository():
    """The module that writes the address of the repository."""
    spec = importlib.util.spec_from_file_location("repository", ROOT / "book" / "repository.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def checkout(tmp_path):
    """A copy of the files that name a repository."""
    (tmp_path / "notebooks").mkdir()
    for path in (ROOT / "_config.yml", ROOT / "CITATION.cff", ROOT / "pyproject.toml", *NOTEBOOKS):
        shutil.copy(path, tmp_path / path.relative_to(ROOT))
    return tmp_path


def test_a_repository_is_set_and_taken_away_without_a_trace(repository, checkout):
    repository.set_repository("", checkout)
    before = {path: path.read_bytes() for path in checkout.rglob("*.*")}
    repository.set_repository("https://github.com/someone/chapter", checkout)
    assert yaml.safe_load((checkout / "_config.yml").read_text())["repository"]["url"].endswith("someone/chapter")
    assert yaml.safe_load((checkout / "CITATION.cff").read_text())["repository-code"].endswith("someone/chapter")
    urls = tomllib.loads((checkout / "pyproject.toml").read_text())["project"]["urls"]
    assert urls["Issues"] == "https://github.com/someone/chapter/issues"
    for path in (checkout / "notebooks").glob("*.ipynb"):
        second = nbformat.read(path, as_version=4).cells[1].source
        assert '"google.colab" in sys.modules' in second and "git+https://github.com/someone/chapter@main" in second
        assert [fault for fault in shape_faults(path, fewest=1) if "code cells" in fault] == []
    repository.set_repository("", checkout)
    assert {path: path.read_bytes() for path in checkout.rglob("*.*")} == before


@pytest.mark.parametrize("wrong", ["github.com/a/b", "https://example.org/a/b", "https://github.com/a"])
def test_what_is_no_repository_on_github_is_refused(repository, checkout, wrong):
    with pytest.raises(ValueError, match="OWNER/NAME"):
        repository.set_repository(wrong, checkout)


def _addresses(path):
    return [link.get("href", "") for link in BeautifulSoup(path.read_text(), "html.parser").select("a")]


@pytest.fixture
def small_book(tmp_path):
    """A copy of the book's set-up with one notebook, whose second code cell is given."""

    def build(code, toc="format: jb-book\nroot: only\n", config=lambda text: text):
        shutil.copytree(ROOT / "book", tmp_path / "book", ignore=shutil.ignore_patterns("*.md"))
        (tmp_path / "_config.yml").write_text(config((ROOT / "_config.yml").read_text()))
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


def test_with_a_repository_a_page_can_be_run_elsewhere_errors_reported_and_its_address_told(small_book, tmp_path):
    address = '  url: "https://github.com/someone/chapter"'
    run = small_book("pass", config=lambda text: re.sub(r'(?m)^  url: ".*$', address, text))
    assert run.returncode == 0, run.stderr
    links = _addresses(tmp_path / "_build" / "html" / "only.html")
    assert "https://colab.research.google.com/github/someone/chapter/blob/main/only.ipynb" in links
    assert "https://mybinder.org/v2/gh/someone/chapter/main?urlpath=lab/tree/only.ipynb" in links
    assert "https://github.com/someone/chapter/issues" in links
    home = "https://someone.github.io/chapter"
    for name in ("only", "index"):
        html = (tmp_path / "_build" / "html" / f"{name}.html").read_text()
        assert f'<link rel="canonical" href="{home}/only.html" />' in html.replace('"/>', '" />'), name
        assert f'<meta property="og:image" content="{home}/_static/cards/cover.png"/>' in html, name
    assert f'{{ href: "{home}/" }}' in (tmp_path / "_build" / "html" / "404.html").read_text()
