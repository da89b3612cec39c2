"""Sphinx extension: what stands around a page, for the templates in book/_templates.

Its place in the chapter, its notebook, its slides, where it runs online, when it changed last, where to report an
error. All that needs a repository follows from one setting, `repository: url:` in _config.yml, and is absent while that
is empty.
"""

import json
import re
import shutil
import subprocess
from datetime import date
from functools import cache
from importlib.metadata import version
from pathlib import Path

import nbformat
from docutils import nodes
from sphinx import addnodes
from sphinx.transforms.post_transforms import SphinxPostTransform
from sphinx.util.osutil import relative_uri

GIT = shutil.which("git")
POINT_AFTER_MATH = re.compile(r'(<span class="math notranslate nohighlight">[^<]*</span>)([.,;:?!)]+)')
CELL = re.compile(r"<td\b.*?</td>", re.DOTALL)
CODE_WORD = re.compile(r'(<span class="pre">)([^<]*)(</span>)')
MARK_WITHIN = re.compile(r"(?<=\w)([_/.(=])(?=[A-Za-z])")
UNIT = re.compile(r"(?<=\d) (?=%|(?:[kMGTP]?i?B|[mµn]?s|[MGTP]?FLOP)\b)")  # those of tiles are in moe-chart.js


def repository_on_github(repository):
    """OWNER/NAME of the address of a repository on GitHub; empty for any other.

    >>> print(repository_on_github("https://github.com/a/b.git"))
    a/b
    """
    return repository.removesuffix(".git").rstrip("/").partition("https://github.com/")[2]


def online(repository, branch, path):
    """Actions that run a notebook of a repository on GitHub elsewhere; none without such a repository.

    >>> [action["text"] for action in online("https://github.com/a/b", "main", "notebooks/x.ipynb")]
    ['Colab', 'Binder']
    """
    name = repository_on_github(repository)
    if not name:
        return []
    colab = f"https://colab.research.google.com/github/{name}/blob/{branch}/{path}"
    binder = f"https://mybinder.org/v2/gh/{name}/{branch}?urlpath=lab/tree/{path}"
    return [{"text": "Colab", "icon": "launch", "href": colab, "title": "Run this page on Google Colab"},
            {"text": "Binder", "icon": "launch", "href": binder, "title": "Run this page in JupyterLab on Binder"}]


def last_change(path):
    """Day of the last commit that changed a file, or None outside a git checkout."""
    if GIT is None:
        return None
    command = [GIT, "log", "-1", "--format=%cs", "--", path.name]
    said = subprocess.run(command, cwd=path.parent, capture_output=True, text=True)
    return date.fromisoformat(said.stdout.strip()) if said.returncode == 0 and said.stdout.strip() else None


def has_slides(path):
    """Whether an author marked cells of a notebook for its deck, which book/slides.py makes."""
    cells = nbformat.read(path, as_version=4).cells
    marked = any("slide" in cell.metadata.get("tags", []) or "<!-- slide -->" in cell.source for cell in cells)
    return marked and path.parent.name == "notebooks"


@cache
def parts(env):
    """The part of the table of contents that each page stands in, {page: caption}."""
    found, toctrees = {}, env.get_doctree(env.config.root_doc).findall(addnodes.toctree)
    waiting = [(page, toctree["caption"] or "") for toctree in toctrees for page in toctree["includefiles"]]
    while waiting:
        page, caption = waiting.pop()
        found[page] = caption
        waiting += [(below, caption) for below in env.toctree_includes.get(page, [])]
    return found


def actions(source, pagename, address, repository, branch):
    """What a reader can do with a page beside reading it: download its notebook, show its slides, run it elsewhere."""
    if source.suffix != ".ipynb":
        return []
    found = [{"text": "Notebook", "icon": "download", "href": relative_uri(address, f"_sources/{pagename}.ipynb"),
              "download": source.name, "title": "Download this page as a notebook"}]
    if has_slides(source):
        deck = relative_uri(address, f"slides/{source.stem}.html")
        found.append({"text": "Slides", "icon": "slides", "href": deck, "title": "Show the slides of this page"})
    return found + online(repository, branch, f"{pagename}.ipynb")


def frame(app, pagename, templatename, context, doctree):
    """Put into the context of a page what its templates ask for."""
    options = app.config.html_theme_options
    repository, branch = (options.get("repository_url") or "").rstrip("/"), options.get("repository_branch") or "main"
    numbers = app.env.toc_secnumbers
    last = max((number[0] for of in numbers.values() for number in of.values() if number), default=0)
    place = numbers.get(pagename, {}).get("", ())
    source = Path(app.env.doc2path(pagename))
    changed = last_change(source) if source.is_file() else None
    address = app.builder.get_target_uri(pagename)
    context.update(
        moe_number=place[0] if place else None, moe_last=last,
        moe_part=parts(app.env).get(pagename, ""),
        moe_actions=actions(source, pagename, address, repository, branch) if doctree else [],
        moe_updated=changed and changed.isoformat(), moe_updated_words=changed and f"{changed.day} {changed:%B %Y}",
        moe_repository=repository, moe_version=version("moe-lib"), author=app.config.author)
    if pagename == app.config.root_doc:
        context["moe_part"] = "An executable textbook chapter"
    if "body" in context:  # no line ends between a formula and its full stop
        context["body"] = POINT_AFTER_MATH.sub(r'<span class="moe-keep">\1\2</span>', context["body"])
        context["body"] = break_names(context["body"])


class KeepUnits(SphinxPostTransform):
    """No line ends between a number and its unit."""

    default_priority = 900

    def run(self, **kwargs):
        """Change the page in place."""
        closed = nodes.literal, nodes.FixedTextElement, nodes.math
        for text in list(self.document.findall(nodes.Text)):
            if UNIT.search(text) and not isinstance(text.parent, closed):
                text.parent.replace(text, nodes.Text(UNIT.sub("\u00a0", text)))


def break_names(body):
    """In a table, names in code may go on in the next line after a mark within; an option keeps its dashes anywhere.

    >>> print(break_names('<td><span class="pre">num_layers</span></td><p><span class="pre">--only</span></p>'))
    <td><span class="pre">num_<wbr>layers</span></td><p><span class="pre moe-keep">--only</span></p>
    """
    def in_cell(cell):
        return CODE_WORD.sub(lambda word: word[1] + MARK_WITHIN.sub(r"\1<wbr>", word[2]) + word[3], cell[0])

    return CELL.sub(in_cell, body).replace('<span class="pre">--', '<span class="pre moe-keep">--')


def write_downloads(app, exception):
    """Beside each notebook, a script that hands it over: see book/_static/moe-download.js."""
    for path in Path(app.outdir, "_sources").rglob("*.ipynb"):
        script = f"moeNotebook({json.dumps(path.read_text(encoding='utf-8'))});\n"
        path.with_name(f"{path.name}.js").write_text(script, encoding="utf-8")


def setup(app):
    """Register the hooks, after the theme's own."""
    app.add_post_transform(KeepUnits)
    app.connect("html-page-context", frame, priority=900)
    app.connect("build-finished", write_downloads)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
