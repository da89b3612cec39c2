"""The measure of prose itself, and pages that are written to it: few numbers, sentences that say because and so."""

import doctest

import nbformat
import prose
import pytest
from conftest import ROOT

WRITTEN = ["04_tokens_weights_cache", "06_offloading", "07_expert_parallelism", "08_load_balance"]


def test_the_example_of_the_measure_runs():
    assert doctest.testmod(prose) == (0, 2)


def test_only_what_is_read_from_top_to_bottom_counts(tmp_path):
    text = ("# 1 heading\n\nIt reads 5 GB, see page 03 and $x = 3$.\n\n| 1 | 2 |\n|---|---|\n\n"
            ":::{admonition} 9\n10 GB.\n:::\n\n<!-- notes 2 min: 11. -->\n\n$$ y = 12 $$\n\n> 13 GB.")
    nbformat.write(nbformat.v4.new_notebook(cells=[nbformat.v4.new_markdown_cell(text)]), tmp_path / "page.ipynb")
    found = prose.running_prose(tmp_path / "page.ipynb")
    assert found == ["It reads 5 GB, see page 03 and x=3."] and prose.density(found).numbers == 2


@pytest.mark.parametrize("name", WRITTEN)
def test_a_lesson_explains_more_than_it_counts(name):
    found = prose.density(prose.running_prose(ROOT / "notebooks" / f"{name}.ipynb"))
    assert found.numbers_in_100_words <= 5 and 16 <= found.words_in_a_sentence <= 22, found
