"""What several tests share: the built site, a browser, a running JupyterLab."""

import importlib.util
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import settings

ROOT = Path(__file__).resolve().parent.parent
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
UNPLUGGED = {"PYTHONPATH": str(ROOT / "tests" / "no_network")}  # environment of a kernel without network and torch
PATIENCE = 120  # seconds that a test waits for what must come; a busy machine is slow, and no fault
# What `make check` leaves out: tests with these fixtures, and files that draw figures or time kernels.
SLOW = {"site", "browser", "lab_url", "bwrap", "small_book", "setup"}
SLOW_FILES = ("test_0", "test_bench", "test_figures", "test_findings", "test_controls", "test_schematics")
collect_ignore = ["benchmarks", "no_network"]
if importlib.util.find_spec("torch") is None:  # `make test-extras` runs them
    collect_ignore.append("extras")
settings.register_profile("repeatable", deadline=None, derandomize=True)  # the same examples in every run
settings.load_profile("repeatable")


@pytest.hookimpl(tryfirst=True)  # before xdist reads the groups
def pytest_collection_modifyitems(items):
    """One worker builds the site while the others run what needs none; then come pages and decks, spread over all.

    Tests that share something slow to make, such as an open page, run on one worker, one after the other.
    """
    for item in items:
        uses, chosen = _fixtures(item), item.callspec.params if hasattr(item, "callspec") else {}
        for name in uses & {"graded", "lab_url", "visit", "deck"}:
            item.add_marker(pytest.mark.xdist_group(f"{name} {chosen.get(name, '')}"))
        if uses & SLOW or item.path.name.startswith(SLOW_FILES):
            item.add_marker("slow")
        if "browser" in uses:
            item.add_marker("browser")
    first = next((item for item in items if "site" in _fixtures(item)), None)

    def turn(item):
        uses = _fixtures(item)
        return 0 if item is first else 3 if "site" in uses else 1 if "graded" in uses else 2

    items.sort(key=turn)


def _fixtures(item):
    return set(getattr(item, "fixturenames", ()))


def _needed(found, what):
    """`found`; where it is nothing the test is skipped, or fails in continuous integration (CI=true)."""
    if not found:
        (pytest.fail if os.environ.get("CI") else pytest.skip)(f"needs {what}")
    return found


@pytest.fixture(scope="session")
def make():
    """Path of make."""
    return _needed(shutil.which("make"), "make")


@pytest.fixture(scope="session")
def chromium():
    """Path of Chromium or Chrome: the environment variable CHROMIUM, or what is on PATH."""
    from slides import find_chromium

    return _needed(find_chromium(), "Chromium (on PATH, or named by the environment variable CHROMIUM)")


@pytest.fixture(scope="session")
def bwrap():
    """Path of bubblewrap, where it may isolate a process."""
    found = shutil.which("bwrap")
    works = found and not subprocess.run([found, "--unshare-all", "--ro-bind", "/", "/", "true"]).returncode
    return _needed(found if works else None, "bubblewrap (bwrap on PATH), allowed to make namespaces")


@pytest.fixture(scope="session")
def browser(chromium):
    """A headless browser with a profile of its own."""
    from browsing import CHROMIUM_FLAGS
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        yield playwright.chromium.launch(executable_path=chromium, args=CHROMIUM_FLAGS)


@pytest.fixture
def page(browser):
    """A fresh page that is watched."""
    from browsing import watched_page

    page = watched_page(browser)
    yield page
    page.close()


AXE = """async (only) => {
  const kinds = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"];
  const all = axe.getRules(kinds).filter(({ tags }) => !tags.includes("deprecated")).map(({ ruleId }) => ruleId);
  const rules = only.length ? only : all;
  const runOnly = { type: "rule", values: rules };
  const { violations } = await axe.run(document, { runOnly, resultTypes: ["violations"], preload: false });
  return violations.flatMap(({ id, nodes }) => nodes.map(({ target, failureSummary, html }) =>
    `${id}: ${target.flat().join(" ")}: ${failureSummary.replace(/\\s+/g, " ")}: ${html.slice(0, 200)}`));
}"""


@pytest.fixture(scope="session")
def axe():
    """A function of a page: what axe-core finds there now, a line each; all rules of WCAG A and AA, or those named."""
    from axe_playwright_python.base import AXE_SCRIPT

    def faults(page, *only):
        if page.evaluate("!window.axe"):
            page.evaluate(AXE_SCRIPT)
        return page.evaluate(AXE, only)

    return faults


@pytest.fixture(scope="session")
def book():
    """The module behind `make book`."""
    spec = importlib.util.spec_from_file_location("book_build", ROOT / "book" / "build.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def page_names():
    """Every page of `_toc.yml`, without its ending, in reading order."""
    return re.findall(r"(?:root|file): (\S+)", (ROOT / "_toc.yml").read_text(encoding="utf-8"))


@pytest.fixture(scope="session")
def site(book, tmp_path_factory):
    """Folder of the site that `make book` builds, built once for all workers, without network and torch.

    The environment variable SITE names one that was built before.
    """
    from filelock import FileLock

    if "SITE" in os.environ:
        return Path(os.environ["SITE"]).resolve()
    folder = tmp_path_factory.getbasetemp()
    folder = folder.parent if "PYTEST_XDIST_WORKER" in os.environ else folder
    fault = folder / "fault of the book"  # empty once it is built
    with FileLock(folder / "book.lock"), pytest.MonkeyPatch.context() as patch:
        if not fault.is_file():
            patch.setenv("PYTHONPATH", UNPLUGGED["PYTHONPATH"])
            try:
                book.build(folder / "book")
                fault.touch()
            except SystemExit as stopped:
                fault.write_text(str(stopped), encoding="utf-8")
    if fault.read_text(encoding="utf-8"):
        pytest.fail(fault.read_text(encoding="utf-8"), pytrace=False)
    return folder / "book" / "_build" / "html"


@pytest.fixture(scope="session")
def lab_url(make, tmp_path_factory):
    """Address of a running JupyterLab."""
    with lab_server(tmp_path_factory.mktemp("lab")) as address:
        yield address


@contextmanager
def lab_server(home):
    """Address of the JupyterLab that `make lab` starts; what it writes goes to the folder `home`."""
    folders = {"JUPYTER_CONFIG_DIR": "config", "JUPYTER_DATA_DIR": "data", "JUPYTER_RUNTIME_DIR": "run"}
    folders |= {"JUPYTERLAB_WORKSPACES_DIR": "workspaces", "JUPYTERLAB_SETTINGS_DIR": "settings"}
    env = os.environ | {name: str(home / folder) for name, folder in folders.items()}
    documents = home / "settings" / "@jupyterlab" / "docmanager-extension"
    documents.mkdir(parents=True)
    (documents / "plugin.jupyterlab-settings").write_text('{"autosave": false}')  # what a test runs is not saved
    flags = "LAB_FLAGS=--no-browser --allow-root --ServerApp.port=0 --IdentityProvider.token="
    command = ["make", "-C", ROOT, "lab", f"VENV={sys.prefix}", f"--assume-old={sys.prefix}/installed", flags]
    with open(home / "log", "w") as log:
        server = subprocess.Popen(command, env=env, stdout=log, stderr=log, start_new_session=True)
    try:
        yield _address(server, home / "log")
    finally:
        if server.poll() is None:
            os.killpg(server.pid, signal.SIGTERM)
            server.wait(timeout=PATIENCE)


def _address(server, log):
    for _ in range(PATIENCE * 4):
        found = re.search(r"http://(?:localhost|127\.0\.0\.1):\d+/lab/tree/[^\s?]+", log.read_text())
        if found:
            return found[0]
        if server.poll() is not None:
            break
        time.sleep(0.25)
    raise RuntimeError(f"JupyterLab did not start:\n{log.read_text()}")
