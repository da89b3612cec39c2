"""Imports run one way: facts and counting, steps, bounds, deployment, figures."""

import ast
import graphlib
import subprocess
import sys
from pathlib import Path

import pytest

import moe_lib

PACKAGE = Path(moe_lib.__file__).parent
LEVELS = [
    {"_arguments", "_callable", "_families", "_names", "_show"},
    {"_instantiate"},
    {"models", "hardware", "routing", "records", "claims"},
    {"steps"},
    {"roofline"},
    {"speculation", "offload", "caching", "layouts", "measured"},
    {"exchange"},
    {"balance"},
    {"plan"},
    {"bench"},
    {"figures"},
    {"__main__"},
]
FORMULAS = set.union(*LEVELS[:9]) - {"_instantiate"}  # the one that may load torch, inside its functions
FACTS = LEVELS[2]
OUTSIDERS = {"pandas", "altair", "ipywidgets", "torch"}
SHOWN = {"figures/schematics", "figures/offloading"}  # a rate as a label, and as an argument of a formula
STANDALONE = {"__init__", "_book"}  # import nothing of ours

sources = {path.relative_to(PACKAGE).with_suffix("").as_posix(): path for path in PACKAGE.rglob("*.py")}
every_module = pytest.mark.parametrize("name", sorted(sources))


def imports(path):
    """(our modules, top-level packages of others) that a file imports, at the top or inside a function.

    A package counts as one module; what its files import of each other is `within`'s affair.
    """
    ours, others = set(), set()
    dots = 2 if path.parent.parent == PACKAGE else 1  # that lead to moe_lib
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and 0 < node.level < dots:
            continue
        elif isinstance(node, ast.ImportFrom):
            base = ".".join(filter(None, ["moe_lib" if node.level else None, node.module]))
            names = [f"{base}.{alias.name}" for alias in node.names] if base == "moe_lib" else [base]
        else:
            continue
        ours |= {name.split(".")[1] for name in names if name.startswith("moe_lib.")}
        others |= {name.split(".")[0] for name in names}
    return ours, others - {"moe_lib"}


def named(root):
    """{name to import by: file} of the packages and of the book's scripts, which find each other on the path."""
    packages = [path for package in ("moe_lib", "moe_homework") for path in sorted((root / package).rglob("*.py"))]
    scripts = [*sorted((root / "book").glob("*.py")), *sorted((root / "book" / "_ext").glob("*.py"))]
    dotted = {".".join(path.relative_to(root).with_suffix("").parts): path for path in packages}
    found = {name.removesuffix(".__init__"): path for name, path in dotted.items()}
    return found | {path.stem: path for path in scripts}


def within(files):
    """{name: names of the files that it imports, at the top or inside a function}."""
    graph = {name: set() for name in files}
    for name, path in files.items():
        package = name.split(".") if path.name == "__init__.py" else name.split(".")[:-1]
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                graph[name] |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                near = package[: len(package) + 1 - node.level] if node.level else []
                base = ".".join([*near, *filter(None, [node.module])])
                inside = {f"{base}.{alias.name}" for alias in node.names}
                graph[name] |= {part if part in files else base for part in inside}
    return {name: found & files.keys() - {name} for name, found in graph.items()}


def level(name):
    return next((number for number, modules in enumerate(LEVELS) if name.split("/")[0] in modules), None)


@every_module
def test_a_module_imports_only_from_lower_levels(name):
    ours, _ = imports(sources[name])
    if name in STANDALONE:
        assert not ours
    else:
        assert level(name) is not None, f"{name} has no place in LEVELS"
        assert not {other for other in ours if level(other) is None or level(other) >= level(name)}


@pytest.mark.parametrize("name", sorted(FACTS))
def test_facts_import_nothing_of_ours_but_the_argument_check_and_models_its_families(name):
    allowed = {"_arguments", "_names", "_show"} | ({"_families", "_instantiate"} if name == "models" else set())
    assert imports(sources[name])[0] <= allowed


@pytest.mark.parametrize("name", sorted(FORMULAS & set(sources)))
def test_no_formula_imports_tables_charts_widgets_or_torch(name):
    assert not imports(sources[name])[1] & OUTSIDERS


@pytest.mark.parametrize("name", sorted(name for name in sources if name.startswith("figures/") and name not in SHOWN))
def test_figures_leave_bandwidths_to_formulas(name):
    code = ast.walk(ast.parse(sources[name].read_text(encoding="utf-8")))
    named = {node.attr for node in code if isinstance(node, ast.Attribute)}
    assert not named & {"bandwidth_bytes_per_s", "bytes_per_s"}


def test_the_walk_sees_every_way_to_import(tmp_path):
    lines = ["from . import a", "from .b import x", "import moe_lib.c", "def f():", "  from moe_lib import d"]
    (tmp_path / "x.py").write_text("\n".join([*lines, "  import torch.nn as nn"]))
    assert imports(tmp_path / "x.py") == ({"a", "b", "c", "d"}, {"torch"})


def test_formulas_load_neither_tables_charts_widgets_torch_nor_scipy():
    code = "import sys, moe_lib.steps, moe_lib.roofline, moe_lib.records; print(*sys.modules)"
    fresh = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    loaded = {name.partition(".")[0] for name in fresh.stdout.split()}
    assert "moe_lib" in loaded and not loaded & (OUTSIDERS | {"scipy", "vl_convert"})


def test_no_file_imports_itself_by_way_of_others():
    graph = within(named(PACKAGE.parent))
    assert {"suite", "build"} <= {name.split(".")[-1] for name, used in graph.items() if used}
    graphlib.TopologicalSorter(graph).prepare()  # CycleError names the files


def test_a_circle_between_files_of_a_folder_is_found(tmp_path):
    lines = {"moe_lib/figures/a.py": "def f():\n  from .b import x", "moe_lib/figures/b.py": "from . import c",
             "moe_lib/figures/c.py": "from moe_lib.figures import a", "moe_lib/figures/__init__.py": "from . import a"}
    for name, text in lines.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    with pytest.raises(graphlib.CycleError, match=r"figures\.a"):
        graphlib.TopologicalSorter(within(named(tmp_path))).prepare()
