"""Sphinx extension: the reference of `moe_lib` from its docstrings, tied both ways to the pages that derive and use it.

A docstring says "notebook 02, eq. 2.1": these words become links. Below an equation stands which functions compute it,
and a page ends with those that its cells use. No page is edited for that.
"""

import ast
import importlib
import inspect
import io
import json
import re
import textwrap
import tokenize
from pathlib import Path

from docutils import nodes
from sphinx.roles import XRefRole
from sphinx.util.nodes import make_refnode

FORMULAS = ("models", "routing", "hardware", "records", "claims", "steps", "roofline", "speculation",
            "offload", "caching", "layouts", "exchange", "measured", "balance", "plan")  # fmt: skip
SHORT = ("moe_lib.figures",)  # the first paragraph of a docstring will do
EQUATION = re.compile(r"notebook\s+(\d\d),\s+eq\.\s+(\d\.\d)(?:\s+and\s+(\d\.\d))?")
NUMBER = "equation-number"


# What the library says.


def module(name):
    """The module of moe_lib that is called so."""
    return importlib.import_module(f"moe_lib.{name}")


def public(name):
    """Functions and classes that a formula module defines for others, by name and in the order of its file."""
    found = module(name)
    own = {key: value for key, value in vars(found).items() if not key.startswith("_") and callable(value)}
    return {key: value for key, value in own.items() if getattr(value, "__module__", "") == found.__name__}


def computed_by():
    """{equation number: full names of the functions whose docstrings name it}, methods among them."""
    found = {}
    for name in FORMULAS:
        for key, value in public(name).items():
            methods = {f".{part}": each for part, each in vars(value).items()} if inspect.isclass(value) else {}
            for tail, each in {"": value, **methods}.items():
                for _, *numbers in EQUATION.findall(getattr(each, "__doc__", "") or ""):
                    for number in filter(None, numbers):
                        found.setdefault(number, []).append(f"moe_lib.{name}.{key}{tail}")
    return found


def constants(name):
    """(name, value or "", comment) of the public constants of a module, with what stands behind `#` on their line."""
    found = module(name)
    source = inspect.getsource(found)
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    comments = {token.start[0]: token.string.lstrip("# ") for token in tokens if token.type == tokenize.COMMENT}
    for node in ast.parse(source).body:
        target = node.targets[0] if isinstance(node, ast.Assign) else None
        if isinstance(target, ast.Name) and not target.id.startswith("_"):
            written = ast.unparse(node.value)
            value = written if len(written) <= 140 and not re.search(r"[a-z]\(|_rows", written) else ""
            yield target.id, value, comments.get(node.end_lineno, "")


def code_of(function):
    """Source of a function without its docstring."""
    source = textwrap.dedent(inspect.getsource(function))
    node, lines = ast.parse(source).body[0], source.splitlines()
    if ast.get_docstring(node) is not None:
        del lines[node.body[0].lineno - 1 : node.body[0].end_lineno]
    return lines


def used_in(notebook):
    """Full names of what the code cells of a notebook take out of moe_lib: formulas first, in the order of use."""
    cells = json.loads(Path(notebook).read_text(encoding="utf-8"))["cells"]
    code = "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code")
    modules, names, used = {}, {}, {}
    for node in ast.walk(ast.parse(re.sub(r"^\s*[%!].*$", "", code, flags=re.MULTILINE))):
        if isinstance(node, ast.ImportFrom) and node.module == "moe_lib":
            modules |= {alias.asname or alias.name: f"moe_lib.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("moe_lib."):
            names |= {alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Name) and node.id in names:
            used.setdefault(names[node.id], node.lineno)
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in modules:
            used.setdefault(f"{modules[node.value.id]}.{node.attr}", node.lineno)
    return sorted(used, key=lambda name: (name.startswith(SHORT), used[name]))


# From the library to the pages: what autodoc reads.


def prepare(app, what, name, obj, options, lines):
    """Give examples a heading, so that they do not count as part of the section before; leave bars as they are."""
    if name.startswith(SHORT) and what != "module":
        lines[:] = lines[: lines.index("")] if "" in lines else lines
    first = next((at for at, line in enumerate(lines) if line.startswith(">>>")), None)
    lines[:] = [line if line.lstrip().startswith((">>>", "...")) else line.replace("|", r"\|") for line in lines]
    if first is not None:
        lines[first:first] = ["Examples", "--------"]
    if what == "property":
        lines[:0] = ["..", ""]  # or napoleon takes what stands before a colon for its type


def add_links(app, what, name, obj, options, lines):
    """Make links of the equations that a docstring names, and add constants, code and the pages that use it."""
    text = "\n".join(line for line in lines if line not in (".. rubric:: Notes", ".. rubric:: Examples"))
    lines[:] = EQUATION.sub(lambda match: _equation_links(app, match), text).splitlines()
    if what == "module" and name.removeprefix("moe_lib.") in FORMULAS:
        for constant, value, comment in constants(name.removeprefix("moe_lib.")):
            lines += ["", f".. py:data:: {constant}", *([f"   :value: {value}"] if value else []), "", f"   {comment}"]
    pages = [page for page, names in app.env.moe_used.items() if name in names]
    if pages:
        words = "page" if len(pages) == 1 else "pages"
        lines += ["", ".. container:: moe-pages", "", f"   On {words} {', '.join(map(_page_link, pages))}."]
    if what == "function" and name.split(".")[1] in FORMULAS:
        code = [f"   {line}" for line in code_of(inspect.unwrap(obj))]
        fold, unfold = '<details class="moe-code"><summary>Code</summary>', "</details>"
        lines += ["", ".. raw:: html", "", f"   {fold}", "", ".. code-block:: python", "", *code, ""]
        lines += [".. raw:: html", "", f"   {unfold}"]
    lines.append("")


def _equation_links(app, match):
    page, *numbers = match.groups()
    where = next((name for name in app.env.moe_used if Path(name).name.startswith(page)), None)
    named = f":doc:`notebook {page} </{where}>`" if where else f"notebook {page}"
    return f"{named}, eq. " + " and ".join(f":{NUMBER}:`{number}`" for number in filter(None, numbers))


def _page_link(page):
    name = Path(page).name
    short = re.sub(r"^hw(\d).*", r"homework \1", name).removeprefix("appendix_")
    return f":doc:`{short[:2] if short[0].isdigit() else short} </{page}>`"


def hide_aliases(app, what, name, obj, skip, options):
    """Leave out what `NamedTuple` writes about the number of a field."""
    return True if (getattr(obj, "__doc__", None) or "").startswith("Alias for field number") else None


# From the pages to the library: what a reader sees.


def read_notebooks(app, env, docnames):
    """Note what each notebook of the book uses."""
    notebooks = {doc: app.env.doc2path(doc) for doc in sorted(env.found_docs)}
    env.moe_used = {doc: used_in(path) for doc, path in notebooks.items() if str(path).endswith(".ipynb")}


def equation_numbers(env):
    """{number as shown: (label, page)} of every numbered equation."""
    found = {}
    for label, (page, _) in env.get_domain("math").equations.items():
        figures = env.toc_fignumbers.get(page, {}).get("displaymath", {})
        number = ".".join(map(str, figures.get(anchor_of(label), ())))
        found[number] = (label, page)
    return found


def equation_labels(env):
    """{label: number as shown} of every numbered equation."""
    return {label: number for number, (label, _) in equation_numbers(env).items()}


def anchor_of(label):
    """Anchor of an equation."""
    return nodes.make_id(f"equation-{label}")


def resolve(app, env, node, content):
    """Targets that Sphinx does not find: an equation by its number, a function by a shorter name."""
    if node["reftype"] == NUMBER:
        label, page = equation_numbers(env).get(node["reftarget"], (None, None))
        if page is None:
            return None
        link = nodes.inline("", f"({node['reftarget']})")
        return make_refnode(app.builder, node["refdoc"], page, anchor_of(label), link)
    if node.get("refdomain") == "py":
        return entry(app, node["refdoc"], node["reftarget"].strip("()"), content)
    return None


def entry(app, page, name, content):
    """Link from a page to the reference of a function, or None: its full name, or enough of it to tell which."""
    objects = app.env.get_domain("py").objects
    full = [f"moe_lib.{name}", *(f"moe_lib.{each}.{name}" for each in FORMULAS)]
    found = objects.get(next((each for each in [name, *full] if each in objects), None))
    return found and make_refnode(app.builder, page, found.docname, found.node_id, content)


def link_back(app, doctree, page):
    """Put below an equation what computes it, at the end of a page what it uses, and link the names in its text."""
    if page.startswith("book/api/"):
        return
    computed, numbers = computed_by(), equation_labels(app.env)
    for equation in list(doctree.findall(nodes.math_block)):
        names = computed.get(numbers.get(equation.get("label")), ())
        _insert(equation, "computed by ", _links(app, page, names))
    used = app.env.moe_used.get(page, ())
    link_names(app, doctree, page, used)
    last = (list(doctree.findall(nodes.section)) or [doctree])[-1]
    _insert(last[-1], "From the library: ", _links(app, page, used))


def link_names(app, doctree, page, used):
    """Link the first mention of each function in the text of a page; on a notebook, those that its cells use."""
    short = {part: name for name in reversed(used) for part in (name.removeprefix("moe_lib."), name.split(".")[-1])}
    for literal in list(doctree.findall(nodes.literal)):
        name = literal.astext().split("(")[0]
        name = short.pop(name, None) if page.startswith("notebooks/") else name
        within = nodes.reference, nodes.title
        inside = any(isinstance(parent, within) for parent in _parents(literal))
        link = None if inside or name is None else entry(app, page, name, literal.deepcopy())
        if link is not None:
            literal.replace_self(link)


def _parents(node):
    while node.parent is not None:
        node = node.parent
        yield node


def _links(app, page, names):
    found = ((name, entry(app, page, name, nodes.literal("", _short(name)))) for name in names)
    return [link for _, link in found if link is not None]


def _short(name):
    _, module_name, *rest = name.split(".")
    return ".".join([module_name, *rest] if module_name in ("figures", "kernels", "bench") else rest)


def _insert(after, words, links):
    if links:
        separated = [part for link in links for part in (nodes.Text(", "), link)][1:]
        kind = "moe-computed" if isinstance(after, nodes.math_block) else "moe-library"
        line = nodes.paragraph("", "", nodes.Text(words), *separated, classes=[kind])
        after.parent.insert(after.parent.index(after) + 1, line)


def load_style(app, pagename, templatename, context, doctree):
    """Load the style of the reference on its pages only."""
    if 'class="py ' in context.get("body", ""):
        app.add_css_file("api.css", priority=900)


def setup(app):
    """Register the hooks."""
    app.setup_extension("sphinx.ext.autodoc")
    app.setup_extension("sphinx.ext.napoleon")
    app.add_role(NUMBER, XRefRole(warn_dangling=True))
    app.connect("env-before-read-docs", read_notebooks)
    app.connect("autodoc-process-docstring", prepare, priority=100)
    app.connect("autodoc-process-docstring", add_links, priority=900)  # napoleon is in between
    app.connect("autodoc-skip-member", hide_aliases)
    app.connect("missing-reference", resolve)
    app.connect("doctree-resolved", link_back)
    app.connect("html-page-context", load_style)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
