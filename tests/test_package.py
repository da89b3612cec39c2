"""The package itself: its names at hand, how it prints, and what is loaded when."""

import inspect
import re
import subprocess
import sys

import numpy as np
import pytest

import moe_lib as moe
from moe_lib.balance import balance
from moe_lib.plan import plan


def fresh(code):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout


def test_some_thirty_names_are_at_hand_and_the_map_names_each():
    mapped = set(re.findall(r"`(\w+)`", moe.__doc__))
    assert mapped == set(moe._HOME) <= set(dir(moe)) and 25 <= len(mapped) <= 35
    assert all(getattr(moe, name) is not None for name in (*moe._HOME, *moe._HOMES, "__version__"))


def test_the_import_alone_loads_nothing_and_a_name_only_what_it_needs():
    loaded = "print([m for m in sys.modules if m.partition('.')[0] in ('moe_lib', 'numpy', 'altair')])"
    assert fresh(f"import sys, moe_lib; {loaded}").strip() == "['moe_lib']"
    assert "altair" not in fresh(f"import sys, moe_lib; moe_lib.plan; {loaded}")


@pytest.mark.parametrize("first", ["moe_lib.plan", "from moe_lib.plan import pools", "import moe_lib.plan"])
def test_the_plan_can_be_called_however_its_module_was_loaded(first):
    said = fresh(f"import moe_lib\n{first}\nprint(moe_lib.plan('deepseek-v3', 'H200', 8, context=8192)[0].layout)")
    assert said.strip() == "DP8+EP8"


def test_a_module_that_is_called_is_its_function():
    assert moe.plan.plan is plan and inspect.signature(moe.plan) == inspect.signature(plan)
    assert moe.balance([[3, 1]], 2, 2).max_over_mean == balance([[3, 1]], 2, 2).max_over_mean


def test_an_unknown_name_of_the_package_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'coverrage'"):
        moe.coverrage  # noqa: B018


V3, H200 = moe.CATALOG["deepseek-v3"], moe.DEVICES["h200"]
SHOWN = {
    "model": V3, "dense model": moe.CATALOG["llama-3.1-8b"], "device": H200, "link": moe.LINKS["nvlink4"],
    "step": moe.decode_step(V3, 64), "steps": moe.decode_step(V3, [1, 64], context=9), "chunks": moe.prefill(V3, 9),
    "layout": moe.Layout(attention_dp=8, expert_parallel=8), "bounds": moe.step_time(moe.decode_step(V3, 64), H200),
    "bounds of several": moe.step_time(moe.decode_step(V3, np.arange(3)), H200),
    "plan": moe.plan(V3, H200, 8, context=8192), "row": moe.plan(V3, H200, 8, context=8192)[0],
    "points": moe.plan.frontier(V3, H200, 8, context=8192)[0], "work": moe.balance.rank_work([0.5] * 4, range(4), 2, 8),
    "ratio": moe.moe_or_dense(V3, "llama-3.1-70b", H200, 8, 64), "record": moe.records.shipped("production")[0],
    "placement": moe.balance([[3, 1]], 2, 2), "layer": moe.measured.layers()[0],
}  # fmt: skip


@pytest.mark.parametrize("shown", SHOWN.values(), ids=SHOWN)
def test_a_record_prints_in_one_short_line_without_numpy_s_own_names(shown):
    assert "\n" not in repr(shown) and len(repr(shown)) <= 160 and "np." not in repr(shown)


@pytest.mark.parametrize("what", ["model", "device", "link", "step", "steps", "layout", "plan"])
def test_a_record_is_a_table_in_a_cell(what):
    table = SHOWN[what]._repr_html_()
    assert table.startswith("<table><caption>") and table.endswith("</table>") and "np." not in table


def test_the_map_is_the_help():
    assert "How many experts does a batch touch?" in fresh("import moe_lib; help(moe_lib)")
