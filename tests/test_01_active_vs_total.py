"""The page on active and total parameters: its memory bill, its figures, the published sizes it compares with."""


import pytest
from drawing import both_versions, faces, paths

from moe_lib import figures, records
from moe_lib.models import CATALOG, from_config, from_counts
from moe_lib.steps import decode_step, resident_bytes

DENSE = {"model_type": "llama", "vocab_size": 100, "hidden_size": 8, "num_hidden_layers": 2, "num_attention_heads": 2,
         "intermediate_size": 16}
WEIGHTS = {"released": None, **figures._choices.WEIGHT_BYTES}


@pytest.fixture
def bill():
    return faces("memory_bill")[0]


@pytest.fixture
def page():
    return faces("memory_bill")[1]


def bars(data, model, precision, sequences, context):
    """Rows that the chart shows for one setting, in order."""
    weights = f"{model}|{precision}"
    return [row for row in data["bill"] if row["key"] in (weights, f"{weights}|{sequences}|{context}")]


def settings(page):
    """A few hundred settings of the page, spread over all."""
    for index in range(0, 10_800, 37):
        chosen = {}
        for choice in page["usermeta"]["choices"]:
            index, position = divmod(index, len(choice["values"]))
            chosen[choice["name"]] = choice["values"][position]
        yield chosen


def test_bars_lie_end_to_end_and_the_last_ends_at_the_resident_bytes(page):
    for chosen in settings(page):
        model, precision, _, sequences, context = chosen.values()
        shown = bars(page["datasets"], model, precision, sequences, context)
        resident = resident_bytes(CATALOG[model], weight_bytes=WEIGHTS[precision], sequences=sequences, context=context)
        assert all(after["start"] == before["end"] for before, after in zip(shown, shown[1:], strict=False))
        assert shown[0]["start"] == 0 and shown[-1]["end"] == pytest.approx(resident / 1e9, rel=1e-4)


def test_thin_bars_add_up_to_what_one_token_reads(page):
    for chosen in settings(page):
        model, precision, _, sequences, context = chosen.values()
        shown = bars(page["datasets"], model, precision, sequences, context)
        read = decode_step(CATALOG[model], 1, weight_bytes=WEIGHTS[precision], context=context).bytes_read / 1e9
        rounding = 1e-4 * shown[-1]["end"] * len(shown)  # both ends of a bar keep five digits
        assert sum(row["used"] - row["start"] for row in shown) == pytest.approx(read, abs=rounding)


def test_as_many_devices_are_drawn_as_the_readout_says(bill, page):
    for chosen in settings(page):
        model, precision, device, sequences, context = chosen.values()
        end = bars(page["datasets"], model, precision, sequences, context)[-1]["end"]
        drawn = sum(row["device"] == device and row["begins"] < end for row in page["datasets"]["devices"])
        said = int(bill.readout(**chosen)["Devices needed"].replace(",", ""))
        assert drawn == min(said, figures.memory.MOST_BOXES)


def test_both_faces_of_the_bill_show_the_same(bill, page):
    for chosen in list(settings(page))[::29]:
        live = bill.live_spec(**chosen)["datasets"]
        assert live["bill"] == bars(page["datasets"], *[value for name, value in chosen.items() if name != "device"])
        assert live["devices"] == [row for row in page["datasets"]["devices"] if row["device"] == chosen["device"]]


def test_eight_h100_do_not_hold_deepseek_v3_as_released(bill):
    said = bill.readout(model="deepseek-v3", precision="released", device="h100", sequences=1, context=1024)
    assert said["Devices needed"] == "9" and said["Parameters"] == "671.0B" and said["Resident"] == "673 GB"


def test_a_cache_with_windows_is_marked_as_an_upper_bound_and_a_state_is_named(bill):
    setting = {"precision": "bf16", "device": "h200", "sequences": 1, "context": 1024}
    slugs = ("gemma-4-26b-a4b", "qwen3.6-35b-a3b", "glm-4.5")
    said = [bill.readout(model=slug, **setting)["Cache per token"] for slug in slugs]
    assert said == ["at most 225,280 B", "20,480 B, and 64.4 MB a sequence", "376,832 B"]


def test_a_reader_s_config_stands_first_in_the_bill(tmp_path):
    own = {"model_type": "mixtral", "vocab_size": 32000, "hidden_size": 1024, "intermediate_size": 1792,
           "num_hidden_layers": 16, "num_attention_heads": 16, "num_key_value_heads": 4, "num_local_experts": 32,
           "num_experts_per_tok": 4}
    control = figures.memory_bill(own)
    assert control.choices[0].start == next(iter(control.choices[0].options.values())) == "mixtral, yours"
    said = control.readout(model="mixtral, yours", precision="bf16", device="h200", sequences=1, context=1024)
    resident = said["Resident"]
    held = resident_bytes(from_config(own), weight_bytes=2, sequences=1, context=1024)
    assert resident == figures._style.gigabytes(held)


def specs():
    bill = figures.memory_bill()
    row = {"label": "a model", "series": "dense model", "size": 1e5, "beyond": 5e4}
    lines = {model.name: [2e5, 1e5, 5e4] for model in list(CATALOG.values())[:7]}
    yield bill.static()
    yield bill.live_spec(model="mixtral-8x7b", precision="fp4", device="rtx-4090", sequences=7, context=3000)
    yield figures.cache_per_token([row], [row]).to_dict()
    yield figures.sparsity([{"label": "a model", "ratio": 3.6, "limit": 4, "expert": 1e8}]).to_dict()
    yield figures.cache_by_context([2**10, 2**15, 2**20], lines, lines).to_dict()


@both_versions
def test_figures_are_valid_in_both_versions_of_vega_lite(version, caplog):
    for spec in specs():
        assert paths(spec, version, caplog) > 4


def test_total_over_active_never_exceeds_experts_over_chosen():
    for model in CATALOG.values():
        assert 1 <= model.total_params / model.active_params <= model.num_experts / model.top_k


def test_the_kind_of_cache_follows_from_the_heads():
    one, two = from_config(DENSE | {"num_key_value_heads": 1}), from_config(DENSE | {"num_key_value_heads": 2})
    assert (one.cache_kind, two.cache_kind, CATALOG["deepseek-v2"].cache_kind) == ("MQA", "MHA", "MLA")
    assert from_counts("plate", 671e9, 37e9, 256, 8).cache_kind == "none"


def test_beyond_its_windows_a_cache_grows_by_its_full_layers_alone():
    for model in CATALOG.values():
        index = sum(2 * c.num_layers * c.values_per_token for c in model.caches if c.index)
        grown = model.kv_bytes_per_sequence(2**20 + 1) - model.kv_bytes_per_sequence(2**20)
        assert grown == model.kv_bytes_per_token(beyond_windows=True) + index <= model.kv_bytes_per_token() + index


def test_published_checkpoints_and_caches_are_reproduced():
    params, stored, others, caches = records.shipped("published_sizes")
    assert {record.kind for record in (params, stored, others, caches)} == {"third_party"}
    assert [CATALOG[slug].total_params for slug in params.data["model"]] == params.data["params"]
    assert [2 * CATALOG[slug].total_params for slug in stored.data["model"]] == stored.data["bytes"]
    found = dict(zip(caches.data["model"], caches.data["bytes_per_token"], strict=True))
    counted = {model.name: model.kv_bytes_per_token() for model in CATALOG.values() if model.name in found}
    assert len(counted) == 2 and counted.items() <= found.items()
