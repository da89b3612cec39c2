"""What the tests of homework ask for: outcomes of a set of answers, what a wrong one is told, and the last table."""

import contextlib
import io

import nbformat
import numpy as np
from conftest import ROOT

from moe_homework.check import called
from moe_homework.run import run_tests


def outcomes(homework, functions, *, variant=0, question=None, **settings):
    """Outcomes of the graded tests; `functions` of the homework that are missing answer nothing."""
    answers = dict.fromkeys(homework.functions, lambda *arguments, **named: None) | functions
    answers = {name: called(name, function) for name, function in answers.items()}
    return run_tests(homework, answers, variant=variant, question=question, **settings)


def first_fault(homework, name, function):
    """The line that a student reads whose answer with that name is wrong."""
    found = outcomes(homework, {name: function}, question=homework.functions[name].name)
    return next(outcome.message for outcome in found if outcome.message)


def last_table(homework):
    """What the notebook prints for its question in words, and the page of solutions, its lines joined."""
    cells = nbformat.read(ROOT / "notebooks" / "homework" / homework.notebook, as_version=4).cells
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        exec(next(cell.source for cell in cells if cell.id == "q6-table"), {"np": np})
    said = (ROOT / "book" / "homework_solutions.md").read_text(encoding="utf-8").replace("\n  ", "")
    return printed.getvalue(), said
