import pickle

import pytest

from moe_lib._names import Names
from moe_lib.hardware import DEVICES, LINKS, find_device, find_link
from moe_lib.models import CATALOG, dense_twin, find_model, from_counts
from moe_lib.roofline import ridge_point, step_time
from moe_lib.steps import decode_step, resident_bytes

every_collection = pytest.mark.parametrize("names", [CATALOG, DEVICES, LINKS])


@every_collection
def test_a_record_is_found_by_its_slug_and_its_own_name_in_any_case(names):
    for slug, record in names.items():
        for said in slug, slug.upper(), slug.replace("-", "_"), slug.replace("-", " ").title(), record.name:
            assert names[said] is record and said in names and names.get(said) is record


def test_two_records_of_one_name_are_refused():
    one, other = (from_counts(name, 671e9, 37e9, 256, 8) for name in ("One", "one"))
    with pytest.raises(ValueError, match="'One' would be the name of two"):
        Names("model", {"a": one, "b": other})
    assert Names("model", {"one": one, "two": dense_twin(other)})["ONE"] is one  # its slug and its own name


@pytest.mark.parametrize(("names", "said", "message"), [
    (DEVICES, "h2000", "'h2000' is not a known device; did you mean h200"),
    (CATALOG, "mixtral", "'mixtral' is not a known model; did you mean mixtral-8x7b?"),
    (LINKS, "zzz", "'zzz' is not a known link; known are "), (CATALOG, 5, "5 is not a known model; known are"),
])
def test_an_unknown_name_is_refused_with_its_neighbours_as_key_and_as_value(names, said, message):
    for kind in KeyError, ValueError:
        with pytest.raises(kind) as problem:
            names[said]
        assert str(problem.value).startswith(message)
    assert said not in names and names.get(said) is None


def test_formulas_take_names_in_place_of_records():
    v3, h200 = CATALOG["deepseek-v3"], DEVICES["h200"]
    assert find_model("DeepSeek-R1") is v3 and find_device("H200") is h200 and find_link("nvlink4") is LINKS["nvlink4"]
    assert resident_bytes("deepseek-v3") == resident_bytes(v3) and ridge_point("H200") == ridge_point(h200)
    assert step_time(decode_step("deepseek-v3", 64), "h200") == step_time(decode_step(v3, 64), h200)
    assert decode_step(["deepseek-v3", v3], 64).bytes_read.tolist() == [decode_step(v3, 64).bytes_read] * 2


@pytest.mark.parametrize(("find", "given", "message"), [
    (find_model, 5, "model must be a MoEModel or the name of one, got 5"),
    (find_device, CATALOG["jamba"], "device must be a Device or the name of one, got"),
    (find_link, None, "link must be a Link or the name of one, got None"),
])
def test_what_is_neither_record_nor_name_is_refused(find, given, message):
    with pytest.raises(ValueError, match=message):
        find(given)


def test_a_record_that_is_added_is_found_like_the_others():
    mine = Names("model", CATALOG) | {}
    mine = Names("model", mine | {"my-model": from_counts("My Own Model", 671e9, 37e9, 256, 8)})
    mine["second"] = from_counts("The Second", 671e9, 37e9, 256, 8)
    assert mine["my own model"] is mine["MY_MODEL"] and mine["the second"] is mine["second"]


def test_a_collection_survives_a_copy():
    assert pickle.loads(pickle.dumps(LINKS))["NVLink4"] == LINKS["nvlink4"] and dict(LINKS) == LINKS
