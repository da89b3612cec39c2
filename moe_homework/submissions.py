"""Find what students handed in, and read it without running it."""

import ast
import json
import re
from collections import Counter
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from urllib.parse import quote

import nbformat

MOST_BYTES = 20 << 20  # of one file
ENDINGS = (".ipynb", ".py")
COPY = re.compile(r" ?\(\d+\)$")  # what a browser appends to a second download
CELL_MARK = re.compile(r"^# ?(?:%%|In ?\[[ \d]*\]:).*$", re.MULTILINE)  # of editors, and of exported notebooks
HEADING = re.compile(r"#+ q\d+\b", re.IGNORECASE)
ANSWER = re.compile(r"\W*Your answer to (q\d+)\W*$", re.IGNORECASE)
LONGEST_ANSWER = 20_000  # characters of an answer in words; a spreadsheet takes 32,767


class Unreadable(ValueError):
    """A file that is no submission; the text says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Handed:
    """One student's submission: the newest of their files, and the others."""

    student: str
    path: Path
    older: tuple[Path, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Content:
    """What a submission holds: sources of its code cells, its answers in words, remarks on what was odd."""

    cells: tuple[str, ...]
    words: dict = field(default_factory=dict)
    variant: int | None = None


def find(folder, notebook):
    """What each student handed in, sorted by name.

    A student is called as the file, without its ending and a browser's "(1)". A folder in which a file is called as the
    homework's notebook, as in a classroom's repositories, is one student's, called as the folder; its other files do
    not count. Files of one name in several folders are not taken for one student's: nobody can replace another's.

    Parameters
    ----------
    folder : path
        Searched with its subfolders; hidden ones are left out.
    notebook : str
        File name of the homework's notebook.

    Raises
    ------
    FileNotFoundError
        If there is no such folder, or nothing in it.
    """
    folder, own = Path(folder), Path(notebook).stem
    if not folder.is_dir():
        raise FileNotFoundError(f"{folder} is not a folder")
    found = []
    for path in sorted(folder.rglob("*")):
        inside = path.relative_to(folder).parts[:-1]
        hidden = any(part.startswith(".") for part in inside) or path.name.startswith("._")  # which macOS adds to a zip
        if path.suffix.lower() in ENDINGS and not hidden:
            stem = COPY.sub("", path.stem) or path.stem
            found.append((path, inside[0] if inside else stem, stem))
    if not found:
        raise FileNotFoundError(f"{folder} holds no .ipynb or .py file")
    owned = {top for path, top, stem in found if stem == own and path.parent != folder}
    files = {}
    for path, top, stem in found:
        if path.parent == folder or top not in owned or stem == own:
            files.setdefault((top, top if top in owned else stem), []).append(path)
    times, handed = Counter(student for _, student in files), []
    for (top, student), paths in files.items():
        name = student if times[student] == 1 or top == student else f"{top}/{student}"
        newest, *older = sorted(paths, key=lambda path: (path.lstat().st_mtime, path.name), reverse=True)
        handed.append(Handed(student=_printable(name), path=newest, older=tuple(older)))
    return sorted(handed, key=lambda one: one.student)


def _printable(name):
    """A name in which what cannot be printed is spelt with percent signs."""
    return "".join(c if c.isprintable() else quote(c, safe="", errors="surrogateescape") for c in name)


def read(path, homework):
    """The content of a submission.

    Parameters
    ----------
    path : path
        A notebook of any format since version 1, or a Python file.
    homework : Homework

    Raises
    ------
    Unreadable
        If it is no regular file, too large, not text, or no notebook.
    """
    if path.is_symlink() or not path.is_file():
        raise Unreadable("it is not a regular file")
    try:
        size = path.stat().st_size
        if size > MOST_BYTES:
            raise Unreadable(f"the file is too large: {size / 1e6:.0f} MB, at most {MOST_BYTES / 1e6:.0f} MB are read")
        text = _unix(path.read_bytes().decode("utf-8-sig"))
    except UnicodeDecodeError:
        raise Unreadable("the file is not UTF-8 text") from None
    except OSError as error:
        raise Unreadable(f"the file cannot be read: {error.strerror}") from None
    if not text.strip():
        raise Unreadable("the file is empty")
    return _script(text, homework) if path.suffix.lower() == ".py" else _notebook(text, homework)


def _unix(text):
    """Text whose lines all end as they do on Linux."""
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _script(text, homework):
    """A Python file: a cell for each mark such as `# %%`, or for each statement where there is none."""
    if CELL_MARK.search(text):
        cells = [cell for cell in CELL_MARK.split(text) if cell.strip()]
    else:
        cells = _statements(text)
    return Content(cells=tuple(cells), words=_words(_comments(text), homework), variant=_variant(cells))


def _statements(text):
    """The top-level statements of a program one by one, or its blocks where it does not compile."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return _blocks(text)
    lines, starts = text.split("\n"), []
    for node in tree.body:
        starts.append(min([node.lineno, *(decorator.lineno for decorator in getattr(node, "decorator_list", []))]) - 1)
    return ["\n".join(lines[a:b]) for a, b in pairwise([*starts, len(lines)])]


def _blocks(text):
    """Pieces of a program that begin after an empty line with a line that is not indented."""
    blocks, after_empty = [[]], False
    for line in text.split("\n"):
        if after_empty and line and line[0] not in " \t#)]}":
            blocks.append([])
        blocks[-1].append(line)
        after_empty = not line.strip()
    return ["\n".join(lines) for lines in blocks]


def _comments(text):
    return ["\n".join(line.lstrip("# ") for line in text.splitlines() if line.startswith("#"))]


def _notebook(text, homework):
    try:
        data = json.loads(text)
    except json.JSONDecodeError as error:
        raise Unreadable(f"the file is not a complete notebook: {error.msg} in line {error.lineno}") from None
    except (ValueError, RecursionError):
        raise Unreadable("the file is not a notebook") from None
    if not isinstance(data, dict):
        raise Unreadable("the file is not a notebook")
    try:
        cells = _cells(data)
    except Exception as error:  # a malformed notebook can fail in any way inside nbformat
        raise Unreadable(f"the file is not a notebook that can be read: {type(error).__name__}") from None
    language = _language(data)
    if language not in ("", "python"):
        raise Unreadable(f"the notebook is written for {language[:40]}, not for Python")
    code = tuple(source for kind, source in cells if kind == "code" and source.strip())
    words = _words([source for kind, source in cells if kind != "code"], homework)
    return Content(cells=code, words=words, variant=_variant(code))


def _cells(data):
    """(kind, source) of each cell; notebooks before version 4 are converted first."""
    if data.get("nbformat", 4) < 4:
        data = nbformat.convert(nbformat.from_dict(data), 4)
    cells = []
    for cell in data["cells"]:
        if isinstance(cell, dict):
            cells.append((str(cell.get("cell_type")), _unix("".join(cell.get("source") or ""))))
    return cells


def _language(data):
    """Language of a notebook's kernel in small letters, "" where it does not say."""
    match data.get("metadata"):
        case {"kernelspec": {"language": str(name)}} if name:
            return name.lower().removeprefix("i")
        case {"language_info": {"name": str(name)}}:
            return name.lower().removeprefix("i")
    return ""


def _words(texts, homework):
    """{question: answer} of the questions that are answered in words.

    An answer begins below the line "**Your answer to q5**" and goes on until the next question.
    """
    answers = {question.name: [] for question in homework.in_words}
    into = None
    for line in "\n\n".join(texts).splitlines():
        mark = ANSWER.match(line)
        if mark or HEADING.match(line):
            into = answers.get(mark[1].lower()) if mark else None
        elif into is not None:
            into.append(line)
    return {name: _readable("\n".join(lines).strip()) for name, lines in answers.items()}


def _readable(text):
    """Text without control characters, cut where it is too long to be read."""
    more = f"\n... ({len(text):,} characters in all)" if len(text) > LONGEST_ANSWER else ""
    kept = (c if c.isprintable() or c in "\n\t" else " " if c.isspace() else "" for c in text[:LONGEST_ANSWER])
    return "".join(kept) + more


def _variant(cells):
    """The variant that a notebook names in its first cells."""
    found = re.search(r"\bvariant\s*=\s*(\d{1,6})\b", "\n".join(cells[:3]))
    return int(found[1]) if found else None
