"""Grading 30 correct submissions in isolation, beside executing the same notebooks bare; then 300, a tenth hostile.

    python tests/benchmarks/bench_grading.py [30 300]
"""

import os
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import hostile
import nbformat
import numpy as np
import psutil
from hostile import HOMEWORK, Kind, filled, packed
from nbclient import NotebookClient

from moe_homework.grade import Plan, grade

BAR = 2  # times the bare execution
JOBS = os.cpu_count()
POINTS = {question.name: question.points for question in HOMEWORK.functions.values()}


def execute(path):
    notebook = nbformat.read(path, as_version=4)
    NotebookClient(notebook, timeout=120, kernel_name="python3").execute(stderr=subprocess.DEVNULL)


class Memory:
    """Resident bytes of the grader and the processes that it grades in, four times a second: (time, bytes)."""

    def __init__(self):
        self.samples, self.on, me = [], True, psutil.Process()

        def watch():
            while self.on:
                graders = [p for p in me.children() if "spawn_main" in " ".join(_command(p))]
                self.samples.append((time.time(), sum(map(_resident, [me, *graders]))))
                time.sleep(0.25)

        threading.Thread(target=watch, daemon=True).start()

    def peak(self, start, end):
        return max((size for when, size in self.samples if start <= when <= end), default=0)


def _command(process):
    try:
        return process.cmdline()
    except psutil.Error:
        return []


def _resident(process):
    try:
        return process.memory_info().rss
    except psutil.Error:
        return 0


def run(folder, kinds):
    """Seconds that grading takes, its grades, and when each of them was written."""
    submissions, out = folder / "in", folder / "out"
    submissions.mkdir()
    hostile.write(submissions, kinds)
    plan, start = Plan(homework=HOMEWORK.name, hidden=(str(submissions), str(out))), time.time()
    grades = grade(plan, submissions, out, jobs=JOBS, progress=False)
    taken = time.time() - start
    return taken, grades, start, sorted(path.stat().st_mtime for path in out.glob("students/*/results.json"))


def unfair(kinds, grades):
    fair = {kind.name: {q: 0 if q in kind.lost else points for q, points in POINTS.items()} for kind in kinds}
    return [one.student for one in grades if {q: one.earned(q) for q in POINTS} != fair[one.student]]


def correct(number):
    for count in range(number):
        yield Kind(file=f"{count:03d}.ipynb", what="is right", content=packed(filled(whole=True, words=str(count))))


def mixed(number):
    """Right ones, every tenth of them replaced by a hostile or an unlucky one."""
    others = [kind for kind in hostile.kinds(["/nowhere"]) if not callable(kind.content)]
    others = others[:: max(1, 10 * len(others) // number)]
    for count in range(number):
        if count % 10 == 9:
            other = others[count // 10 % len(others)]
            ending = other.file.rpartition(".")[2]
            yield Kind(file=f"{count:03d}.{ending}", what=other.what, content=other.content, lost=other.lost)
        else:
            yield Kind(file=f"{count:03d}.ipynb", what="is right", content=packed(filled()))


if __name__ == "__main__":
    few, many = map(int, sys.argv[1:] or (30, 300))
    with tempfile.TemporaryDirectory() as folder:
        kinds = list(correct(few))
        taken, grades, *_ = run(Path(folder), kinds)
        assert unfair(kinds, grades) == []
        start = time.time()
        with ProcessPoolExecutor(JOBS) as pool:
            list(pool.map(execute, sorted(Path(folder, "in").iterdir())))
        bare = time.time() - start
    print(f"{few} correct submissions, {JOBS} at a time: graded in isolation in {taken:.1f} s; "
          f"executing the same notebooks bare takes {bare:.1f} s; {taken / bare:.2f} x, at most {BAR} x")  # fmt: skip
    memory = Memory()
    with tempfile.TemporaryDirectory() as folder:
        kinds = list(mixed(many))
        taken, grades, start, written = run(Path(folder), kinds)
    memory.on = False
    wrong = unfair(kinds, grades)
    print(f"{many} submissions, a tenth hostile: {taken:.0f} s, {taken / many:.2f} s each, {len(wrong)} unfair {wrong}")
    thirds = [start, *np.quantile(written, [1 / 3, 2 / 3, 1])]
    for name, begin, end in zip(("first", "second", "last"), thirds, thirds[1:], strict=False):
        each, peak = 3 * (end - begin) / many, memory.peak(begin, end) / 1e6
        print(f"  {name} third: {each:.2f} s each, peak memory of the grader and its {JOBS} processes {peak:.0f} MB")
    sys.exit(bool(wrong))
