"""Schematics: findings that follow what is drawn, words that fit and can be read, steps that work without a script."""

import re
import xml.etree.ElementTree as ET

import numpy as np
import pytest
import slides
from bs4 import BeautifulSoup

from moe_lib.figures import schematics
from moe_lib.hardware import DEVICES, LINKS
from moe_lib.layouts import linear_placement
from moe_lib.models import CATALOG, dense_twin
from moe_lib.routing import sample_routing
from moe_lib.steps import decode_step

V3, MIXTRAL, TWIN = CATALOG["deepseek-v3"], CATALOG["mixtral-8x7b"], dense_twin(CATALOG["deepseek-v3"])
HOME, PLACE = np.repeat(np.arange(4), 2), linear_placement(8, 4)
SMALL = sample_routing(np.random.default_rng(268), 8, 8, 2)
ALONE = ("three_sizes", "layer", "waking", "pipe_and_wheel", "one_step", "chunks_beside_decoding", "three_pipes",
         "split_or_spread", "queue")
ALL = {name: getattr(schematics, name)() for name in ALONE} | {
    "there_and_back": schematics.there_and_back(SMALL, HOME, PLACE)}
OTHERS = {  # the same drawings of something else, which must hold together too
    "layer of 8": schematics.layer(MIXTRAL), "layer of 60": schematics.layer(CATALOG["qwen1.5-moe"]),
    "sizes": schematics.three_sizes(MIXTRAL, 4), "six tokens": schematics.waking((0, 1, 2, 3, 4, 0), 5),
    "small pipe": schematics.pipe_and_wheel(MIXTRAL, DEVICES["h100"], (1, 4096)),
    "two caches": schematics.one_step(MIXTRAL, (131072, 4096), 2),
    "eight chunks": schematics.chunks_beside_decoding(chunk=1024), "fast link": schematics.three_pipes(
        link=LINKS["nvlink-c2c"], host=DEVICES["desktop-ddr5"]), "eight heads": schematics.split_or_spread(MIXTRAL),
    "uneven": schematics.queue((9, 5, 1, 1)), "even": schematics.queue((4, 4, 4, 4))}
every = pytest.mark.parametrize("name", ALL)


def html_of(drawn):
    return drawn._repr_mimebundle_()["text/html"]


@every
def test_a_drawing_is_xml_with_a_name_and_no_words_in_small_type(name):
    root = ET.fromstring(ALL[name].svg())
    assert root.get("role") == "img" and len(root.get("aria-label")) > 40 and float(root.get("font-size")) == 20
    assert not [node for node in root.iter() if node is not root and node.get("font-size")]


@every
def test_steps_are_short_sentences_that_each_show_something(name):
    steps, page = ALL[name].steps, BeautifulSoup(html_of(ALL[name]), "html.parser")
    assert 3 <= len(steps) <= 5  # schematic.css knows five
    assert all(said.endswith(".") and len(said.split()) <= 25 for said, _ in steps)
    assert [label.span.text for label in page.select("label")] == [said for said, _ in steps]
    assert len({marks for _, marks in steps}) == len(steps) == len(page.select("svg > g"))


def test_no_id_stands_twice():
    ids = re.findall(r'\bid="([^"]+)"', "".join(map(html_of, ALL.values())))
    assert len(ids) == len(set(ids)) == 2 * len(ALL)  # of a figure and of its finding


def test_a_batch_reads_more_than_a_token_of_a_mixture_and_as_much_of_a_dense_model():
    one, many = decode_step(V3, [1, 64], weight_bytes=2).bytes_read
    assert f"reads {round(many / one)} times as much as a step of one" in ALL["three_sizes"].finding
    assert "reads as much as a step of one" in schematics.three_sizes(TWIN).finding


def test_a_layer_lights_as_many_experts_as_a_token_takes():
    assert "8 of 256 experts" in ALL["layer"].finding and len(ALL["layer"].steps) == 5
    assert "2 of 8 experts" in OTHERS["layer of 8"].finding and len(OTHERS["layer of 8"].steps) == 4  # none is shared


def test_an_expert_that_is_lit_already_is_no_other_one():
    assert "touch 3 of 4 experts, because 1 of them finds one that is lit already" in ALL["waking"].finding
    assert "touch 4 of 4 experts, because each picks another one" in schematics.waking((3, 1, 0, 2)).finding
    assert schematics.waking((3,)).finding == "1 token touches 1 of 4 experts, because it picks one"


def test_few_tokens_fill_the_pipe_and_many_the_wheel():
    first, second = ALL["pipe_and_wheel"].finding.split(";")
    assert "pipe is full and the wheel turns 2 %" in first and "wheel never rests" in second
    assert "wheel never rests" in schematics.pipe_and_wheel(batches=(8192, 64)).finding.split(";")[0]


def test_caches_may_outweigh_the_weights():
    assert "more than the weights" not in ALL["one_step"].finding
    assert "more than the weights" in schematics.one_step(MIXTRAL, (10**6, 10**6)).finding


def test_chunks_shorten_the_wait_and_put_off_the_first_token():
    cut, *waits = map(float, re.findall(r"\d+(?:\.\d+)?", ALL["chunks_beside_decoding"].finding))
    assert cut == 4 and waits[0] < waits[1] == waits[3] < waits[2]


def test_a_link_faster_than_the_hosts_memory_copies():
    assert "the host should compute it" in ALL["three_pipes"].finding
    assert OTHERS["fast link"].finding.endswith("copy it")


def test_cached_heads_that_split_are_held_once():
    assert "88 or 504" in ALL["split_or_spread"].finding and "everyone's cache" in ALL["split_or_spread"].finding
    assert "no cache is held twice: 967 or 952" in OTHERS["eight heads"].finding


def test_copies_are_counted_once_a_gpu():
    assert "choices 12 lie on another GPU, but only 11 copies travel" in ALL["there_and_back"].finding
    apart = schematics.there_and_back([[0, 2], [4, 6]], [0, 1], PLACE)
    assert "Of 4 choices 3 lie on another GPU, and as many copies travel" in apart.finding


def test_replicas_help_only_where_loads_are_uneven():
    assert ALL["queue"].finding == "The fullest GPU has 2.0 times the mean; with expert A on 4 GPUs, 1.0 times"
    assert OTHERS["even"].finding == "The fullest GPU has 1.0 times the mean, and replicas do not change that"


def test_a_slide_has_a_fragment_for_every_step_but_the_first():
    lifted = slides._lifted(BeautifulSoup(f"<div>{html_of(ALL['layer'])}</div>", "html.parser").div)
    assert len(lifted.select(".moe-schematic > .fragment")) == 4


# In a browser.

PAGE = """<!doctype html><html lang="en"><title>Schematics</title><meta name="viewport" content="width=device-width">
<body style="margin: 0; background: {}; color: {}"><main style="padding: 16px"><h1>Schematics</h1>{}</main></html>"""
MODES = {"light": ("#FFFFFF", "#1B242E"), "dark": ("#13181E", "#D6DCE3")}
FAULTS = """() => [...document.querySelectorAll("svg")].flatMap((svg) => {
  const { width, height } = svg.viewBox.baseVal, faults = [];
  const boxes = [...svg.querySelectorAll("text")].map((text) => [text.textContent.trim(), text.getBBox()]);
  boxes.filter(([words]) => words).forEach(([words, box], i, all) => {
    const { x, y } = box, right = x + box.width, bottom = y + box.height;
    if (x < 0 || y < 0 || right > width || bottom > height) faults.push(`${words} leaves`);
    for (const [other, at] of all.slice(i + 1))
      if (other !== words && x < at.x + at.width && at.x < right && y + 10 < at.y + at.height && at.y + 10 < bottom)
        faults.push(`${words} lies on ${other}`);
  });
  return faults.map((fault) => `${svg.getAttribute("aria-label").slice(0, 40)}: ${fault}`);
})"""
SEEN = """() => [...document.querySelectorAll("svg > g")].map((part) => getComputedStyle(part).opacity === "1")"""


def show(page, figures, mode="light"):
    page.emulate_media(reduced_motion="reduce")
    page.set_content(PAGE.format(*MODES[mode], "".join(map(html_of, figures))))


def test_words_stay_inside_and_apart_and_can_be_read_on_a_phone(page):
    show(page, [*ALL.values(), *OTHERS.values()])
    page.set_viewport_size({"width": 390, "height": 844})
    assert page.evaluate(FAULTS) == []
    sizes = "[...document.querySelectorAll('svg')].map((svg) => 20 * svg.getScreenCTM().a)"
    assert min(page.evaluate(sizes)) >= 11 and page.evaluate("document.documentElement.scrollWidth") == 390


def test_steps_show_parts_one_by_one_by_mouse_and_keys_and_all_again(page):
    show(page, [ALL["layer"]])
    assert page.evaluate(SEEN) == [True] * 5
    page.locator("label").nth(1).click()
    assert page.evaluate(SEEN) == [True, True, False, False, False]
    page.keyboard.press("ArrowRight")
    assert page.evaluate(SEEN) == [True, True, True, False, False]
    page.keyboard.press("Enter")  # a form that goes nowhere
    page.emulate_media(media="print")
    assert page.evaluate(SEEN) == [True] * 5
    page.emulate_media(media="screen")
    page.get_by_role("button").click()
    assert page.evaluate(SEEN) == [True] * 5 and page.faults == []


def test_steps_need_no_script(browser):
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    show(page, [ALL["waking"]])
    page.locator("label").first.click()
    assert page.locator("svg > g").nth(3).evaluate("part => Number(getComputedStyle(part).opacity)") < 0.2
    context.close()


@pytest.mark.parametrize("mode", MODES)
def test_axe_finds_no_fault(page, axe, mode):
    show(page, ALL.values(), mode)
    faults = axe(page)
    page.evaluate("document.querySelectorAll('input[value=\"2\"]').forEach((step) => { step.checked = true; })")
    assert faults + axe(page) == []
