"""What a reader clicks, in a real Chromium: the built workshop, and a control in JupyterLab."""

import re

import pytest
from browsing import watched_page
from conftest import ROOT


@pytest.fixture
def workshop(site, page):
    page.goto((site / "notebooks" / "00_workshop.html").as_uri())
    chart = page.locator("#fig-workshop")
    chart.scroll_into_view_if_needed()
    page.wait_for_function("chart => chart.dataset.ready === 'true'", arg=chart.element_handle())
    return chart


def choose(chart, label, option):
    chart.get_by_label(label, exact=True).select_option(label=option)


def move_batch(chart, text):
    """Move the batch slider with the keyboard until it says `text`."""
    slider = chart.get_by_label("Batch", exact=True)
    slider.focus()
    slider.press("Home")
    for _ in range(int(slider.get_attribute("max")) + 1):
        if slider.get_attribute("aria-valuetext") == text:
            return
        slider.press("ArrowRight")
    raise AssertionError(f"the slider never says {text}")


def reading(chart):
    return dict(zip(chart.locator("dt").all_text_contents(), chart.locator("dd").all_text_contents(), strict=True))


def test_the_built_workshop_shows_the_worked_example(workshop):
    choose(workshop, "Model", "Mixtral 8x7B")
    choose(workshop, "Model", "DeepSeek-V3")
    workshop.get_by_label("BF16").check()
    move_batch(workshop, "64")
    said = reading(workshop)
    assert said["Read in a step"] == "1,169 GB" and said["Experts touched"] == "222 of 256 (87 %)"
    assert said["Tokens per expert"].startswith("2.0") and said["Intensity"] == "4.01 FLOP/byte"


def test_an_input_moves_the_figure(workshop):
    point = workshop.locator(".mark-symbol.role-mark path").first
    before = point.get_attribute("transform")
    move_batch(workshop, "1,024")
    assert point.get_attribute("transform") != before
    assert reading(workshop)["Tokens per expert"].startswith("32")


def test_settings_survive_the_theme_button_and_a_change_of_width(workshop, page):
    choose(workshop, "Model", "Mixtral 8x7B")
    move_batch(workshop, "16")
    said = reading(workshop)
    page.locator("button.theme-switch-button:visible").first.click()
    page.set_viewport_size({"width": 390, "height": 800})
    page.wait_for_function("document.querySelector('#fig-workshop .moe-plot svg').getBoundingClientRect().width < 400")
    model = workshop.get_by_label("Model", exact=True).locator("option:checked")
    assert reading(workshop) == said and model.text_content() == "Mixtral 8x7B"
    drawn = workshop.locator(".mark-text.role-mark text").all_text_contents()
    assert any(said["Intensity"].split()[0] in text for text in drawn)
    assert page.faults == []


@pytest.fixture
def coverage(site, page):
    """The figure of page 02 whose address asks for a state."""
    page.goto((site / "notebooks" / "02_coverage.html").as_uri() + "#fig-coverage?batch=8&skew=1")
    page.wait_for_function("document.querySelector('#fig-coverage').dataset.ready === 'true'")
    return page.locator("#fig-coverage")


def test_an_address_opens_a_figure_in_its_state(coverage):
    assert coverage.locator(".moe-finding").inner_text().startswith("8 tokens touch")
    assert coverage.get_by_label("1/rank").is_checked()


def test_a_line_is_dragged_along_the_plot_and_arrow_keys_go_on(coverage, page):
    box = coverage.locator(".moe-plot").bounding_box()
    said = [coverage.locator(".moe-finding").inner_text()]
    page.mouse.move(box["x"] + 300, box["y"] + 150)
    page.mouse.down()
    page.mouse.move(box["x"] + 500, box["y"] + 150, steps=5)
    page.mouse.up()
    said.append(coverage.locator(".moe-finding").inner_text())
    page.keyboard.press("ArrowRight")
    said.append(coverage.locator(".moe-finding").inner_text())
    tokens = [int(text.split()[0].replace(",", "")) for text in said]
    assert tokens == sorted(set(tokens))


def test_the_pointer_finds_values_and_the_figure_is_taken_away(coverage, page):
    coverage.locator(".moe-plot").hover(position={"x": 300, "y": 180})
    assert "tokens in a step" in coverage.locator(".moe-tip").inner_text()
    for kind in ("SVG", "PNG"):
        with page.expect_download() as saved:
            coverage.get_by_role("button", name=kind).click()
        assert saved.value.suggested_filename == f"02_coverage-coverage.{kind.lower()}"
        assert saved.value.path().stat().st_size > 5000
    assert page.faults == []


def test_a_print_from_the_dark_theme_is_dark_on_white_and_tells_the_settings(workshop, page):
    page.emulate_media(media="print", color_scheme="dark")
    colour = workshop.locator(".moe-plot").evaluate("plot => getComputedStyle(plot).color")
    assert colour == "rgb(0, 0, 0)"
    assert "Model: DeepSeek-V3, Weights: BF16" in workshop.locator(".moe-settings").inner_text()


def test_a_browser_does_not_restore_inputs_that_the_figure_does_not_follow(workshop, page):
    forms = page.locator("form.moe-inputs, form.moe-predict")
    assert forms.count() > 1
    assert all(form.get_attribute("autocomplete") == "off" for form in forms.all())


def test_a_prediction_shows_its_answer_only_after_a_number(site, page):
    page.goto((site / "notebooks" / "00_workshop.html").as_uri())
    form = page.locator("form.moe-predict").first
    form.get_by_role("button").click()
    assert form.locator(".answer").is_hidden()
    form.get_by_label("Your prediction").fill("25")
    form.get_by_role("button").click()
    assert re.search(r"You said 25\. 4\.1 times too low\. Computed: 102 experts", form.locator(".answer").inner_text())
    assert page.faults == []


@pytest.fixture(scope="module")
def wall(lab_url, browser):
    """The first control of notebook 02, live in JupyterLab after all cells ran; opened once."""
    page = watched_page(browser)
    address = lab_url.replace("00_workshop", "02_coverage")
    page.goto(address + ("&" if "?" in address else "?") + "reset")
    page.locator(".jp-Notebook .jp-Cell").first.wait_for()
    page.get_by_text("(ipykernel) | Idle").wait_for()  # before that, running asks which kernel
    page.get_by_role("menuitem", name="Run", exact=True).click()
    page.get_by_text("Run All Cells", exact=True).click()
    control = page.locator(".jp-OutputArea .widget-vbox:has(.moe-tiles):has(svg)").first
    control.wait_for()
    control.scroll_into_view_if_needed()
    yield control
    page.close()


def wait_for_change(control, part, text, was):
    changed = "([at, text, part, was]) => at.querySelector(part)[text] !== was"
    control.page.wait_for_function(changed, arg=[control.element_handle(), text, part, was])


def test_in_jupyterlab_a_dragged_slider_changes_the_figure_and_the_readout(wall):
    page = wall.page
    before = wall.locator(".moe-tiles").inner_text(), wall.locator("svg").inner_html()
    box = wall.locator(".noUi-handle").first.bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    page.mouse.down()
    page.mouse.move(box["x"] + 80, box["y"] + box["height"] / 2, steps=8)
    page.mouse.up()
    wait_for_change(wall, ".moe-tiles", "innerText", before[0])
    wait_for_change(wall, "svg", "innerHTML", before[1])
    assert not [fault for fault in page.faults if "external" in fault]


def test_in_jupyterlab_a_typed_number_stays_and_readouts_stand_below_their_labels(wall):
    before = wall.locator(".moe-tiles").inner_text()
    field = wall.locator("input[type=number]").first
    field.fill("100")
    field.press("Enter")
    wait_for_change(wall, ".moe-tiles", "innerText", before)
    wall.get_by_role("button", name="Take it away").click()
    wall.locator("table").first.wait_for()  # Python has heard by now, too, that the slider moved to its nearest step
    assert field.input_value() == "100"
    boxes = [part.bounding_box() for part in wall.locator(".moe-tiles :is(dt, dd)").all()]
    assert all(a["y"] + a["height"] <= b["y"] + 1 for a, b in zip(boxes[::2], boxes[1::2], strict=True))


def test_the_notebook_that_make_lab_opens_exists():
    assert (ROOT / "notebooks" / "00_workshop.ipynb").is_file()
    assert "notebooks/00_workshop.ipynb" in (ROOT / "Makefile").read_text()
