"""Run the graded tests of a homework on a set of functions: pytest does, inside this process."""

import contextlib
import io
import os
import types
import zlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from .expect import one_line

# Plugins of pytest itself. The last two collect garbage several times, which takes a second in a process of some size.
UNUSED = ("cacheprovider", "faulthandler", "logging", "terminal", "threadexception", "unraisableexception")
OPTIONS = ["-c", os.devnull, "--assert=plain", "--capture=no", "--noconftest", "--import-mode=importlib"]
OPTIONS += [f"-pno:{name}" for name in UNUSED]
# Options and plugins of other projects neither slow nor change a grade.
ENVIRONMENT = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_ADDOPTS": "", "PYTEST_PLUGINS": ""}


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What one graded test found: `message` is "" where it passed."""

    question: str
    title: str
    points: float
    message: str

    @property
    def earned(self):
        """All of the points, or none."""
        return 0 if self.message else self.points


def run_tests(homework, functions, *, seed=0, variant=0, extra=(), question=None):
    """Outcomes of the graded tests, in the order of the questions.

    Parameters
    ----------
    homework : Homework
    functions : dict
        {name: callable} for every graded function of the homework; each raises `Wrong` where it cannot answer.
    seed : int
        Of the inputs that tests draw.
    variant : int
        Which constants hold.
    extra : sequence of paths
        Further files of graded tests.
    question : str, optional
        The only question that is run.

    Raises
    ------
    RuntimeError
        If the tests themselves cannot be run, with what pytest said, or a file holds none.
    """
    plugin = _Graded(homework, functions, seed, variant, question)
    said = io.StringIO()
    paths = [str(path) for path in (homework.tests, *extra)]
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        for name, value in ENVIRONMENT.items():
            patch.setenv(name, value)
        options = [*OPTIONS, f"--rootdir={homework.tests.parent}", *paths]
        code = pytest.main(options, plugins=[plugin, plugin.fixtures])
    if code == pytest.ExitCode.INTERRUPTED and not plugin.faults:  # which it also is where a file cannot be imported
        raise KeyboardInterrupt
    if plugin.faults or code not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
        why = "\n".join([*plugin.faults, said.getvalue()])
        raise RuntimeError(f"the graded tests of {homework.name} cannot be run:\n{why}")
    order = [q.name for q in homework.questions]
    return sorted(plugin.outcomes, key=lambda outcome: order.index(outcome.question))


class _Graded:
    """The pytest plugin: it offers the fixtures, reads the points, and keeps what each test found."""

    def __init__(self, homework, functions, seed, variant, question):
        self.homework, self.seed, self.only = homework, seed, question
        self.outcomes, self.faults = [], []
        values = types.SimpleNamespace(**homework.values(variant), variant=variant)
        fixtures = {"constants": values, "solution": homework.solutions(variant)}
        fixtures |= {name: functions[name] for name in homework.functions}
        self.fixtures = types.ModuleType("graded_functions")  # pytest takes fixtures of modules, not of objects
        for name, value in fixtures.items():
            setattr(self.fixtures, name, pytest.fixture(name=name)(lambda value=value: value))

    @pytest.fixture
    def rng(self, request):
        """A generator of random numbers; each test has its own, so that the order of tests changes nothing."""
        return np.random.default_rng([self.seed, zlib.crc32(request.node.name.encode())])

    def pytest_configure(self, config):
        config.addinivalue_line("markers", "points(n): what a graded test is worth")
        config.option.tbstyle = "line"  # nobody reads a traceback, and one takes longer than the test

    def question_of(self, item):
        """The question whose function a test takes."""
        names = [name for name in item.fixturenames if name in self.homework.functions]
        if len(names) != 1 or item.get_closest_marker("points") is None:
            raise pytest.UsageError(f"{item.name} must take one graded function and be marked with its points")
        return self.homework.functions[names[0]].name

    def pytest_collection_modifyitems(self, config, items):
        empty = {Path(path).resolve() for path in config.args} - {item.path.resolve() for item in items}
        self.faults += [f"{path}: no test in it" for path in empty]
        items[:] = [item for item in items if self.only in (None, self.question_of(item))]

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item, call):
        report = yield
        if call.when == "call":
            error = call.excinfo and call.excinfo.value
            if error and not isinstance(error, AssertionError):
                self.faults.append(f"{item.name}: {call.excinfo.exconly()}")
            title = one_line(item.function.__doc__ or item.name.removeprefix("test_").replace("_", " ")).rstrip(".")
            points = item.get_closest_marker("points").args[0]
            message = one_line(str(error)) or f"this does not hold: {title}" if error else ""
            self.outcomes.append(Outcome(question=self.question_of(item), title=title, points=points, message=message))
        elif call.excinfo:
            self.faults.append(f"{item.name}: {call.excinfo.exconly()}")
        return report

    def pytest_collectreport(self, report):
        if report.failed:
            self.faults.append(str(report.longrepr))
