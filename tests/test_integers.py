"""Counts are wide on every platform: NumPy's default integer has 32 bits on some, such as WebAssembly."""

import re
import sys

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from test_imports import FORMULAS, PACKAGE

import moe_lib as moe
from moe_lib import _arguments, measured
from moe_lib.layouts import Layout, rank_prefill, rank_resident_bytes

MAKERS = ("array", "asarray", "arange", "zeros", "ones", "empty", "full", "atleast_1d", "atleast_2d", "prod", "cumsum",
          "bincount", "flatnonzero", "argsort", "sum", "rint", "stack")  # fmt: skip


class Narrow:
    """NumPy whose default integer has 32 bits: what is made without a dtype, or with `int`, out of no wider array."""

    def __getattr__(self, name):
        found = getattr(np, name)
        if name not in MAKERS:
            return found

        def make(*args, **kwargs):
            made = found(*args, **kwargs)
            given = [getattr(of, "dtype", of) for of in (*args, kwargs.get("dtype")) if of is not int]
            wide = any(isinstance(of, (type, np.dtype)) and of == np.int64 for of in given)
            fits = made.dtype == np.int64 and not np.any(np.abs(made) >= 2**31)
            return made.astype(np.int32) if fits and not wide else made

        return make


def answers():
    v3, hybrid, spread = moe.CATALOG["deepseek-v3"], moe.CATALOG["qwen3.6-35b-a3b"], Layout.parse("DP8+EP8")
    layer = measured.layers(device="h200", framework="SGLang 0.5.10", model="deepseek-v3", dtype="bf16")[0]
    made = measured.TimedLayer(num_experts=256, top_k=8, d_model=7168, d_expert=2048, weight_bytes=2,
                               num_tokens=[4096, 65536], latency_s=[1, 2], bytes_per_s=1e12, flops_per_s=1e15,
                               touched=[250, 256])
    yield v3.attention_flops(8192), v3.attention_flops([8192, 131072]), v3.chunk_attention_flops([0, 65536], 65536)
    yield v3.kv_bytes_per_sequence([131072]), hybrid.kv_bytes_read([262144])
    for model in v3, hybrid:
        step, chunks = moe.decode_step(model, [1, 4096], context=[131072]), moe.prefill(model, 131072, chunk=32768)
        yield tuple(getattr(of, name) for of in (step, chunks) for name in ("bytes_moved", "flops", "experts_touched"))
    yield moe.resident_bytes(v3, context=[131072], sequences=[4096]), rank_resident_bytes(v3, spread, sequences=[70000])
    yield rank_prefill(v3, 131072, spread, chunk=65536).flops, moe.link_time(v3, [65536], spread, "nvlink4")
    yield moe.token_time(v3, [64e9], batch=[65536]), moe.balance([[2**31, 2**31 + 9]], 2, 2).max_over_mean
    yield moe.sequences_that_fit(v3, [10**13], context=[1]), layer.limit(), made.limit()
    yield moe.hardware.devices_needed(1e21, "h20"), v3.total_params


def test_formulas_are_right_where_the_default_integer_is_narrow(monkeypatch):
    wide = list(answers())
    assert 138e9 < wide[0][0] < 140e9  # 2 GFLOP where it overflows
    for name in FORMULAS & {of.removeprefix("moe_lib.") for of in sys.modules}:
        module = sys.modules[f"moe_lib.{name}"]
        monkeypatch.setattr(module, "np", Narrow()) if hasattr(module, "np") else None
    for right, narrow in zip(wide, answers(), strict=True):
        for one, other in zip(right, narrow, strict=True):
            np.testing.assert_array_equal(one, other)


def test_the_narrow_numpy_is_narrow(monkeypatch):
    monkeypatch.setattr(_arguments, "np", Narrow())
    assert Narrow().asarray([1]).dtype == Narrow().arange(3).dtype == Narrow().zeros(2, int).dtype == np.int32
    assert Narrow().asarray(np.int64(1)).dtype == np.int64
    assert _arguments.require("x", [2**30]).dtype == np.int64


@given(st.lists(st.integers(1, 2**20), min_size=1, max_size=3), st.integers(0, 2**20))
def test_narrow_arrays_give_what_wide_ones_give(batch, context):
    for kind in np.int32, np.uint32:
        ones, others = (moe.decode_step("gpt-oss-120b", np.array(batch, of), context=np.array(context, of))
                        for of in (kind, np.int64))
        for name in "bytes_moved", "flops", "tokens_per_expert":
            assert np.array_equal(getattr(ones, name), getattr(others, name))


def test_no_formula_casts_to_the_default_integer():
    sources = {name: (PACKAGE / f"{name}.py").read_text(encoding="utf-8") for name in FORMULAS - {"bench"}}
    assert [name for name, text in sources.items() if re.search(r"astype\(int\)|dtype=int\b", text)] == []
