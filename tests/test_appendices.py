"""The appendices: claims recomputed in one table, and what serving systems do, with sources."""

import html
import re

import nbformat
import pytest
from conftest import ROOT
from test_notebooks import execute

from moe_lib import balance, caching, exchange, models, offload, roofline, routing, steps
from moe_lib.claims import CLAIMS, VERDICTS, Table, significant
from moe_lib.hardware import DEVICES
from moe_lib.models import CATALOG
from moe_lib.roofline import ridge_point
from moe_lib.steps import decode_step, resident_bytes

SYSTEMS = ["vLLM", "SGLang", "TensorRT-LLM", "DeepSpeed-MoE", "Mixtral-offloading", "KTransformers", "llama.cpp"]
TOPICS = 7
TEXT = (ROOT / "book" / "systems.md").read_text(encoding="utf-8")


def cells_of(table):
    """The cells of each row of a Markdown table, without its head."""
    rows = [line for line in table.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in row.strip("|").split(" | ")] for row in rows[2:]]


@pytest.fixture(scope="module")
def table():
    """What the last code cell of the executed page shows: Markdown."""
    notebook = nbformat.read(ROOT / "notebooks" / "appendix_claims.ipynb", as_version=4)
    execute(notebook)
    return [cell for cell in notebook.cells if cell.cell_type == "code"][-1].outputs[-1]["data"]["text/markdown"]


# cheat sheet


def test_the_functions_and_fields_that_the_cheat_sheet_names_exist():
    sheet = (ROOT / "book" / "cheat_sheet.md").read_text(encoding="utf-8")
    names = re.findall(r"`(\w+)`(?=[^`]*\|$)", sheet, re.MULTILINE)
    homes = [balance, caching, exchange, models.MoEModel, offload, roofline, routing, steps]
    assert len(names) > 12
    assert [name for name in names if not any(hasattr(home, name) for home in homes)] == []


# claims


def test_there_are_36_different_claims_each_with_a_verdict_and_a_topic():
    names = [claim.claim_id for claim in CLAIMS]
    assert sorted(names) == sorted([f"P{i}" for i in range(1, 14)] + [f"A{i}" for i in range(1, 24)])
    assert all(claim.verdict in VERDICTS and claim.topic for claim in CLAIMS)
    assert len({claim.claim for claim in CLAIMS}) == len(CLAIMS)


def test_every_claim_has_one_row_with_its_words_its_verdict_and_something_computed(table):
    rows = {row[0]: row[1:] for row in cells_of(table) if row[0]}
    assert list(rows) == [claim.claim_id for claim in CLAIMS]
    for claim in CLAIMS:
        words, verdict, computed, _ = rows[claim.claim_id]
        assert (words, re.sub("<.*?>", "", verdict)) == (claim.claim, claim.verdict) and re.search(r"\d", computed)


def test_computed_cells_are_what_the_library_computes(table):
    computed = {row[0]: row[3] for row in cells_of(table)}
    v3 = CATALOG["deepseek-v3"]
    assert f"{v3.total_params:,} and {v3.active_params:,}" in computed["P1"]
    assert f"{resident_bytes(v3, weight_bytes=2) / 1e9:,.2f} GB" in computed["P4"]
    step = decode_step(v3, 64, weight_bytes=2)
    assert f"{step.bytes_read / 1e9:,.1f} GB exact" in computed["P6"]
    assert f"{step.intensity:.2f} exact" in computed["P7"] and f"{step.share_touched:.1%}"[:-1] in computed["P3"]
    assert f"{100 / ridge_point(DEVICES['h100']):.2f} % of an H100" in computed["A6"]


def test_links_of_the_table_lead_to_pages(table):
    linked = re.findall(r"\[(\d\d)\]\(([^)]+)\)", table)
    assert linked and all(name.startswith(number) for number, name in linked)
    assert all((ROOT / "notebooks" / name).is_file() for _, name in linked)


def test_the_filter_offers_every_verdict_with_its_count(table):
    counts = re.findall(r"> (\w+) (\d+)</label>", table)
    given = [claim.verdict for claim in CLAIMS]
    assert counts == [("all", str(len(CLAIMS))), *((verdict, str(given.count(verdict))) for verdict in VERDICTS)]


@pytest.mark.parametrize("change", [{"P1": None}, {"X1": "?"}])
def test_a_claim_without_a_computation_and_one_too_many_are_named(change):
    computed = {claim.claim_id: "as said" for claim in CLAIMS} | change
    computed = {name: text for name, text in computed.items() if text}
    with pytest.raises(ValueError, match=next(iter(change))):
        Table(computed, {})


def test_a_page_that_is_not_there_is_named_but_not_linked():
    shown = Table({claim.claim_id: "as said" for claim in CLAIMS}, {}).markdown()
    assert "](" not in shown and cells_of(shown)[1][-1] == f"{CLAIMS[0].pages[0]:02}"


def test_jupyterlab_and_the_page_show_the_same_rows():
    shown = Table({claim.claim_id: f"x < {claim.claim_id}" for claim in CLAIMS}, {1: "01_active_vs_total.ipynb"})
    cells = re.findall(r"<td>(.*?)</td>", shown.html())
    of_markdown = [cell for row in cells_of(shown.markdown()) for cell in row]
    assert [html.unescape(re.sub("<.*?>", "", cell)) for cell in cells[5:]] == [
        re.sub(r"\[(\d+)\]\(.*?\)", r"\1", re.sub(r"</?span.*?>|\*\*", "", cell)) for cell in of_markdown]


def test_significant_digits_are_those_of_the_number():
    assert significant(0.0551416389, [1342052.7, 2], digits=3) == [0.0551, 1340000.0, 2.0]


# systems


def test_every_system_answers_every_question_with_a_source():
    rows = cells_of(TEXT)
    answers = [row for row in rows if row[0] in SYSTEMS]
    assert [row[0] for row in answers] == SYSTEMS * TOPICS and len(rows) == len(answers) + TOPICS
    assert all(len(row) == 3 and row[1].endswith(".") and "][" in row[2] for row in answers)


def test_every_source_of_the_systems_is_defined_and_used():
    used, defined = set(re.findall(r"\]\[([\w-]+)\]", TEXT)), re.findall(r"^\[([\w-]+)\]: https://\S+$", TEXT, re.M)
    assert sorted(used) == sorted(defined)


def test_the_table_of_systems_says_when_it_was_read():
    assert "November 2026" in TEXT and "not found" in TEXT
