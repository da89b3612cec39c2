"""Popular statements about serving mixtures of experts, and the table of what a notebook computed for each."""

from __future__ import annotations

import csv
import html
from importlib import resources
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from ._arguments import whole_number

VERDICTS = ("right", "wrong", "depends")
HEAD = ("", "claim", "verdict", "computed", "page")
STYLE = ".moe-only ~ table :is(td, th) {text-align: left !important; vertical-align: top} " + "".join(
    f".moe-only:has([value={verdict}]:checked) ~ * tbody tr:not(:has(.{verdict})) {{display: none}} "
    for verdict in VERDICTS)


class Claim(NamedTuple):
    """One statement: told in our words, with a verdict and the pages that derive it, if any does."""

    claim_id: str
    topic: str
    claim: str
    verdict: str
    pages: tuple[int, ...]


def _claims():
    table = (resources.files(__package__) / "data" / "claims.csv").read_text(encoding="utf-8")
    return tuple(Claim(row["claim_id"], row["topic"], row["claim"], row["verdict"],
                       tuple(map(int, row["pages"].split()))) for row in csv.DictReader(table.splitlines()))


CLAIMS = _claims()


def significant(*values: ArrayLike, digits: int = 6) -> list[float]:
    """Numbers and arrays of them, flat, as floats of so many significant digits.

    >>> print(significant(1342.0527, [2 / 3, 8]))
    [1342.05, 0.666667, 8.0]
    """
    digits = whole_number("digits", digits, 1)
    return [float(f"{value:.{digits}g}") for value in np.hstack(values).ravel()]


class Table:
    """The claims beside what was computed for them, shown by JupyterLab and on the page.

    Parameters
    ----------
    computed : dict of str to str
        What was found, by claim id, for every claim.
    pages : dict of int to str
        File of each page that there is. Others are named, not linked.

    Raises
    ------
    ValueError
        If a claim has nothing computed, or something is computed for no claim.

    >>> table = Table({claim.claim_id: "as said" for claim in CLAIMS}, {1: "01_active_vs_total.ipynb"})
    >>> print(table.counts())
    {'right': 8, 'wrong': 12, 'depends': 16}
    """

    def __init__(self, computed, pages):
        names = {claim.claim_id for claim in CLAIMS}
        if names != set(computed):
            raise ValueError(f"computed must have one text for each claim; not so for "
                             f"{', '.join(sorted(names ^ set(computed)))}")
        self.computed, self.pages = computed, pages

    def counts(self) -> dict[str, int]:
        """How many claims have each verdict."""
        given = [claim.verdict for claim in CLAIMS]
        return {verdict: given.count(verdict) for verdict in VERDICTS}

    def _repr_mimebundle_(self, **_):
        """Markdown for the page, which resolves its links; HTML for JupyterLab, which disables a filter in Markdown."""
        return {"text/markdown": self.markdown(), "text/html": self.html(), "text/plain": f"{len(CLAIMS)} claims"}

    def markdown(self) -> str:
        """Table with a filter by verdict; links as Markdown."""
        rows = [HEAD, ("---",) * len(HEAD), *self._rows("[{0:02}]({1})", "**{}**", str)]
        return "\n".join([self._filter(), "", *(f"| {' | '.join(row)} |" for row in rows)])

    def html(self) -> str:
        """The same as HTML."""
        rows = [HEAD, *self._rows('<a href="{1}">{0:02}</a>', "<strong>{}</strong>", html.escape)]
        head, *body = ("<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in rows)
        return f"{self._filter()}\n<table><thead>{head}</thead><tbody>{''.join(body)}</tbody></table>"

    def _rows(self, link, bold, text):
        topic = None
        for claim in CLAIMS:
            if claim.topic != topic:
                topic = claim.topic
                yield "", bold.format(topic), "", "", ""
            pages = (link.format(page, self.pages[page]) if page in self.pages else f"{page:02}"
                     for page in claim.pages)
            verdict = f'<span class="moe-verdict {claim.verdict}">{claim.verdict}</span>'
            where = " ".join(pages) or "here"
            yield claim.claim_id, text(claim.claim), verdict, text(self.computed[claim.claim_id]), where

    def _filter(self):
        shown = {"all": len(CLAIMS)} | self.counts()
        radios = (f'<label><input type="radio" name="moe-only" value="{of}"{" checked" * (of == "all")}> '
                  f"{of} {count}</label>" for of, count in shown.items())
        return f'<style>{STYLE}</style>\n<p class="moe-only">Show {" ".join(radios)}</p>'
