"""For instructors: every page has its stops, what is named exists, minutes and points are read from the notebooks."""

import doctest
import importlib.util
import re

import pytest
from bs4 import BeautifulSoup
from conftest import NOTEBOOKS, ROOT
from page_rules import cells

from moe_lib.claims import CLAIMS

TEXT = (ROOT / "book" / "instructor.md").read_text(encoding="utf-8")
CHAPTER = [path for path in NOTEBOOKS if re.match(r"0[1-9]_", path.stem)]
SPEC = importlib.util.spec_from_file_location("teaching", ROOT / "book" / "_ext" / "teaching.py")
teaching = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(teaching)
every_page = pytest.mark.parametrize("path", CHAPTER, ids=lambda path: path.stem)


def lecture(path):
    """What the page says about a lecture: its heading and what stands below."""
    title = cells(path, "markdown")[0].source.splitlines()[0].removeprefix("# ")
    return TEXT.split(f"\n### {path.stem[:2]} {title}\n")[1].split("\n##")[0]


def test_the_examples_of_the_extension_hold():
    assert doctest.testmod(teaching) == (0, 3)


@every_page
def test_a_lecture_has_its_minutes_and_three_questions_with_a_wrong_and_a_right_answer(path):
    assert f":::{{deck-minutes}} {path.stem}\n" in lecture(path)
    head, _, *stops = [line.strip("| ").split(" | ") for line in lecture(path).splitlines() if line.startswith("|")]
    assert head == ["stop before", "ask", "the room says", "it is"]
    assert len(stops) == 3 and all(len(stop) == 4 and all(stop) for stop in stops)


@every_page
def test_a_heading_that_a_stop_names_is_on_the_page(path):
    page = "\n".join(cell.source for cell in cells(path, "markdown"))
    for named in re.findall(r"^\| \*(.+?)\* \|", lecture(path), re.M):
        assert re.search(rf"^(## |:::\{{admonition\}} ){re.escape(named)}$", page, re.M), named


def test_claims_that_are_named_are_claims():
    named = set(re.findall(r"\b[AP]\d+\b", TEXT.split("## What students believe")[1].split("\n## ")[0]))
    assert len(named) > 10 and named <= {claim.claim_id for claim in CLAIMS}


def test_every_homework_is_listed_with_its_questions_and_20_points(site):
    page = BeautifulSoup((site / "book" / "instructor.html").read_text(encoding="utf-8"), "html.parser")
    listed = {item.a["href"].split("/")[-1]: item.text for item in page.select("#homework li")}
    assert listed.keys() == {f"{path.stem}.html" for path in (ROOT / "notebooks" / "homework").glob("hw*.ipynb")}
    for said in listed.values():
        assert "20 points" in said and sum(map(int, re.findall(r"\((\d+)[,)]", said))) == 20


@every_page
def test_the_minutes_of_a_deck_are_those_of_its_notes(site, path):
    page = BeautifulSoup((site / "book" / "instructor.html").read_text(encoding="utf-8"), "html.parser")
    heading = next(each for each in page.select("h3") if each.text.startswith(path.stem[:2]))
    parts = teaching.minutes_by_part(teaching.prose(path))
    said = re.search(r"([\d.]+) minutes\.", heading.parent.text)
    assert float(said[1] if said else 0) == sum(minutes for _, minutes in parts)


def test_the_primer_is_one_page():
    words = (ROOT / "book" / "primer.md").read_text(encoding="utf-8").split("\n---\n")[1].split()
    assert 300 < len(words) < 600
