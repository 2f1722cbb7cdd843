"""Mistakes of the host in HIP programs are found, and correct programs that look like them have no finding."""

import json
import re
from pathlib import Path

import pytest

from tests.builders.rocm_programs import RocmPrograms

pytestmark = pytest.mark.slow
CHECKS = Path(__file__).parent / "checks"
DEFECTS = {
    "beyond_launch_bounds": "bad_geometry",
    "cuboid_filled_past_end": "copy_past_end",
    "cuboid_leak": "memory_leak",
    "cuboid_past_end": "copy_past_end",
    "cuboid_read_past_end": "copy_past_end",
    "pool_past_end": "out_of_bounds",
    "rectangle_past_end": "copy_past_end",
    "too_large_to_cooperate": "bad_geometry",
    "too_many_work_items": "bad_geometry",
    "too_much_lds": "bad_geometry",
    "bad_geometry": "bad_geometry",
    "copy_after_free": "use_after_free",
    "copy_past_end": "copy_past_end",
    "copy_races": "stream_race",
    "destroyed_event": "destroyed_event",
    "destroyed_stream": "destroyed_stream",
    "double_free": "double_free",
    "empty_block": "bad_geometry",
    "empty_grid": "bad_geometry",
    "event_leak": "event_leak",
    "fill_past_end": "copy_past_end",
    "fill_races": "stream_race",
    "foreign_free": "invalid_free",
    "forgotten_wait": "stream_race",
    "host_leak": "memory_leak",
    "inner_free": "invalid_free",
    "leak": "memory_leak",
    "stream_leak": "stream_leak",
    "symbol_past_end": "copy_past_end",
    "two_copies": "stream_race",
    "two_streams": "stream_race",
    "unseen_failure": "failed_launch",
    "use_after_free": "use_after_free",
    "wrong_direction": "wrong_direction",
}
"""Cases of host_defects.hip with the kind of the finding."""


def marked_lines() -> dict[str, int]:
    """Return the lines of host_defects.hip with the mistakes."""
    lines = (CHECKS / "host_defects.hip").read_text(encoding="utf-8").splitlines()
    found = {number: re.search(r";  // (\w+)$", line) for number, line in enumerate(lines, 1)}
    return {match[1]: number for number, match in found.items() if match}


def test_each_mistake_of_the_host_is_found_at_its_line(rocm_programs: RocmPrograms) -> None:
    program, lines = rocm_programs.compile("host_defects", CHECKS), marked_lines()
    assert lines.keys() == DEFECTS.keys()
    cases = sorted(DEFECTS, key=lambda name: name == "unseen_failure")  # last, since others look at the error
    process = rocm_programs.run([program, *cases], ["--check", "all", "--json"])
    findings = json.loads(process.stdout)["findings"]
    texts = [(finding["kind"], f"{finding['message']} {finding['call_site']} ") for finding in findings]
    missed = [
        name
        for name, kind in DEFECTS.items()
        if not any(kind == found and re.search(rf"host_defects\.hip:{lines[name]}\b", text) for found, text in texts)
    ]
    assert not missed, texts
    assert len(findings) == len(DEFECTS), texts
    assert process.returncode == 1
    races = [finding for finding in findings if finding["kind"] == "stream_race"]
    later_calls = {int(finding["call_site"].rpartition(":")[2]) for finding in races}
    assert later_calls == {lines[name] for name, kind in DEFECTS.items() if kind == "stream_race"}
    assert all(re.search(r"host_defects\.hip:\d+$", finding["source"]) for finding in races if finding["kernel"])


def test_correct_programs_have_no_finding_and_keep_their_results(rocm_programs: RocmPrograms) -> None:
    process = rocm_programs.run([rocm_programs.compile("host_correct", CHECKS)], ["--check", "all"])
    cases = set(re.findall(r"CASE\((\w+)\)[,}]", (CHECKS / "host_correct.hip").read_text(encoding="utf-8")))
    assert process.returncode == 0, process.stderr
    assert {line.removeprefix("PASS ") for line in process.stdout.splitlines()} == cases
    assert "--check" not in process.stderr
