"""What tests in a browser share: a page that is watched, read from top to bottom, and made as wide as a phone."""

import re

from conftest import PATIENCE
from playwright.sync_api import TimeoutError as Late

CHROMIUM_FLAGS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
    # The popups of an address line, which nobody sees, cost more than most pages. (The others are Playwright's own.)
    "--disable-features=WebUIOmniboxPopup,WebUIOmniboxAimPopup,HttpsUpgrades,MediaRouter,OptimizationHints,PaintHolding",
]  # fmt: skip
LOCAL = re.compile(r"(file|data|blob):|(https?|wss?)://(localhost|127\.0\.0\.1)[:/]")
UNDRAWN = """[...document.querySelectorAll(".moe-chart")].filter((chart) => chart.dataset.ready !== "true"
  || chart.querySelector(".moe-plot").clientWidth !== Number(chart.dataset.width))"""


def watched_page(browser, width=1440, height=900):
    """A fresh page. `faults` of it collects console errors, exceptions and requests that leave this machine."""
    page = browser.new_page(viewport={"width": width, "height": height})
    page.context.set_default_timeout(1000 * PATIENCE)
    page.faults = []
    page.on("console", lambda message: page.faults.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: page.faults.append(str(error)))
    page.on("requestfailed", lambda request: page.faults.append(f"failed: {request.url}"))
    page.on("request", lambda request: LOCAL.match(request.url) or page.faults.append(f"external: {request.url}"))
    return page


def read(page, path):
    """Open a page from disk and read it from top to bottom: everything is loaded, formulas and charts are drawn."""
    page.goto(path.as_uri())
    page.wait_for_load_state("networkidle")
    page.evaluate("window.MathJax?.startup?.promise")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")  # draws all charts
    comes_true(page, f"!{UNDRAWN}.length")
    page.evaluate("document.fonts.ready.then(() => true)")


def comes_true(page, condition, arg=None):
    """Whether something of a page, in JavaScript, becomes true. A page that let us wait in vain once gets a second."""
    try:
        return bool(page.wait_for_function(condition, arg=arg))
    except Late:
        page.set_default_timeout(1000)
        return False


def undrawn(page):
    """Names of the charts of a page that do not come to be drawn, each for its present width."""
    drawn = comes_true(page, f"!{UNDRAWN}.length")
    return [] if drawn else page.evaluate(f"{UNDRAWN}.map((chart) => chart.id)")


def resize(page, width, height=900):
    """Make the window of a page as wide as that, and its charts with it."""
    page.set_viewport_size({"width": width, "height": height})
    page.wait_for_function(f"innerWidth === {width}")
    late = undrawn(page)
    assert not late, f"not drawn anew for {width} px: {late}"
