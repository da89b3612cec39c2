"""Both faces of a control: same numbers, valid charts, clear refusals."""

import json
import re
from datetime import UTC, datetime

import pytest
from drawing import CONTROLS, MIXTRAL, both_versions, drawn, faces, page_says, paths, start, widgets_of

from moe_lib import figures
from moe_lib.hardware import DEVICES
from moe_lib.models import CATALOG
from moe_lib.steps import decode_step

# A zero that is none, a plural of one, a minus before nothing, what a computer calls no number, an exponent.
ODD = re.compile(r"(?<![\d.,])0\.0+(?!\d)|(?<![\d.,])1 (?!ms\b)[A-Za-z]+s\b|(?<!\d)-0(?!\.\d*[1-9])|"
                 r"\b(nan|inf)\b|\de[-+]?\d")


def edges(control):
    """Settings of a control's live face: each choice at every option, the others at their start, first and last."""
    options = {choice.name: [value for _, value in choice.live_options()] for choice in control.choices}
    for others in (start(control), *({name: values[end] for name, values in options.items()} for end in (0, -1))):
        yield from (others | {name: value} for name, values in options.items() for value in values)


def words_in(held):
    """Every text in nested lists."""
    return [held] if isinstance(held, str) else [text for part in held for text in words_in(part)]


@pytest.fixture
def workshop():
    return faces("workshop")[0]


@pytest.fixture
def page():
    return faces("workshop")[1]


@pytest.fixture(params=CONTROLS)
def both(request):
    """(a control, the page's face of it)."""
    return faces(request.param)


def test_the_workshop_stands_at_the_worked_example(workshop):
    said = workshop.readout(**start(workshop))
    assert said["Experts touched"] == "222 of 256 (87 %)" and said["Read in a step"] == "1,169 GB"
    assert said["Tokens per expert"].startswith("2.0") and said["Intensity"] == "4.01 FLOP/byte"


def test_rows_of_the_page_are_what_decode_step_computes(page):
    for row in page["datasets"]["curve"][::97]:
        model = CATALOG[row["model"]]
        step = decode_step(model, row["batch"], weight_bytes=figures._choices.WEIGHT_BYTES[row["precision"]])
        assert row["moe"] == pytest.approx(step.intensity, rel=1e-4)


def test_numbers_make_sense_at_both_ends_of_every_control(both):
    control, page = both
    live = [text for chosen in edges(control) for text in control.readout(**chosen).values()]
    paged = words_in([answer["values"] for answer in page["usermeta"]["readouts"]])
    marks = [row["text"] for rows in page["datasets"].values() for row in rows if "text" in row]
    assert {text for text in [*live, *paged, *marks] if ODD.search(text)} == set()


def test_what_counts_as_odd_is_found():
    odd = ["0.0 ± 4.5", "248.0 ± 0.0", "1 tokens", "at 1 GPUs", "-0", "-0.00 ms", "nan", "inf tokens", "2.2e-05"]
    assert all(map(ODD.search, odd))
    fine = ["0 of 64", "10.0", "1 ms", "0.03", "1 token", "-0.05", "101 tokens", "1.00 times"]
    assert not any(map(ODD.search, fine))


def test_both_faces_say_the_same_for_the_same_settings(both):
    control, page = both
    chosen = {choice.name: list(choice.options.values())[len(choice.options) // 3] for choice in control.choices}
    assert page_says(page, **chosen) == control.readout(**chosen)


def test_a_page_carries_no_more_rows_than_declared(both):
    _, page = both
    assert sum(map(len, page["datasets"].values())) <= 5000 and len(json.dumps(page)) < 670_000
    answers = [json.dumps(reading["values"]).count('"') // 2 for reading in page["usermeta"]["readouts"]]
    assert max(answers, default=0) <= 12000


def test_both_faces_draw_the_same_rows_for_the_same_settings(workshop, page):
    live = workshop.live_spec(model="glm-4.5", precision="fp8", device="b200", batch=64)["datasets"]["curve"]
    assert live == [row for row in page["datasets"]["curve"] if (row["model"], row["precision"]) == ("glm-4.5", "fp8")]


@both_versions
def test_the_chart_is_valid_in_both_versions_of_vega_lite(workshop, page, version, caplog):
    for spec in (page, workshop.live_spec(model="olmoe", precision="fp4", device="h100", batch=100)):
        assert paths(spec, version, caplog) > 10


def test_the_live_picture_is_the_chart_compiled_anew_for_each_setting(both):
    control, _ = both
    last = {choice.name: list(choice.options.values())[-1] for choice in control.choices}  # where some draw axes alone
    for chosen, least in ((start(control), 10), (last, 5), (start(control), 10)):
        anew = drawn(control.live_spec(**chosen))
        marks = [re.findall(r' d="([^"]+)"|>([^<>]+)<', svg) for svg in (control.svg(**chosen), anew)]
        assert marks[0] == marks[1] and len(marks[0]) > least


def test_numbers_stand_in_order_live_though_the_page_has_some_of_them(both):
    control, _ = both
    for choice in control.choices:
        values = [value for _, value in choice.live_options()]
        assert set(values) == {*choice.options.values(), *choice.more.values()}
        assert any(isinstance(value, str) for value in values) or values == sorted(values)


def test_a_long_layout_may_break_after_a_plus():
    control = faces("parallel")[0]
    _, gpus, *_ = widgets_of(view := control.live(), "ToggleButtons")
    gpus.value = 64
    for split in widgets_of(view, "ToggleButtons")[2:4]:
        split.value = 8
    assert "TP8xDP8+<wbr>TP8xEP8" in widgets_of(view, "HTML")[4].value


def test_a_batch_off_the_page_s_grid_is_computed_live():
    view = figures.workshop().live()
    (number,) = widgets_of(view, "BoundedIntText")
    number.value = 100
    assert "245 of 256" in widgets_of(view, "HTML")[4].value
    assert widgets_of(view, "FloatLogSlider")[0].value == 100


def test_a_reader_s_own_model_is_chosen_and_counted():
    control = figures.workshop(MIXTRAL)
    own = control.choices[0].start
    assert "of 8" in control.readout(model=own, precision="bf16", device="h100", batch=2)["Experts touched"]


def test_an_uploaded_config_is_added_or_its_fault_is_told():
    view = figures.workshop().live()
    (button,), menu = widgets_of(view, "FileUpload"), widgets_of(view, "Dropdown")[0]
    file = {"name": "config.json", "type": "application/json", "size": 1, "last_modified": datetime.now(UTC)}
    button.set_trait("value", [{**file, "content": memoryview(b'{"model_type": "unheard-of"}')}])
    assert "config.json: " in widgets_of(view, "HTML")[2].value and "unheard-of" in widgets_of(view, "HTML")[2].value
    button.set_trait("value", [{**file, "content": memoryview(json.dumps(MIXTRAL).encode())}])
    assert widgets_of(view, "HTML")[2].value == "" and menu.value not in CATALOG


def test_every_upload_is_a_model_of_its_own():
    view, told = figures.workshop().live(), []
    (button,) = widgets_of(view, "FileUpload")
    file = {"name": "config.json", "type": "application/json", "size": 1, "last_modified": datetime.now(UTC)}
    for layers in (4, 8, 16):
        content = json.dumps(MIXTRAL | {"num_hidden_layers": layers}).encode()
        button.set_trait("value", [{**file, "content": memoryview(content)}])
        told.append(widgets_of(view, "HTML")[4].value)
    assert len(set(told)) == 3


@pytest.mark.parametrize("content", [b"", b"<html>" + b"x" * 5000, b"models/config.json", b"[]", b"\xff"])
def test_an_upload_that_is_no_config_is_refused_in_a_short_sentence(content):
    view = figures.workshop().live()
    (button,), menu = widgets_of(view, "FileUpload"), widgets_of(view, "Dropdown")[0]
    before = menu.options
    file = {"name": "x.json", "type": "", "size": 1, "last_modified": datetime.now(UTC)}
    button.set_trait("value", [{**file, "content": memoryview(content)}])
    assert menu.options == before and "x.json: " in widgets_of(view, "HTML")[2].value
    assert len(widgets_of(view, "HTML")[2].value) < 300


def test_a_quantization_that_is_not_read_is_told_in_the_bill():
    config = MIXTRAL | {"quantization_config": {"quant_method": "modelopt"}}
    control = figures.memory_bill(config)
    assert "assumed" in control.readout(**start(control))["Bytes a weight"]


def test_a_reader_s_own_model_has_a_line_and_a_readout_in_speculation():
    control = figures.speculation(MIXTRAL)
    said = control.readout(**start(control))
    assert any("yours" in label for label in said)


def test_devices_without_a_published_peak_are_not_offered(workshop):
    offered = {*workshop.choices[2].options.values(), *workshop.choices[2].more.values()}
    assert offered == {slug for slug, device in DEVICES.items() if "bf16" in device.peak_flops_per_s}


def test_the_number_of_devices_needed_is_the_least_that_hold_the_weights(workshop):
    said = workshop.readout(model="deepseek-v3", precision="bf16", device="h200", batch=64)
    usable = DEVICES["h200"].usable_bytes
    assert said["On this device"] == "does not fit: needs 10"
    assert 9 * usable < 2 * CATALOG["deepseek-v3"].total_params <= 10 * usable


@pytest.mark.parametrize("guess, verdict",
                         [(222, "Close."), (200.16, "10 % too low."),
                          (111, "2 times too low."), (444.8, "2 times too high."), (0, ""),
                          (333_600, "1,500 times too high.")])
def test_a_prediction_is_compared_with_the_computed_answer(guess, verdict):
    view = figures.predict("How many?", 222.4, "experts").live()
    widgets_of(view, "FloatText")[0].value = guess
    widgets_of(view, "Button")[0].click()
    answer = widgets_of(view, "HTML")[-1].value
    assert f"{verdict} Computed: <strong>222 experts</strong>" in answer and widgets_of(view, "FloatText")[0].disabled
