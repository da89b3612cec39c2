"""Types: every public function of a formula module says what it takes and returns, and `make lint` checks it."""

import ast
import inspect
import tomllib

import pytest
from conftest import ROOT
from test_reference import reference

import moe_lib

SETTINGS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]


def functions(name):
    """{name: function} of a formula module: its public functions, and the methods and properties of its classes."""
    found = {}
    for key, value in reference.public(name).items():
        parts = vars(value).items() if inspect.isclass(value) else [(key, value)]
        for part, each in parts:
            each = each.fget if isinstance(each, property) else getattr(each, "__func__", each)
            if inspect.isroutine(each) and not part.startswith("_"):
                found[f"{key}.{part}"] = each
    return found


@pytest.mark.parametrize("name", reference.FORMULAS)
def test_a_function_says_the_type_of_every_argument_and_of_its_answer(name):
    for key, function in functions(name).items():
        signature = inspect.signature(function)
        said = [part.annotation for part in signature.parameters.values() if part.name not in ("self", "cls")]
        assert inspect.Signature.empty not in (*said, signature.return_annotation), f"{key}{signature}"


def test_the_type_checker_reads_every_formula_module_and_the_package_hands_its_types_on():
    assert {f"moe_lib/{name}.py" for name in reference.FORMULAS} <= set(SETTINGS["mypy"]["files"])
    assert (ROOT / "moe_lib" / "py.typed").is_file()
    assert "py.typed" in SETTINGS["setuptools"]["package-data"]["moe_lib"]


def test_a_type_checker_sees_the_names_at_hand():
    stub = (ROOT / "moe_lib" / "__init__.pyi").read_text(encoding="utf-8")
    seen = {alias.name for node in ast.parse(stub).body if isinstance(node, ast.ImportFrom) for alias in node.names}
    assert set(moe_lib._HOME) <= seen <= {*moe_lib._HOME, *moe_lib._HOMES}
