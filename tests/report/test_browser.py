"""The HTML report in headless Chromium: it loads without errors or network, its controls work, and it looks as before."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from PIL import Image

import rocm_perf_lab as lab
from benchmarks import att_directory
from benchmarks.profiling import ATT_INSTRUCTIONS, ATT_WAVES
from tests.application.test_analyze_recordings import RECORDED, WORKLOADS
from tests.builders.report_documents import write_command_documents
from tests.builders.report_pages import run_data

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.slow

SCREENSHOTS = Path(__file__).parent / "screenshots"
SIZE = {"width": 1280, "height": 900}
MOST_DIFFERENT = 0.02
"""Share of the pixels of a screenshot that may differ: fonts are rendered differently by versions of the browser."""
SPACE = "{parameters: {block: [64, 128, 256]}}"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    program = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if program is None:
        pytest.skip("no Chromium: apt-get install chromium")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=program, args=["--no-sandbox", "--force-device-scale-factor=1"])
        yield started
        started.close()


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Pages of: a kernel with a thread trace, an application, an optimization, a search, counters, a comparison."""
    directory = tmp_path_factory.mktemp("pages")
    (directory / "space.yaml").write_text(SPACE)
    at: dict[str, Any] = {"device": "emulator", "tracking": "none"}
    traced = lab.profile("vector_add", n=4096, passes="deep", output=directory / "kernel", **at)
    other = lab.profile("vector_add", n=4096, block=64, passes="deep", output=directory / "other", **at)
    overrides = ["optimizer=quick", "kernel.params.rows=16", "kernel.params.cols=4096"]
    found = {
        "kernel": traced.report,
        "application": lab.analyze(RECORDED / "rocprofv3_json", output=directory / "application").report,
        "counters": lab.analyze(WORKLOADS / "MI200", output=directory / "counters").report,
        "search": lab.autotune(
            "vector_add", n=4096, space=directory / "space.yaml", budget=3, output=directory / "search", **at
        ).report,
        "rewrites": lab.optimize("softmax", budget=1, overrides=overrides, output=directory / "rewrites", **at).report,
        "comparison": lab.report(traced, other, output=directory / "comparison.html"),
    }
    assert found["kernel"].stat().st_size < 5_000_000
    return found


def opened(browser: Browser, path: Path, problems: list[str]) -> Page:
    page = browser.new_page(viewport={"width": SIZE["width"], "height": SIZE["height"]}, color_scheme="light")
    page.on("console", lambda message: problems.append(message.text) if message.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on("request", lambda request: problems.append(request.url) if request.url.startswith("http") else None)
    page.goto(path.as_uri())
    page.wait_for_selector("html[data-ready]")
    return page


@pytest.mark.parametrize("name", ["kernel", "application", "counters", "search", "rewrites", "comparison"])
def test_a_page_loads_without_errors_and_looks_as_before(name: str, browser: Browser, pages: dict[str, Path]) -> None:
    problems: list[str] = []
    page = opened(browser, pages[name], problems)
    page.evaluate("rocmPerfLab.drawAll()")
    page.wait_for_timeout(500)
    picture = page.screenshot()
    page.close()

    assert problems == []
    compare_with_reference(name, picture)


def test_pages_of_the_documents_of_commands_load_without_errors(browser: Browser, tmp_path: Path) -> None:
    """Texts of documents are shown as text: an image that they contain would be requested."""
    shown = {
        "run": "load past the end of </script>",
        "replay": "median of 3",
        "compare": "20.0 %",
        "verify": "output differs at [3]",
    }
    for name, path in write_command_documents(tmp_path).items():
        problems: list[str] = []
        page = opened(browser, lab.report(path), problems)
        page.evaluate("rocmPerfLab.drawAll()")
        page.wait_for_timeout(200)

        assert shown[name] in page.locator("body").inner_text()
        assert page.locator("main img").count() == 0
        page.close()
        assert problems == []


def compare_with_reference(name: str, picture: bytes) -> None:
    """Compare a screenshot in blocks of 4 x 4 pixels, in which the edges of letters matter little."""
    reference = SCREENSHOTS / f"{name}.png"
    if os.environ.get("UPDATE_SCREENSHOTS"):
        SCREENSHOTS.mkdir(exist_ok=True)
        Image.open(BytesIO(picture)).quantize(32).save(reference, optimize=True)
    new, old = (np.asarray(Image.open(source).convert("L").reduce(4), float) for source in (BytesIO(picture), reference))

    assert new.shape == old.shape
    assert (abs(new - old) > 48).mean() < MOST_DIFFERENT


def test_the_controls_of_the_instruction_view_work(browser: Browser, pages: dict[str, Path]) -> None:
    problems: list[str] = []
    page = opened(browser, pages["kernel"], problems)
    page.evaluate("rocmPerfLab.drawAll()")

    page.get_by_role("button", name="hottest").click()
    assert page.locator(".isa-row.selected").count() == 1
    selected = page.locator(".isa-row.selected .address").inner_text()
    page.locator(".isa-pane").focus()
    page.keyboard.press("ArrowDown")
    assert page.locator(".isa-row.selected .address").inner_text() != selected
    page.get_by_label("find instruction").fill("s_endpgm")
    page.keyboard.press("Enter")
    assert page.locator(".isa-row.selected .text").inner_text() == "s_endpgm"
    assert page.locator(".arrows path").count() >= 2  # a wait and the load that it waits for
    assert problems == []


def test_tables_filter_and_sort(browser: Browser, pages: dict[str, Path]) -> None:
    page = opened(browser, pages["application"], [])
    page.evaluate("rocmPerfLab.drawAll()")
    table = page.locator("#application .tabulator").first
    table.locator(".tabulator-col", has_text="calls").click()
    page.wait_for_timeout(200)
    first = int(table.locator(".tabulator-row").first.locator("[tabulator-field=calls]").inner_text().replace(",", ""))
    assert first == min(kernel["calls"] for kernel in run_data(pages["application"])["application"]["kernels"])
    page.locator("#application input.filter").first.fill("nccl")
    page.wait_for_timeout(300)
    assert all("nccl" in text for text in table.locator(".tabulator-row [tabulator-field=name]").all_inner_texts())


def test_theme_and_sections_follow_the_keyboard(browser: Browser, pages: dict[str, Path]) -> None:
    page = opened(browser, pages["kernel"], [])
    assert page.locator("html").get_attribute("data-theme") == "light"
    page.keyboard.press("t")
    assert page.locator("html").get_attribute("data-theme") == "dark"
    page.keyboard.press("2")
    assert page.evaluate("location.hash") == "#roofline"


UNREADABLE = r"""
() => {
  const SHARES = [0.2126, 0.7152, 0.0722];
  const TEXTS = ".tabulator-cell, .tabulator-col-title, .cm-line span, .isa-row .text, .card *, .muted";
  const parts = (colour) => colour.match(/[\d.]+/g).map(Number);
  const linear = (value) => (value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4);
  const brightness = (colour) => SHARES.reduce((sum, share, at) => sum + share * linear(parts(colour)[at] / 255), 0);
  const background = (node) => {
    for (; node; node = node.parentElement) {
      const colour = getComputedStyle(node).backgroundColor;
      if ((parts(colour)[3] ?? 1) > 0.5) return colour;
    }
    return "rgb(255, 255, 255)";
  };
  const contrast = (node) => {
    const [low, high] = [getComputedStyle(node).color, background(node)].map(brightness).sort((a, b) => a - b);
    return (high + 0.05) / (low + 0.05);
  };
  const texts = [...document.querySelectorAll(TEXTS)].filter((node) => node.textContent);
  return texts.filter((node) => contrast(node) < 4.5).map((node) => `${node.className}: ${node.textContent}`);
}
"""
"""Returns texts whose contrast to their background is below 4.5, the limit of WCAG AA."""


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_texts_have_contrast_and_columns_fit(theme: str, browser: Browser, pages: dict[str, Path]) -> None:
    page = opened(browser, pages["kernel"], [])
    if theme == "dark":
        page.keyboard.press("t")
    page.evaluate("rocmPerfLab.drawAll()")
    page.wait_for_timeout(300)

    assert page.evaluate(UNREADABLE) == []
    pane = page.locator(".isa-pane")
    assert pane.evaluate("one => one.scrollWidth - one.clientWidth") == 0


def test_a_rewrite_shows_its_difference(browser: Browser, pages: dict[str, Path]) -> None:
    problems: list[str] = []
    page = opened(browser, pages["rewrites"], problems)
    page.evaluate("rocmPerfLab.drawAll()")
    page.wait_for_timeout(300)
    page.locator("#rewrites .tabulator-row").last.click()

    assert page.locator("#rewrites .cm-mergeView .cm-editor").count() == 2
    assert page.locator("#rewrites .cm-changedLine").count() > 0
    assert problems == []


def test_time_lines_are_decoded_from_the_file(browser: Browser, pages: dict[str, Path]) -> None:
    page = opened(browser, pages["kernel"], [])
    page.evaluate("rocmPerfLab.drawAll()")
    page.wait_for_function("document.querySelector('#waves [role=status]').textContent.includes('states')")
    page.locator("#waves select").select_option(index=1)
    page.wait_for_timeout(200)

    assert "wavefronts," in page.locator("#waves [role=status]").inner_text()


def test_a_large_thread_trace_is_a_small_page(browser: Browser, tmp_path: Path) -> None:
    trace = att_directory.generate(tmp_path / "att", waves=ATT_WAVES, instructions=ATT_INSTRUCTIONS)
    assert sum(path.stat().st_size for path in trace.rglob("*") if path.is_file()) > 30_000_000

    path = lab.analyze(trace, output=tmp_path / "run").report

    assert path.stat().st_size < 15_000_000
    problems: list[str] = []
    page = opened(browser, path, problems)
    page.evaluate("rocmPerfLab.drawAll()")
    page.wait_for_function("document.querySelector('#waves [role=status]').textContent.includes('states')")
    assert problems == []


def test_the_scripts_are_those_of_the_sources(tmp_path: Path) -> None:
    """A build from `web/` with the locked libraries gives the bundled files, byte for byte."""
    if shutil.which("npm") is None:
        pytest.skip("no npm")
    root = Path(__file__).parents[2]
    shutil.copytree(root / "web", tmp_path / "web", ignore=shutil.ignore_patterns("node_modules"))
    assets = tmp_path / "rocm_perf_lab" / "report" / "assets"
    assets.mkdir(parents=True)
    installed = subprocess.run(
        ["npm", "ci", "--no-audit", "--no-fund"], cwd=tmp_path / "web", capture_output=True, text=True, check=False
    )
    if installed.returncode:
        pytest.skip(f"npm cannot install the libraries: {installed.stderr[-200:]}")
    subprocess.run(["node", "build.mjs"], cwd=tmp_path / "web", check=True, stdout=sys.stderr)

    for name in ("report.js", "report.css", "LICENSES.txt"):
        assert (assets / name).read_bytes() == (root / "rocm_perf_lab" / "report" / "assets" / name).read_bytes(), name
