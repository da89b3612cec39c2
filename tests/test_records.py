import json

import numpy as np
import pytest

from moe_lib.records import Record, inclusion, read, read_trace, router_loads, write


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


def test_a_trace_is_read_layer_by_layer(tmp_path):
    path = tmp_path / "trace.csv"
    path.write_text("layer,expert_1,expert_2\n1,3,0\n0,5,2\n1,0,4\n\n")
    trace = read_trace(path)
    assert [(layer, tokens.tolist()) for layer, tokens in trace.items()] == [(0, [[5, 2]]), (1, [[3, 0], [0, 4]])]
    path.write_bytes(path.read_bytes().decode().encode("utf-8-sig"))  # as spreadsheets save it
    assert list(read_trace(path)) == [0, 1]


@pytest.mark.parametrize(("text", "message"), [
    ("", "line 1: header must be layer,expert_1,..,expert_k"),
    ("layer,expert_2\n", "line 1: header must be"),
    ("layer\n0\n", "line 1: header must be"),
    ("layer,expert_1\n", "no row below the header"),
    ("layer,expert_1\n0,1\n0,x\n", "line 3: expert_1 must be a whole number from 0 up, got 'x'"),
    ("layer,expert_1\n0,1.5\n", "line 2: expert_1 must be a whole number"),
    ("layer,expert_1\n0,1,2\n", "line 2: expected 2 columns, got 3"),
    ("layer,expert_1,expert_2\n0,4,4\n", "line 2: a token chooses distinct experts, got 4,4"),
    ("layer,expert_1\n0," + "9" * 30 + "\n", "line 2: expert_1 must be a whole number"),
    ("layer,expert_1\n" + "9" * 5000 + ",1\n", "line 2: layer must be a whole number"),
    ("layer,expert_1\n0," + "x" * 200_000 + "\n", "must be a CSV in UTF-8"),
    ("layer,expert_1\n0,1\n".encode("utf-16"), "must be a CSV in UTF-8"),
])
def test_a_bad_trace_is_named_by_file_and_line(tmp_path, text, message):
    path = tmp_path / "trace.csv"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(ValueError, match=message) as error:
        read_trace(path)
    assert "trace.csv" in str(error.value)
