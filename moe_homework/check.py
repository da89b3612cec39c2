"""The student's side: run the graded tests of one question on a function in this process, and say what happened."""

import _thread
import html
import signal
import threading
from dataclasses import dataclass

from . import run
from .expect import CALL_SECONDS, Stopped, Wrong, answering, one_line, too_slow
from .values import decode, describe, encode


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What `check` answers with; it shows as one line."""

    question: str
    earned: float
    points: float
    tests: int
    passed: int
    title: str
    message: str

    def _start(self):
        start = f"{self.question}: {self.earned:g} of {self.points:g} points"
        tests = f"{self.passed} of {self.tests} tests passed" if self.message else f"all {self.tests} tests passed"
        return f"{start}, {tests}." + (f" {self.title}: " if self.message else "")

    def __repr__(self):
        return self._start() + self.message

    def _repr_html_(self):
        mark, words = ("✓", "right") if not self.message else ("✗", "not yet")
        start, message = html.escape(self._start()), html.escape(self.message)
        line = start + (f"<code>{message}</code>" if message else "")
        return f'<p style="margin: 0"><span role="img" aria-label="{words}">{mark}</span> {line}</p>'


def checker(homework, variant=0):
    """The function `check(question, function)` of a homework's notebook.

    Parameters
    ----------
    homework : Homework
    variant : int
        Which constants hold; the notebook that a lecturer hands out names it.
    """
    homework.values(variant)  # a bad variant is refused here

    def check(question, function):
        """Run the graded tests of a question on your function.

        Parameters
        ----------
        question : str
            Such as "q1".
        function : callable
            Your answer.

        Returns
        -------
        Answer
            Points and tests passed, or the first call that went wrong, with what was expected and what came.

        Raises
        ------
        ValueError
            If the homework has no such question, or a person reads its answer.
        TypeError
            If `function` cannot be called.
        """
        asked = homework.question(question)
        if asked.function is None:
            raise ValueError(f"{question} is answered in words; a person reads it")
        if not callable(function):
            raise TypeError(f"check({question!r}, ...) takes the function {asked.function}, not {function!r}")
        functions = dict.fromkeys(homework.functions, called(asked.function, function))
        outcomes = run.run_tests(homework, functions, variant=variant, question=question)
        return answer(asked, outcomes)

    return check


def answer(question, outcomes):
    """Sum up the outcomes of one question's tests; title and message are those of the first that failed."""
    first = next((outcome for outcome in outcomes if outcome.message), None)
    return Answer(
        question=question.name,
        earned=sum(outcome.earned for outcome in outcomes),
        points=question.points,
        tests=len(outcomes),
        passed=sum(not outcome.message for outcome in outcomes),
        title=first.title if first else "",
        message=first.message if first else "",
    )


def called(name, function, seconds=CALL_SECONDS):
    """A function that calls the student's as a grader would: within a time limit, answers made of plain values."""

    def ask(arguments, named):
        try:
            with _limit(seconds):
                value = function(*arguments, **named)
        except Wrong:
            raise
        except (Exception, SystemExit) as error:
            raise Wrong(one_line(f"raised {describe(error, of=function)}")) from None
        try:
            return decode(encode(value))
        except (TypeError, ValueError) as error:
            raise Wrong(str(error)) from None

    return answering(name, ask)


class _limit:
    """Stop what runs in the main thread after some seconds. A call that never returns to Python goes on."""

    def __init__(self, seconds):
        self.seconds, self.over = seconds, False

    def _end(self):
        self.over = True
        _thread.interrupt_main()

    def __enter__(self):
        if threading.current_thread() is not threading.main_thread():
            self.seconds = threading.TIMEOUT_MAX  # only the main thread can be interrupted
        else:  # a process that was started in the background ignores interrupts, also its own
            self.before = signal.signal(signal.SIGINT, signal.default_int_handler)
        self.timer = threading.Timer(self.seconds, self._end)
        self.timer.daemon = True
        self.timer.start()

    def __exit__(self, kind, error, trace):
        self.timer.cancel()
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, self.before or signal.SIG_DFL)
        if self.over and kind in (None, KeyboardInterrupt):
            raise Stopped(too_slow(self.seconds)) from None
