"""Homework 1: how many experts does a batch touch?"""

from moe_homework.check import checker as _checker
from moe_homework.homework import Constant, Homework, Question

HOMEWORK = Homework(
    name="hw1",
    title="Homework 1. How many experts does a batch touch?",
    notebook="hw1_coverage.ipynb",
    questions=(
        Question(name="q1", points=3, function="share_read"),
        Question(name="q2", points=2),
    ),
    constants=(Constant(name="shared", choices=(2, 1, 3, 4), phrases=("{} shared experts",)),),
)


def checker(variant=0):
    """`check` for a variant of this homework."""
    return _checker(HOMEWORK, variant)


check = checker()
