"""Grade a folder of notebooks, or write a variant's notebook or a zip for Gradescope."""

import os
import sys

# A submission named json.py in the folder where this is called must not be what the grader imports.
sys.path[:] = [entry for entry in sys.path if entry and os.path.realpath(entry) != os.path.realpath(os.getcwd())]
os.environ["PYTHONSAFEPATH"] = "1"  # nor what the processes import that it starts

import argparse  # noqa: E402
from pathlib import Path  # noqa: E402


def main(argv=None):
    """Grade, or write a variant's notebook or a zip for Gradescope; what is wrong ends in one sentence and status 2."""
    from .homework import NAMES, check_whole, load

    parser = argparse.ArgumentParser(prog="python -m moe_homework", description=__doc__)
    add, default = parser.add_argument, "(default: %(default)s)"
    add("homework", choices=NAMES)
    add("submissions", nargs="?", type=Path, help="folder of notebooks or Python files, with its subfolders")
    add("--out", type=Path, metavar="DIR", help="folder for grades.csv, words.csv, points.svg and students/")
    add("--seed", type=int, default=0, metavar="N", help=f"of inputs that tests draw; students have 0 {default}")
    add("--variant", type=int, default=0, metavar="N", help=f"which constants the questions have {default}")
    add("--tests", type=Path, action="append", default=[], metavar="FILE", help="further graded tests; may be repeated")
    add("--jobs", type=int, metavar="N", help="submissions graded at a time (default: the number of processors)")
    add("--fresh", action="store_true", help="grade again what an earlier run with the same settings has graded")
    add("--trust", action="store_true", help="run submissions without isolation; every result says so")
    add("--user", default="", metavar="NAME", help="with --trust, called by root in a container: run them as this user")
    add("--call-seconds", type=float, metavar="S", help="that one call of a student's function may take (default: 5)")
    add("--notebook-seconds", type=float, metavar="S", help="that a notebook may take (default: 60)")
    add("--notebook", type=Path, metavar="FILE", help="write the students' notebook of the variant, and grade nothing")
    add("--gradescope", type=Path, metavar="FILE", help="write a zip for Gradescope's autograder, and grade nothing")
    options = parser.parse_args(argv)
    homework = load(options.homework)
    try:
        check_whole("seed", options.seed)
        for path in options.tests:
            if not path.is_file():
                raise FileNotFoundError(f"{path}: there is no such file of tests")
        if options.notebook:
            _write_notebook(homework, options)
        elif options.gradescope:
            from .gradescope import write_zip

            settings = {"seed": options.seed, "variant": options.variant}
            print(f"wrote {write_zip(options.gradescope, homework, tests=options.tests, **settings)}")
        else:
            _grade(homework, options, parser)
    except (ValueError, OSError, RuntimeError) as problem:
        parser.exit(2, f"{parser.prog}: {problem}\n")
    except KeyboardInterrupt:
        parser.exit(130, "\nInterrupted. What was graded is kept: run the same command again to go on.\n")


def _grade(homework, options, parser):
    from .expect import one_line
    from .grade import Plan, grade
    from .sandbox import Limits
    from .submissions import find

    if not options.submissions or not options.out:
        parser.error("give the folder of submissions and --out DIR")
    if options.user and not options.trust:
        parser.error("--user goes with --trust: bubblewrap needs no other user")
    limits = {"call_seconds": options.call_seconds, "notebook_seconds": options.notebook_seconds}
    plan = Plan(
        homework=homework.name,
        seed=options.seed,
        variant=options.variant,
        tests=tuple(str(path.resolve()) for path in options.tests),
        trust=options.trust,
        user=options.user,
        hidden=tuple(str(path.resolve()) for path in (options.submissions, options.out)),
        limits=Limits(**{name: value for name, value in limits.items() if value}),
    )
    if plan.trust:
        print(f"WARNING: {plan.warning}.", file=sys.stderr)
    _warn_of_one_student(find(options.submissions, homework.notebook))
    grades = grade(plan, options.submissions, options.out, jobs=options.jobs, fresh=options.fresh)
    for one in grades:
        print(f"{one_line(one.student, 40):24s} {one.earned():5g} of {one.possible():g} points from tests")
    print(f"{len(grades)} submissions: {options.out} holds grades.csv, points.svg, students/ and words.csv, to be read")


def _warn_of_one_student(handed):
    """Say so where all files are taken for one student's: the folder above that of the class may have been given."""
    folders = {path.parent for one in handed for path in (one.path, *one.older)}
    if len(handed) == 1 and len(folders) > 1:
        what = f"the notebooks in {len(folders)} folders are all taken for files of {handed[0].student!r}"
        print(f"WARNING: {what}. If they are a class, give the folder of that name.", file=sys.stderr)


def _write_notebook(homework, options):
    from .homework import in_project, notebook_of

    source = in_project("notebooks", "homework", homework.notebook)
    if options.notebook.exists():
        raise FileExistsError(f"{options.notebook} exists: choose another name")
    options.notebook.write_text(notebook_of(homework, source, options.variant), encoding="utf-8")
    print(f"wrote {options.notebook}, variant {options.variant}")


if __name__ == "__main__":
    main()
