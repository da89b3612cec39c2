"""What the site says of itself: descriptions, cards, index.html, 404.html, and its public address once it has one."""

import doctest
import json
import re

import numpy as np
import pytest
import share_cards
import site_head
from bs4 import BeautifulSoup
from conftest import page_names
from docutils import nodes

from moe_lib.figures._style import SERIES
from moe_lib.models import CATALOG
from moe_lib.routing import sample_routing

CHAPTER = [name for name in page_names() if re.match(r"notebooks/0[1-9]_", name)]
OTHERS = [name for name in page_names() if name not in CHAPTER]


def head(path):
    """{name: content} of the meta elements of a page, with its language, title and canonical address."""
    page = BeautifulSoup(path.read_text(encoding="utf-8"), "html.parser")
    found = {tag.get("name") or tag.get("property"): tag.get("content") for tag in page.select("meta")}
    canonical = page.select_one("link[rel=canonical]")
    return found | {"lang": page.html["lang"], "title": page.title.text, "canonical": canonical and canonical["href"]}


@pytest.fixture(scope="module")
def heads(site):
    """{page: what its head says}."""
    return {name: head(site / f"{name}.html") for name in [*page_names(), "genindex", "search"]}


@pytest.mark.parametrize("module", [share_cards, site_head])
def test_the_examples_of_the_extensions_hold(module):
    tried = doctest.testmod(module)
    assert tried.attempted and not tried.failed


def test_every_page_describes_itself_in_whole_sentences_and_no_two_alike(heads):
    said = {name: each["description"] for name, each in heads.items()}
    assert {name: text for name, text in said.items() if not (30 < len(text) <= 160 and text[-1] in ".?!")} == {}
    assert len(set(said.values())) == len(said)


def test_every_page_says_what_shows_where_a_link_to_it_is_shared(heads):
    for name, each in heads.items():
        assert each["og:title"] and each["og:description"] == each["description"], name
        assert each["og:site_name"] and each["og:image:alt"] and each["twitter:card"] == "summary_large_image", name
    assert {name for name, each in heads.items() if each["og:type"] == "article"} == set(page_names()[1:])


def test_every_card_exists_has_1200_by_630_pixels_and_is_light(site, heads):
    cards = {(site / name).parent.joinpath(each["og:image"]).resolve() for name, each in heads.items()}
    assert cards == set((site / "_static" / "cards").resolve().iterdir())
    for path in cards:
        png = path.read_bytes()
        assert png[:8] == b"\x89PNG\r\n\x1a\n" and len(png) < 120_000, path
        assert [int.from_bytes(png[at:at + 4], "big") for at in (16, 20)] == [1200, 630], path


def test_pages_of_the_chapter_have_cards_of_their_own_and_no_page_loads_one(site, heads):
    assert {name: heads[name]["og:image"] for name in CHAPTER} == {
        name: f"../_static/cards/{name.split('/')[1]}.png" for name in CHAPTER}  # fmt: skip
    assert heads[page_names()[0]]["og:image"] == "../_static/cards/cover.png"
    for path in [*(site / f"{name}.html" for name in page_names()), site / "index.html", site / "404.html"]:
        assert "_static/cards" not in re.sub("<meta[^>]*>", "", path.read_text(encoding="utf-8")), path


def test_index_and_404_say_what_they_are(site):
    for name in ("index", "404"):
        said = head(site / f"{name}.html")
        assert said["lang"] == "en" and "Serving a Mixture of Experts" in said["title"]
        assert 30 < len(said["description"]) <= 160 and said["og:image"] == "_static/cards/cover.png"


def test_the_index_opens_the_first_page_and_has_a_link_where_it_does_not(site, page):
    html = (site / "index.html").read_text(encoding="utf-8")
    first = f"{page_names()[0]}.html"
    assert f'<meta http-equiv="refresh" content="0; url={first}"/>' in html
    assert BeautifulSoup(html, "html.parser").select_one(f'main a[href="{first}"]').text
    page.goto((site / "index.html").as_uri())
    page.wait_for_url(f"**/{first}")
    assert page.faults == []


def test_the_404_page_loads_nothing_and_leads_on_from_disk(site, page, axe):
    asked = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto((site / "404.html").as_uri())
    links = page.locator("main a").evaluate_all("links => links.map(link => link.getAttribute('href'))")
    assert {f"{name}.html" for name in [page_names()[0], *CHAPTER]} == set(links)
    assert asked == [(site / "404.html").as_uri()]
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        assert axe(page) == [], scheme
    page.set_viewport_size({"width": 390, "height": 844})
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    page.get_by_role("searchbox").fill("ridge point")
    page.keyboard.press("Enter")
    page.wait_for_url("**/search.html?q=ridge+point")
    page.locator("#search-results li").first.wait_for()
    assert page.faults == []


def test_the_404_page_of_a_server_leads_home_from_any_depth(site, page):
    html = (site / "404.html").read_text(encoding="utf-8")
    page.route("http://localhost/**", lambda route: route.fulfill(body=html, content_type="text/html"))
    page.goto("http://localhost/notebooks/old/page.html")
    assert page.evaluate("document.querySelector('main a').href").endswith(f"localhost/{page_names()[0]}.html")


def test_without_a_repository_no_page_claims_a_public_address(heads):
    assert {each["canonical"] for each in heads.values()} | {each.get("og:url") for each in heads.values()} == {None}


@pytest.mark.parametrize("repository, address", [
    ("https://github.com/Someone/Chapter", "https://someone.github.io/Chapter/"),
    ("https://github.com/someone/someone.github.io.git", "https://someone.github.io/"),
    ("https://example.org/a/b", ""), ("", "")])  # fmt: skip
def test_the_public_address_follows_from_a_repository_on_github(repository, address):
    assert site_head.site_address(repository) == address


def chart(name, *classes):
    """A cell with a chart, as a page holds it."""
    spec = json.dumps({"description": f"{name}. More."})
    script = f'<div></div><script type="application/json" data-chart="chart-1-0">{spec}</script>'
    return nodes.container("", nodes.raw(script, script, format="html"), classes=["cell", *classes])


def test_the_card_shows_the_tagged_figure_else_the_first():
    def best(*cells):
        return share_cards.best_figure(nodes.container("", *cells))

    assert best() is None
    assert share_cards.finding_of(best(chart("one"), chart("two"))) == "one"
    assert share_cards.finding_of(best(chart("one"), chart("two", "tag_card"))) == "two"


def test_the_colours_of_figures_stand_out_on_the_ground_of_a_card_and_stay_apart():
    bright = [share_cards.brightened(colour) for colour in SERIES]
    ground = share_cards.luminance(share_cards.NAVY) + 0.05
    assert min((share_cards.luminance(colour) + 0.05) / ground for colour in bright) >= share_cards.CONTRAST
    assert len(set(bright)) == len(SERIES)


def test_the_walls_of_the_cover_are_lit_by_the_tokens_that_it_names():
    drawn = share_cards.cover_card("A book")
    model = CATALOG["deepseek-v3"]
    chosen = sample_routing(np.random.default_rng(0), 256, model.num_experts, model.top_k)
    lit = [len(np.unique(chosen[:batch])) for batch in share_cards.COVER_BATCHES]
    assert drawn.count(f'fill="{share_cards.UNLIT}"') == sum(model.num_experts - each for each in lit)
    assert re.findall(r">(\d+)</text><text[^>]*> of 256 read", drawn) == [str(each) for each in lit]
