"""Homework: definitions, notebooks and tests agree; values cross unharmed; what a student reads is one clear line."""

import ast
import json
import subprocess
import sys

import nbformat
import numpy as np
import pytest
from conftest import ROOT
from homework_answers import outcomes
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import moe_homework
from moe_homework import check as checking
from moe_homework.expect import Wrong, difference, expect, expect_unchanged, one_line, show
from moe_homework.homework import NAMES, load, notebook_of
from moe_homework.values import MOST_VALUES, decode, encode, from_line, to_line

FOLDER = ROOT / "notebooks" / "homework"
every_homework = pytest.mark.parametrize("name", NAMES)


def source_of(homework):
    return nbformat.read(FOLDER / homework.notebook, as_version=nbformat.NO_CONVERT)


def stubs(homework):
    """{name: function} of the notebook's cells as a student gets them."""
    namespace = {"np": np}
    for cell in source_of(homework).cells:
        if cell.cell_type == "code" and cell.source.startswith("def "):
            exec(cell.source, namespace)
    return {name: namespace[name] for name in homework.functions}


def test_there_are_four_homeworks_of_twenty_points():
    assert NAMES == ("hw1", "hw2", "hw3", "hw4")
    assert {load(name).points for name in NAMES} == {20}
    assert all(4 <= len(load(name).questions) <= 6 for name in NAMES)
    assert all(sum(question.function is None for question in load(name).questions) == 1 for name in NAMES)


@every_homework
def test_the_points_of_the_tests_are_the_points_of_the_question(name):
    homework = load(name)
    found = outcomes(homework, vars(homework.solutions()))
    for question in homework.functions.values():
        assert sum(o.points for o in found if o.question == question.name) == question.points, question.name


@every_homework
@pytest.mark.parametrize("seed", [0, 1, 2026])
@pytest.mark.parametrize("variant", [0, 1, 2, 3])
def test_reference_solutions_earn_full_marks(name, seed, variant):
    homework = load(name)
    found = outcomes(homework, vars(homework.solutions(variant)), variant=variant, seed=seed)
    assert [outcome.message for outcome in found if outcome.message] == []


@every_homework
def test_stubs_earn_nothing(name):
    homework = load(name)
    assert [outcome.title for outcome in outcomes(homework, stubs(homework)) if not outcome.message] == []


@every_homework
@pytest.mark.parametrize("variant", [0, 1, 2, 3])
@pytest.mark.parametrize("answer", [0, 0.5, 1, 2, 3, 4, np.inf, np.nan, True, [], (0, 0), "memory"], ids=repr)
def test_an_answer_that_does_not_depend_on_the_arguments_earns_nothing(name, variant, answer):
    homework = load(name)
    functions = dict.fromkeys(homework.functions, lambda *arguments: answer)
    assert [o.title for o in outcomes(homework, functions, variant=variant) if not o.message] == []


@every_homework
def test_the_notebook_is_valid_without_outputs_and_has_stub_check_and_answer_for_each_question(name):
    homework, notebook = load(name), source_of(load(name))
    nbformat.validate(notebook)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert all(cell.outputs == [] and cell.execution_count is None for cell in code)
    sources = [cell.source for cell in notebook.cells]
    for question in homework.questions:
        assert any(s.startswith(f"## {question.name}. ") and f"({question.points} points" in s for s in sources)
        if question.function:
            assert sum(f"def {question.function}(" in s for s in sources) == 1
            assert f'check("{question.name}", {question.function})' in sources
        else:
            assert sources.count(f"**Your answer to {question.name}**") == 1


@every_homework
def test_stubs_are_typed_and_say_what_they_return(name):
    homework = load(name)
    for cell in source_of(homework).cells:
        if cell.cell_type == "code" and cell.source.startswith("def "):
            stub = ast.parse(cell.source).body[0]
            assert all(argument.annotation for argument in stub.args.args) and stub.returns, stub.name
            assert "Returns" in ast.get_docstring(stub), stub.name


@every_homework
def test_the_notebook_of_a_variant_has_its_constants_and_no_others(name):
    homework, path = load(name), FOLDER / load(name).notebook
    assert json.loads(notebook_of(homework, path)) == json.loads(path.read_text(encoding="utf-8"))
    changed, text = homework.values(1), notebook_of(homework, path, 1)
    assert all(homework.values(0)[key] != changed[key] for key in changed) and changed
    for constant in homework.constants:
        for phrase in constant.phrases:
            assert json.dumps(phrase.format(changed[constant.name]), ensure_ascii=False)[1:-1] in text


@every_homework
@pytest.mark.parametrize("year", [1, -1])
@pytest.mark.parametrize("variant", [1, 2, 3, 4])
def test_answers_of_another_year_earn_at_most_a_quarter_of_each_question(name, variant, year):
    homework = load(name)
    found = outcomes(homework, vars(homework.solutions(variant - year)), variant=variant)
    for question in homework.functions.values():
        earned = sum(outcome.earned for outcome in found if outcome.question == question.name)
        assert earned <= question.points / 4, question.name


@every_homework
def test_the_notebook_runs_with_its_stubs(name, tmp_path):
    code = [cell.source for cell in source_of(load(name)).cells if cell.cell_type == "code"]
    script = tmp_path / "stubs.py"
    script.write_text("\n\n".join(code), encoding="utf-8")
    run = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=60)
    assert run.returncode == 0, run.stderr


def test_the_library_knows_nothing_of_homework_and_homework_no_formula():
    library = [path.read_text(encoding="utf-8") for path in (ROOT / "moe_lib").rglob("*.py")]
    assert not any("moe_homework" in text for text in library)
    own = [path for path in (ROOT / "moe_homework").glob("*.py")]
    lines = {line.strip() for path in own for line in path.read_text(encoding="utf-8").splitlines()}
    assert {line for line in lines if "import" in line and "moe_lib" in line} == {
        "import moe_lib",
        "from moe_lib import figures",
    }


def test_importing_a_check_is_quick_and_loads_no_charts():
    code = "import sys; from moe_homework.hw1 import check; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert not {"altair", "pandas", "IPython", "nbformat"} & set(loaded)


# Values that cross

plain = st.none() | st.booleans() | st.integers(-(2**80), 2**80) | st.floats() | st.text(max_size=20)
dtypes = st.sampled_from(["?", "i1", "<i4", ">i8", "u2", "f2", "<f4", ">f8", "c16"])
arrays = hnp.arrays(dtypes, hnp.array_shapes(min_side=0))
values = st.recursive(
    plain | arrays,
    lambda inner: st.lists(inner, max_size=4)
    | st.tuples(inner, inner)
    | st.dictionaries(st.text(max_size=5) | st.integers(), inner, max_size=3),
    max_leaves=8,
)


@given(values)
def test_a_value_crosses_and_comes_back_equal(value):
    back = decode(from_line(to_line(encode(value))))
    assert type(back) is type(value)
    assert show(back, None) == show(value, None)


ungraded = [{1, 2}, object(), np.array([object()]), np.array(["a"]), np.zeros(2, "i4,f8"), lambda: 1]


@pytest.mark.parametrize("value", ungraded, ids=range(len(ungraded)))
def test_what_cannot_be_graded_is_refused_when_it_is_sent(value):
    with pytest.raises(TypeError, match="cannot be graded"):
        encode(value)


array = encode(np.zeros(3))
forged = [
    5, [], {}, {"value": []}, {"list": 5}, {"dict": [[{"list": []}, {"value": 1}]]}, {"dict": [1]},
    array | {"shape": [4]}, array | {"shape": [-3]}, array | {"shape": [3, 0]}, array | {"shape": [True, 3]},
    array | {"dtype": "|O"}, array | {"dtype": "<i4,<f8"}, array | {"dtype": "V8"}, array | {"array": "!!"},
    array | {"array": 5}, array | {"shape": [1] * 99}, {"scalar": array["array"], "dtype": "<f8", "shape": [3]},
    {"list": [{"value": 1}] * (MOST_VALUES + 1)},
]  # fmt: skip


@pytest.mark.parametrize("data", forged, ids=range(len(forged)))
def test_forged_values_are_refused_when_they_are_read(data):
    with pytest.raises(ValueError):
        decode(data)


@pytest.mark.parametrize("line", [b"", b"{", b"[" * 100_000, b"\xff\xfe", b"9" * 10_000])
def test_lines_that_are_no_message_are_refused(line):
    with pytest.raises(ValueError):
        from_line(line)


# What a student reads


@pytest.mark.parametrize(
    ("got", "right", "says"),
    [
        (None, 0.5, "expected 0.5, got None: is a return missing?"),
        (0.25, 0.5, "expected 0.5, got 0.25"),
        (0.51, 0.5, "expected 0.5, got 0.51 (2.00% too high)"),
        (float("nan"), 0.5, "expected 0.5, got nan"),
        ("0.5", 0.5, "expected 0.5, got '0.5', which is not a number"),
        (True, 1, "expected 1, got True, which is not a number"),
        (1, True, "expected True, got 1"),
        ([0.5], 0.5, "expected one number, 0.5, got shape (1,), [0.5]"),
        (0.5, np.array([0.5, 0.5]), "expected an array of shape (2,), array([0.5, 0.5]), got one number, 0.5"),
        ([1, 2, 4], np.array([1, 2, 3]), "at [2] expected 3, got 4 (1 of 3 elements differ)"),
        ([[1], [2, 3]], np.array([1, 2]), "expected array([1, 2]), got a ragged list"),
        ((1, 2), (1, 3), "value 1: expected 3, got 2"),
        ((1,), (1, 3), "expected 2 values, (1, 3), got (1,)"),
        ({"a": 1}, {"a": 2}, "'a': expected 2, got 1"),
        ({"b": 1}, {"a": 2}, "expected a dict with the keys ['a'], got ['b']"),
        (2 + 1j, 2.0, "expected 2.0, got (2+1j), which is not a number"),
    ],
)
def test_a_difference_names_what_was_expected_and_what_came(got, right, says):
    assert difference(got, right) == says


@pytest.mark.parametrize(
    ("got", "right"),
    [
        (1, 1.0), (np.float32(0.5), 0.5), ([1, 2], np.array([1.0, 2.0])), (np.array(3), 3), ([1, "a"], (1, "a")),
        (np.nan, np.nan),
    ],  # fmt: skip
)
def test_an_answer_in_another_form_is_right_too(got, right):
    assert difference(got, right) == ""


def test_the_whole_line_shows_the_call_and_is_one_line():
    with pytest.raises(Wrong) as caught:
        expect(lambda a, b=1: 3, np.arange(1000), b="\n\x1b[31m", gives=4)
    assert str(caught.value).startswith("<lambda>(array([0, 1, 2, 3, 4, 5, 6, 7, ...], shape (1000,)), b=")
    assert str(caught.value).isprintable() and str(caught.value).endswith("expected 4, got 3")


SHAPE = "of arrays of shape (2, 2)"


@pytest.mark.parametrize(
    ("got", "says"),
    [
        (np.array([[11, 0], [4, 5]]), f"f(1, 20), as element [0, 1] {SHAPE}: expected 21, got 0; 3 of 4"),
        ([[11, 21], [12, 1]], f"f(2, 20), as element [1, 1] {SHAPE}: expected 22, got 1; 1 of 4 elements differ"),
        ([[11, 21], [12]], "f(array([[1], [2]]), array([10, 20])): expected array([[11, 21], [12, 22]]), got a ragged"),
        (np.zeros(2), "f(array([[1], [2]]), array([10, 20])): expected an array of shape (2, 2), "),
        (None, "f(array([[1], [2]]), array([10, 20])): expected array([[11, 21], [12, 22]]), got None"),
    ],
)
def test_of_arrays_the_call_for_the_first_wrong_element_is_told(got, says):
    def f(*arguments):
        return got

    first, second = np.array([[1], [2]]), np.array([10, 20])
    with pytest.raises(Wrong) as caught:
        expect(f, first, second, gives=first + second, elementwise=True)
    assert str(caught.value).startswith(says)


def test_a_changed_argument_is_named():
    with pytest.raises(Wrong, match=r"changes its argument; array\(\[2, 1\]\) became array\(\[1, 2\]\)"):
        expect_unchanged(lambda a: a.sort(), np.array([2, 1]))


@given(st.text())
def test_one_line_is_short_and_printable(text):
    line = one_line(text * 50)
    assert len(line) <= 410 and (line.isprintable() or not line)


# check

solution, check = load("hw1").solutions(), checking.checker(load("hw1"))
asked = load("hw1").questions[0]


def test_a_right_answer_earns_all_points():
    answer = check(asked.name, getattr(solution, asked.function))
    assert (answer.earned, answer.message) == (asked.points, "") and "all" in repr(answer)


@pytest.mark.parametrize(
    ("function", "says"),
    [
        (lambda *a: None, "is a return missing?"),
        (lambda *a: 1 / 0, "raised ZeroDivisionError: division by zero (in line"),
        (lambda *a: sys.exit(1), "raised SystemExit: 1"),
        (lambda *a: {1}, "a value of type set cannot be graded"),
        (lambda: 1, "raised TypeError"),
    ],
)
def test_a_wrong_answer_is_told_in_one_line(function, says):
    answer = check(asked.name, function)
    assert answer.earned == 0 and says in answer.message and answer.message.startswith(f"{asked.function}(")
    assert "\n" not in repr(answer) and "Traceback" not in repr(answer)
    assert f"tests passed. {answer.title}: {answer.message}" in repr(answer) and len(answer.title) > 10


def test_an_endless_loop_is_stopped():
    function = checking.called("f", lambda: exec("while True: pass"), seconds=0.2)
    for says in ("within 0.2 s", "within 0.2 s", "not called"):
        with pytest.raises(Wrong, match=says):
            function()


def test_prints_of_a_function_do_not_flood_the_answer(capsys):
    check(asked.name, lambda *a: print("x" * 1000))
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("question", "function", "error"),
    [("q9", abs, "has the questions"), (asked.name, 3, "takes the function")],
)
def test_a_check_of_what_is_no_question_or_no_function_says_so(question, function, error):
    with pytest.raises((ValueError, TypeError), match=error):
        check(question, function)


def test_a_check_of_an_answer_in_words_says_that_a_person_reads_it():
    words = load("hw1").in_words[0].name
    with pytest.raises(ValueError, match="a person reads"):
        check(words, abs)


@pytest.mark.parametrize("variant", [-1, 0.5, True, "1"])
def test_a_variant_is_a_whole_number(variant):
    with pytest.raises(ValueError, match="variant must be"):
        moe_homework.hw1.checker(variant)
