"""Homework 4: experts over many GPUs."""

from functools import partial

from moe_homework.check import checker as _checker
from moe_homework.homework import Constant, Homework, Question

HOMEWORK = Homework(
    name="hw4",
    title="Homework 4. How do many GPUs share one model?",
    notebook="hw4_parallel.ipynb",
    questions=(
        Question(name="q1", points=2, function="held_bytes"),
        Question(name="q2", points=4, function="sent_bytes"),
        Question(name="q3", points=3, function="gpu_times"),
        Question(name="q4", points=3, function="share_spares"),
        Question(name="q5", points=4, function="best_layout"),
        Question(name="q6", points=4),
    ),
    constants=(
        Constant(name="spare", choices=(32, 16, 48, 24), phrases=("{} redundant experts",)),
        Constant(name="block", choices=(128, 64, 256, 32), phrases=("block of {} values",)),
        Constant(name="node_gpus", choices=(8, 4, 16, 2), phrases=("nodes of {} GPUs",)),
        Constant(name="tile", choices=(64, 128, 32, 16), phrases=("tiles of {} tokens",)),
        Constant(name="most_copies", choices=(4, 3, 5, 2), phrases=("at most {} copies",)),
        Constant(name="usable_gb", choices=(136, 128, 144, 120), phrases=("{} GB usable",)),
        Constant(name="reads_gb_per_s", choices=(3000, 2500, 4000, 3500), phrases=("reads {} GB/s",)),
        Constant(name="overhead_ms", choices=(5, 4, 6, 3), phrases=("{} ms of overhead",)),
    ),
)
checker = partial(_checker, HOMEWORK)  # checker(variant=2) is `check` for another year
check = checker()
