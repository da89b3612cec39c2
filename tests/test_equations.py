"""Equations: numbered alike on the site and in JupyterLab, and named by the numbers that they have."""

import re

import pytest
from conftest import ROOT
from page_rules import cells
from test_reference import equations

NOTEBOOKS = [path for folder in ("", "homework") for path in sorted((ROOT / "notebooks" / folder).glob("*.ipynb"))]
TEXTS = {path: "\n".join(cell.source for cell in cells(path, "markdown")) for path in NOTEBOOKS}
TEXTS |= {path: path.read_text(encoding="utf-8") for path in sorted((ROOT / "book").rglob("*.md"))}
CODE = [path for folder in ("moe_lib", "moe_homework") for path in sorted((ROOT / folder).rglob("*.py"))]
SOURCES = TEXTS | {path: path.read_text(encoding="utf-8") for path in CODE}
NAMED = re.compile(r"\b(?:(?i:equations?)|eq\.)\s(\d\.\d)\b(?:\sand\s(\d\.\d)\b)?|(?<=\s)\((\d\.\d)\)")
HOMEWORK = {  # what homework and solutions mean by a number: an equation put in between renumbers those after it
    "2.1": "coverage", "2.2": "inverse", "2.3": "spread", "2.4": "skew", "2.6": "run", "3.1": "bytes", "5.1": "limit",
    "6.1": "missed", "6.2": "time", "6.3": "slots", "6.5": "host", "6.6": "copy", "7.1": "held", "7.2": "read",
    "7.4": "copies", "7.5": "bytes", "8.1": "work", "8.2": "time", "8.3": "greedy",
}  # fmt: skip


def named(text):
    """The numbers of equations that a text names."""
    return {number for found in NAMED.findall(text) for number in found if number}


def homework_of(path):
    """Whether a file belongs to the homework."""
    return "homework" in path.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("path", TEXTS, ids=lambda path: path.stem)
def test_an_equation_on_a_line_of_its_own_has_a_label_or_no_number_anywhere(path):
    """Without a label it has a number in JupyterLab and none on the site; `equation*` has none in either."""
    labelled = rf"\$\$[^$]+\$\$ \(eq-{path.stem[:2]}-[a-z-]+\)\n"
    rest = re.sub(rf"{labelled}|\\begin{{equation\*}}.+?\\end{{equation\*}}", "", TEXTS[path] + "\n", flags=re.DOTALL)
    assert re.findall(r"\$\$|\\begin\{|(?<!\\)\\\[|\{math\}.*", rest) == []


@pytest.mark.parametrize("path", TEXTS, ids=lambda path: path.stem)
def test_a_label_is_referred_to_in_its_own_notebook_where_jupyterlab_finds_it(path):
    """Pages in Markdown have no equations of their own, and are read on the site."""
    read = TEXTS[path] if path.suffix == ".ipynb" else "\n".join(TEXTS.values())
    assert set(re.findall(r"\{eq\}`([^`]+)`", TEXTS[path])) <= set(re.findall(r"\$\$ \((eq-[\w-]+)\)", read))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_leaves_its_words_plain_and_the_site_links_them(path):
    """JupyterLab reads one notebook at a time: a link into the glossary leads nowhere there."""
    assert re.findall(r"\{(?:term|ref|numref|doc)\}`[^`]*`", TEXTS[path]) == []


@pytest.mark.parametrize("path", [path for path in SOURCES if named(SOURCES[path])], ids=lambda path: path.stem)
def test_a_number_names_an_equation_that_exists(path):
    assert named(SOURCES[path]) <= equations().keys()


@pytest.mark.parametrize("path", [path for path in NOTEBOOKS if homework_of(path)], ids=lambda path: path.stem)
def test_a_homework_names_equations_of_the_pages_that_it_links_to(path):
    linked = {int(number) for number in re.findall(r"\]\(\.\./(\d\d)_", TEXTS[path])}
    assert {int(number[0]) for number in named(TEXTS[path])} <= linked


def test_a_homework_means_the_equation_that_has_the_number():
    meant = set.union(*(named(text) for path, text in SOURCES.items() if homework_of(path)))
    assert {number: equations()[number][1] for number in meant} == {
        number: f"eq-0{number[0]}-{name}" for number, name in HOMEWORK.items()
    }


def test_jupyterlab_numbers_the_equations_of_a_page_as_the_site_does_and_leaves_no_dead_link(lab_url, page):
    page.goto(lab_url.replace("00_workshop", "06_offloading"))
    for number, (notebook, label) in equations().items():
        if notebook == "06_offloading":
            page.locator(f"#{label}", has_text=f"({number[2:]})").wait_for(state="attached", timeout=60_000)
    assert page.locator(".myst a[href='#']").all_inner_texts() == []


def test_on_the_site_a_homework_leads_to_the_equations_that_it_names(site):
    for path in filter(homework_of, NOTEBOOKS):
        html = (site / "notebooks" / "homework" / f"{path.stem}.html").read_text(encoding="utf-8")
        for number in named(TEXTS[path]):
            notebook, label = equations()[number]
            link = rf'href="\.\./{notebook}\.html#equation-{label}"><span class="std doc">{re.escape(number)}<'
            assert re.search(link, html), (path.stem, number)
