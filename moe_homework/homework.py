"""What a homework is made of: questions with points, constants that change from year to year, reference solutions."""

import functools
import importlib
import inspect
import json
import types
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
NAMES = tuple(sorted(path.parent.name for path in HERE.glob("hw*/graded.py")))


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """One question: `function` is the name that is graded, None where a person reads the answer."""

    name: str
    points: int
    function: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Constant:
    """A number in the text of a question, which a variant changes.

    `choices[0]` stands in the notebook as it is committed. Each of the `phrases`, with "{}" for the number, occurs in
    the notebook; together they are all the places where the number stands. No argument of a question is called alike.
    """

    name: str
    choices: tuple[int | float, ...]
    phrases: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Homework:
    """A homework: `name` is its folder in this package, which holds `graded.py` and `solutions.py`."""

    name: str
    title: str
    notebook: str
    questions: tuple[Question, ...]
    constants: tuple[Constant, ...] = ()

    @property
    def points(self):
        """All points, those that a person gives among them."""
        return sum(question.points for question in self.questions)

    @property
    def functions(self):
        """{name of a graded function: its question}."""
        return {question.function: question for question in self.questions if question.function}

    @property
    def in_words(self):
        """The questions that a person reads."""
        return [question for question in self.questions if question.function is None]

    @property
    def tests(self):
        """Path of the graded tests."""
        return HERE / self.name / "graded.py"

    def question(self, name):
        """The question of that name; ValueError names those there are."""
        for question in self.questions:
            if question.name == name:
                return question
        raise ValueError(f"{self.name} has the questions {', '.join(q.name for q in self.questions)}, not {name!r}")

    def values(self, variant=0):
        """{name: value} of the constants in a variant; consecutive variants differ in every one."""
        check_whole("variant", variant)
        return {constant.name: constant.choices[variant % len(constant.choices)] for constant in self.constants}

    def solutions(self, variant=0):
        """The reference solutions as a namespace of functions, with the constants of a variant."""
        module, values = importlib.import_module(f"moe_homework.{self.name}.solutions"), self.values(variant)
        bound = {}
        for name in self.functions:
            function = getattr(module, name)
            own = {key: values[key] for key in inspect.signature(function).parameters if key in values}
            bound[name] = functools.partial(function, **own) if own else function
        return types.SimpleNamespace(**bound)


def check_whole(name, value):
    """ValueError, which names the variant or seed, unless it is a whole number from 0 on."""
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise ValueError(f"{name} must be a whole number from 0 on, not {value!r}")


def in_project(*parts):
    """Path of a file of the project around this package; FileNotFoundError where the package is installed alone."""
    path = HERE.parent.joinpath(*parts)
    if not path.exists():
        raise FileNotFoundError(f"{'/'.join(parts)} is missing: call this in a checkout of the project")
    return path


def load(name):
    """The homework of that name, such as "hw1"; ValueError names those there are."""
    if name not in NAMES:
        raise ValueError(f"there is no homework {name!r}: choose one of {', '.join(NAMES)}")
    return importlib.import_module(f"moe_homework.{name}").HOMEWORK


def notebook_of(homework, source, variant=0):
    """The students' notebook of a variant, as JSON text.

    Parameters
    ----------
    homework : Homework
    source : path
        The notebook as it is committed, which is variant 0.
    variant : int

    Raises
    ------
    ValueError
        If a phrase of a constant does not occur in the notebook.
    """
    notebook, values = json.loads(Path(source).read_text(encoding="utf-8")), homework.values(variant)
    old_to_new = {"variant=0": f"variant={variant}"}
    for constant in homework.constants:
        for phrase in constant.phrases:
            old_to_new[phrase.format(constant.choices[0])] = phrase.format(values[constant.name])
    texts = ["".join(cell["source"]) for cell in notebook["cells"]]
    for old in old_to_new:
        if not any(old in text for text in texts):
            raise ValueError(f"{source}: the words {old!r} do not occur")
    for cell, text in zip(notebook["cells"], texts, strict=True):
        for old, new in old_to_new.items():
            text = text.replace(old, new)
        cell["source"] = text.splitlines(keepends=True)
    return json.dumps(notebook, indent=1, ensure_ascii=False) + "\n"

