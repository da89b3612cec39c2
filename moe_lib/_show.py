"""How records print: one short line at a prompt, a small table in a cell."""

import html

import numpy as np

PREFIXES = [(10.0 ** (12 - 3 * place), prefix) for place, prefix in enumerate(["T", "G", "M", "k", "", "m", "µ", "n"])]


def number(value, unit=""):
    """Four digits of a number with its unit, or the range of an array.

    >>> print(number(622.4e9, "B"), number(0.0162, "s"), number(222.44), number([1, 64]), number(0, "B"))
    622.4 GB 16.2 ms 222.4 1 to 64 0 B
    """
    values = np.asarray(value, float)
    if values.ndim:
        ends = (number(of, unit) for of in (values.min(), values.max())) if values.size else ("none",)
        return " to ".join(dict.fromkeys(ends))
    amount, prefix = values.item(), ""
    if unit and np.isfinite(amount) and amount:
        size, prefix = next((pair for pair in PREFIXES if abs(amount) >= pair[0]), PREFIXES[-1])
        amount /= size
    return f"{float(f'{amount:.4g}'):,.15g} {prefix}{unit}".rstrip()


def counted(count, noun):
    """A whole count and what is counted, one or many.

    >>> print(counted(1, "token"), "|", counted(16384, "token"))
    1 token | 16,384 tokens
    """
    return f"{count:,.0f} {noun}{'' if count == 1 else 's'}"


def table(title, facts):
    """HTML of a table with a line for each fact: a label and a text.

    >>> print(table("Two", {"a": "1 < 2"}))
    <table><caption>Two</caption><tr><th>a</th><td>1 &lt; 2</td></tr></table>
    """
    rows = "".join(f"<tr><th>{html.escape(label)}</th><td>{html.escape(str(text))}</td></tr>"
                   for label, text in facts.items())
    return f"<table><caption>{html.escape(title)}</caption>{rows}</table>"


def grid(title, columns, rows):
    """HTML of a table with named columns, a line for each row of texts.

    >>> print(grid("T", ["a"], [["1"]]))
    <table><caption>T</caption><tr><th>a</th></tr><tr><td>1</td></tr></table>
    """
    head = "".join(f"<th>{html.escape(column)}</th>" for column in columns)
    body = "".join(f"<tr>{''.join(f'<td>{html.escape(str(text))}</td>' for text in row)}</tr>" for row in rows)
    return f"<table><caption>{html.escape(title)}</caption><tr>{head}</tr>{body}</table>"
