"""The README says what is there, and shows what the command prints."""

import re

from conftest import NOTEBOOKS, ROOT

from moe_lib.__main__ import main

README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_every_line_of_the_example_is_printed_by_its_command(capsys):
    command, *shown = re.search(r"^\$ python -m moe_lib (.*?)^```", README, re.M | re.S)[1].splitlines()
    main(command.split())
    printed = capsys.readouterr().out.splitlines()
    assert shown and [line for line in shown if line not in printed] == []


def test_the_map_of_the_chapter_has_every_notebook_and_no_other():
    assert re.findall(r"^\| `(\w+)` \|", README, re.M) == [path.stem for path in NOTEBOOKS]


def test_every_target_that_the_readme_names_is_in_the_makefile():
    targets = set(re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.M))
    named = set(re.findall(r"\bmake (\w+)(?=`|\n)", README))
    assert {"lab", "test"} <= named <= targets
