"""Pages of the HTML report in a headless browser: `python -m benchmarks.report [--attempts N]`.

Measures the sizes, the time until a page is usable, and the frames per second while it scrolls, of an ordinary run (a small
kernel with thread trace and counters) and of a thread trace of over 30 MB. The best of several attempts is reported, since other
processes also use the machine. Needs Chromium.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import rocm_perf_lab as lab
from benchmarks import att_directory
from benchmarks.figures import Figure, Publisher
from benchmarks.profiling import ATT_INSTRUCTIONS, ATT_WAVES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser, Page

_SIZE = {"width": 1280, "height": 900}
_SCROLL = """
async () => {
  const page = document.scrollingElement, start = performance.now();
  let frames = 0;
  return await new Promise((done) => {
    const frame = (now) => {
      frames += 1;
      page.scrollTop = (page.scrollTop + 40) % (page.scrollHeight - page.clientHeight);
      if (now - start > 1500) done(frames / ((now - start) / 1000)); else requestAnimationFrame(frame);
    };
    requestAnimationFrame(frame);
  });
}
"""
"""Scrolls through the page for 1.5 s and returns the frames per second."""


def main(arguments: list[str] | None = None) -> None:
    """Measure, print and write the figures."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.report", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--attempts", type=int, default=4, help="times that a page is opened and scrolled; the best counts")
    publisher = Publisher("report", parser, arguments)
    program = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if program is None:
        sys.exit("error: no Chromium\n hint: apt-get install chromium")
    from playwright.sync_api import sync_playwright

    with tempfile.TemporaryDirectory() as directory, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        found = list(figures(Path(directory), browser, publisher.options.attempts))
        browser.close()
    publisher.publish_figures("HTML report", found)


def figures(directory: Path, browser: Browser, attempts: int) -> Iterator[Figure]:
    """Return the figures of both pages, which are written to a directory."""
    run = lab.profile("vector_add", n=4096, passes="deep", output=directory / "kernel", device="emulator", tracking="none")
    yield Figure("kernel_size", "page of a kernel", f"{run.report.stat().st_size / 1e6:.1f} MB", "< 5 MB")
    yield Figure("kernel_open", "time until it is open", f"{_seconds_to_open(browser, run.report, attempts):.1f} s", "< 2 s")
    trace = att_directory.generate(directory / "att", waves=ATT_WAVES, instructions=ATT_INSTRUCTIONS)
    megabytes = sum(path.stat().st_size for path in trace.rglob("*") if path.is_file()) / 1e6
    path = lab.analyze(trace, output=directory / "trace").report
    yield Figure("trace_size", f"page of a thread trace of {megabytes:.0f} MB", f"{path.stat().st_size / 1e6:.1f} MB", "< 15 MB")
    yield Figure("trace_open", "time until it is open", f"{_seconds_to_open(browser, path, attempts):.1f} s")
    page = _opened(browser, path)
    page.evaluate("rocmPerfLab.drawAll()")
    page.wait_for_function("document.querySelector('#waves [role=status]').textContent.includes('states')")
    frames = max(page.evaluate(_SCROLL) for _ in range(attempts))
    yield Figure("trace_scroll", "frames per second while it scrolls, with all parts drawn", f"{frames:.0f}", "> 30")


def _seconds_to_open(browser: Browser, path: Path, attempts: int) -> float:
    seconds = []
    for _ in range(attempts):
        start = time.perf_counter()
        _opened(browser, path).close()
        seconds.append(time.perf_counter() - start)
    return min(seconds)


def _opened(browser: Browser, path: Path) -> Page:
    page = browser.new_page(viewport={"width": _SIZE["width"], "height": _SIZE["height"]})
    page.goto(path.as_uri())
    page.wait_for_selector("html[data-ready]")
    return page


if __name__ == "__main__":
    main()
