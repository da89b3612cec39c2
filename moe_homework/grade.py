"""Grade a folder of submissions: in parallel, each in isolation, keeping what is done when interrupted."""

import hashlib
import multiprocessing
import os
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import asdict, dataclass, field
from pathlib import Path

from tqdm import tqdm

from . import report
from .expect import Stopped, answering, one_line
from .homework import HERE, load
from .report import Grade
from .run import Outcome, run_tests
from .sandbox import Limits, Submission, bubblewrap, check_isolation
from .submissions import Unreadable, find, read

UNISOLATED = "graded without isolation (--trust): the submission could read and change what the grader can"
AS_USER = "graded without bubblewrap (--trust), as the user {}: the submission could read and change what that user can"
TASKS_PER_PROCESS = 50  # then a fresh one, so that memory stays flat


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
        return [] if self.trust else bubblewrap(self.hidden)

    @property
    def warning(self):
        """What every result says where a submission was trusted."""
        return AS_USER.format(self.user) if self.user else UNISOLATED

    def digest(self, content):
        """Fingerprint of a submission's bytes, of the tests and of how it is graded: equal means graded already."""
        digest = hashlib.sha256(content)
        for path in (*sorted(HERE.rglob("*.py")), *self.tests):
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
        names = ", ".join(sorted(other.name for other in older))
        remarks.append(f"{len(older) + 1} files were handed in: the newest, {path.name}, counts, not {names}")
    try:
        content = read(path, homework)
    except Unreadable as error:
        nothing = _all_failed(homework, plan, str(error))
        return Grade(student=student, file=path.name, outcomes=nothing, words={}, remarks=(*remarks, str(error)))
    if content.variant not in (None, plan.variant):
        remarks.append(f"the notebook is of variant {content.variant}, and was graded as variant {plan.variant}")
    submission = Submission(content.cells, plan.limits, plan.command, plan.user)
    functions = {name: submission.function(name) for name in homework.functions}
    try:
        outcomes = run_tests(homework, functions, seed=plan.seed, variant=plan.variant, extra=plan.tests)
    finally:
        submission.close()
    for number, fault in sorted(submission.faults.items()):
        remarks.append(fault if fault.startswith("cell ") else f"cell {number + 1} stopped: {fault}")
    remarks = tuple(one_line(remark) for remark in remarks)
    return Grade(student=student, file=path.name, outcomes=tuple(outcomes), words=content.words, remarks=remarks)


def _all_failed(homework, plan, why):
    """Outcomes of a submission that cannot be read: every test fails for the same reason."""
    def ask(arguments, named):
        raise Stopped(why)

    functions = {name: answering(name, ask) for name in homework.functions}
    outcomes = run_tests(homework, functions, seed=plan.seed, variant=plan.variant, extra=plan.tests)
    return tuple(Outcome(question=o.question, title=o.title, points=o.points, message=why) for o in outcomes)


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
    """
    homework, out = load(plan.homework), Path(out)
    handed = find(submissions, homework.notebook)
    check_isolation(plan.command, plan.user)
    out.mkdir(parents=True, exist_ok=True)
    grades, waiting = {}, []
    for one in handed:
        kept = None if fresh else report.kept(out, one, plan)
        if kept:
            grades[one.student] = kept
        else:
            waiting.append(one)
    jobs = max(1, min(jobs or os.cpu_count() or 1, len(waiting)))
    bar = tqdm(total=len(handed), initial=len(grades), desc=plan.homework, unit="submission", disable=not progress)
    try:
        with bar, _pool(jobs) as pool:
            running = {pool.submit(grade_one, plan, one.student, one.path, one.older): one for one in waiting}
            try:
                for done in as_completed(running):
                    one = running[done]
                    grades[one.student] = done.result()
                    report.write_student(out, homework, plan, one, grades[one.student])
                    bar.update()
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                raise
    except BrokenProcessPool:
        raise RuntimeError("a grading process was ended from outside; run the same command again to go on") from None
    finally:
        done = [grades[one.student] for one in handed if one.student in grades]
        report.write_class(out, homework, done)
    return done


def _pool(jobs):
    context = multiprocessing.get_context("spawn")  # a fork would copy the grader's threads and files
    return ProcessPoolExecutor(jobs, mp_context=context, max_tasks_per_child=TASKS_PER_PROCESS)
