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
import yaml
from hypothesis import settings

ROOT = Path(__file__).resolve().parent.parent
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
CHROMIUM_FLAGS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
]  # fmt: skip
collect_ignore = ["benchmarks", "no_network"]
if importlib.util.find_spec("torch") is None:  # `make test-extras` runs them
    collect_ignore.append("extras")
settings.register_profile("repeatable", deadline=None, derandomize=True)  # the same examples in every run
settings.load_profile("repeatable")


@pytest.hookimpl(tryfirst=True)  # before xdist reads the groups
def pytest_collection_modifyitems(items):
    """Tests that share something slow to make run on one worker, so that it is made once."""
    for item in items:
        for shared in ("site", "lab_url"):
            if shared in getattr(item, "fixturenames", ()):
                item.add_marker(pytest.mark.xdist_group(shared))
        if "browser" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.browser)


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
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        yield playwright.chromium.launch(executable_path=chromium, args=CHROMIUM_FLAGS)


def watched_page(browser, width=1440, height=900):
    """A fresh page. `faults` of it collects console errors, exceptions and requests that leave this machine."""
    page = browser.new_page(viewport={"width": width, "height": height})
    page.faults = []
    page.on("console", lambda message: page.faults.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: page.faults.append(str(error)))
    page.on("requestfailed", lambda request: page.faults.append(f"failed: {request.url}"))
    local = re.compile(r"(file|data|blob):|(https?|wss?)://(localhost|127\.0\.0\.1)[:/]")
    page.on("request", lambda request: local.match(request.url) or page.faults.append(f"external: {request.url}"))
    return page


@pytest.fixture
def page(browser):
    """A fresh page that is watched."""
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


@pytest.fixture(scope="session")
def toc_pages(book):
    """Every page of `_toc.yml`, without its ending."""
    return book.pages(yaml.safe_load((ROOT / "_toc.yml").read_text()))


@pytest.fixture(scope="session")
def site(book, tmp_path_factory):
    """Folder of the built site: what `make book` builds, in a folder of its own."""
    return book.build(tmp_path_factory.mktemp("book"))


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
    flags = "LAB_FLAGS=--no-browser --allow-root --ServerApp.port=0 --IdentityProvider.token="
    command = ["make", "-C", ROOT, "lab", f"VENV={sys.prefix}", f"--assume-old={sys.prefix}/installed", flags]
    with open(home / "log", "w") as log:
        server = subprocess.Popen(command, env=env, stdout=log, stderr=log, start_new_session=True)
    try:
        yield _address(server, home / "log")
    finally:
        if server.poll() is None:
            os.killpg(server.pid, signal.SIGTERM)
            server.wait(timeout=30)


def _address(server, log, seconds=60):
    for _ in range(seconds * 4):
        found = re.search(r"http://(?:localhost|127\.0\.0\.1):\d+/lab/tree/[^\s?]+", log.read_text())
        if found:
            return found[0]
        if server.poll() is not None:
            break
        time.sleep(0.25)
    raise RuntimeError(f"JupyterLab did not start:\n{log.read_text()}")
