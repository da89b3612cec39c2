"""Say where the chapter's repository is: `python book/repository.py https://github.com/OWNER/NAME`, or "" for nowhere.

The setting is `repository: url:` in _config.yml; pages read it from there. Three things cannot: CITATION.cff, the
package's metadata in pyproject.toml, and a notebook opened on Google Colab, which finds nothing installed there. This
writes all of them.
"""

import json
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
INSTALL = """import sys

if "google.colab" in sys.modules:  # nothing of the chapter is installed there
    get_ipython().run_line_magic("pip", "install --quiet git+{url}@{branch}")
"""


def set_line(text, pattern, line):
    """The text with the one line that matches replaced."""
    changed, count = re.subn(pattern, lambda _: line, text, flags=re.MULTILINE)
    if count != 1:
        raise ValueError(f"{count} lines match {pattern}")
    return changed


def write_config(path, url):
    """Write the setting, keep the remark behind it."""
    text = path.read_text(encoding="utf-8")
    remark = re.search(r'^  url: "[^"]*"(.*)$', text, re.MULTILINE)[1]
    path.write_text(set_line(text, r'^  url: "[^"]*".*$', f'  url: "{url}"{remark}'), encoding="utf-8")


def write_citation(path, url):
    """Name the repository in the citation, or name none."""
    lines = [line for line in path.read_text(encoding="utf-8").splitlines() if not line.startswith("repository-code:")]
    path.write_text("\n".join(lines + [f"repository-code: {url}"] * bool(url)) + "\n", encoding="utf-8")


def write_metadata(path, url, branch):
    """Write the addresses of the package before its optional dependencies, or take them away."""
    text = re.sub(r"\[project\.urls\]\n(?:.+\n)+\n", "", path.read_text(encoding="utf-8"))
    if url:
        found = {"Repository": url, "Issues": f"{url}/issues", "Changelog": f"{url}/blob/{branch}/CHANGELOG.md"}
        lines = "".join(f'{name} = "{address}"\n' for name, address in found.items())
        after = "[project.optional-dependencies]"
        text = text.replace(after, f"[project.urls]\n{lines}\n{after}")
    path.write_text(text, encoding="utf-8")


def write_notebook(path, url, branch):
    """Put the cell that installs the library on Colab behind a notebook's title, or take it away."""
    notebook = json.loads(path.read_text(encoding="utf-8"))
    cells = [cell for cell in notebook["cells"] if cell["id"] != "colab"]
    if url:
        source = INSTALL.format(url=url, branch=branch).strip().splitlines(keepends=True)
        cells.insert(1, {"cell_type": "code", "execution_count": None, "id": "colab",
                         "metadata": {"tags": ["remove-cell"]}, "outputs": [], "source": source})
    notebook["cells"] = cells
    path.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def set_repository(url, root=ROOT):
    """Write the address of the repository everywhere it has to stand; an empty one takes it away."""
    if url and not re.fullmatch(r"https://github\.com/[\w.-]+/[\w.-]+", url):
        raise ValueError(f"expected https://github.com/OWNER/NAME, got {url}")
    branch = re.search(r"^  branch: (\S+)$", (root / "_config.yml").read_text(encoding="utf-8"), re.MULTILINE)[1]
    write_config(root / "_config.yml", url)
    write_citation(root / "CITATION.cff", url)
    write_metadata(root / "pyproject.toml", url, branch)
    for path in sorted((root / "notebooks").glob("*.ipynb")):
        write_notebook(path, url, branch)


if __name__ == "__main__":
    set_repository(sys.argv[1].removesuffix(".git").rstrip("/"))
