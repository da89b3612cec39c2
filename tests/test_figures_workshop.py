"""Findings of the landing page's figures turn with their rows."""

import numpy as np
import pytest
from drawing import faces, start

from moe_lib import figures


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
