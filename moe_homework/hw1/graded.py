"""Graded tests of homework 1: ordinary pytest tests. A question's function comes as a fixture, points as a marker."""

import numpy as np
import pytest

from moe_homework.expect import expect, expect_unchanged


@pytest.mark.points(1)
def test_one_token(share_read, constants):
    """One token reads its k experts and the shared ones"""
    expect(share_read, 8, 2, 1, gives=(2 + constants.shared) / (8 + constants.shared))


@pytest.mark.points(1)
def test_empty_step(share_read, constants):
    """A step without tokens still reads the shared experts"""
    expect(share_read, 256, 8, 0, gives=constants.shared / (256 + constants.shared))


@pytest.mark.points(1)
def test_arrays(share_read, solution, rng):
    """Arrays broadcast, and stay as they were"""
    batch = np.sort(rng.integers(1, 5000, 40))
    expect(share_read, np.array([[64], [256]]), 8, batch, gives=solution.share_read(np.array([[64], [256]]), 8, batch))
    expect_unchanged(share_read, 256, 8, batch)
