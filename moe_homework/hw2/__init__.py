"""Homework 2: how much work does a step do for a byte?"""

from functools import partial

from moe_homework.check import checker as _checker
from moe_homework.homework import Constant, Homework, Question

HOMEWORK = Homework(
    name="hw2",
    title="Homework 2. How much work for a byte?",
    notebook="hw2_intensity.ipynb",
    questions=(
        Question(name="q1", points=3, function="expert_bytes"),
        Question(name="q2", points=3, function="layer_intensity"),
        Question(name="q3", points=3, function="padding_slowdown"),
        Question(name="q4", points=3, function="judge"),
        Question(name="q5", points=4, function="fp8_pays_from"),
        Question(name="q6", points=4),
    ),
    constants=(
        Constant(name="block", choices=(128, 64, 32, 256), phrases=("blocks of {0} × {0}",)),
        Constant(name="scale_bytes", choices=(4, 2), phrases=("scale of {} bytes", "(6 + {}) bytes")),
        Constant(name="shared", choices=(2, 4, 3, 6), phrases=("{} shared experts",)),
        Constant(name="tile", choices=(64, 16, 128, 32), phrases=("tiles of {} rows", "2 × {} rows")),
        Constant(name="many", choices=(3, 2, 4, 5), phrases=("more than {} times",)),
    ),
)
checker = partial(_checker, HOMEWORK)  # checker(variant=2) is `check` for another year
check = checker()
