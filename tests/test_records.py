import json

import numpy as np
import pytest

from moe_lib.records import Record, inclusion, read, router_loads, write


def test_a_record_survives_writing_and_reading(tmp_path):
    record = Record(kind="measured", what="a step", data={"seconds_s": [1e-3, 2e-3]})
    write(tmp_path / "records.jsonl", [record, record])
    assert read(tmp_path / "records.jsonl") == [record, record]


def test_a_bad_line_is_named_by_file_and_number(tmp_path):
    path = tmp_path / "records.jsonl"
    path.write_text('{"kind": "measured", "what": "x", "data": {}}\n{"kind": "guessed", "what": "x", "data": {}}\n')
    with pytest.raises(ValueError, match=r"records.jsonl, line 2: kind must be one of"):
        read(path)


def test_third_party_numbers_need_a_source_and_a_licence():
    with pytest.raises(ValueError, match="source must not be empty"):
        Record(kind="third_party", what="x", data={})


def test_a_failed_write_leaves_the_old_file_whole(tmp_path):
    path = tmp_path / "records.jsonl"
    write(path, [Record(kind="model", what="old", data={})])
    with pytest.raises(ValueError):
        write(path, [Record(kind="model", what="new", data={"x": float("nan")})])
    assert read(path)[0].what == "old"


@pytest.mark.parametrize("model, low, high", [("Mixtral-8x7B", 1.075, 1.335), ("OLMoE-1B-7B", 2.45, 6.85)])
def test_real_routers_lie_within_the_stated_range_of_max_over_mean(model, low, high):
    loads = [np.array(r.data["share"]) for r in router_loads() if r.data["model"] == model]
    max_over_mean = [share.max() * share.size for share in loads]
    assert low <= min(max_over_mean) and max(max_over_mean) <= high


def test_inclusion_probabilities_sum_to_top_k_and_stay_below_one():
    for record in router_loads():
        assert inclusion(record).sum() == pytest.approx(record.data["top_k"])
        assert 0 <= inclusion(record).min() and inclusion(record).max() <= 1


def test_a_reader_s_own_loads_are_checked(tmp_path):
    data = dict(router_loads()[0].data, share=[0.5, 0.5])
    path = tmp_path / "loads.jsonl"
    path.write_text(json.dumps({"kind": "measured", "what": "loads", "data": data}) + "\n")
    with pytest.raises(ValueError, match="share must hold num_experts = 8"):
        router_loads(path)
