"""Pages, charts and controls for readers with a screen reader, a keyboard, other colours or no wish for motion."""

import csv
import doctest
import importlib
import itertools
import re

import numpy as np
import pytest
from conftest import ROOT
from drawing import faces, widgets_of

from moe_lib.figures import _style as look
from moe_lib.models import CATALOG
from moe_lib.steps import decode_step

# Machado, Oliveira and Fernandes, "A Physiologically-based Model for Simulation of Color Vision Deficiency", IEEE TVCG
# 15(6), 2009, doi:10.1109/TVCG.2009.113: the matrices of severity 1, for linear RGB.
VISION = {
    "normal": np.eye(3),
    "protanopia": np.array([[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216],
                            [-0.003882, -0.048116, 1.051998]]),
    "deuteranopia": np.array([[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413],
                              [-0.011820, 0.042940, 0.968881]]),
}
TO_XYZ = np.array([[0.4124564, 0.3575761, 0.1804375], [0.2126729, 0.7151522, 0.0721750],
                   [0.0193339, 0.1191920, 0.9503041]])  # IEC 61966-2-1 (sRGB)
COLOURS = {name: getattr(look, name) for name in ("MOE", "DENSE", "LIMIT", "MEASURED", "CACHE", "ALWAYS", "MUTED")}


def linear(colour):
    """Linear RGB of "#RRGGBB"."""
    value = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    return np.where(value <= 0.04045, value / 12.92, ((value + 0.055) / 1.055) ** 2.4)


def lab(rgb):
    """CIELAB of linear RGB, relative to white."""
    xyz = TO_XYZ @ np.clip(rgb, 0, 1) / TO_XYZ.sum(axis=1)
    f = np.where(xyz > 216 / 24389, np.cbrt(xyz), (24389 / 27 * xyz + 16) / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


def contrast(one, other):
    """Contrast of two colours as WCAG defines it."""
    low, high = sorted((TO_XYZ @ linear(colour))[1] for colour in (one, other))
    return (high + 0.05) / (low + 0.05)


def test_contrast_and_distance_have_their_known_values():
    assert contrast("#000000", "#FFFFFF") == pytest.approx(21)
    assert lab(linear("#FFFFFF")) == pytest.approx([100, 0, 0], abs=1e-6)
    assert lab(linear("#FF0000")) == pytest.approx([53.24, 80.09, 67.20], abs=0.02)  # sRGB red, as tabulated
    assert all(matrix.sum(axis=1) == pytest.approx(1, abs=1e-5) for matrix in VISION.values())  # grey stays grey


@pytest.mark.parametrize("vision", VISION)
def test_colours_of_series_are_told_apart(vision):
    seen = {name: lab(VISION[vision] @ linear(colour)) for name, colour in COLOURS.items()}
    apart = {pair: np.linalg.norm(seen[pair[0]] - seen[pair[1]]) for pair in itertools.combinations(seen, 2)}
    # 15: a little below the 17 that the palette of Okabe and Ito keeps under the same matrices
    assert {pair: round(float(far), 1) for pair, far in apart.items() if far < 15} == {}


def test_colours_of_series_stand_out_from_light_and_dark_pages():
    css = (ROOT / "book" / "_static" / "site.css").read_text()
    dark = re.search(r'data-theme="dark"\] \{[^}]*--pst-color-background: (#\w{6})', css)[1]
    for background in ("#FFFFFF", dark):
        assert {name: c for name, colour in COLOURS.items() if (c := contrast(colour, background)) < 3} == {}


def draw_all(page):
    """Draw all charts of a page, as a print does, and its formulas."""
    page.evaluate("window.MathJax?.startup?.promise")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    page.wait_for_function("[...document.querySelectorAll('.moe-chart')].every(el => el.dataset.ready === 'true')")


@pytest.fixture
def workshop(site, page):
    page.goto((site / "notebooks" / "00_workshop.html").as_uri())
    draw_all(page)
    return page.locator("#fig-workshop")


def rows_of(chart):
    cells = "rows => rows.map(row => [...row.cells].map(cell => cell.innerText))"
    return chart.locator(".moe-numbers tr").evaluate_all(cells)


def test_the_numbers_of_a_chart_are_those_it_draws_now(workshop):
    workshop.locator(".moe-numbers > summary").press("Enter")
    workshop.locator("tbody tr").first.wait_for()
    before = rows_of(workshop)
    assert before[0][:3] == ["Series", "Tokens in a step (batch)", "FLOP per byte read"]
    assert ["this mixture", "64", "4.011"] in [row[:3] for row in before]
    workshop.get_by_label("Model", exact=True).select_option(label="Mixtral 8x7B")
    intensity = decode_step(CATALOG["mixtral-8x7b"], 64, weight_bytes=2).intensity
    workshop.locator("tbody").get_by_text(f"{intensity:.4g}", exact=True).wait_for()
    assert len(rows_of(workshop)) == len(before)


def test_a_chart_s_numbers_are_saved_as_csv_from_disk(workshop, page):
    with page.expect_download() as saved:
        workshop.get_by_role("button", name="CSV").click()
    rows = list(csv.reader(saved.value.path().read_text(encoding="utf-8").splitlines()))
    workshop.locator(".moe-numbers > summary").click()
    workshop.locator("tbody tr").first.wait_for()
    assert saved.value.suggested_filename == "00_workshop-workshop.csv"
    assert len(rows) == len(rows_of(workshop)) > 20
    assert page.faults == []


DRAG = """slider => { for (let moves = 0; moves < 6; moves += 1) {
  slider.stepUp();
  slider.dispatchEvent(new Event("input", { bubbles: true }));
} }"""


def test_the_sentence_of_a_control_is_announced_as_it_changes(workshop, page):
    page.evaluate("""chart => new MutationObserver(all => { window.said = (window.said ?? 0) + all.length; })
                     .observe(chart.querySelector(".moe-sentence"), { childList: true })""", workshop.element_handle())
    for drags in (1, 2):
        workshop.get_by_label("Batch", exact=True).evaluate(DRAG)
        page.wait_for_function(f"window.said >= {drags}")
    assert "{" not in workshop.locator(".moe-sentence").text_content()


def test_a_prediction_is_made_by_keyboard_and_keeps_the_reader_s_place(site, page):
    page.goto((site / "notebooks" / "00_workshop.html").as_uri())
    form = page.locator("form.moe-predict").first
    form.get_by_label("Your prediction").focus()
    page.keyboard.type("25")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    assert "times too low" in form.get_by_role("status").inner_text()
    assert form.get_by_role("button").evaluate("button => button === document.activeElement")


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_whatever_the_keyboard_reaches_shows_it(site, page, theme):
    page.emulate_media(reduced_motion="reduce")  # a ring that fades in is there at once
    page.goto((site / "notebooks" / "02_coverage.html").as_uri())
    draw_all(page)
    page.evaluate("theme => { document.documentElement.dataset.theme = theme; }", theme)
    dim, reached = [], set()
    for _ in range(160):
        page.keyboard.press("Tab")
        at, ring, shown = page.evaluate(FOCUS)
        reached.add(at)
        if not (ring and shown):
            dim.append(at)
    assert dim == []
    assert {"range", "radio", "SUMMARY", "number", "submit"} <= {at.split()[0] for at in reached}


FOCUS = """() => {
  const at = document.activeElement, step = at.closest(".moe-schematic label"); // which shows the ring of its input
  const mark = step ?? (at.offsetHeight || at.tagName !== "SUMMARY" ? at : at.firstElementChild);
  const style = getComputedStyle(mark), box = mark.getBoundingClientRect();
  const outline = style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 1;
  const shown = box.width > 0 && box.height > 0 && style.visibility !== "hidden" && Number(style.opacity) > 0.5;
  const shadow = style.boxShadow;
  at.blur();
  const ring = outline || getComputedStyle(mark).boxShadow !== shadow;
  at.focus({ preventScroll: true });
  return [`${at.type || at.tagName} ${at.className} ${at.textContent.trim().slice(0, 30)}`, ring, shown];
}"""


def test_nothing_moves_for_readers_who_ask_for_less_motion(site, page):
    page.emulate_media(reduced_motion="reduce")
    page.goto((site / "notebooks" / "02_coverage.html").as_uri())
    draw_all(page)
    moving = """all => all.filter(el => {
      const { transitionDuration, animationName, scrollBehavior } = getComputedStyle(el);
      return parseFloat(transitionDuration) > 0.01 || animationName !== "none" || scrollBehavior === "smooth";
    }).map(el => el.outerHTML.slice(0, 80))"""
    assert page.locator("*").evaluate_all(moving) == []


@pytest.mark.parametrize(("name", "examples"), [("accessible_pages", 4), ("page_frame", 2), ("figure_numbers", 2)])
def test_examples_of_the_extension_hold(name, examples):
    tried = doctest.testmod(importlib.import_module(name))
    assert tried.attempted >= examples and tried.failed == 0


def test_the_live_face_names_its_inputs_and_shows_its_numbers_when_asked():
    view = faces("workshop")[0].live()
    for kind in ("Dropdown", "BoundedIntText"):
        assert all(widget.description for widget in widgets_of(view, kind))
    (button,) = (widget for widget in widgets_of(view, "ToggleButton") if widget.description == "Take it away")
    table = view.children[-1]
    assert not table.value and table.layout.display == "none"
    button.value = True
    assert "<td>206</td>" in table.value and table.layout.display == "block"
    assert all(f'download="{name}"' in table.value for name in ("curve.csv", "figure.svg", "figure.png"))
