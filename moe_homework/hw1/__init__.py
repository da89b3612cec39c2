"""Homework 1: how many experts does a batch touch?"""

from functools import partial

from moe_homework.check import checker as _checker
from moe_homework.homework import Constant, Homework, Question

HOMEWORK = Homework(
    name="hw1",
    title="Homework 1. How many experts does a batch touch?",
    notebook="hw1_coverage.ipynb",
    questions=(
        Question(name="q1", points=3, function="share_read"),
        Question(name="q2", points=3, function="sequences_needed"),
        Question(name="q3", points=3, function="experts_from_counts"),
        Question(name="q4", points=3, function="experts_for_drafts"),
        Question(name="q5", points=4, function="most_sequences"),
        Question(name="q6", points=4),
    ),
    constants=(
        Constant(name="shared", choices=(2, 4, 3, 6), phrases=("{0} shared experts", "2 + {0} of 8 + {0} experts")),
        Constant(name="draft", choices=(3, 5, 2, 4), phrases=("{} drafted", "1 + {} tokens")),
        Constant(name="chosen", choices=(2, 4, 3), phrases=("takes {} experts", "1,200/{} tokens", "chosen = {}")),
        Constant(name="repeat", choices=(0.3, 0.2, 0.4, 0.25), phrases=("with chance {}",)),
        Constant(name="limit_ms", choices=(20, 30, 25, 40), phrases=("at most {} ms",)),
        Constant(name="most", choices=(1024, 512, 2048, 768), phrases=("at most {:,} sequences",)),
    ),
)
checker = partial(_checker, HOMEWORK)  # checker(variant=2) is `check` for another year
check = checker()
