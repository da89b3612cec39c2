"""What the built site weighs: `.venv/bin/python tests/benchmarks/bench_weight.py [_build/html]`.

Bars: the landing page with all it loads at most 1.0 MB, what a further page loads beside that at most 150 kB, both
compressed as a web server sends them (gzip). Sizes do not depend on the machine; tests/test_book.py asserts the bars.
"""

import os
import shutil
import sys
from pathlib import Path

import yaml
from playwright.sync_api import sync_playwright

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "book"), str(ROOT / "tests")]
from browsing import CHROMIUM_FLAGS, watched_page  # noqa: E402
from build import pages  # noqa: E402
from weight import LANDING_BYTES, PAGE_BYTES, loaded, weights  # noqa: E402


def main(site=ROOT / "_build" / "html"):
    """Print every file and the sums; returns 1 where a bar is missed."""
    site = Path(site).resolve()
    first, *further = pages(yaml.safe_load((ROOT / "_toc.yml").read_text()))
    chromium = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=CHROMIUM_FLAGS)
        base = weights(loaded(watched_page(browser), site / f"{first}.html"))
        for file, size in base.items():
            print(f"{size:10,}  {file.relative_to(site)}")
        print(f"{sum(base.values()):10,}  {first} with all it loads (bar {LANDING_BYTES:,})\n")
        sums = {}
        for name in further:
            own = weights(loaded(watched_page(browser), site / f"{name}.html") - base.keys())
            sums[name] = sum(own.values())
            print(f"{sums[name]:10,}  {name}: " + ", ".join(f"{file.name} {size:,}" for file, size in own.items()))
    print(f"heaviest further page: {max(sums, key=sums.get)}, {max(sums.values()):,} bytes (bar {PAGE_BYTES:,})")
    return sum(base.values()) > LANDING_BYTES or max(sums.values()) > PAGE_BYTES


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
