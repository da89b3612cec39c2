"""A zip for Gradescope's autograder, and what runs there."""

import json
import os
import sys
import zipfile
from dataclasses import replace
from pathlib import Path

from . import report
from .expect import one_line
from .grade import Plan, grade_one
from .homework import HERE, in_project, load
from .sandbox import Unavailable, check_isolation
from .submissions import find

FILES = HERE / "gradescope_files"
SETTINGS = "settings.json"
KINDS = {".py", ".csv", ".json", ".jsonl", ".css", ".js", ".md", ".txt", ".sh", ""}  # what the packages are made of


def write_zip(path, homework, *, seed=0, variant=0, tests=()):
    """Write the zip that a lecturer uploads; returns its path.

    Parameters
    ----------
    path : path
    homework : Homework
    seed, variant : int
        Of the inputs that tests draw, and of the constants.
    tests : sequence of paths
        Further files of graded tests.

    Raises
    ------
    FileNotFoundError
        If the package is installed without the project around it; nothing is written then.
    """
    homework.values(variant)
    names = [Path(test).name for test in tests]
    settings = {"homework": homework.name, "seed": seed, "variant": variant, "tests": names}
    packages = [file for name in ("moe_lib", "moe_homework") for file in sorted(in_project(name).rglob("*"))]
    sources = [file for file in packages if file.is_file() and "__pycache__" not in file.parts and file.suffix in KINDS]
    sources += [in_project(name) for name in ("pyproject.toml", "README.md", "LICENSE")]
    lock = in_project("requirements.lock")
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in ("setup.sh", "run_autograder"):
            entry = zipfile.ZipInfo(name, (2026, 1, 1, 0, 0, 0))
            entry.external_attr = 0o755 << 16
            archive.writestr(entry, (FILES / name).read_text(encoding="utf-8"))
        archive.writestr(SETTINGS, json.dumps(settings, indent=1))
        archive.write(lock, lock.name)
        for test in tests:
            archive.write(test, f"tests/{Path(test).name}")
        for file in sources:
            archive.write(file, Path("project", file.relative_to(HERE.parent)))
    return path


def autograde(base):
    """Grade the submission in `base`/submission and write `base`/results/results.json.

    Where bubblewrap may not work, as in many containers, the submission runs as the user nobody and the result says so.
    """
    base = Path(base)
    settings = json.loads((base / "source" / SETTINGS).read_text(encoding="utf-8"))
    homework = load(settings["homework"])
    tests = tuple(str(base / "source" / "tests" / name) for name in settings["tests"])
    hidden = (str(base / "source"), str(base / "results"), str(base / "submission"))
    plan = Plan(homework=homework.name, seed=settings["seed"], variant=settings["variant"], tests=tests, hidden=hidden)
    try:
        check_isolation(plan.command)
    except Unavailable as reason:
        print(reason)
        plan = replace(plan, trust=True, user="nobody" if os.geteuid() == 0 else "")
    try:
        handed = find(base / "submission", homework.notebook)
    except FileNotFoundError:
        results = {"score": 0, "output": f"No notebook was handed in: upload {homework.notebook}.", "tests": []}
    else:
        chosen = max(handed, key=lambda one: (one.path.name == homework.notebook, one.path.lstat().st_mtime))
        grade = grade_one(plan, chosen.student, chosen.path, chosen.older)
        if len(handed) > 1:
            print(f"of {len(handed)} files, {one_line(chosen.path.name)} was graded")
        results = report.gradescope(homework, grade)
    (base / "results").mkdir(exist_ok=True)
    (base / "results" / report.RESULTS).write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    autograde(sys.argv[1])
