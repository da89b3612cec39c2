"""Homework 4: the reference solutions against other routes to the same numbers, and what a wrong answer is told."""

import itertools
import re

import numpy as np
import pytest
from homework_answers import first_fault, last_table

from moe_homework.hw4 import HOMEWORK
from moe_homework.hw4.solutions import best_layout, gpu_times, held_bytes, sent_bytes, share_spares
from moe_lib.balance import balance, copies_of, gpu_loads
from moe_lib.exchange import copies_sent
from moe_lib.hardware import DEVICES
from moe_lib.layouts import Layout, layout_sequences, linear_placement, rank_resident_bytes
from moe_lib.models import CATALOG
from moe_lib.plan import time_per_token
from moe_lib.routing import sample_routing

V3 = CATALOG["deepseek-v3"]
PARTS = {"always_bytes": V3.active_params_read - 8 * V3.expert_params_all_layers,
         "experts_bytes": 256 * V3.expert_params_all_layers, "num_experts": 256, "top_k": 8, "kv_heads": 1,
         "cache_bytes": V3.kv_bytes_per_sequence(8192)}


def test_without_spares_and_with_what_divides_a_gpu_holds_what_the_library_says():
    layout, one = Layout.parse("DP8+EP8"), V3.expert_params_all_layers
    found = held_bytes(V3.always_active_params, one, 256, V3.kv_bytes_per_sequence(8192), 384, 8, spare=0)
    assert np.isclose(found, rank_resident_bytes(V3, layout, weight_bytes=1, context=8192, sequences=384))


def test_dealing_out_slots_and_sequences_one_by_one_agrees():
    for gpus, sequences in itertools.product((5, 16, 37, 144), (0, 1, 99)):
        slots, mine = (np.bincount(np.arange(n) % gpus, minlength=gpus).max() for n in (288, sequences))
        assert held_bytes(100.0, 10, 256, 1000, sequences, gpus) == 100 + 10 * slots + 1000 * mine


def test_counting_hops_token_by_token_agrees():
    rng = np.random.default_rng(1)
    home, gpus = rng.integers(0, 32, 200), rng.integers(0, 32, (200, 6))
    for at, to, network, nvlink in zip(home, gpus, *sent_bytes(home, gpus, 128, block=128), strict=True):
        nodes = {g // 8 for g in to} - {at // 8}
        there = {at, *(8 * node + at % 8 for node in nodes)}
        assert (network, nvlink) == (132 * len(nodes), 132 * len(set(to) - there))


def test_uniform_tokens_send_the_copies_that_page_07_expects():
    rng = np.random.default_rng(2)
    routes = sample_routing(rng, 20000, 256, 8)
    found = sent_bytes(rng.integers(0, 32, 20000), linear_placement(256, 32)[routes], 128, block=128)
    expected = copies_sent(256, 8, 32, once="node")
    assert np.allclose(np.mean(found, axis=1) / 132, [expected.across, expected.within], rtol=0.01)


def test_dealing_out_tokens_one_by_one_agrees():
    rng = np.random.default_rng(3)
    held, tokens = rng.permutation([*range(8), 0, 0, 1, 5]), rng.integers(0, 300, 8)
    got = np.zeros(12, int)
    for expert, count in enumerate(tokens):
        slots = np.flatnonzero(held == expert)
        got += np.bincount(slots[np.arange(count) % slots.size], minlength=12)
    times = [max(200 * np.sum(of > 0), 64 * sum(len(range(0, count, 64)) for count in of)) for of in got.reshape(4, 3)]
    assert gpu_times(tokens, held, 4, 200, 1).tolist() == times


def test_tiles_of_one_token_give_the_librarys_loads():
    tokens = 12 * np.random.default_rng(4).integers(0, 90, 16)  # divides by any number of copies here
    held = balance(tokens, 4, 20).expert_of_slot
    assert copies_of(held, 16).max() <= 4
    assert np.allclose(gpu_times(tokens, held[0], 4, 0, 1, tile=1), gpu_loads(tokens, held, 4)[0])


def test_one_layer_without_a_limit_is_copied_as_the_library_does():
    loads = np.random.default_rng(5).gamma(1, 100, 16)
    copies = share_spares(loads[None], 8, most_copies=8)
    assert (copies == copies_of(balance(loads, 8, 24).expert_of_slot, 16)).all()


def test_no_other_way_to_share_spares_has_a_smaller_largest_piece():
    loads = np.random.default_rng(6).gamma(0.5, 100, (2, 3))
    ways = [way for way in itertools.product(range(1, 5), repeat=6) if sum(way) == 11]
    copies = share_spares(loads, 5)
    assert copies.sum() == 11
    assert np.isclose((loads / copies).max(), (loads.ravel() / ways).max(axis=1).min())


def test_the_layout_has_the_librarys_time_and_no_sequence_more_meets_the_target():
    h200, target = DEVICES["h200"], 0.05
    gpus, tp, batch, speed = best_layout([(8, 8), (8, 4), (8, 2), (8, 1)], PARTS, target)
    layout = Layout(attention_tp=tp, attention_dp=gpus // tp, expert_parallel=gpus)
    slow = {"weight_bytes": 1, "context": 8192}
    overhead = (0.005, 3000e9 / h200.bandwidth_bytes_per_s)
    now, more = time_per_token(V3, [batch, batch + layout.attention_dp], layout, h200, overhead=overhead, **slow)
    assert np.isclose(speed, batch / now / gpus, rtol=1e-4)  # one embedding row a token is left out here
    assert now <= target < more and batch <= layout_sequences(V3, layout, 136e9, **slow)


def everyone_copied(home, gpus, d):
    """One copy for each expert: over NVLink in the node, over the network to others."""
    away = gpus // 8 != home[:, None] // 8
    here = ~away & (gpus != home[:, None])
    return away.sum(axis=1) * (d + 4 * d / 128), here.sum(axis=1) * (d + 4 * d / 128)


MISTAKES = {
    "experts in parts": ("held_bytes", lambda a, e, n, c, s, gpus: a + (n + 32) / gpus * e + np.ceil(s / gpus) * c,
                         "0, 39): expected 120.0, got 110.2564103"),
    "sequences in parts": ("held_bytes", lambda a, e, n, c, s, gpus: a + np.ceil((n + 32) / gpus) * e + s / gpus * c,
                           "9, 8): expected 1236.0, got 1148.5"),
    "a copy for each expert": ("sent_bytes", everyone_copied, "value 1: at [0] expected 1056.0, got 3168.0"),
    "no scales": ("sent_bytes", lambda *given: sent_bytes(*given, block=np.inf), "expected 1056.0, got 1024.0"),
    "no tiles": ("gpu_times", lambda *given: gpu_times(*given, tile=1), "at [0] expected 6.4e-05, got 1e-06"),
    "a sum of both": ("gpu_times", lambda *given: gpu_times(*given[:3], 0, given[4]) + gpu_times(*given[:4], 0),
                      "at [0] expected 6.4e-05, got 6.5e-05"),
    "no limit": ("share_spares", lambda loads, spares: share_spares(loads, spares, most_copies=99),
                 "[2, 3]]), 4): at [0, 0] expected 4, got 5"),
    "layer by layer": ("share_spares", lambda loads, spares: np.concatenate(
        [share_spares(layer[None], spares // len(loads)) for layer in loads]), "at [0, 0] expected 4, got 3"),
    "cache split": ("best_layout", lambda of, model, target: best_layout(of, {**model, "kv_heads": 99}, target),
                    "value 2: expected 10, got 21"),
    "all experts read": ("best_layout", lambda of, model, target: best_layout(of, {**model, "top_k": 4}, target),
                         "0.02216666667): value 0: expected 2, got 0"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_typical_mistake_is_told_what_was_expected_and_what_came(mistake):
    name, answer, words = MISTAKES[mistake]
    message = first_fault(HOMEWORK, name, answer)
    assert message.startswith(f"{name}(") and words in message


def test_the_answer_in_words_on_the_page_of_solutions_is_about_the_table_of_the_notebook():
    table, said = last_table(HOMEWORK)
    batch, tp8, dp8 = [re.findall(r" ([\d.]+)", line) for line in table.splitlines()]
    for at, sequences in (1, 3), (3, 40):
        assert batch[at] == str(sequences) and f"{tp8[at]} against {dp8[at]} ms for {sequences}" in said
    assert batch[4:] == ["80", "200"] and float(tp8[4]) == pytest.approx(float(dp8[4]), rel=0.02)  # about equal
    assert f"{dp8[5]} against {tp8[5]} ms for 200" in said and f"{tp8[6]} and {dp8[6]} ms" in said
    assert f"holds {tp8[7]} " in said and f"holds {int(dp8[7]):,}" in said
