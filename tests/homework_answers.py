"""What the tests of homework ask for: the outcomes of a set of answers, and the line that a wrong one is told."""

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
