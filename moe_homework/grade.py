"""Grade a folder of submissions: in parallel, each in isolation, keeping what is done when interrupted."""

import hashlib
import multiprocessing
import os
import threading
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from tqdm import tqdm

import moe_lib

from . import report
from .check import called
from .expect import Stopped, answering, one_line
from .homework import HERE, load
from .report import Grade
from .run import run_tests
from .sandbox import Limits, Submission, bubblewrap, check_isolation
from .submissions import Unreadable, find, read

UNISOLATED = "graded without isolation (--trust): the submission could read and change what the grader can"
AS_USER = "graded without bubblewrap (--trust), as the user {}: the submission could read and change what that user can"
MOST_REMARKS = 5  # of cells that stopped


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How a batch is graded; the same for all of its submissions.

    Parameters
    ----------
    homework : str
        Its name.
    seed, variant : int
        Of the inputs that tests draw, and of the constants.
    tests : tuple of str
        Paths of further graded tests.
    trust : bool
        No bubblewrap.
    user : str
        With `trust`, called by root: the user that submissions run as.
    hidden : tuple of str
        Folders that no submission may see.
    limits : Limits
    """

    homework: str
    seed: int = 0
    variant: int = 0
    tests: tuple[str, ...] = ()
    trust: bool = False
    user: str = ""
    hidden: tuple[str, ...] = ()
    limits: Limits = field(default_factory=Limits)

    @property
    def command(self):
        """What isolates a submission."""
        return [] if self.trust else bubblewrap((*self.hidden, *(Path(test).parent for test in self.tests)))

    @property
    def warning(self):
        """What every result says where a submission was trusted."""
        return AS_USER.format(self.user) if self.user else UNISOLATED

    def digest(self):
        """Fingerprint of tests, library and settings: of all but the submission that a grade depends on."""
        digest = hashlib.sha256()
        for path in (*sorted(HERE.rglob("*.py")), *sorted(Path(moe_lib.__file__).parent.rglob("*.py")), *self.tests):
            digest.update(Path(path).read_bytes())
        settings = (self.homework, self.seed, self.variant, self.trust, self.user, asdict(self.limits))
        digest.update(repr(settings).encode())
        return digest.hexdigest()


def grade_one(plan, student, path, older=()):
    """The `Grade` of one submission.

    Parameters
    ----------
    plan : Plan
    student : str
    path : path
        Of the submission.
    older : sequence of paths
        Files of the same student that do not count.
    """
    homework = load(plan.homework)
    remarks = [plan.warning] if plan.trust else []
    if older:
        newest, *others = (f"{one.parent.name}/{one.name}" for one in (path, *older))
        remarks.append(f"{len(older) + 1} files were handed in: the newest, {newest}, counts, not {', '.join(others)}")
    try:
        content = read(path, homework)
    except Unreadable as error:
        why = one_line(str(error))
        return _grade(student, path, _all_failed(homework, plan, why), {}, [*remarks, why])
    if content.variant not in (None, plan.variant):
        remarks.append(f"the notebook is of variant {content.variant}, and was graded as variant {plan.variant}")
    submission = Submission(content.cells, plan.limits, plan.command, plan.user)
    functions = {name: submission.function(name) for name in homework.functions}
    try:
        outcomes = run_tests(homework, functions, seed=plan.seed, variant=plan.variant, extra=plan.tests)
    finally:
        submission.close()
    remarks += [fault for _, fault in sorted(submission.faults.items())[:MOST_REMARKS]]
    if len(submission.faults) > MOST_REMARKS:
        remarks.append(f"{len(submission.faults) - MOST_REMARKS} more cells stopped")
    return _grade(student, path, outcomes, content.words, remarks)


def _grade(student, path, outcomes, words, remarks):
    remarks = tuple(map(one_line, remarks))
    return Grade(student=student, file=one_line(path.name), outcomes=tuple(outcomes), words=words, remarks=remarks)


def _all_failed(homework, plan, why):
    """Outcomes of a submission that cannot be read: every test fails for the same reason."""

    def ask(arguments, named):
        raise Stopped(why)

    functions = {name: answering(name, ask) for name in homework.functions}
    outcomes = run_tests(homework, functions, seed=plan.seed, variant=plan.variant, extra=plan.tests)
    return tuple(replace(outcome, message=why) for outcome in outcomes)


def grade(plan, submissions, out, *, jobs=None, fresh=False, progress=True):
    """Grade a folder and write `grades.csv`, a chart, and feedback for every student.

    Parameters
    ----------
    plan : Plan
    submissions : path
        Folder of notebooks and Python files.
    out : path
        Folder of the results. What lies there from an earlier run of the same plan is kept.
    jobs : int, optional
        Submissions graded at a time; the number of processors if None.
    fresh : bool
        Grade everything again.
    progress : bool
        Show a bar.

    Returns
    -------
    list of Grade
        In the order of the students' names.

    Raises
    ------
    Unavailable
        If this machine cannot isolate submissions and `plan.trust` is not set.
    FileNotFoundError
        If there is nothing to grade.
    RuntimeError
        If the tests cannot be run, or the reference solutions do not pass them; nothing is graded then. Also after all
        else is graded, if that of a submission failed.
    ValueError
        If points that a person filled in cannot be read.
    """
    homework, out = load(plan.homework), Path(out)
    handed = find(submissions, homework.notebook)
    report.given_points(out, homework)  # a fault in them is said before the work, not after it
    _check_tests(homework, plan)
    grades, waiting, failed, marks, how = {}, [], {}, {}, plan.digest()
    for one in handed:
        marks[one.student] = report.fingerprint(one, how)
        kept = None if fresh else report.kept(out, one, marks[one.student])
        if kept:
            grades[one.student] = kept
        else:
            waiting.append(one)
    if waiting:
        check_isolation(plan.command, plan.user)
    out.mkdir(parents=True, exist_ok=True)
    jobs = max(1, min(jobs or os.cpu_count() or 1, len(waiting)))
    bar = tqdm(total=len(handed), initial=len(grades), desc=plan.homework, unit="submission", disable=not progress)
    try:
        with bar, _pool(jobs) as pool:
            running = {pool.submit(grade_one, plan, one.student, one.path, one.older): one for one in waiting}
            try:
                for done in as_completed(running):
                    one = running[done]
                    try:
                        grades[one.student] = done.result()
                    except BrokenProcessPool:
                        raise
                    except Exception as error:  # a fault of ours, which costs the others nothing and is raised below
                        failed[one.student] = error
                        continue
                    report.write_student(out, homework, marks[one.student], grades[one.student])
                    bar.update()
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                raise
    except BrokenProcessPool:
        raise RuntimeError("a grading process was ended from outside; run the same command again to go on") from None
    finally:
        done = [grades[one.student] for one in handed if one.student in grades]
        report.write_class(out, homework, done, plan.trust)
    for student, error in failed.items():
        what = f"{len(failed)} of {len(handed)} submissions could not be graded, {student!r} the first of them"
        raise RuntimeError(f"{what}: {type(error).__name__}: {error}") from error
    return done


def _check_tests(homework, plan):
    """RuntimeError unless the tests run, and the reference solutions pass them."""
    functions = {name: called(name, function) for name, function in vars(homework.solutions(plan.variant)).items()}
    for outcome in run_tests(homework, functions, seed=plan.seed, variant=plan.variant, extra=plan.tests):
        if outcome.message:
            raise RuntimeError(f"the reference solution fails the test {outcome.title!r}: {outcome.message}")


def _pool(jobs):
    context = multiprocessing.get_context("spawn")  # a fork would copy the grader's threads and files
    return ProcessPoolExecutor(jobs, mp_context=context, initializer=_end_with_grader)


def _end_with_grader():
    """End this process, and with it the submission at hand, as soon as the grader is gone."""
    grader = multiprocessing.parent_process()
    threading.Thread(target=lambda: (grader.join(), os._exit(1)), daemon=True).start()
