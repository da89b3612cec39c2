"""Execute every notebook and build the site: `make book`.

Warnings are errors. A page of `_toc.yml` that did not come out is an error too, because Jupyter Book does not say so.
With SOLUTIONS=0 in the environment the page of homework solutions is left out.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import slides
import yaml

ROOT = Path(__file__).resolve().parent.parent
SOLUTIONS = "book/homework_solutions"


def without(page, toc):
    """A table of contents without one page."""
    if isinstance(toc, list):
        return [without(page, entry) for entry in toc if not (isinstance(entry, dict) and entry.get("file") == page)]
    if isinstance(toc, dict):
        return {key: without(page, value) for key, value in toc.items()}
    return toc


def pages(toc):
    """Every page that a table of contents names, in reading order."""
    if isinstance(toc, list):
        return [page for entry in toc for page in pages(entry)]
    own = [toc[key] for key in ("root", "file") if key in toc]
    return own + [page for key in ("parts", "chapters", "sections") for page in pages(toc.get(key, []))]


def run(command):
    """Run a command that says much; None where it succeeds, else its lines that tell of errors and warnings."""
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, encoding="utf-8", errors="replace") as process:
        said = []
        for line in process.stderr:
            print(line, end="", file=sys.stderr, flush=True)
            said.append(re.sub(r"\x1b\[[0-9;]*m", "", line).rstrip())
    faults = [line for line in said if re.search(r"\b(?:ERROR|CRITICAL|WARNING)\b: ", line)]
    return dict.fromkeys(faults) if process.returncode else None


def changed_notebooks():
    """A line that says which notebooks differ from the last commit: JupyterLab saves what one tries."""
    command = ["git", "diff", "--name-only", "--", "notebooks"]
    try:
        said = subprocess.run(command, cwd=ROOT, capture_output=True, text=True).stdout
    except FileNotFoundError:
        said = ""
    names = ", ".join(Path(name).stem for name in said.split())
    return [f"Changed since the last commit: {names}. `git checkout notebooks` takes that back."] if names else []


def build(output=ROOT):
    """Build the site into `output`/_build/html and return that folder; SystemExit says what went wrong."""
    site = Path(output, "_build", "html")
    shutil.rmtree(site, ignore_errors=True)
    toc = yaml.safe_load((ROOT / "_toc.yml").read_text(encoding="utf-8"))
    toc = without(SOLUTIONS, toc) if os.environ.get("SOLUTIONS") == "0" else toc
    Path(output, "_build").mkdir(parents=True, exist_ok=True)
    used = Path(output, "_build", "toc.yml")
    used.write_text(yaml.safe_dump(toc, sort_keys=False), encoding="utf-8")
    jupyter_book = shutil.which("jupyter-book", path=Path(sys.executable).parent)
    command = [jupyter_book, "build", str(ROOT), "--path-output", str(output), "--toc", str(used)]
    faults = run([*command, "--all", "--warningiserror", "--keep-going"])
    if faults is not None:
        shutil.rmtree(site, ignore_errors=True)  # a half-made site looks like a whole one
        sys.exit("\n".join(["The book was not built:", *(faults or ["the errors are above."]), *changed_notebooks()]))
    missing = [page for page in pages(toc) if not (site / f"{page}.html").is_file()]
    if missing:
        sys.exit(f"The book lacks pages that _toc.yml names: {', '.join(missing)}.")
    slides.write_decks(site)
    return site


if __name__ == "__main__":
    print(f"Open {build() / 'index.html'}")
