"""What every page keeps: figures in its prose are asserted by its code, and its code cells are few and short.

Run on a page while writing it: `.venv/bin/python tests/page_rules.py notebooks/02_coverage.ipynb`.
"""

import ast
import re
import sys
from pathlib import Path

import nbformat

PREFIXES = {"": 1.0, "k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15, "E": 1e18,
            "m": 1e-3, "u": 1e-6, "µ": 1e-6, "n": 1e-9, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40}  # fmt: skip
WORDS = {"": 1.0, "thousand": 1e3, "million": 1e6, "billion": 1e9, "trillion": 1e12}
SCALES = [10.0 ** (3 * k) for k in range(-6, 7)]

NUMBER = r"\d+(?:,\d{3})*(?:\.\d+)?(?:e[+-]?\d+)?(?:\s?×\s?10\^\{?[-−]?\d+\}?|\^\{?\d+\}?)?"
LIST = rf"{NUMBER}(?:(?:\s?[–-]\s?|\s(?:to|and|or|of|of the)\s|,\s){NUMBER})*"
MEASURES = (
    r"(?P<prefix>[kKMGTPE]i?|[mµun])?(?P<measure>FLOP/s|FLOP/byte|FLOPs|FLOPS|FLOP|B/s|bits?/s|B|bits?|bytes?/s|bytes?|"
    r"tokens?/s|Hz|W|s)(?![\w/])"
)
KINDS = r"(?:routed |shared |active |distinct |different |dark |lit |idle |touched )"
COUNTS = rf"{KINDS}?(?P<count>tokens?|experts?|parameters?|params?)(?: (?:a|per) second)?\b"
RATIOS = r"(?P<ratio>%|percent\b|times\b|[x×](?!\s?[\w\d]))"
QUANTITY = re.compile(
    rf"(?<![\w.,^/-])(?P<numbers>{LIST})(?:[\s-]?(?P<word>thousand|million|billion|trillion)\b)?"
    rf"(?:[\s-]?(?:{MEASURES}|{COUNTS}|{RATIOS}))?"
)
FAMILIES = "Llama|Qwen|Mixtral|Mistral|Phi|Gemma|OLMoE|Granite|Jamba|DBRX|GLM|Kimi|DeepSeek"
NAMED = re.compile(rf"\b(?:{FAMILIES})[\w. -]*?\d+B\b|\d-bits?\b")


def _plain(markdown):
    """Markdown without what is exempt, and with its LaTeX spelt as text."""
    text = re.sub(r"<!--.*?-->", "", markdown, flags=re.DOTALL)
    text = "\n".join(line for line in text.splitlines() if not line.lstrip().startswith(">"))
    text = re.sub(r"\]\([^)]*\)", "]", text)  # addresses of links
    text = text.replace("{,}", ",").replace(r"\%", "%").replace("−", "-").replace("μ", "µ")
    text = re.sub(r"\\(?:times|cdot)\b", "×", text)
    text = re.sub(r"\\(?:text|mathrm|textrm)\s*\{([^}]*)\}", r" \1", text)
    text = re.sub(r"\\[,;:! ]|~|[\u00a0\u2009\u202f]", " ", text)
    return NAMED.sub("", re.sub(r"[$`*]", "", text))


def _value(number):
    """Value and rounding half-width of a number as it is written."""
    match = re.fullmatch(r"([\d,]+(?:\.(\d+))?)(?:e([+-]?\d+))?(?:\s?×\s?10\^\{?([-−]?\d+)\}?|\^\{?(\d+)\}?)?", number)
    digits, decimals, exponent, power_of_ten, power = match.groups()
    if power:
        return float(digits.replace(",", "")) ** int(power), 0.5
    scale = 10.0 ** (int(exponent or 0) + int(power_of_ten or 0))
    return float(digits.replace(",", "")) * scale, 0.5 * 10.0 ** -len(decimals or "") * scale


def quantities(text):
    """Every number with a unit in `text`.

    Returns
    -------
    list of tuples
        As it is written, its value in the unit's base, half the width of its last digit, and the scales that a number
        may have which states it (1,169 GB is 1.169e12, but also 1169).
    """
    found = []
    for match in QUANTITY.finditer(text):
        word, measure, count, ratio = match["word"], match["measure"], match["count"], match["ratio"]
        if not (word or measure or count or ratio):
            continue
        factor = WORDS[word or ""] * PREFIXES[match["prefix"] or ""]
        scales = [*SCALES, factor] if word or measure else [1.0]
        if ratio in ("%", "percent"):
            factor, scales = 0.01, [1.0, 0.01]
        elif measure == "B" and match[0][-2].isdigit():
            factor = 1e9  # 671B: parameters
        for number in re.findall(NUMBER, match["numbers"]):
            value, width = _value(number)
            found.append((match[0].strip(), value * factor, width * factor, scales))
    return found


def _constant(node):
    """Value of an expression of numbers alone (2**16, -1, 671e9 / 8), or None."""
    allowed = (ast.Expression, ast.BinOp, ast.UnaryOp, ast.Constant, ast.operator, ast.unaryop)
    if not all(isinstance(part, allowed) for part in ast.walk(node)):
        return None
    constants = [part.value for part in ast.walk(node) if isinstance(part, ast.Constant)]
    if not all(type(value) in (int, float) for value in constants):
        return None
    return abs(float(eval(compile(ast.Expression(node), "<assert>", "eval"))))


def _numbers_in(node):
    """Numbers that an asserted expression states; tolerances are not among them."""
    if isinstance(node, ast.keyword) and node.arg in ("abs", "rel", "rtol", "atol", "abs_tol", "rel_tol"):
        return
    value = _constant(node) if isinstance(node, ast.expr) else None
    if value is not None:
        yield value
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        for number in re.findall(NUMBER, node.value):
            yield _value(number)[0]
        yield from (value for _, value, _, _ in quantities(node.value))
    tolerance = isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.Lt | ast.LtE) and _is_distance(node.left)
    for child in [node.left] if tolerance else ast.iter_child_nodes(node):
        yield from _numbers_in(child)


def _is_distance(node):
    return isinstance(node, ast.Call) and getattr(node.func, "id", getattr(node.func, "attr", "")) in ("abs", "max")


def cells(path, kind):
    """Cells of one kind of a notebook; a Markdown page is one Markdown cell."""
    path = Path(path)
    if path.suffix == ".md":
        source = path.read_text(encoding="utf-8")
        return [nbformat.v4.new_markdown_cell(source)] if kind == "markdown" else []
    return [cell for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == kind]


def tree(cell):
    """Syntax tree of a code cell, its magics left out."""
    return ast.parse(re.sub(r"^\s*[%!].*$", "", cell.source, flags=re.MULTILINE))


def asserted_numbers(path):
    """Every number that the page's `assert` statements and `assert_...` calls state."""
    numbers = set()
    for cell in cells(path, "code"):
        for node in ast.walk(tree(cell)):
            if isinstance(node, ast.Assert):
                numbers.update(_numbers_in(node.test))
            elif isinstance(node, ast.Call) and getattr(node.func, "attr", "").startswith("assert_"):
                numbers.update(_numbers_in(node))
    return numbers


def unasserted_numbers(path, asserted_by=None):
    """Numbers with units in a page's Markdown that no assert of the page states.

    The rule: a number followed by a unit (B, bytes, bit, FLOP, FLOP/byte, s, W, Hz, with SI or binary prefixes and /s;
    tokens, experts, parameters; %, times, x; thousand to trillion; 671B) must be stated by an `assert` of the page, as
    a number, a constant expression such as `2**16`, or inside a string such as "1,169 GB".

    - Digits: the asserted number, rounded to the decimals shown in the prose, is the prose's number. Prose that says
      1,200 GB needs 1,200, not 1,169: round it in the assert (`round(x, -2)`).
    - Thousands separators do not matter; nor does the unit's scale: 1,169 GB is met by 1169, 1.169e12 or "1.169 TB";
      87 % by 0.87, 0.8689 or 87. Counts (tokens, experts, times) have no scale. A range or list is checked number by
      number.
    - A tolerance (`abs(x - 2) < 0.01`, `rel=1e-3`) states nothing.

    Exempt: block quotes (lines that start with `>`: a quoted claim), HTML comments, addresses of links, and names:
    a size in a model's name (Llama 3.1 70B, Qwen3-30B-A3B), a format's width (4-bit).

    Parameters
    ----------
    path : path of a notebook, or of a Markdown page (which has no asserts of its own)
    asserted_by : paths whose asserts count; the page itself if None

    Returns
    -------
    list of str
        Each number as it is written, empty if all are asserted.
    """
    stated = set().union(*(asserted_numbers(page) for page in asserted_by or [path]))
    faults = []
    for cell in cells(path, "markdown"):
        for written, value, width, scales in quantities(_plain(cell.source)):
            near = width * (1 + 1e-9) + 1e-12 * value
            if not any(abs(number * scale - value) <= near for number in stated for scale in scales):
                faults.append(written)
    return faults


def shape_faults(path, fewest=8, most=20, longest=12, longest_function=6):
    """What is too long or too much in a notebook's code: cells, lines, functions.

    Checks, exercises and cells that a page does not show are not counted among the cells. A comment on the first line
    of a cell is its name, and does not count as a line.
    """
    code = cells(path, "code")
    others = {"check", "exercise", "solution", "remove-cell"}
    own = [cell for cell in code if not others & set(cell.metadata.get("tags", []))]
    faults = [] if fewest <= len(own) <= most else [f"{len(own)} code cells, not {fewest} to {most}"]
    for position, cell in enumerate(code, start=1):
        lines = [line for line in cell.source.splitlines() if line.strip()]
        lines = lines[1:] if lines and lines[0].startswith("#") else lines
        if len(lines) > longest:
            faults.append(f"code cell {position} has {len(lines)} lines, more than {longest}")
        for node in ast.walk(tree(cell)):
            if isinstance(node, ast.FunctionDef) and node.end_lineno - node.lineno >= longest_function:
                faults.append(f"{node.name} is longer than {longest_function} lines")
    return faults


if __name__ == "__main__":
    for page in sys.argv[1:]:
        for fault in [f"not asserted: {number}" for number in unasserted_numbers(page)] + shape_faults(page):
            print(f"{page}: {fault}")
