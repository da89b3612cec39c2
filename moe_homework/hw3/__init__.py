"""Homework 3: experts outside the card."""

from functools import partial

from moe_homework.check import checker as _checker
from moe_homework.homework import Constant, Homework, Question

HOMEWORK = Homework(
    name="hw3",
    title="Homework 3. What does an expert outside the card cost?",
    notebook="hw3_offloading.ipynb",
    questions=(
        Question(name="q1", points=2, function="token_bytes"),
        Question(name="q2", points=3, function="prefetched_time"),
        Question(name="q3", points=3, function="cache_hits"),
        Question(name="q4", points=4, function="split_step"),
        Question(name="q5", points=4, function="choose_bits"),
        Question(name="q6", points=4),
    ),
    constants=(
        Constant(name="group", choices=(32, 64, 16, 128), phrases=("group of {} weights",)),
        Constant(name="scale_bytes", choices=(2, 4), phrases=("scale of {} bytes",)),
        Constant(name="link_gb_per_s", choices=(25, 50, 12, 40), phrases=("link copies {} GB/s",)),
        Constant(name="start_us", choices=(20, 10, 30, 15), phrases=("{} µs to start",)),
        Constant(name="pinned", choices=(2, 3, 4, 5), phrases=("{} pinned experts", "numbered below {}")),
        Constant(name="memory_gb_per_s", choices=(200, 100, 300, 150), phrases=("memory reads {} GB/s",)),
        Constant(name="host_tflops", choices=(2, 3, 4, 1), phrases=("host computes {} TFLOP/s",)),
        Constant(name="card_gb_per_s", choices=(1000, 800, 1500, 2000), phrases=("card reads {} GB/s",)),
        Constant(name="staging", choices=(8, 12, 6, 16), phrases=("{} staging slots",)),
    ),
)
checker = partial(_checker, HOMEWORK)  # checker(variant=2) is `check` for another year
check = checker()
