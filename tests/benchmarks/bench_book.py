"""Time of building the book over executing its notebooks one by one: `.venv/bin/python tests/benchmarks/bench_book.py`.

Bar: at most 1.6. Both in the same run, in turn, median of three; `make book` adds only make itself.
"""

import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median
from time import perf_counter

import nbformat
import yaml
from nbclient import NotebookClient
from tqdm import tqdm

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "book"))
from build import pages  # noqa: E402


def execute_one_by_one(notebooks):
    """Execute each notebook in a kernel of its own, as `make book` has to."""
    for path in notebooks:
        NotebookClient(nbformat.read(path, as_version=4), resources={"metadata": {"path": str(path.parent)}}).execute()


def build_book(folder):
    """Build the site as `make book` does, into `folder`."""
    command = f"from build import build; build({str(folder)!r})"
    subprocess.run([sys.executable, "-c", command], cwd=ROOT / "book", check=True, stdout=subprocess.DEVNULL)


def main(repeats=3):
    """Print both medians and their ratio."""
    named = pages(yaml.safe_load((ROOT / "_toc.yml").read_text()))
    notebooks = [ROOT / f"{page}.ipynb" for page in named if (ROOT / f"{page}.ipynb").is_file()]
    seconds = {"notebooks": [], "book": []}
    for _ in tqdm(range(repeats), desc="notebooks, then book"):
        with tempfile.TemporaryDirectory() as folder:
            for name, run, argument in (("notebooks", execute_one_by_one, notebooks), ("book", build_book, folder)):
                start = perf_counter()
                run(argument)
                seconds[name].append(perf_counter() - start)
    one_by_one, book = median(seconds["notebooks"]), median(seconds["book"])
    print(f"{len(notebooks)} notebooks {one_by_one:.1f} s, book {book:.1f} s, ratio {book / one_by_one:.2f} (bar 1.6)")


if __name__ == "__main__":
    main()
