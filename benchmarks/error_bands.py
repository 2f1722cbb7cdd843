"""Error bands of emulated times, estimated from the held-out cases of `python -m benchmarks.timing`.

`python -m benchmarks.error_bands` reads `benchmarks/results/timing.json`, replaces the `timing.error` section of
`rocm_perf_lab/arch/gfx942.yaml`, and stores how well the bands predict: the coverage of a band that was estimated without the
family, and the pairs of variants whose order is right if the band distinguishes them.
"""

from __future__ import annotations

import argparse
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict

from benchmarks.figures import RESULTS, Publisher
from rocm_perf_lab.core.errors import LabError
from rocm_perf_lab.core.files import write_text
from rocm_perf_lab.statistics.error_bands import (
    ErrorCase,
    coverage_of_new_families,
    decisions,
    families_with_pairs,
    ratio_band,
    time_band,
)
from rocm_perf_lab.target.timing_errors import TimingErrors

if TYPE_CHECKING:
    from collections.abc import Sequence

TIMING = RESULTS / "timing.json"
ARCHITECTURE = Path(__file__).parent.parent / "rocm_perf_lab" / "arch" / "gfx942.yaml"
TIME_COVERAGES = (0.8, 0.95)
RATIO_COVERAGES = (0.8, 0.9)
"""The last one decides: its bounds hold with a confidence of 95 % each, as those of paired measurements on a GPU."""
_SECTION = re.compile(r"(?P<open>  # error bands, written by [^\n]*\n).*?(?P<close>  # end of error bands\n)", re.DOTALL)
_FEWEST_FAMILIES = 4
"""With four families, the largest error has a coverage of 80 %; fewer say little about the kernels of users."""
_WIDTH = 120


class TooFewFamilies(LabError):
    """A result from which no band can be estimated; the bands stay as they are."""


class TimingCase(BaseModel):
    """One case of `timing.json`, with the measured and the emulated value in one unit."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    case: str
    family: str
    measured: float
    emulated: float
    held_out: bool
    trust: Literal["A", "B", "C"]


class TimingResult(BaseModel):
    """The parts of `timing.json` that a band depends on."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    date: str
    commit: str
    cases: tuple[TimingCase, ...]

    @classmethod
    def read(cls, path: Path) -> TimingResult:
        """Read a result of `python -m benchmarks.timing`.

        Raises:
            TooFewFamilies: Fewer than four families have two held-out cases or more.
            LabError: The file does not exist.
        """
        if not path.exists():
            raise LabError("the comparison with measurements is missing", where=str(path), hint="python -m benchmarks.timing")
        content = json.loads(path.read_text(encoding="utf-8"))
        found = cls.model_validate({**content, "cases": _outcomes(content["data"])})
        families = families_with_pairs(found.held_out)
        if families < _FEWEST_FAMILIES:
            raise TooFewFamilies(
                f"held-out cases of {families} families with two variants or more: bands need {_FEWEST_FAMILIES}", where=str(path)
            )
        return found

    @property
    def held_out(self) -> tuple[ErrorCase, ...]:
        """Cases with a documented method (trust A or B) that were not used to choose parameters of the model."""
        return tuple(
            ErrorCase.of(case.family, estimated=case.emulated, true=case.measured)
            for case in self.cases
            if case.held_out and case.emulated > 0 and case.trust != "C"
        )


def _outcomes(data: Any) -> Any:
    return data["cases"]


def estimated(result: TimingResult) -> TimingErrors:
    """Return the bands of the held-out cases, with factors rounded up to three decimals."""
    cases = result.held_out
    times = [time_band(cases, coverage) for coverage in TIME_COVERAGES]
    ratios = [ratio_band(cases, coverage) for coverage in RATIO_COVERAGES]
    families = len({case.family for case in cases})
    return TimingErrors(
        status="estimated",
        source=(
            f"{len(cases)} held-out cases of {families} families in benchmarks/results/timing.json, "
            f"{result.date}, commit {result.commit}"
        ),
        time=tuple(band.model_copy(update={"low": _down(band.low), "high": _up(band.high)}) for band in times),
        ratio=tuple(band.model_copy(update={"factor": _up(band.factor)}) for band in ratios),
        cases=len(cases),
        families=families,
        pairs=decisions(cases, ratios[-1]).pairs,
    )


def section(errors: TimingErrors) -> str:
    """Return the YAML text of `timing.error`, indented for the `timing` section."""
    bands = {
        "time": [f"{{coverage: {b.coverage}, low: {b.low}, high: {b.high}}}" for b in errors.time],
        "ratio": [f"{{coverage: {b.coverage}, factor: {b.factor}}}" for b in errors.ratio],
    }
    lines = ["  error:", f"    status: {errors.status}", f"    source: {json.dumps(errors.source)}"]
    for name, rows in bands.items():
        lines += [f"    {name}:", *(f"      - {row}" for row in rows)]
    lines += [f"    {name}: {getattr(errors, name)}" for name in ("cases", "families", "pairs")]
    return "\n".join(lines) + "\n"


def replaced(text: str, errors: TimingErrors) -> str:
    """Return the text of an architecture file with new error bands.

    Raises:
        LabError: The file has no section for them.
    """
    if not _SECTION.search(text):
        raise LabError("the comments that enclose the error bands are missing", where=str(ARCHITECTURE))
    return _SECTION.sub(lambda found: found["open"] + section(errors) + found["close"], text)


def stored(path: Path = ARCHITECTURE) -> TimingErrors:
    """Return the bands in an architecture file."""
    return TimingErrors.model_validate(yaml.safe_load(path.read_text(encoding="utf-8"))["timing"]["error"])


def main(arguments: Sequence[str] | None = None) -> None:
    """Estimate the bands, write them, and print how well they predict.

    Raises:
        LabError: There are too few families of held-out cases, or the architecture file has no section for bands.
    """
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--timing", type=Path, default=TIMING, help="result of python -m benchmarks.timing")
    parser.add_argument("--dry-run", action="store_true", help="print the bands without writing them")
    publisher = Publisher("error_bands", parser, arguments)
    result = TimingResult.read(publisher.options.timing)
    errors = estimated(result)
    if publisher.options.dry_run:
        print(section(errors), end="")
        return
    write_text(ARCHITECTURE, replaced(ARCHITECTURE.read_text(encoding="utf-8"), errors))
    publisher.publish(
        "error bands of emulated times",
        ("band", "coverage", "factor", "held-out cases", "check on held-out cases"),
        _rows(result.held_out, errors),
        width=_WIDTH,
    )


def _rows(cases: Sequence[ErrorCase], errors: TimingErrors) -> dict[str, tuple[str, ...]]:
    rows: dict[str, tuple[str, ...]] = {}
    of_families = f"{errors.cases} of {errors.families} families"
    for coverage, band in zip(TIME_COVERAGES, errors.time, strict=True):
        share = coverage_of_new_families(cases, coverage)
        check = f"{share:.0%} of the cases of a left-out family are inside"
        rows[f"time_{coverage:g}"] = ("time", f"{band.coverage:.0%}", f"{band.low:.2f} to {band.high:.2f}", of_families, check)
    with_pairs = f"{errors.pairs} pairs of {families_with_pairs(cases)} families"
    for coverage, ratio in zip(RATIO_COVERAGES, errors.ratio, strict=True):
        found = decisions(cases, ratio)
        check = f"{found.decided} pairs differ by more; the order of {found.right} is right"
        rows[f"ratio_{coverage:g}"] = ("ratio", f"{ratio.coverage:.0%}", f"{ratio.factor:.2f}", with_pairs, check)
    return rows


def _up(value: float) -> float:
    return round(-(-value * 1000 // 1) / 1000, 3)


def _down(value: float) -> float:
    return round(value * 1000 // 1 / 1000, 3)


if __name__ == "__main__":
    main()
