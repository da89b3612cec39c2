
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from moe_lib.hardware import DEVICES, LINKS
from moe_lib.models import CATALOG
from moe_lib.offload import (
    copied_step_time,
    expert_bytes,
    expert_slots,
    host_time,
    hosted_step_time,
    missed_bytes,
    token_time,
    tokens_where_copying_wins,
    transfer_time,
)
from moe_lib.roofline import memory_time
from moe_lib.routing import experts_touched
from moe_lib.steps import decode_step, resident_bytes

V3, MIXTRAL = CATALOG["deepseek-v3"], CATALOG["mixtral-8x7b"]
mixtures = st.sampled_from([model for model in CATALOG.values() if model.num_experts > 1])


# time of a token


@pytest.mark.parametrize(("weight_bytes", "milliseconds"), [(2, 352.32), (1, 176.16), (0.5, 88.08)])
def test_an_uncached_mixtral_token_at_the_nominal_rate_of_pcie_5(weight_bytes, milliseconds):
    assert 1e3 * token_time(MIXTRAL, 64e9, weight_bytes=weight_bytes) == pytest.approx(milliseconds, abs=0.005)


def test_the_famous_figure_is_one_8_bit_expert_over_all_layers():
    assert 32 * expert_bytes(MIXTRAL, 1) / 1e9 == pytest.approx(5.637, abs=5e-4)
    assert expert_bytes(MIXTRAL, 2) / 1e6 == pytest.approx(352.3, abs=0.05)
    assert missed_bytes(MIXTRAL, weight_bytes=1) == 2 * 32 * expert_bytes(MIXTRAL, 1)


@given(mixtures, st.integers(1, 10**5), st.floats(0, 1), st.floats(0, 1))
def test_a_step_misses_what_it_touches_less_the_hits(model, batch, hit_rate, weight_bytes):
    touched = experts_touched(model.num_experts, model.top_k, batch) * model.num_moe_layers
    missed = missed_bytes(model, batch=batch, weight_bytes=weight_bytes, hit_rate=hit_rate)
    assert missed == pytest.approx(touched * model.expert_params * weight_bytes * (1 - hit_rate))
    assert missed <= model.ledger()["routed_experts"] * weight_bytes * (1 + 1e-12)


def test_what_is_missed_and_what_is_always_read_make_up_the_step():
    step = decode_step(V3, [1, 64], weight_bytes=1)
    always = V3.always_active_params - V3.ledger()["embedding"]
    assert np.allclose(step.weight_bytes_read, always + missed_bytes(V3, batch=[1, 64], weight_bytes=1))


@given(mixtures, st.floats(0, 1))
def test_a_host_as_fast_as_the_card_costs_nothing_and_a_copy_costs_its_way(model, hit_rate):
    card, setting = DEVICES["rtx-4090"], {"weight_bytes": 1, "hit_rate": hit_rate}
    whole = memory_time(decode_step(model, 1, weight_bytes=1), card)
    assert hosted_step_time(model, card, card, 1e30, **setting) == pytest.approx(whole)
    way = missed_bytes(model, **setting) / LINKS["pcie4-x16"].bytes_per_s
    assert copied_step_time(model, card, "pcie4-x16", **setting) == pytest.approx(whole + way)


def test_a_copy_takes_the_slower_of_the_link_and_of_the_card_s_own():
    assert DEVICES["rtx-4090"].host_link == "pcie4-x16" and DEVICES["h200"].host_link == "pcie5-x16"
    old, new = (copied_step_time(V3, "rtx-4090", f"pcie{n}-x16", weight_bytes=1) for n in (4, 5))
    assert old == new
    old, new = (copied_step_time(V3, "h200", f"pcie{n}-x16", weight_bytes=1) for n in (4, 5))
    assert 1.9 < old / new < 2


@given(st.floats(0, 1), st.floats(0, 1), st.floats(0, 0.2))
def test_a_prefetch_is_bounded_by_nothing_hidden_and_all_hidden(hit_rate, recall, compute_time):
    case = {"weight_bytes": 1, "hit_rate": hit_rate, "compute_time": compute_time}
    slow, fast = (token_time(MIXTRAL, 64e9, **case, overlap=known) for known in (False, True))
    assert fast * (1 - 1e-9) <= token_time(MIXTRAL, 64e9, **case, overlap=recall) <= slow * (1 + 1e-9)
    assert fast == pytest.approx(max(compute_time, token_time(MIXTRAL, 64e9, weight_bytes=1, hit_rate=hit_rate)))


def test_wrong_guesses_can_cost_more_than_a_prefetch_saves():
    case = {"weight_bytes": 1, "compute_time": 5e-3}
    assert token_time(MIXTRAL, 64e9, **case, overlap=0.5, wasted=1) > token_time(MIXTRAL, 64e9, **case)
    copying = token_time(MIXTRAL, 64e9, weight_bytes=1)
    assert token_time(MIXTRAL, 64e9, **case, overlap=0.25, wasted=0.5) == pytest.approx((0.75 + 0.25 + 0.5) * copying)


def test_arguments_of_a_tokens_time_broadcast():
    grid = token_time(V3, [[31.5e9], [63e9]], weight_bytes=1, hit_rate=[0, 0.5, 1], overlap=True, compute_time=1e-3)
    assert grid.shape == (2, 3) and grid[0, 0] == pytest.approx(2 * grid[1, 0]) and (grid[:, 2] == 1e-3).all()


def test_the_published_socket_is_bound_by_its_memory():
    seconds = host_time(V3, 8 * LINKS["ddr5-4800-channel"].bytes_per_s, 1e15, weight_bytes=4.85 / 8)
    assert 1 / seconds == pytest.approx(24.8, abs=0.05)
    assert 1 / seconds > 8.73  # measured by KTransformers


@given(mixtures, st.integers(1, 4096), st.floats(1e11, 1e14))
def test_a_host_takes_its_memory_or_its_arithmetic_whichever_is_longer(model, batch, peak):
    reading = host_time(model, 3e11, 1e30, weight_bytes=1, batch=batch)
    arithmetic = host_time(model, 1e30, peak, weight_bytes=1, batch=batch)
    both = host_time(model, 3e11, peak, weight_bytes=1, batch=batch, compute_time=1)
    assert both == pytest.approx(1 + max(reading, arithmetic))
    assert reading == pytest.approx(token_time(model, 3e11, weight_bytes=1, batch=batch))


def test_what_the_card_holds_the_host_neither_reads_nor_computes():
    for memory, peak in ((3e11, 1e30), (1e30, 1e12)):
        none, half = (host_time(V3, memory, peak, weight_bytes=1, hit_rate=hits) for hits in (0, 0.5))
        assert half == pytest.approx(none / 2)


def test_the_arithmetic_of_a_huge_batch_does_not_overflow():
    assert host_time(V3, 1e30, 1e12, weight_bytes=1, batch=np.array([10**9]))[0] == pytest.approx(
        2e9 * 8 * V3.expert_params_all_layers / 1e12)


def test_copying_and_computing_take_equally_long_at_the_break_even():
    link, peak, w = 31.5e9, 2e12, 0.5
    tokens = tokens_where_copying_wins(link, peak, weight_bytes=w)
    assert transfer_time(expert_bytes(V3, w), link) == pytest.approx(2 * tokens * V3.expert_params / peak)


# what a card holds


@given(mixtures, st.sampled_from(list(DEVICES)), st.sampled_from([0.5, 1, 2]), st.integers(0, 10**5))
def test_slots_fill_a_card_or_hold_every_expert(model, slug, weight_bytes, context):
    usable = DEVICES[slug].usable_bytes
    settings = {"weight_bytes": weight_bytes, "context": context, "sequences": 1}
    slots, all_of_it = expert_slots(model, usable, **settings), resident_bytes(model, **settings)
    routed = model.ledger()["routed_experts"] * weight_bytes
    assert np.isnan(slots) == (all_of_it - routed > usable)
    if not np.isnan(slots):
        assert all_of_it - routed + slots / model.num_experts * routed == pytest.approx(min(usable, all_of_it))


def test_mixtral_in_four_bits_fits_a_24_gb_card_only_just():
    usable = DEVICES["rtx-4090"].usable_bytes
    slots = expert_slots(MIXTRAL, usable, weight_bytes=0.5, context=4096, sequences=1)
    assert 7 < slots < 8 and expert_slots(MIXTRAL, 24 * 2**30, weight_bytes=0.5, context=4096, sequences=1) == 8


def test_a_card_that_holds_just_the_rest_has_no_slot_and_a_byte_less_is_nan():
    rest = resident_bytes(MIXTRAL, weight_bytes=1) - MIXTRAL.ledger()["routed_experts"]
    slots = [expert_slots(MIXTRAL, usable, weight_bytes=1) for usable in (rest, rest - 1)]
    assert slots[0] == 0 and np.isnan(slots[1])


def test_a_dense_model_has_no_slots():
    with pytest.raises(ValueError, match="routed experts must be at least 1"):
        expert_slots(CATALOG["llama-3.1-8b"], 1e12)


@pytest.mark.parametrize(("call", "message"), [
    (lambda: transfer_time(1, 0), "bandwidth must be above 0, got 0"),
    (lambda: token_time(V3, 64e9, hit_rate=1.5), r"hit_rate must be within 0..1, got 1.5"),
    (lambda: token_time(V3, 64e9, overlap=2), r"overlap must be within 0..1, got 2"),
    (lambda: token_time(V3, 64e9, wasted=-1), "wasted must be at least 0, got -1"),
    (lambda: token_time(V3, 64e9, overlap="1"), "overlap must be a number or an array of numbers, got '1'"),
    (lambda: token_time(V3, 64e9, overlap=None), "overlap must be a number or an array of numbers, got None"),
    *((lambda call=call: call(671, 1, 1), "model must be a MoEModel or the name of one, got 671") for call in (
        lambda model, *_: token_time(model, 64e9), host_time, lambda model, *_: missed_bytes(model),
        lambda model, *_: expert_bytes(model), lambda model, *_: expert_slots(model, 1e12))),
])
def test_bad_input_names_the_argument_and_its_range(call, message):
    with pytest.raises(ValueError, match=message):
        call()
