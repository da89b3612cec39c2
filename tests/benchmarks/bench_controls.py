"""How long a reader waits: slider to paint on the built page, drag to paint in JupyterLab.

    make book && python tests/benchmarks/bench_controls.py

prints the median and the 95th percentile in milliseconds. Aims: 20 ms on the page, 100 ms in JupyterLab. The clock runs
in the browser, from the input event to the first frame after the figure changed.
"""

import os
import sys
import tempfile
from pathlib import Path

import numpy as np
from playwright.sync_api import sync_playwright

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from browsing import CHROMIUM_FLAGS  # noqa: E402
from conftest import ROOT, lab_server  # noqa: E402

WATCH = """([figure, kinds]) => {
  window.waits = [];
  let since = null;
  for (const kind of kinds) addEventListener(kind, () => { since = performance.now(); }, true);
  new MutationObserver(() => {
    if (since === null) return;
    const from = since;
    since = null;
    requestAnimationFrame(() => setTimeout(() => waits.push(performance.now() - from)));
  }).observe(figure, { subtree: true, childList: true, attributes: true, attributeFilter: ["d", "transform"] });
}"""


def report(name, waits, aim):
    middle, late = np.percentile(waits, [50, 95])
    print(f"{name}: {len(waits)} moves, median {middle:.0f} ms, 95th percentile {late:.0f} ms (aim {aim} ms)")


def on_the_page(browser):
    page = browser.new_page(viewport={"width": 1440, "height": 1000})
    page.goto((ROOT / "_build" / "html" / "notebooks" / "00_workshop.html").as_uri())
    chart = page.locator("#fig-workshop")
    chart.scroll_into_view_if_needed()
    page.wait_for_function("chart => chart.dataset.ready === 'true'", arg=chart.element_handle())
    page.evaluate(WATCH, [chart.locator(".moe-plot").element_handle(), ["input"]])
    slider = chart.locator("input[type=range]")
    slider.focus()
    for key in 3 * ["ArrowRight", "ArrowRight", "ArrowRight", "ArrowLeft"] + 14 * ["ArrowRight"] + 24 * ["ArrowLeft"]:
        slider.press(key)
        page.wait_for_timeout(60)
    report("slider to paint, page", page.evaluate("waits"), 20)


def in_jupyterlab(browser):
    with lab_server(Path(tempfile.mkdtemp())) as address:
        page = browser.new_page(viewport={"width": 1440, "height": 1000})
        page.goto(address)
        page.wait_for_selector(".jp-Notebook .jp-Cell", timeout=60_000)
        page.get_by_text("Python 3 (ipykernel) | Idle").wait_for(timeout=60_000)
        page.get_by_role("menuitem", name="Run", exact=True).click()
        page.get_by_text("Run All Cells", exact=True).click()
        page.get_by_text("Python 3 (ipykernel) | Idle").wait_for(timeout=120_000)
        control = page.locator(".jp-OutputArea .widget-vbox:has(.moe-tiles):has(svg):has(.noUi-handle)").first
        control.scroll_into_view_if_needed()
        handle = control.locator(".noUi-handle").first
        page.mouse.move(700, 500)
        page.mouse.wheel(0, handle.bounding_box()["y"] - 800)  # its picture above it stays on the screen
        page.wait_for_timeout(500)
        box = handle.bounding_box()
        x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
        picture = control.locator(".widget-html:has(svg)").first.element_handle()
        page.evaluate(WATCH, [picture, ["pointermove"]])
        page.mouse.move(x, y)
        page.mouse.down()
        page.wait_for_timeout(500)
        for move in range(40):
            page.mouse.move(x + 6 * (move - 40 * (move > 20)), y)
            page.wait_for_timeout(250)
        page.mouse.up()
        report("drag to paint, JupyterLab", page.evaluate("waits"), 100)


def main():
    chromium = os.environ.get("CHROMIUM", "/usr/bin/chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=CHROMIUM_FLAGS)
        on_the_page(browser)
        in_jupyterlab(browser)


if __name__ == "__main__":
    main()
