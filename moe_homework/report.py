"""What a lecturer and a student get: a table of points, a chart, files for Gradescope, feedback in Markdown."""

import csv
import hashlib
import io
import json
import os
import re
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path
from urllib.parse import quote

from .run import Outcome
from .submissions import MOST_BYTES

BY_HAND = "words.csv"  # answers that a person reads; the points that are filled in there are kept
WORDS = ["student", "question", "points", "of", "answer", "note", "changed"]
CHANGED = "the answer changed after its points were given"
RESULTS = "results.json"
LONGEST_NAME = 50  # characters of a folder's name, each of up to 4 bytes; 255 bytes are possible
FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")  # what a spreadsheet takes for one's beginning
SHARES = ["all", "some", "none"]  # of a question's points


@dataclass(frozen=True, slots=True, kw_only=True)
class Grade:
    """What one submission got.

    Attributes
    ----------
    outcomes : tuple of Outcome
        Of every graded test.
    words : dict
        {question: answer} of the questions that a person reads.
    remarks : tuple of str
        What was odd, a sentence each.
    """

    student: str
    file: str
    outcomes: tuple[Outcome, ...]
    words: dict
    remarks: tuple[str, ...]

    def earned(self, question=None):
        """Points of the tests of one question, or of all."""
        return sum(outcome.earned for outcome in self.outcomes if question in (None, outcome.question))

    def possible(self, question=None):
        """Points that the tests of one question, or of all, could give: further tests add theirs."""
        return sum(outcome.points for outcome in self.outcomes if question in (None, outcome.question))


def folder_of(out, student):
    """Folder of one student's files; a name that would lead elsewhere is spelt with percent signs.

    >>> print(folder_of("out", "ada").as_posix(), folder_of("out", "..").as_posix())
    out/students/ada out/students/%2E%2E

    A long name is cut, and a number that is its own takes the place of the rest.
    """
    safe = "".join(c if c.isalnum() or c in " _-." else quote(c, safe="") for c in student)
    safe = safe.replace(".", "%2E") if safe.startswith(".") or safe.endswith((".", " ")) else safe
    if len(safe) > LONGEST_NAME:
        safe = f"{safe[:LONGEST_NAME]}-{hashlib.sha256(student.encode()).hexdigest()[:16]}"
    return Path(out, "students", safe)


def fingerprint(handed, how):
    """Of all that a grade depends on: the files, and `how` they are graded. Equal means graded already."""
    try:
        readable = handed.path.is_file() and handed.path.stat().st_size <= MOST_BYTES
        content = handed.path.read_bytes() if readable else b""
    except OSError:
        content = b""
    names = [handed.path.name, *(path.name for path in handed.older)]
    return hashlib.sha256(content + repr((names, how)).encode()).hexdigest()


def kept(out, handed, mark):
    """The grade that an earlier run wrote with the same fingerprint `mark`, or None."""
    try:
        data = json.loads((folder_of(out, handed.student) / RESULTS).read_text(encoding="utf-8"))["extra_data"]
        if data["fingerprint"] != mark:
            return None
        outcomes, remarks = tuple(Outcome(**outcome) for outcome in data["outcomes"]), tuple(data["remarks"])
        return Grade(student=handed.student, file=data["file"], outcomes=outcomes, words=data["words"], remarks=remarks)
    except (OSError, ValueError, KeyError, TypeError):  # not there, or not one of ours
        return None


def write_student(out, homework, mark, grade):
    """Write `results.json` in Gradescope's form and `feedback.md` into a student's folder.

    `mark` is the fingerprint that the submission had before it was graded.
    """
    folder = folder_of(out, grade.student)
    folder.mkdir(parents=True, exist_ok=True)
    _write(folder / "feedback.md", feedback(homework, grade))
    kept = {"fingerprint": mark, "file": grade.file, "words": grade.words}
    kept |= {"remarks": grade.remarks, "outcomes": [asdict(outcome) for outcome in grade.outcomes]}
    results = gradescope(homework, grade) | {"extra_data": kept}
    _write(folder / RESULTS, json.dumps(results, indent=1, ensure_ascii=False) + "\n")  # last: it says that all is done


def _write(path, text):
    """Replace a file in one step, so that an interruption leaves the old one or the new one."""
    fresh = path.with_name(path.name + ".new")
    fresh.write_text(text, encoding="utf-8", newline="\n")
    os.replace(fresh, path)


def gradescope(homework, grade):
    """A result in the form that Gradescope reads: one test for each graded test, remarks as output."""
    tests, numbers = [], Counter()
    for outcome in grade.outcomes:
        numbers[outcome.question] += 1
        tests.append(
            {
                "name": f"{outcome.question}: {outcome.title}",
                "number": f"{outcome.question.removeprefix('q')}.{numbers[outcome.question]}",
                "score": outcome.earned,
                "max_score": outcome.points,
                "status": "failed" if outcome.message else "passed",
                "output": outcome.message,
                "output_format": "text",
            }
        )
    return {"tests": tests, "output": "\n".join([*grade.remarks, *_by_hand(homework)]), "output_format": "text"}


def _by_hand(homework):
    """A sentence for each question that a person reads."""
    return [f"{one.name}: a person reads this answer and gives up to {one.points} points" for one in homework.in_words]


def what_happened(question, grade):
    """One sentence on a question: the first test that failed, or that all passed."""
    outcomes = [outcome for outcome in grade.outcomes if outcome.question == question.name]
    first = next((outcome.message for outcome in outcomes if outcome.message), "")
    return first or "all tests passed"


def feedback(homework, grade):
    """What a student reads, in Markdown."""
    graded = homework.functions.values()
    total = f"{grade.earned():g} of {grade.possible():g} points from tests"
    lines = [f"# {homework.title}", "", f"{_code(grade.student)}: {total}.", ""]
    lines += [*_by_hand(homework), ""] if _by_hand(homework) else []
    lines += ["| question | points | what happened |", "|---|---|---|"]
    for question in graded:
        said = what_happened(question, grade)
        said = _code(said).replace("|", "\\|") if said != "all tests passed" else said
        points = f"{grade.earned(question.name):g} of {grade.possible(question.name):g}"
        lines.append(f"| {question.name} {_code(question.function)} | {points} | {said} |")
    if grade.remarks:
        lines += ["", "## Remarks", "", *(f"- {_code(remark)}" for remark in grade.remarks)]
    for question in graded:
        lines += ["", f"## {question.name}", ""]
        for outcome in grade.outcomes:
            if outcome.question == question.name:
                mark = "not passed" if outcome.message else "passed"
                why = f"  \n  {_code(outcome.message)}" if outcome.message else ""
                lines.append(f"- {mark}, {outcome.earned:g} of {outcome.points:g}: {outcome.title}{why}")
    for question, text in grade.words.items():
        quoted = [f"    {line}" for line in text.splitlines()] or ["    (no answer)"]
        lines += ["", f"## {question}, your answer", "", *quoted]
    return "\n".join(lines) + "\n"


def _code(text):
    """Text as a code span, whatever backticks it holds."""
    fence = "`" * (max(map(len, re.findall("`+", text)), default=0) + 1)
    space = " " if text.startswith("`") or text.endswith("`") else ""
    return f"{fence}{space}{text}{space}{fence}"


def write_class(out, homework, grades, trusted=False):
    """Write `grades.csv`, the answers in words, and the chart, which says whether submissions were trusted."""
    path = Path(out, BY_HAND)
    rows = _read_words(path)
    given = _given(rows, path, homework)
    changed = _changed_answers(rows, grades, given)
    _write_words(path, rows, homework, grades, given, changed)
    names = [question.name for question in homework.questions]
    table = [["student", *names, "total", "note"]]
    for grade in grades:
        points = [
            grade.earned(question.name) if question.function else given.get((grade.student, question.name), "")
            for question in homework.questions
        ]
        total = sum(value for value in points if value != "")
        note = _prose(_note(homework, grade, given, changed))
        table.append([_cell(grade.student), *map(_number, points), _number(total), note])
    _write_table(Path(out, "grades.csv"), table)
    if grades:
        chart(homework, grades, trusted).save(str(Path(out, "points.svg")))


def _note(homework, grade, given, changed):
    """Remarks and, for each question without full points, what happened."""
    parts = list(grade.remarks)
    unread = {outcome.message for outcome in grade.outcomes} <= {*grade.remarks}  # one reason for all: said already
    for question in homework.questions:
        if question.function is None:
            if (grade.student, question.name) not in given:
                parts.append(f"{question.name}: a person gives up to {question.points} points")
            if (grade.student, question.name) in changed:
                parts.append(f"{question.name}: {CHANGED}")
        elif what_happened(question, grade) != "all tests passed" and not unread:
            parts.append(f"{question.name}: {what_happened(question, grade)}")
    return "; ".join(parts)


def given_points(out, homework):
    """{(student, question): points} that a person filled in; ValueError where they are no points of the question."""
    path = Path(out, BY_HAND)
    return _given(_read_words(path), path, homework)


def _given(rows, path, homework):
    given = {}
    for number, row in enumerate(rows, start=2):
        if not row["points"].strip():
            continue
        try:
            points, most = float(row["points"].replace(",", ".")), homework.question(row["question"]).points
        except ValueError:
            what = f"{row['points']!r} for {row['question']!r}"
            raise ValueError(f"{path}, row {number}: {what} are no points of {homework.name}") from None
        if not 0 <= points <= most:
            raise ValueError(f"{path}, row {number}: points must be in 0..{most}, not {points:g}")
        given[_text(row["student"]), row["question"]] = points
    return given


def _changed_answers(rows, grades, given):
    """{(student, question)} of the answers that are not those which a person gave points for."""
    words, changed = {grade.student: grade.words for grade in grades}, set()
    for row in rows:
        student, question = _text(row["student"]), row["question"]
        if (student, question) in given and student in words:
            answer = words[student].get(question, "")
            same = [_prose(answer).split(), answer.split()]  # a spreadsheet may take the sign and end lines otherwise
            if row["changed"].strip() or row["answer"].split() not in same:
                changed.add((student, question))
    return changed


def _read_words(path):
    """Rows of the answers in words, as a spreadsheet may have saved them again."""
    if not path.is_file():
        return []
    try:
        text = path.read_text(encoding="utf-8-sig")
        separator = max(",;\t", key=text.partition("\n")[0].count)
        rows = list(csv.DictReader(io.StringIO(text, newline=""), delimiter=separator, restval=""))
    except (UnicodeDecodeError, csv.Error):
        raise ValueError(f"{path} cannot be read: save it as CSV in UTF-8") from None
    if rows and not {*WORDS[:-1]} <= rows[0].keys():
        raise ValueError(f"{path} must have the columns {', '.join(WORDS)}")
    return [dict.fromkeys(WORDS, "") | row for row in rows]  # an older table has no column "changed"


def _write_words(path, rows, homework, grades, given, changed):
    """Write the answers in words, with the points that were filled in; rows with points of other students stay."""
    table, graded = [WORDS], {grade.student for grade in grades}
    for grade in grades:
        for question in homework.in_words:
            points = _number(given.get((grade.student, question.name), ""))
            answer = grade.words.get(question.name, "")
            note = _prose("; ".join(grade.remarks))
            again = (grade.student, question.name) in changed and f"{CHANGED}: read it again, then empty this cell"
            row = [_cell(grade.student), question.name, points, question.points, _prose(answer), note, again or ""]
            table.append(row)
    for row in rows:
        if row["points"].strip() and _text(row["student"]) not in graded:
            table.append([row[column] for column in WORDS])
    _write_table(path, table)


def _write_table(path, table):
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(table)
    _write(path, text.getvalue())


def _number(points):
    return points if points == "" else f"{points:g}"


def _cell(text):
    """Text that no spreadsheet takes for a formula.

    >>> print(_cell("=1+1"))
    '=1+1
    """
    return f"'{text}" if text.startswith(FORMULA) else text


def _prose(text):
    """A longer text as a cell, also where a spreadsheet splits the table at semicolons.

    >>> print(_prose("it stopped; =1+1"))
    it stopped; '=1+1
    """
    return _cell(re.sub(rf"([;\t\n]\s*)(?=[{re.escape(''.join(''.join(FORMULA).split()))}])", r"\1'", text))


def _text(cell):
    """The text that `_cell` made a cell of; a name such as 't Hooft is as it was."""
    return cell[1:] if cell.startswith("'") and cell[1:].startswith(FORMULA) else cell


def chart(homework, grades, trusted=False):
    """How many students have all, some or none of each question's points."""
    import altair as alt

    from moe_lib import figures

    rows = []
    for question in homework.functions.values():
        possible = grades[0].possible(question.name)
        counts = Counter(_share(grade.earned(question.name), possible) for grade in grades)
        label = f"{question.name} {question.function} ({possible:g})"
        for rank, name in enumerate(SHARES):
            rows.append({"question": label, "points": name, "students": counts[name], "rank": rank})
    subtitle = ["graded without isolation"] if trusted else []
    title = alt.TitleParams(f"{homework.name}: {len(grades)} submissions", subtitle=subtitle, anchor="start")
    colours = alt.Scale(domain=SHARES, range=[figures.MEASURED, figures.CACHE, figures.MUTED])
    bars = alt.Chart(alt.Data(values=rows), title=title, width=480, height=alt.Step(32)).mark_bar()
    return bars.encode(
        alt.Y("question:N", title=None, sort=None, axis=alt.Axis(labelLimit=0)),
        alt.X("students:Q", title="students", axis=alt.Axis(tickMinStep=1)),
        alt.Color("points:N", title="of the points", scale=colours),
        alt.Order("rank:Q"),
    )


def _share(earned, possible):
    return "all" if earned == possible else "some" if earned else "none"
