import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from moe_lib.hardware import DEVICES, LINKS, devices_needed

every_device = pytest.mark.parametrize("device", DEVICES.values(), ids=DEVICES.keys())
every_link = pytest.mark.parametrize("link", LINKS.values(), ids=LINKS.keys())


def test_there_are_24_devices_and_21_links_under_their_own_names():
    assert len(DEVICES) == 24 and len(LINKS) == 21
    assert all(device.slug == slug for slug, device in DEVICES.items())
    assert all(link.slug == slug for slug, link in LINKS.items())


@every_device
def test_every_device_has_two_sources_or_says_which_fields_have_one(device):
    published = {"memory_bytes", "memory_visible_bytes", "bandwidth_bytes_per_s", "l2_bytes", "host_link"}
    published |= {f"peak_flops_{dtype}" for dtype in ("bf16", "fp8", "fp4")}
    assert device.sources[0] and (device.sources[1] or device.single_source)
    assert set(device.single_source) <= published


@every_device
def test_a_driver_shows_between_93_and_100_percent_of_what_is_sold(device):
    assert 0.93 <= device.visible_bytes / device.memory_bytes <= 1
    assert device.usable_bytes == pytest.approx(0.9 * device.visible_bytes)


@every_device
def test_sizes_are_in_bytes_and_rates_in_units_a_second(device):
    assert 2**34 <= device.memory_bytes < 2**40 and device.memory_bytes % 2**20 == 0
    assert 50e9 < device.bandwidth_bytes_per_s < 10e12
    assert all(50e12 < peak < 20e15 for peak in device.peak_flops_per_s.values())


@every_device
def test_peaks_are_dense_so_half_the_bits_at_most_double_them(device):
    peaks = list(device.peak_flops_per_s.values())
    most = 4 if device.slug in ("b300", "rtx-5090") else 2.05  # the notes of these two say how FP4 differs
    assert (np.divide(peaks[1:], peaks[:-1]) >= 1).all() and (np.divide(peaks[1:], peaks[:-1]) <= most).all()


@every_device
def test_the_host_link_of_a_device_is_a_link(device):
    assert device.host_link is None or device.host_link in LINKS


@every_link
def test_every_link_has_a_source_and_bytes_a_second_of_one_way(link):
    assert link.sources and 5e9 < link.bytes_per_s <= 900e9
    assert link.latency_s is None or 1e-7 < link.latency_s < 1e-4


def test_a_pcie_link_carries_its_transfers_less_the_encoding():
    for slug, transfers_per_s in [("pcie3-x16", 8e9), ("pcie4-x16", 16e9), ("pcie5-x16", 32e9)]:
        assert LINKS[slug].bytes_per_s == pytest.approx(transfers_per_s * 16 / 8 * 128 / 130)
        assert LINKS[f"{slug}-achieved"].bytes_per_s < LINKS[slug].bytes_per_s


def test_published_peaks_of_an_h200():
    h200 = DEVICES["h200"]
    assert h200.peak() == 989e12 and h200.bandwidth_bytes_per_s == 4.8e12 and h200.memory_bytes == 141 * 2**30


def test_a_card_of_24_gib_has_pcie_4():
    card = DEVICES["rtx-4090"]
    assert card.memory_bytes == 24 * 2**30 == pytest.approx(25.8e9, abs=0.05e9)
    assert LINKS[card.host_link].bytes_per_s == pytest.approx(31.5e9, abs=0.05e9)


@given(st.sampled_from(list(DEVICES.values())), st.floats(1, 1e15))
def test_the_devices_needed_hold_it_and_one_fewer_does_not(device, num_bytes):
    needed = devices_needed(num_bytes, device)
    assert (needed - 1) * device.usable_bytes < num_bytes * (1 + 1e-12)
    assert needed * device.usable_bytes >= num_bytes * (1 - 1e-12)


def test_nothing_needs_no_device_and_arrays_keep_their_shape():
    assert devices_needed(0, DEVICES["h200"]) == 0
    assert devices_needed([[1, 1e12]], DEVICES["h200"]).tolist() == [[1, 8]]
    with pytest.raises(ValueError, match="num_bytes must be at least 0, got -1"):
        devices_needed(-1, DEVICES["h200"])


def test_an_unknown_format_names_those_that_are_known():
    with pytest.raises(ValueError, match="dtype must be one of bf16, fp8 on h100, got 'fp4'"):
        DEVICES["h100"].peak("fp4")
    with pytest.raises(ValueError, match=r"dtype must be one of bf16, fp8 on h100, got \['bf16'\]"):
        DEVICES["h100"].peak(["bf16"])
