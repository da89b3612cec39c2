"""Grading in isolation: hostile and unlucky submissions get fair points, and nothing of them is left.

One class of all kinds in `hostile.py` is graded once, and a sample of it again; many tests look at what came of it.
"""

import csv
import dataclasses
import hashlib
import io
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import types
import zipfile
import zlib
from pathlib import Path

import hostile
import numpy as np
import psutil
import pytest
from conftest import ROOT
from hostile import ALL, FIRST, HOMEWORK, MARK, SECRET, WORDS, filled, packed

import moe_lib
from moe_homework import gradescope, report, sandbox
from moe_homework.expect import answering, difference, one_line, show
from moe_homework.grade import Plan, grade
from moe_homework.report import Grade, what_happened
from moe_homework.run import Outcome, run_tests
from moe_homework.sandbox import Limits
from moe_homework.submissions import Handed, find
from moe_homework.values import decode, encode

# Long enough for an answer of a fair submission on a busy machine.
LIMITS = Limits(call_seconds=2, cell_seconds=4, notebook_seconds=30, memory_bytes=1 << 30)
POINTS = {question.name: question.points for question in HOMEWORK.functions.values()}
INPUTS = "8, 2, 1"  # that the function of the first question takes
TRAIL = f"/nowhere/trail-of-{os.getpid()}"  # on the PATH of a grader and so in the environment of all that it starts


def listing(*folders):
    """{path: what can be seen of it}, of all files in folders."""
    seen = {}
    for path in (path for folder in folders for path in Path(folder).rglob("*") if "__pycache__" not in path.parts):
        facts = path.lstat()
        shown = path.is_file() and os.access(path, os.R_OK) and facts.st_size < 1 << 26
        content = hashlib.sha256(path.read_bytes()).hexdigest() if shown else ""
        seen[str(path)] = facts.st_mode, facts.st_size, facts.st_mtime_ns, content
    return seen


def followers():
    """Processes that a grader with the trail on its PATH has started, after the time that their end may take."""
    for _ in range(50):
        processes = [p for p in psutil.process_iter(["environ", "cmdline"]) if TRAIL in str(p.info["environ"])]
        left = [p.info["cmdline"] for p in processes if "resource_tracker" not in str(p.info["cmdline"])]
        if not left:
            break
        time.sleep(0.1)
    return left


class Sockets:
    """Sockets of this machine, on which nobody may call."""

    def __init__(self, folder):
        self.calls, self.lines = [], []
        for family, address in [(socket.AF_INET, ("127.0.0.1", 0)), (socket.AF_UNIX, f"\0{MARK}{os.getpid()}"),
                                (socket.AF_UNIX, str(folder / "socket"))]:  # fmt: skip
            line = socket.socket(family)
            line.bind(address)
            line.listen()
            self.lines.append(line)
            threading.Thread(target=self.wait, args=(line,), daemon=True).start()
        self.addresses = [(int(line.family), line.getsockname()) for line in self.lines]
        self.addresses = [(f, a if isinstance(a, tuple) else os.fsdecode(a)) for f, a in self.addresses]

    def wait(self, line):
        self.calls.append(line.accept())


@pytest.fixture(scope="module")
def graded(bwrap, tmp_path_factory):
    """What came of grading all kinds, and of grading every eighth again."""
    base = tmp_path_factory.mktemp("grading")
    home, submissions, sample, out = base / "home", base / "submissions", base / "sample", base / "out"
    for folder in (home / ".ssh", submissions, sample):
        folder.mkdir(parents=True)
    (home / ".ssh" / f"{SECRET}.txt").write_text(SECRET)
    sockets = Sockets(base)
    hidden = [HOMEWORK.tests, HOMEWORK.tests.with_name("solutions.py"), ROOT / "README.md", home, submissions, base]
    kinds = hostile.kinds(hidden, sockets.addresses)
    hostile.write(submissions, kinds)
    hostile.write(sample, kinds[::8])
    watched = home, submissions, sample, ROOT / "moe_homework", ROOT / "moe_lib", ROOT / "notebooks" / "homework"
    plan = Plan(homework=HOMEWORK.name, hidden=(str(submissions), str(out)), limits=LIMITS)
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {"HOME": str(home), "GRADER": SECRET, "PATH": f"{os.environ['PATH']}:{TRAIL}"}.items():
            patch.setenv(name, value)
        before = listing(*watched)
        first = grade(plan, submissions, out, jobs=4, progress=False)
        again = grade(plan, sample, base / "again", jobs=4, progress=False)
    return types.SimpleNamespace(
        kinds=kinds, first=first, again=again, out=out, before=before, after=listing(*watched), left=followers(),
        calls=sockets.calls, base=base,
    )  # fmt: skip


def points(grade):
    return {question: grade.earned(question) for question in POINTS}


def test_every_kind_gets_its_fair_points_and_disturbs_no_other(graded):
    fair = {kind.name: {q: 0 if q in kind.lost else n for q, n in POINTS.items()} for kind in graded.kinds}
    assert {one.student for one in graded.first} == fair.keys()
    unfair = [(one.student, points(one), fair[one.student], one.remarks) for one in graded.first]
    assert [case for case in unfair if case[1] != case[2]] == []


def test_a_second_run_gives_the_same_points(graded):
    first, again = ({one.student: points(one) for one in grades} for grades in (graded.first, graded.again))
    assert len(again) > 10 and again == {student: first[student] for student in again}


def test_each_question_is_told_in_one_readable_sentence(graded):
    for one in graded.first:
        for question in HOMEWORK.functions.values():
            said = what_happened(question, one)
            assert said.isprintable() and 10 < len(said) < 500, (one.student, said)
            assert said == "all tests passed" or one.earned(question.name) < POINTS[question.name]


def test_remarks_are_few_and_readable(graded):
    assert all(remark.isprintable() and len(remark) < 500 for one in graded.first for remark in one.remarks)
    assert max(len(one.remarks) for one in graded.first) <= 8


def test_nothing_is_written_outside_the_folder_of_results(graded):
    assert graded.after == graded.before
    places = ["/", "/usr", "/usr/bin", "/tmp", "/var/tmp", "/dev/shm", sys.prefix, ROOT, graded.base, Path.home()]
    assert [place for place in places if Path(place, MARK).exists()] == []


def test_no_process_is_left(graded):
    assert graded.left == []


def test_nobody_called_on_a_socket_of_the_machine(graded):
    assert graded.calls == []


def test_the_table_has_a_row_for_each_student_and_no_formula(graded):
    rows = list(csv.reader(open(graded.out / "grades.csv", encoding="utf-8", newline="")))
    assert rows[0] == ["student", *(question.name for question in HOMEWORK.questions), "total", "note"]
    assert len(rows) == len(graded.kinds) + 1
    rows += csv.reader(open(graded.out / "words.csv", encoding="utf-8", newline=""))
    cells = [cell for row in rows for cell in row]
    assert [cell for cell in cells if cell.startswith(report.FORMULA) or len(cell) > 32_767] == []


def test_what_is_written_for_a_student_has_no_control_characters_and_no_markup(graded):
    for folder in (graded.out / "students").iterdir():
        text = (folder / "feedback.md").read_text(encoding="utf-8")
        assert all(character.isprintable() or character in "\n\t" for character in text), folder
        outside = [line for line in text.splitlines() if "`" not in line and not line.startswith("    ")]
        assert not any("<script" in line or "# h1" in line for line in outside), folder
        assert json.loads((folder / "results.json").read_text(encoding="utf-8"))["tests"]


def test_each_student_has_a_folder(graded):
    assert len(list((graded.out / "students").iterdir())) == len(graded.kinds)


def test_the_results_are_small(graded):
    assert sum(path.stat().st_size for path in graded.out.rglob("*")) < 20_000 * len(graded.kinds)


# Values that tests must stand

ODD = [
    "y", (), [], {}, [[1], [1, 2]], (1, (2, [None])), {(1, 2): 3}, {"a": None, "b": ()}, np.zeros((2, 3, 0, 5)), -1j,
    2**500, np.full(4, np.nan), np.longdouble(1) / 3, np.ones((1,) * 20), [np.zeros(3), np.zeros(2)], np.uint64(2**63),
]  # fmt: skip
RIGHT = [
    1, 1.5, True, "x", None, np.inf, 1 + 1j, np.arange(3), np.ones((2, 2)), np.array([True]), [1, 2], (1, 2.5),
    [1, "a"], (np.ones(2), 1), {"a": 1, "b": np.ones(2)}, [(1, 2), (3, [4])],
]  # fmt: skip


@pytest.mark.parametrize("right", RIGHT, ids=range(len(RIGHT)))
def test_no_answer_breaks_a_comparison_and_none_is_right_by_its_form(right):
    for got in (decode(encode(value)) for value in [*ODD, *RIGHT]):
        said = difference(got, right)
        assert one_line(said).isprintable() and bool(said) == (show(got) != show(right)), got


@pytest.mark.parametrize(("name", "value"), [("PYTEST_ADDOPTS", "-x --color=yes"), ("PYTEST_PLUGINS", "no_plugin")])
def test_settings_of_pytest_from_outside_change_no_grade(monkeypatch, name, value):
    monkeypatch.setenv(name, value)
    wrong = {f: answering(f, lambda arguments, named: 0.4) for f in HOMEWORK.functions}
    assert sum(outcome.points for outcome in run_tests(HOMEWORK, wrong)) == sum(POINTS.values())
    assert os.environ[name] == value and "PYTEST_DISABLE_PLUGIN_AUTOLOAD" not in os.environ


# Who handed in what

OWN = HOMEWORK.notebook
LAYOUTS = [
    (["ada.ipynb", "bob.py", "notes.txt", "._ada.ipynb", ".git/x.py"], {"ada": "ada.ipynb", "bob": "bob.py"}),
    (["ada.ipynb", "ada (1).ipynb"], {"ada": "ada.ipynb"}),
    ([f"ada/{OWN}", f"bob/deep/{OWN}"], {"ada": f"ada/{OWN}", "bob": f"bob/deep/{OWN}"}),
    ([f"ada/{OWN}", "ada/conftest.py", f"eve/{OWN}", "eve/ada.ipynb"], {"ada": f"ada/{OWN}", "eve": f"eve/{OWN}"}),
    ([f"ada/{OWN}", "eve/ada.ipynb"], {"ada": f"ada/{OWN}", "eve/ada": "eve/ada.ipynb"}),
    (["ada/final.ipynb", "bob/final.ipynb"], {"ada/final": "ada/final.ipynb", "bob/final": "bob/final.ipynb"}),
    (["one/ada.ipynb", "two/bob.ipynb"], {"ada": "one/ada.ipynb", "bob": "two/bob.ipynb"}),
    (["ada.ipynb", f"ada/{OWN}"], {"ada": "ada.ipynb"}),
]


@pytest.mark.parametrize(("files", "students"), LAYOUTS, ids=range(len(LAYOUTS)))
def test_files_belong_to_students_and_nobody_replaces_another_ones(tmp_path, files, students):
    for age, file in enumerate(files):
        path = tmp_path / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
        os.utime(path, (1000 - age, 1000 - age))
    handed = find(tmp_path, OWN)
    assert {one.student: one.path.relative_to(tmp_path).as_posix() for one in handed} == students


# Settings


@pytest.fixture
def small(bwrap, tmp_path):
    """A function that grades notebooks, {student: answers or the whole}, beside those of earlier calls."""

    def run(notebooks, **settings):
        (tmp_path / "in").mkdir(exist_ok=True)
        for student, sources in notebooks.items():
            notebook = sources if "cells" in sources else filled(sources)
            (tmp_path / "in" / f"{student}.ipynb").write_bytes(packed(notebook))
        plan = Plan(homework=HOMEWORK.name, limits=LIMITS, hidden=(str(tmp_path / "in"),), **settings)
        grades = grade(plan, tmp_path / "in", tmp_path / "out", jobs=2, progress=False)
        return {one.student: one for one in grades}

    return run


def extra(folder, body):
    """A file of further tests; `body` is what its only one does with the function of the first question."""
    lines = ["import pytest", "", "@pytest.mark.points(2)", f"def test_more({FIRST}, solution, rng, constants):"]
    path = folder / "more.py"
    path.write_text("\n".join([*lines, *(f"    {line}" for line in body.splitlines())]) + "\n", encoding="utf-8")
    return (str(path),)


def test_variant_seed_and_further_tests_hold(small, tmp_path):
    drawn = np.random.default_rng([7, zlib.crc32(b"test_more")]).integers(10**9)
    body = f"assert rng.integers(10**9) == {drawn} and {FIRST}({INPUTS}) == solution.{FIRST}({INPUTS})"
    grades = small({"new": hostile.right(1), "old": {}}, variant=1, seed=7, tests=extra(tmp_path, body))
    assert grades["new"].earned() == grades["new"].possible() == sum(POINTS.values()) + 2
    assert grades["old"].earned() <= sum(POINTS.values()) / 4
    assert "variant 0, and was graded as variant 1" in grades["old"].remarks[0]


def test_further_tests_that_the_reference_solution_fails_stop_all(small, tmp_path):
    with pytest.raises(RuntimeError, match="the reference solution fails"):
        small({"a": {}}, tests=extra(tmp_path, f"assert {FIRST}({INPUTS}) == -1"))
    assert not (tmp_path / "out").exists()


def test_a_test_that_breaks_on_an_answer_costs_only_that_submission(small, tmp_path):
    body = f"if {FIRST}({INPUTS}) == 0.123:\n    raise KeyError('a fault of the test')"
    with pytest.raises(RuntimeError, match="(?s)1 of 3 .* not be graded, 'b' .*a fault of the test"):
        small({"a": {}, "b": hostile.WRONG, "c": {}}, tests=extra(tmp_path, body))
    assert totals(tmp_path / "out") == dict.fromkeys("ac", sum(POINTS.values()) + 2)


KEEPS = (
    "once_{0}, seen_{0} = {0}, []\ndef {0}(*inputs):\n    seen_{0}.append(0)\n"
    "    return seen_{0}[1:] or once_{0}(*inputs)"
)
CHANGES = (
    "kind_{0} = {0}\ndef {0}(*inputs):\n    value = kind_{0}(*inputs)\n    for array in inputs:\n"
    "        if isinstance(array, np.ndarray): array *= 0\n    return value"
)


def test_a_changed_argument_and_a_memory_of_calls_cost_points(small):
    keeps = {name: f"{source}\n{KEEPS.format(name)}" for name, source in hostile.RIGHT.items()}
    change = {name: f"{source}\n{CHANGES.format(name)}" for name, source in hostile.RIGHT.items()}
    grades = small({"keeps": keeps, "changes": change})
    assert 0 < grades["changes"].earned() < sum(POINTS.values()) and grades["keeps"].earned() < sum(POINTS.values())
    assert any("changes its argument" in outcome.message for outcome in grades["changes"].outcomes)


def test_a_cell_that_stopped_is_named_by_its_first_line(small):
    broken = f"\n# a note\n{FIRST} = 1 / 0  # {'long ' * 20}"
    (one,) = small({"a": filled({FIRST: broken}, before=["import os\nos._exit(0)"])}).values()
    said = " ".join(one.remarks)
    assert "code cell 1, `import os`, ended the Python process" in said
    assert ", `# a note`, stopped: " in said and "ZeroDivisionError" in what_happened(HOMEWORK.question("q1"), one)


def test_only_what_is_new_is_graded_again(small, tmp_path):
    small({"a": {}, "b": hostile.WRONG})
    written = {name: (tmp_path / "out" / "students" / name / "results.json").stat().st_mtime_ns for name in "ab"}
    grades = small({"b": {}, "c": {}})
    assert [grades[name].earned() for name in "abc"] == [sum(POINTS.values())] * 3
    assert (tmp_path / "out" / "students" / "a" / "results.json").stat().st_mtime_ns == written["a"]
    assert len(list(csv.reader(open(tmp_path / "out" / "grades.csv")))) == 4


def test_whatever_a_grade_depends_on_changes_the_fingerprint(tmp_path, monkeypatch):
    path, other = tmp_path / "a.ipynb", tmp_path / "b.ipynb"
    path.write_bytes(b"1")
    other.write_bytes(b"2")
    settings = [{}, {"seed": 1}, {"variant": 1}, {"trust": True}, {"limits": LIMITS}, {"tests": (str(path),)},
                {"tests": (str(other),)}, {"homework": "hw2"}, {"user": "nobody"}]  # fmt: skip
    plans = [Plan(**{"homework": HOMEWORK.name} | changed) for changed in settings]
    marks = [report.fingerprint(Handed(student="a", path=path), plan.digest()) for plan in plans]
    handed, how = (Handed(student="a", path=other), find(tmp_path, "x")[0]), plans[0].digest()
    marks += [report.fingerprint(one, how) for one in handed]
    assert len({*marks}) == len(settings) + 1 and marks[-1] == marks[0]
    (tmp_path / "formula.py").touch()
    monkeypatch.setattr(moe_lib, "__file__", str(tmp_path / "__init__.py"))  # other formulas, other solutions
    assert plans[0].digest() != how


def test_without_isolation_every_file_says_so_and_nothing_is_left(small, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", f"{os.environ['PATH']}:{TRAIL}")
    wrong = {hostile.FIRST: hostile.STOPS["an endless loop"].replace("FUNCTION", hostile.FIRST)}
    grades = small({"a": filled(wrong, before=[hostile.LEAVE])}, trust=True)
    assert grades["a"].earned() == sum(POINTS.values()) - POINTS[ALL[0]] and followers() == []
    files = [path for path in (tmp_path / "out").rglob("*") if path.is_file()]
    assert len(files) == 5
    assert [path.name for path in files if "without isolation" not in path.read_text(encoding="utf-8")] == []


# Points that a person gives


def one(student, words="an answer"):
    outcomes = tuple(Outcome(question=q, title="a test", points=n, message="") for q, n in POINTS.items())
    return Grade(student=student, file="x", outcomes=outcomes, words=dict.fromkeys(WORDS, words), remarks=())


def fill_in(out, points, again=lambda text: text):
    """Give the student in the first row points, and save the table as a spreadsheet would."""
    path = out / report.BY_HAND
    rows = list(csv.reader(io.StringIO(path.read_text(encoding="utf-8"), newline="")))
    rows[1][2] = points
    text = io.StringIO()
    csv.writer(text).writerows(rows)
    path.write_bytes(again(text.getvalue()).encode())


def totals(out):
    return {row["student"]: float(row["total"]) for row in csv.DictReader(open(out / "grades.csv", encoding="utf-8"))}


@pytest.mark.parametrize("again", [str, "\ufeff{}".format, lambda text: text.replace(",", ";").replace("2.5", "2,5")])
def test_points_of_a_person_count_and_survive_whatever_is_graded_next(tmp_path, again):
    report.write_class(tmp_path, HOMEWORK, [one("a"), one("b")])
    fill_in(tmp_path, "2.5", again)
    for students in (["a", "b"], ["b"], [], ["a", "c"], ["a", "b"]):
        report.write_class(tmp_path, HOMEWORK, [one(student) for student in students])
    assert totals(tmp_path) == {"a": sum(POINTS.values()) + 2.5, "b": sum(POINTS.values())}
    assert report.CHANGED not in (tmp_path / "grades.csv").read_text(encoding="utf-8")


def test_an_answer_that_changes_after_its_points_were_given_is_named_until_a_person_has_read_it(tmp_path):
    path = tmp_path / report.BY_HAND

    def named(*grades):
        """Whether each table names a changed answer once these are graded."""
        report.write_class(tmp_path, HOMEWORK, grades)
        return [report.CHANGED in (tmp_path / name).read_text(encoding="utf-8") for name in ("grades.csv", path.name)]

    def empty(column):
        rows = list(csv.DictReader(io.StringIO(path.read_text(encoding="utf-8"), newline="")))
        text = io.StringIO()
        table = csv.DictWriter(text, rows[0])
        table.writeheader()
        table.writerows([row | {column: ""} for row in rows])
        path.write_text(text.getvalue(), encoding="utf-8")

    report.write_class(tmp_path, HOMEWORK, [one("a", "=first"), one("b")])
    fill_in(tmp_path, "2", lambda text: text.replace("'=", "="))  # a spreadsheet may take the protecting sign
    assert named(one("a", "=first"), one("b", "other")) == [False, False]
    for _ in range(2):
        assert named(one("a", "=second"), one("b", "second")) == [True, True]
    empty("changed")
    assert named(one("a", "=second")) == [False, False] and totals(tmp_path)["a"] == sum(POINTS.values()) + 2
    forged = dataclasses.replace(one("a", "=second"), remarks=(f"cell 1 stopped: {report.CHANGED}",))
    report.write_class(tmp_path, HOMEWORK, [forged])
    assert named(one("a", "=second")) == [False, False]
    assert named(dataclasses.replace(one("a"), words={})) == [True, True]


def test_a_table_of_words_whose_last_cells_are_missing_is_read(tmp_path):
    (tmp_path / report.BY_HAND).write_text(f"{','.join(report.WORDS[:-1])}\na,{WORDS[0]},2,4\n", encoding="utf-8")
    report.write_class(tmp_path, HOMEWORK, [one("a")])
    assert totals(tmp_path)["a"] == sum(POINTS.values()) + 2


@pytest.mark.parametrize("student", ["'t Hooft", "=1+1", "-rf", "'=x", "＝b", "a,b", 'a"b', "a;b"])
def test_points_find_their_student_again(tmp_path, student):
    report.write_class(tmp_path, HOMEWORK, [one(student)])
    fill_in(tmp_path, "1")
    if student != "'=x":  # which is how =x is written
        assert report.given_points(tmp_path, HOMEWORK) == {(student, WORDS[0]): 1}


@pytest.mark.parametrize("points", ["x", "-1", "99", "nan", "1e9"])
def test_points_that_are_none_are_refused_before_anything_is_graded(small, tmp_path, points):
    (tmp_path / "out").mkdir()
    report.write_class(tmp_path / "out", HOMEWORK, [one("a")])
    fill_in(tmp_path / "out", points)
    with pytest.raises(ValueError, match=r"words.csv, row 2: .*points"):
        small({"a": {}})


@pytest.mark.parametrize("content", [b"a,b\n1,2\n", b"\xff\xfe1,2\n", b'student,"' + b"x" * 200_000 + b'"\n1,2\n'])
def test_a_table_of_words_that_cannot_be_read_is_refused(tmp_path, content):
    (tmp_path / report.BY_HAND).write_bytes(content)
    with pytest.raises(ValueError, match="words.csv (must have the columns|cannot be read)"):
        report.given_points(tmp_path, HOMEWORK)


# The command


def command(*arguments, **options):
    environment = os.environ | {"PATH": f"{os.environ['PATH']}:{TRAIL}"} | options.pop("env", {})
    return subprocess.Popen(
        [sys.executable, *arguments], env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        start_new_session=True, preexec_fn=heed_interrupts, **options,
    )  # fmt: skip


def heed_interrupts():
    """A process that was started in the background ignores Ctrl+C, and so would what it starts."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


GRADE = ["-P", "-m", "moe_homework", HOMEWORK.name]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_an_interrupted_run_goes_on_where_it_was_and_leaves_no_process(bwrap, tmp_path, number):
    submissions, out = tmp_path / "in", tmp_path / "out"
    submissions.mkdir()
    for student in "abc":
        (submissions / f"{student}.ipynb").write_bytes(packed(filled(before=["import time\ntime.sleep(1)"])))
    arguments = [*GRADE, str(submissions), "--out", str(out), "--jobs", "1"]
    run, first = command(*arguments), out / "students" / "a" / "results.json"
    while not first.is_file() and run.poll() is None:
        time.sleep(0.02)
    (os.killpg if number == signal.SIGINT else os.kill)(run.pid, number)  # Ctrl+C reaches the whole group
    said, written = run.communicate()[0], first.stat().st_mtime_ns
    assert run.returncode == (130 if number == signal.SIGINT else -number) and followers() == []
    assert "run the same command again" in said or number == signal.SIGKILL
    again = command(*arguments)
    assert "3 submissions" in again.communicate()[0] and again.returncode == 0
    assert first.stat().st_mtime_ns == written and totals(out) == dict.fromkeys("abc", sum(POINTS.values()))


def test_called_in_the_folder_of_submissions_it_imports_none_of_them(bwrap, tmp_path):
    for name in ("json", "numpy", "pickle", "socket", "multiprocessing", "conftest", "sitecustomize", "pytest", "tqdm"):
        (tmp_path / f"{name}.py").write_text(f"import pathlib\npathlib.Path(__file__).with_name({MARK!r}).touch()\n")
    (tmp_path / "pytest.ini").write_text("[pytest]\naddopts = --maxfail=1 -p json\n")
    (tmp_path / "good.ipynb").write_bytes(packed(filled()))
    run = command("-m", "moe_homework", HOMEWORK.name, ".", "--out", "out", cwd=tmp_path)
    assert "10 submissions" in run.communicate()[0] and run.returncode == 0
    assert not (tmp_path / MARK).exists() and totals(tmp_path / "out")["good"] == sum(POINTS.values())


def test_without_bubblewrap_it_says_so_and_grades_nothing(tmp_path):
    (tmp_path / "a.ipynb").write_bytes(packed(filled()))
    run = command(*GRADE, str(tmp_path), "--out", str(tmp_path / "out"), env={"PATH": "/nowhere"})
    said = run.communicate()[0]
    assert run.returncode == 2 and "bubblewrap (bwrap) is not installed" in said and "Traceback" not in said
    assert not (tmp_path / "out").exists()


def test_where_apparmor_forbids_bubblewrap_it_says_that_a_profile_helps(tmp_path, monkeypatch):
    refused, (fake, switch) = "bwrap: setting up uid map: Permission denied", (tmp_path / "bwrap", tmp_path / "switch")
    fake.write_text(f"#!/bin/sh\necho '{refused}' >&2\nexit 1\n")
    fake.chmod(0o755)
    monkeypatch.setattr(sandbox, "APPARMOR", switch)
    for value, helps in (("1", True), ("0", False)):
        switch.write_text(f"{value}\n")
        with pytest.raises(sandbox.Unavailable, match=f"not work here: {refused}") as caught:
            sandbox.check_isolation([str(fake)])
        assert ("a profile, which the page on grading shows" in str(caught.value)) == helps


WRONG = {
    "in --out out --seed -1": "seed must be a whole number from 0 on, not -1",
    "in --out out --variant -1": "variant must be a whole number from 0 on, not -1",
    "in --out out --tests no.py": "no.py: there is no such file of tests",
    "in --out out --tests in/a.py": "in/a.py: no test in it",
    "--gradescope out --tests no.py": "no.py: there is no such file of tests",
    "elsewhere --out out": "elsewhere is not a folder",
    "in": "give the folder of submissions and --out DIR",
}


@pytest.mark.parametrize("arguments", WRONG)
def test_a_wrong_command_is_told_what_is_wrong_and_writes_nothing(tmp_path, arguments):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.py").write_text("x = 1\n")
    run = command(*GRADE, *arguments.split(), cwd=tmp_path)
    said = run.communicate()[0]
    assert run.returncode == 2 and WRONG[arguments] in said and "Traceback" not in said
    assert [path.name for path in tmp_path.iterdir()] == ["in"]


def test_the_folder_above_that_of_a_class_brings_a_warning(bwrap, tmp_path):
    for student in "ab":
        path = tmp_path / "in" / "class" / student / HOMEWORK.notebook
        path.parent.mkdir(parents=True)
        path.write_bytes(packed(filled()))
    for folder, warned in (("in", True), ("in/class", False)):
        said = command(*GRADE, folder, "--out", "out", cwd=tmp_path).communicate()[0]
        assert ("in 2 folders are all taken for files of 'class'" in said) == warned, said


# Gradescope


def test_the_zip_for_gradescope_holds_all_that_runs_there_and_no_secret_of_this_machine(tmp_path):
    tests = extra(tmp_path, "pass")
    path = gradescope.write_zip(tmp_path / "a.zip", HOMEWORK, seed=3, variant=1, tests=tests)
    with zipfile.ZipFile(path) as archive:
        names, settings = set(archive.namelist()), json.loads(archive.read("settings.json"))
        assert archive.getinfo("run_autograder").external_attr >> 16 == 0o755
    assert settings == {"homework": HOMEWORK.name, "seed": 3, "variant": 1, "tests": ["more.py"]}
    assert {"setup.sh", "run_autograder", "tests/more.py", f"project/moe_homework/{HOMEWORK.name}/graded.py"} <= names
    assert not any(".ipynb" in name or "__pycache__" in name for name in names)


def test_a_package_without_its_project_makes_no_half_a_zip(tmp_path, monkeypatch):
    monkeypatch.setattr("moe_homework.homework.HERE", tmp_path / "site-packages" / "moe_homework")
    with pytest.raises(FileNotFoundError, match="call this in a checkout of the project"):
        gradescope.write_zip(tmp_path / "a.zip", HOMEWORK)
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def autograded(bwrap, tmp_path):
    """A function that does for files {name: bytes} what Gradescope does for a submission, and returns the result."""

    def run(files):
        settings = {"homework": HOMEWORK.name, "seed": 0, "variant": 0, "tests": []}
        for folder in ("source", "submission", "results"):
            (tmp_path / folder).mkdir()
        (tmp_path / "source" / "settings.json").write_text(json.dumps(settings))
        for name, content in files.items():
            (tmp_path / "submission" / name).write_bytes(content)
        gradescope.autograde(tmp_path)
        return json.loads((tmp_path / "results" / "results.json").read_text())

    return run


def test_gradescope_gets_a_result_for_each_test(autograded):
    result = autograded({HOMEWORK.notebook: packed(filled()), "conftest.py": b"1 / 0"})
    assert sum(test["score"] for test in result["tests"]) == sum(POINTS.values())
    assert all(test["score"] <= test["max_score"] and test["status"] == "passed" for test in result["tests"])
    assert f"{WORDS[0]}: a person reads this answer" in result["output"]


def test_gradescope_is_told_that_there_is_no_notebook(autograded):
    assert autograded({"essay.pdf": b"%PDF"}) == {
        "score": 0, "output": f"No notebook was handed in: upload {HOMEWORK.notebook}.", "tests": []
    }  # fmt: skip
