import nbformat
import pytest
from page_rules import quantities, shape_faults, unasserted_numbers


@pytest.fixture
def page(tmp_path):
    """Write a page of one Markdown cell and code cells, return its path."""

    def write(markdown, *code):
        path = tmp_path / "page.ipynb"
        cells = [nbformat.v4.new_markdown_cell(markdown), *map(nbformat.v4.new_code_cell, code)]
        nbformat.write(nbformat.v4.new_notebook(cells=cells), path)
        return path

    return write


@pytest.mark.parametrize(
    "prose, code",
    [
        ("It reads 1,169 GB.", "assert round(x / 1e9) == 1169"),
        ("It reads 1,169 GB.", "assert x == 1.1692e12"),
        ("It reads $1{,}169\\,\\text{GB}$.", "assert show(x) == '1,169 GB'"),
        ("87 % of 256 experts", "assert share > 0.8689 and num_experts == 256"),
        ("**4.0 FLOP/byte** at 94.4 tokens", "assert abs(x - 4.02) < 0.1 and y == 94.358"),
        ("671B, of which 37.6 billion a token", "assert (a, b) == (671_026_419_200, 37_552_282_624)"),
        ("3.35 TB/s and 989 TFLOP/s", "assert (bw, peak) == (3.35e12, 989e12)"),
        ("$2^{16}$ tokens, 4.95 × 10^12 FLOP", "assert n == 2**16 and f == 4.953e12"),
        ("2.3x and 1.5 times in 12-14 ms", "assert [2.31, 1.5, 0.012, 0.0142] == found"),
        ("> Someone says 5 GB is enough.\n\nLlama 3.1 70B, Qwen3-30B-A3B, 8 × H200, section 3, 2024", "pass"),
    ],
)
def test_prose_that_its_asserts_state_has_no_fault(page, prose, code):
    assert unasserted_numbers(page(prose, code)) == []


@pytest.mark.parametrize(
    "prose, code, fault",
    [
        ("It reads 1,169 GB.", "x = 1169", "1,169 GB"),
        ("It reads 1,169 GB.", "assert x == 1170", "1,169 GB"),
        ("It reads 86.9 %.", "assert share == 0.87", "86.9 %"),
        ("It takes 10 ms.", "assert abs(x - 3) < 0.01", "10 ms"),
        ("It takes 1 %.", "assert np.isclose(x, 3, rtol=0.01)", "1 %"),
        ("222 experts", "assert x == 0.222", "222 experts"),
        ("a dense 70B", "assert x == 8", "70B"),
        ("from 3 to 12 GB", "assert x == 12", "3 to 12 GB"),
    ],
)
def test_prose_that_no_assert_states_is_named(page, prose, code, fault):
    assert unasserted_numbers(page(prose, code)) == [fault]


def test_a_unit_is_read_with_its_prefix():
    assert quantities("3 GiB")[0][1] == 3 * 2**30
    assert quantities("2.5 us")[0][1] == pytest.approx(2.5e-6)
    assert quantities("page 7 is fine") == []


def test_long_cells_and_functions_are_named(page):
    function = "def f(x):\n" + "    x += 1\n" * 12
    assert shape_faults(page("text", function)) == [
        "1 code cells, not 8 to 20",
        "code cell 1 has 13 lines, more than 12",
        "f is longer than 6 lines",
    ]


def test_the_name_of_a_cell_is_no_line_of_its_code(page):
    assert len(shape_faults(page("text", "# A name\n" + "x = 1\n" * 12))) == 1  # the number of cells
