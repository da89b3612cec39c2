"""The reference of the library: complete, tied both ways to the pages that derive and use a formula, light, legible."""

import gzip
import importlib.util
import re
import sys

import pytest
from conftest import NOTEBOOKS, ROOT
from page_rules import cells
from test_imports import FORMULAS

SPEC = importlib.util.spec_from_file_location("api_reference", ROOT / "book" / "_ext" / "api_reference.py")
reference = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(reference)
PAGES = sorted((ROOT / "book" / "api").glob("*.md"))
every_page = pytest.mark.parametrize("name", [path.stem for path in PAGES])


def equations():
    """{number: (notebook, label)}: the labelled equations of each chapter page, counted in reading order."""
    found = {}
    for path in NOTEBOOKS:
        text = "\n".join(cell.source for cell in cells(path, "markdown"))
        for place, label in enumerate(re.findall(r"\$\$ \(([\w-]+)\)", text), start=1):
            found[f"{int(path.stem[:2])}.{place}"] = (path.stem, label)
    return found


def page_of(name):
    """The page of the reference that has a module's entries: claims stand with the records."""
    module = name.split(".")[1]
    return "records" if module == "claims" else module


def entries():
    """Full name of every public name of the formula modules."""
    return [f"moe_lib.{module}.{name}" for module in reference.FORMULAS for name in reference.public(module)]


def test_the_reference_covers_every_formula_module():
    assert set(reference.FORMULAS) == {name for name in FORMULAS if not name.startswith("_")}
    assert {"models", "routing", "steps", "figures", "bench"} <= {path.stem for path in PAGES}


def test_every_public_name_of_a_formula_module_says_what_it_is():
    for name in reference.FORMULAS:
        assert [key for key, value in reference.public(name).items() if not (value.__doc__ or "").strip()] == [], name


def test_every_equation_of_the_chapter_is_computed_and_every_one_named_exists():
    assert reference.computed_by().keys() == equations().keys() and len(equations()) > 30


def test_a_docstring_names_the_page_of_its_equation():
    for name in reference.FORMULAS:
        source = (ROOT / "moe_lib" / f"{name}.py").read_text(encoding="utf-8")
        found = reference.EQUATION.findall(source)
        assert all(number.startswith(f"{int(page)}.") for page, *both in found for number in filter(None, both)), name
        assert len(found) == len(re.findall(r"\beq\. \d", source)), name


def test_every_public_name_has_an_entry(site):
    pages = {path.stem: (site / "book" / "api" / f"{path.stem}.html").read_text(encoding="utf-8") for path in PAGES}
    assert [name for name in entries() if f'id="{name}"' not in pages[page_of(name)]] == []


def test_a_formula_leads_to_its_equation_and_the_equation_back(site):
    labels = equations()
    for number, names in reference.computed_by().items():
        notebook, label = labels[number]
        derived = (site / "notebooks" / f"{notebook}.html").read_text(encoding="utf-8")
        assert re.search(rf'id="equation-{label}">\s*<span class="eqno">\({number}\)', derived), number
        for name in names:
            entry = (site / "book" / "api" / f"{page_of(name)}.html").read_text(encoding="utf-8")
            assert re.search(rf'href="../../notebooks/{notebook}.html#equation-{label}">.*?\({number}\)', entry), name
            assert f'href="../book/api/{page_of(name)}.html#{name}"' in derived, name


def test_a_page_leads_to_what_its_cells_use_and_that_back(site):
    known = set(entries())
    for path in NOTEBOOKS:
        html = (site / "notebooks" / f"{path.stem}.html").read_text(encoding="utf-8")
        used = known.intersection(reference.used_in(path))
        assert used, path.stem
        for name in used:
            entry = (site / "book" / "api" / f"{page_of(name)}.html").read_text(encoding="utf-8")
            own = re.split(r'</dd>\s*</dl>\s*<dl class="py (?:function|class|data)"', entry.split(f'id="{name}"')[1])[0]
            assert f'href="../book/api/{page_of(name)}.html#{name}"' in html, (path.stem, name)
            assert f'href="../../notebooks/{path.stem}.html"' in own, (path.stem, name)


@every_page
def test_a_page_of_the_reference_is_light(site, name):
    assert len(gzip.compress((site / "book" / "api" / f"{name}.html").read_bytes())) <= 150e3


def test_code_is_shown_without_its_docstring():
    code = reference.code_of(sys.modules["moe_lib.routing"].coverage)
    assert code[0].startswith("def coverage(") and code[-1].strip() == "return 1 - (1 - k / E) ** B"
    assert '"""' not in "".join(code)
