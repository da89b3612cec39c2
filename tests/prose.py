"""How dense a page's running prose is: numbers in a hundred words, and words in a sentence.

    python tests/prose.py notebooks/06_offloading.ipynb

Running prose is what a reader reads from top to bottom: no headings, tables, formulas, code, boxes, exercises, notes or
folded parts. A number is a word with a digit in it; names of models and devices, pages and equations are none.
"""

import re
import sys
from pathlib import Path
from typing import NamedTuple

import nbformat

NAMES = re.compile(
    r"DeepSeek-V\d(?:-Flash)?|\bV\d\b|Llama[ -]\d[\w.]*(?: \d+B)?|Mixtral 8x7B|[A-Z][\w.]*-\d+[A-Za-z][\w.-]*|"
    r"\b[ABHL]\d{2,3}\b|RTX[ -]?\d+|GB\d+|MI\d+\w*|B200|DDR\d(?:-\d+)?|PCIe \d|"
    r"FP\d\b|BF16|INT\d|\bR1\b|\bGLM-[\d.]+|\bQwen[\d.]+|"
    r"\b[Pp]ages? \d\d(?: (?:and|to) \d\d)?|\b(?:TP|DP|EP)\d+(?:x?[A-Z+]+\d+)*|hw\d")
LEFT_OUT = [
    re.compile(r"<!--.*?-->", re.DOTALL), re.compile(r"^(:{3,}|`{3,}).*?^\1\s*$", re.DOTALL | re.MULTILINE),
    re.compile(r"\$\$.*?\$\$", re.DOTALL), re.compile(r"\\begin\{.*?\\end\{\w+\*?\}", re.DOTALL),
    re.compile(r"<details.*?</details>", re.DOTALL), re.compile(r"^[#|>].*$", re.MULTILINE),
    re.compile(r"\{[\w:]+\}`[^`]*`"), re.compile(r"(?<=\])\([^)]*\)"), re.compile(r"^ *(?:[-*]|\d+\.) ", re.MULTILINE)]


class Density(NamedTuple):
    words: int
    numbers: int
    sentences: int

    @property
    def numbers_in_100_words(self):
        return 100 * self.numbers / self.words

    @property
    def words_in_a_sentence(self):
        return self.words / self.sentences


def running_prose(path):
    """The paragraphs of a page that are read from top to bottom, one string each."""
    paragraphs = []
    for cell in nbformat.read(path, as_version=4).cells:
        if cell.cell_type == "markdown" and not {"solution", "hide-cell"} & set(cell.metadata.get("tags", ())):
            text = cell.source
            for part in LEFT_OUT:
                text = part.sub(" ", text)
            text = re.sub(r"\$([^$]+)\$", lambda formula: re.sub(r"\s+", "", formula[1]), text)
            paragraphs += [" ".join(part.split()) for part in re.split(r"\n\s*\n", text) if re.search(r"\w\w", part)]
    return paragraphs


def density(paragraphs):
    """Words, numbers and sentences.

    >>> found = density(["DeepSeek-V3 reads 73.3 GB. So each of 64 users waits."])
    >>> print(*found, f"{found.numbers_in_100_words:.0f}")
    10 2 2 20
    """
    words = numbers = sentences = 0
    for text in paragraphs:
        tokens = [token for token in text.split() if re.search(r"\w", token)]
        words += len(tokens)
        numbers += sum(bool(re.search(r"\d", token)) for token in NAMES.sub("name", text).split())
        sentences += len(re.findall(r"[.!?](?=[\s\"')*]|$)", text)) or 1
    return Density(words, numbers, max(sentences, 1))


if __name__ == "__main__":
    for page in map(Path, sys.argv[1:]):
        found = density(running_prose(page))
        print(f"{page.stem}: {found.words:,} words, {found.numbers_in_100_words:.1f} numbers in 100 words, "
              f"{found.words_in_a_sentence:.1f} words in a sentence")
