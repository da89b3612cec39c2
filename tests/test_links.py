"""No link leads nowhere: in the built site, and in the files that are read in the repository."""

import importlib.util

import pytest
from conftest import ROOT

SPEC = importlib.util.spec_from_file_location("links", ROOT / "book" / "links.py")
links = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(links)


def test_every_link_of_the_site_leads_to_a_file_and_an_anchor(site):
    assert links.broken_in_site(site) == []


def test_every_link_of_the_sources_leads_to_a_file():
    assert links.broken_in_sources() == []
    assert {"README.md", "CONTRIBUTING.md"} <= {path.name for path, _ in links.texts()}


@pytest.mark.parametrize(
    "link, leads",
    [("b.html#here", True), ("b.html", True), ("#own", True), ("https://example.org/x#y", True), ("mailto:a@b.c", True),
     ("b.html#there", False), ("#other", False), ("c.html", False), ("../b.html", False), (".", False)],
)  # fmt: skip
def test_a_broken_link_of_a_site_is_found_and_no_other(tmp_path, link, leads):
    site = tmp_path / "site"
    site.mkdir()
    (tmp_path / "b.html").touch()  # beside the site, so no part of it
    (site / "a.html").write_text(f'<h1 id="own">A</h1><a href="{link}">b</a>')
    (site / "b.html").write_text('<p id="here">B</p>')
    assert links.broken_in_site(site) == ([] if leads else [("a.html", link)])


@pytest.mark.parametrize("link, leads", [("b.md#two-words", True), ("b.md#three", False), ("b.md", True), ("c", False)])
def test_a_broken_link_of_a_markdown_file_is_found_and_no_other(tmp_path, link, leads):
    (tmp_path / "a.md").write_text(f"See [b]({link}).\n")
    (tmp_path / "b.md").write_text("# Two words\n")
    assert links.broken_in_sources(tmp_path) == ([] if leads else [("a.md", link)])
