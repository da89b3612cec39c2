"""Execute every notebook and build the site: `make book`.

Warnings are errors. A page of `_toc.yml` that did not come out is an error too, because Jupyter Book does not say so.
"""

import shutil
import subprocess
import sys
from pathlib import Path

import slides
import yaml

ROOT = Path(__file__).resolve().parent.parent


def pages(toc):
    """Every page that a table of contents names, in reading order."""
    if isinstance(toc, list):
        return [page for entry in toc for page in pages(entry)]
    own = [toc[key] for key in ("root", "file") if key in toc]
    return own + [page for key in ("parts", "chapters", "sections") for page in pages(toc.get(key, []))]


def build(output=ROOT):
    """Build the site into `output`/_build/html and return that folder; SystemExit says what went wrong."""
    site = Path(output, "_build", "html")
    shutil.rmtree(site, ignore_errors=True)
    jupyter_book = shutil.which("jupyter-book", path=Path(sys.executable).parent)
    command = [jupyter_book, "build", str(ROOT), "--path-output", str(output)]
    code = subprocess.run([*command, "--all", "--warningiserror", "--keep-going"]).returncode
    if code:
        sys.exit("The book was not built: the errors are above.")
    wanted = pages(yaml.safe_load((ROOT / "_toc.yml").read_text()))
    missing = [page for page in wanted if not (site / f"{page}.html").is_file()]
    if missing:
        sys.exit(f"The book lacks pages that _toc.yml names: {', '.join(missing)}.")
    slides.write_decks(site)
    return site


if __name__ == "__main__":
    print(f"Open {build() / 'index.html'}")
