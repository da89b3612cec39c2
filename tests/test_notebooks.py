"""Every notebook: stripped, valid, executed alone without network or torch, short, and true to its asserts."""

import json
import os
import re
import subprocess

import nbformat
import pytest
from conftest import NOTEBOOKS, ROOT, UNPLUGGED
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError
from page_rules import cells, shape_faults, unasserted_numbers

SOLUTIONS = ROOT / "book" / "homework_solutions.md"  # test_hw3.py and test_hw4.py compute its figures
PAGES = sorted(set((ROOT / "book").glob("*.md")) - {SOLUTIONS})
every_notebook = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)


def execute(notebook):
    """Run a notebook in a fresh kernel that reaches no network and finds no torch, as the build of the site does."""
    resources = {"metadata": {"path": str(ROOT / "notebooks")}}
    NotebookClient(notebook, resources=resources).execute(env=os.environ | UNPLUGGED)


def test_the_chapter_has_notebooks():
    assert NOTEBOOKS


def test_every_notebook_runs_alone_within_a_minute_of_processor_time(site):
    """The build of the site executed each in a kernel of its own, and stops where a cell fails or warns."""
    took = json.loads(site.with_name("executed.json").read_text())
    homework = sorted((ROOT / "notebooks" / "homework").glob("*.ipynb"))
    executed = {path.relative_to(ROOT).with_suffix("").as_posix() for path in [*NOTEBOOKS, *homework]}
    assert executed <= took.keys()
    assert {name: each for name, each in took.items() if not 0 < each["processor_seconds"] < 60} == {}


@pytest.mark.parametrize("code", ["import torch", "import socket; socket.create_connection(('192.0.2.1', 80))"])
def test_a_notebook_that_needs_torch_or_the_network_fails_where_the_site_is_built(code):
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(code)])
    with pytest.raises(CellExecutionError, match="torch|no network in this test"):
        execute(notebook)


@every_notebook
def test_a_notebook_is_valid_with_cell_ids(path):
    notebook = nbformat.read(path, as_version=nbformat.NO_CONVERT)
    nbformat.validate(notebook)
    assert (notebook.nbformat, notebook.nbformat_minor) >= (4, 5)
    assert len({cell.id for cell in notebook.cells}) == len(notebook.cells)


@every_notebook
def test_what_a_page_folds_is_folded_in_jupyterlab_too(path):
    for cell in nbformat.read(path, as_version=4).cells:
        folded = {"check", "hide-input", "hide-cell"} & set(cell.metadata.get("tags", []))
        assert bool(folded) == cell.metadata.get("jupyter", {}).get("source_hidden", False), cell.id


@every_notebook
def test_a_notebook_is_committed_without_outputs(path):
    """What git holds counts: a reader who saved a notebook in JupyterLab has broken nothing."""
    stored = subprocess.run(["git", "show", f"HEAD:notebooks/{path.name}"], cwd=ROOT, capture_output=True, text=True)
    if stored.returncode:
        pytest.skip("not in a git checkout, or not committed yet")
    code = [cell for cell in json.loads(stored.stdout)["cells"] if cell["cell_type"] == "code"]
    assert code and all(cell["outputs"] == [] and cell["execution_count"] is None for cell in code)


@every_notebook
def test_every_number_in_the_prose_is_asserted_on_its_page(path):
    assert unasserted_numbers(path) == []


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_every_number_of_an_appendix_is_asserted_by_a_notebook(path):
    assert unasserted_numbers(path, asserted_by=NOTEBOOKS) == []


@every_notebook
def test_code_cells_are_few_and_short(path):
    fewest = 1 if path.stem.startswith("00_") else 8  # 00 is the landing page
    assert shape_faults(path, fewest=fewest) == []


@every_notebook
def test_a_notebook_opens_with_one_title(path):
    titles = [line for cell in cells(path, "markdown") for line in cell.source.splitlines() if line.startswith("# ")]
    assert len(titles) == 1 and cells(path, "markdown")[0].source.startswith("# ")


@pytest.mark.parametrize("path", [path for path in NOTEBOOKS if "C(B)" in path.read_text(encoding="utf-8")],
                         ids=lambda path: path.stem)
def test_a_page_that_uses_coverage_says_once_that_it_is_a_uniform_router_s(path):
    text = " ".join(cell.source for cell in cells(path, "markdown"))
    assert re.search(r"uniform\s+router|routing is uniform|uniform tokens", text)
