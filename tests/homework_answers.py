"""What the tests of homework ask for: points and messages that a set of answers gets."""

from collections import Counter

from moe_homework.check import called
from moe_homework.run import run_tests


def outcomes(homework, functions, variant=0, question=None):
    """Outcomes of the graded tests; `functions` of the homework that are missing answer nothing, as a stub does."""
    answers = dict.fromkeys(homework.functions, lambda *arguments, **named: None) | functions
    answers = {name: called(name, function) for name, function in answers.items()}
    return run_tests(homework, answers, variant=variant, question=question)


def earned(homework, functions, variant=0):
    """{question: points} of those that tests grade."""
    points = Counter({question.name: 0 for question in homework.functions.values()})
    for outcome in outcomes(homework, functions, variant):
        points[outcome.question] += outcome.earned
    return dict(points)


def first_fault(homework, function, variant=0):
    """The line that a student reads who answers with a function of that name."""
    question = homework.functions[function.__name__].name
    found = outcomes(homework, {function.__name__: function}, variant, question)
    return next(outcome.message for outcome in found if outcome.message)
