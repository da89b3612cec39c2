"""Findings turn with their rows: each is asked of rows whose answer is known, and of rows that say the contrary."""

import numpy as np
import pytest
from drawing import faces, start

from moe_lib import figures
from moe_lib.hardware import DEVICES
from moe_lib.models import CATALOG
from moe_lib.roofline import compute_time, memory_time
from moe_lib.speculation import speculation_gain
from moe_lib.steps import decode_step

X = np.array([1, 2, 4, 8, 16])
UP, DOWN, SAME = 1.0 * X, 1.0 * X[::-1], np.full(5, 3.0)
SHARE = np.linspace(0, 1, 5)
HALVES = {"sequences_a_gpu": [4, 8], "gain": [0.1, -0.2], "gains_from_between": [2, 8]}
EVEN, UNEVEN = ((np.arange(4).reshape(2, 2), np.array(load)) for load in ([[3, 2], [3, 2]], [[4, 4], [1, 1]]))

# A figure, its rows, and what it finds in them.
FOUND = [
    ("chunk_times", (X, {"bound": UP, "all": SAME}, {"timed": 3 * UP}),
     "16 times the tokens take 16 times as long; the bound says 16 times as long, reading all weights as long"),
    ("chunk_times", (X, {"bound": SAME, "all": UP}, {"timed": SAME}),
     "16 times the tokens take as long; the bound says as long, reading all weights 16 times as long"),
    ("contexts", (X, np.array([[UP, SAME], [UP, UP]]), ["V3", "Q"], ["no context", "some"], 4, "ridge"),
     "With 16 sequences V3 does 16 FLOP a byte with no context, 3.0 with some"),
    ("covered", ({"V3": {"batch": X, "lines": {"uniform": UP / 16, "skewed": UP / 20}}},),
     "Skewed: at most 20 points from uniform, in V3"),
    ("covered", ({"V3": {"batch": X, "lines": {"uniform": UP / 16, "skewed": UP / 16}}},),
     "Skewed: at most 0 points from uniform, in V3"),
    ("equal_context", (X, {}, {"V3": DOWN, "twin": DOWN**2}, 4, "here"),
     "From 1 sequence to 16, the context where cache equals weights falls 16 times for V3, falls 256 times for twin"),
    ("equal_context", (X, {}, {"V3": UP, "twin": DOWN}, 4, "here"),
     "From 1 sequence to 16, the context where cache equals weights rises 16 times for V3, falls 16 times for twin"),
    ("exchange_times", ({"8 GPUs": (X, UP)}, {"8 GPUs": (X, 2 * UP, X > 2)}),
     "Two constants fitted at some sizes give the others within 50 %"),
    ("equal_context", (X, {}, {"V3": SAME, "twin": DOWN}, 4, "here"),
     "From 1 sequence to 16, the context where cache equals weights stays for V3, falls 16 times for twin"),
    ("exchange_times", ({"8 GPUs": (X, UP)}, {"8 GPUs": (X, 2 * UP, X > 0)}),
     "Two constants are fitted to all sizes, so none is left to try them on"),
    ("hit_rates", ({"one": {"LRU": (SHARE, SHARE), "optimum": (SHARE, np.sqrt(SHARE))}},),
     "With a quarter of the experts held, LRU hits 25 %, the optimum 50 %"),
    ("hit_rates", ({"one": {"LRU": (SHARE, SHARE**2), "optimum": (SHARE, SHARE)}},),
     "With a quarter of the experts held, LRU hits 6 %, the optimum 25 %"),
    ("kernels", ((X, 1e12 * UP), {"one": (X, 5e11 * UP)}), "Measured expert layers reach 50 % of the roof"),
    ("kernels", ((X, 1e12 * UP), {"one": (X, 1e12 * UP / X)}), "Measured expert layers reach 6 to 100 % of the roof"),
    ("ladder", ({"a": 4096, "b": 64},), "Enough batch means anything from 64 to 4,096 tokens"),
    ("layer_times", (X, {"uniform": UP}, {"timed": (X, UP)}),
     "From 1 token to 16 the measured layer goes from 1,000 to 16,000 ms, 16 times"),
    ("layers_outside", ([0, 16], {"copied": [0.001, 0.004]}, {"copied": ([0, 16], [0.001, 0.008])}),
     "With 16 layers outside, a token takes 8.0 ms copied: 2.00 times the bounds"),
    ("layouts", (X, {"TP8": UP / 1e3, "DP8": DOWN / 1e3}, {"TP8": 1, "DP8": 16}, 40),
     "TP8 fits 1 sequence, DP8 16; a full step takes 1.0 and 1.0 ms"),
    ("layouts", (X, {"TP8": UP / 1e3}, {"TP8": 16}, 40), "TP8 fits 16 sequences; a full step takes 16 ms"),
    ("missed_by", ({"a": [1.01] * 4, "b": [4.0] * 4},),
     "Best predicted: a, off by 0.995 %; worst: b, off by 4.0 times"),
    ("missed_by", ({"a": [0.5] * 4},), "Best predicted: a, off by 2.0 times"),
    ("one_curve", ({"law": (X, SHARE)}, [("law", "here", X, SHARE)]),
     "Half of all timings on 1 machine lie within 0 points of the law"),
    ("offloaded_batches", (X, {"copied": UP}, 4, "here"),
     "8 tokens copied are 8.0 times as fast as one, 16 are 16 times as fast"),
    ("offloaded_batches", (X, {"copied": SAME}, 4, "here"), "8 tokens copied are as fast as one, 16 are as fast"),
    ("over_bound", ({"m": {"": {"a": (1, 2)}}},), "None of 1 published speed beats its bound: it reaches 50 % of it"),
    ("over_bound", ({"m": {"": {"a": (3, 2), "b": (1, 2)}}},),
     "1 of 2 published speeds beats its bound: they reach 50 to 150 % of it"),
    ("over_bound", ({"m": {"": {"a": (3, 2), "b": (5, 2)}}},),
     "2 of 2 published speeds beat their bounds: they reach 150 to 250 % of them"),
    ("over_limit", (X, {"a": UP + 1, "b": UP + 2}), "a comes to 2.0 times the limit"),
    ("over_limit", (X, {"a": UP, "b": UP / 2}), "a comes to 1.0 times the limit; b lies below it, which cannot be"),
    ("overlap", (X, {"H200": 1 / UP, "H100": UP}, HALVES),
     "On H100, halves take 1.0 of the time at best, 1.0 with 1 sequence a GPU"),
    ("overlap", (X, {"H100": UP, "H200": 1 / UP}, HALVES),
     "On H200, halves take 0.0625 of the time at best, 1.0 with 1 sequence a GPU"),
    ("placed", ({"as numbered": UNEVEN, "placed": EVEN}, 5),
     "As numbered, the fullest GPU has 1.60 times the mean; placed, 1.00 times"),
    ("placed", ({"as numbered": EVEN, "placed": UNEVEN}, 5),
     "As numbered, the fullest GPU has 1.00 times the mean; placed, 1.60 times"),
    ("placed", ({"on two GPUs": EVEN}, 5), "On two GPUs, the fullest GPU has 1.00 times the mean"),
    ("ridges", ({"a": 10, "b": 100}, 16, "here"), "To keep a device busy takes 10 FLOP a byte on a and 100 on b"),
    ("ridges", ({"a": 100, "b": 10}, 16, "here"), "To keep a device busy takes 10 FLOP a byte on b and 100 on a"),
    ("ridges", ({"a": 10}, 16, "here"), "To keep a device busy takes 10 FLOP a byte on a"),
    ("slowdown", (X, {"a": UP, "b": SAME / 3}, {"a": 2 * UP, "b": SAME / 3}),
     "With 16 tokens of context a step takes 32 and 1.0 times as long; its bytes say 16 and 1.0"),
    ("slowest", ({"even": {"lines": {"256 slots, bound": (X, UP), "288 slots, bound": (X, UP)}},
                  "skewed": {"lines": {"256 slots, bound": (X, UP), "288 slots, bound": (X, UP / 2)}}},),
     "In the largest step 288 slots take as long when even, 0.50 times as long when skewed, against 256 slots"),
    ("time_ratio", (X, {"V3": DOWN, "Mixtral": UP}, 2.0, "here", {"V3": 8, "Mixtral": 4}),
     "V3 takes up to 16 times as long as its dense twin, and just as long from 8 tokens on"),
    ("valley", (X, {"no context": UP}, {"no context": (2, 8)}, ("V3", "Llama")),
     "With no context Llama is faster from 2 to 8 sequences, by up to 16 times"),
    ("valley", (X, {"no context": 1 / UP}, {"no context": (1, 1)}, ("V3", "Llama")),
     "With no context Llama is never faster"),
]


@pytest.mark.parametrize("name, rows, finding", FOUND, ids=[f"{name}-{i}" for i, (name, *_) in enumerate(FOUND)])
def test_a_figure_finds_what_its_rows_say(name, rows, finding):
    assert getattr(figures, name)(*rows).usermeta["finding"] == finding


def said(name, what="finding", **chosen):
    control, _ = faces(name)
    return control.say(what, **start(control, **chosen))


@pytest.mark.parametrize("batch", [1, 64, 4096, 65536])
def test_a_roofline_names_what_a_step_waits_for(batch):
    step = decode_step(CATALOG["deepseek-v3"], batch, weight_bytes=2)
    reads = memory_time(step, DEVICES["h200"]) > compute_time(step, DEVICES["h200"], "bf16")
    named = ("reading", "arithmetic") if reads else ("arithmetic", "reading")
    assert [said("roofline", batch=batch).index(word) for word in named] == sorted(
        said("roofline", batch=batch).index(word) for word in named)


@pytest.mark.parametrize("context, own, twin", [(1024, "weights", "weights"), (131072, "weights", "cache"),
                                                (1048576, "cache", "cache")])
def test_a_balance_says_which_side_outweighs_the_other(context, own, twin):
    assert f"mostly {own} (" in said("context", context=context)
    assert f"twin {twin} (" in said("context", context=context)


def test_further_slots_cost_where_reading_decides_and_pay_where_computing_does():
    few, many = ({"batch": batch, "skew": 1} for batch in (64, 65536))
    assert said("balance", "sentence", **few).startswith("Reading") and "1." in said("balance", **few)
    assert said("balance", "sentence", **many).startswith("Computing") and "take 0." in said("balance", **many)


def test_a_card_that_holds_every_expert_waits_for_nothing():
    assert said("offloading", bits=16).startswith("A token takes ")
    assert said("offloading", bits=2, device="h200").startswith("The card holds every expert")
    assert said("offloading", "sentence", bits=2, device="h200").startswith("Nothing has to be copied")


def test_a_uniform_router_is_compared_with_none():
    assert "uniform router touches" in said("coverage", skew=1) and "uniform" not in said("coverage", skew=0)
    assert said("coverage", "sentence", skew=0).startswith("No expert is preferred")


def test_one_token_touches_and_many_touch():
    assert said("coverage", batch=1).startswith("1 token touches ") and "2 tokens touch " in said("coverage", batch=2)
    assert said("wall", batch=1) == "1 token lights 8 of 256 experts and leaves 248 dark"
    assert " light 16 of 256 experts and leave 240 dark" in said("wall", batch=2)


def test_experts_that_every_token_takes_are_left_with_no_fewer():
    assert "left with fewer" in said("coverage", "sentence", num_experts=16)
    assert said("coverage", "sentence", num_experts=8).endswith("sees 100 % of tokens, as do all others.")


def test_loads_that_are_even_gain_nothing_by_further_slots():
    many = {"batch": 65536, "skew": 1}
    assert "further slots gain nothing" in said("balance", "sentence", slots=288, **many)
    assert "more even loads would pay" in said("balance", "sentence", slots=256, **many)


@pytest.mark.parametrize("batch", [1, 5])
def test_a_draft_is_told_by_its_speed_and_by_no_rank(batch):
    gain = speculation_gain(CATALOG["deepseek-v3"], batch, 0.8, DEVICES["h200"], draft=1, dtype="fp8", weight_bytes=1)
    assert f"{gain:.2f} times" in said("speculation", acceptance=0.8, draft=1, copy=0)


def test_times_below_their_limit_are_explained():
    skewed, broken = {"routing": "power law"}, {"framework": "vLLM", "precision": "fp8_block"}
    assert "0.959 times" in said("measured", **skewed) and "Skewed" in said("measured", "sentence", **skewed)
    assert "7 of 13 times lie below the limit, which cannot be" in said("measured", "sentence", **broken)
    assert said("measured", "sentence").endswith("They are off by 10.6 % up to 512 tokens.")


def test_a_share_near_one_half_or_near_all_has_a_decimal():
    assert "cache (50.2 %)" in said("context", precision="fp8") and "cache (89 %)" in said("context")
    step = decode_step(CATALOG["deepseek-v3"], 64, weight_bytes=2, context=1024)
    assert f"weights ({100 * step.weight_bytes_read / step.bytes_read:.1f} %)" in said("context", context=1024)


def test_a_larger_chunk_that_changes_nothing_is_said_to():
    assert "longest pause of the others is still 17.5 ms" in said("chunks", "sentence", chunk=512)
    assert "longest pause of the others is 26.9 ms instead of 17.5 ms" in said("chunks", "sentence", chunk=2048)


def test_a_slower_target_that_gains_nothing_is_said_to():
    assert said("plan", "sentence", tpot=30).endswith("At 40 ms a GPU would do no more.")
    assert said("plan", "sentence", tpot=25).endswith("At 30 ms a GPU would do 1.47 times as much.")


def test_where_no_layout_can_be_more_milliseconds_are_not_advised():
    assert said("plan", model="qwen1.5-moe", tpot=100).startswith("cannot be: ")
    dbrx = {"model": "dbrx", "device": "a100-80gb", "gpus": 2}
    assert said("plan", tpot=8, **dbrx) == "no layout meets the target: allow more milliseconds"
    assert "meets 100 ms a token best" in said("plan", tpot=100, **dbrx)


def test_a_target_that_no_layout_meets_is_refused_with_what_to_do():
    assert said("plan", tpot=100).partition(" ")[2].startswith("meets 100 ms a token best")
    assert said("plan", model="glm-4.5", gpus=2, device="h100") == "does not fit: choose more GPUs, or larger ones"


def row(label, **fields):
    return {"label": label, "series": "mixture of experts", "beyond": 1e5, "expert": 1e8, **fields}


def test_the_model_with_the_largest_cache_is_named_first():
    one, two = row("a, GQA", size=2e5), row("b, MLA", size=1e5)
    assert figures.cache_per_token([one, two], []).usermeta["finding"] == "For a token a keeps 2.0 times the cache of b"
    one["size"] = 5e4
    assert figures.cache_per_token([one, two], []).usermeta["finding"] == "For a token b keeps 2.0 times the cache of a"


def test_equal_models_are_not_ranked():
    same = [row("a, 1 of 8", size=2e5, ratio=1, limit=8), row("b, 2 of 8", size=2e5, ratio=1, limit=8)]
    assert figures.cache_per_token(same, []).usermeta["finding"] == "For a token a keeps no more cache than any other"
    assert figures.sparsity(same).usermeta["finding"] == "a holds no more than what a token uses"


def test_the_sparsest_model_is_named_with_its_limit():
    rows = [row("a, 1 of 8", ratio=6, limit=8), row("b, 2 of 8", ratio=3, limit=4)]
    assert figures.sparsity(rows).usermeta["finding"] == "a holds 6.0 times what a token uses, of at most 8.0"
    rows[1]["ratio"] = 12
    assert figures.sparsity(rows).usermeta["finding"].startswith("b holds 12 times")


def test_the_model_that_spares_most_reading_is_named():
    context, same = [1024, 2048], {"a": [8, 8], "b": [8, 8]}
    said = [figures.cache_by_context(context, same, read).usermeta["finding"]
            for read in ({"a": [8, 2], "b": [8, 4]}, {"a": [8, 6], "b": [8, 4]})]
    assert "a step of a reads 2.0 bytes" in said[0] and "a step of b reads 4.0 bytes" in said[1]


def test_a_server_that_slows_down_and_one_that_does_not_read_differently():
    said = [figures.served([1, 2], {"bound": [0.01, 0.02]}, ([1, 2], seconds), "us").usermeta["finding"]
            for seconds in ([0.02, 0.04], [0.04, 0.03])]
    assert "goes from 20 to 40 ms" in said[0] and "goes from 40 to 30 ms" in said[1]


def test_the_wall_reads_more_for_a_larger_batch_and_puts_no_light_out():
    wall, page = faces("cover")
    lit = {row["batch"]: np.array(row["tokens"]) > 0 for row in page["datasets"]["wall"]}
    assert [int(of.sum()) for of in lit.values()] == [8, 57, 222, 256]
    assert all((small <= large).all() for small, large in zip([*lit.values()], [*lit.values()][1:], strict=False))
    assert wall.say("finding", batch=1) == "1 token reads 5 % of DeepSeek-V3"


@pytest.mark.parametrize("model, twin", [("deepseek-v3", "64"), ("mixtral-8x7b", "64")])
def test_the_workshop_names_the_work_for_a_byte_of_both(model, twin):
    workshop, _ = faces("workshop")
    chosen = start(workshop, model=model)
    said = workshop.say("finding", **chosen)
    assert said.endswith(twin) and workshop.readout(**chosen)["Intensity"].split()[0] in said
