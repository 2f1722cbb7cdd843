"""HIP programs under both runtimes: `python -m benchmarks.applications [--part PART] [--programs NAME...] [--no-rocm]`.

Each program runs under AMD's runtime in the tree of `make rocm-root`, and from its source under the runtime of this
package: plain, with `--check all` and with `--profile`. Outputs must be equal; without AMD's runtime, to those that it wrote
before. The overhead of checks and profiles is that of kernels that run for seconds.
"""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from benchmarks.applications.measures import measure, start_up_seconds
from benchmarks.applications.outputs import recorded_outputs
from benchmarks.applications.overhead import geometric_mean_and_worst, measure_overheads
from benchmarks.applications.programs import all_programs
from benchmarks.figures import Figure, Publisher
from rocm_perf_lab.runtime.rocm_root import is_complete, rocm_root_dir

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.applications.measures import ApplicationMeasurement, Run
    from benchmarks.applications.overhead import Overhead

_COLUMNS = ("program", "AMD's runtime", "lab's runtime", "--check all", "--profile", "output", "built again")
_OVERHEAD_COLUMNS = ("kernel", "plain", "--check all", "--profile", "processor time", "checked", "profiled")


def main(arguments: list[str] | None = None) -> None:
    """Measure, print and write the table; exit code 1 if a program failed."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.applications", description=(__doc__ or "").partition("\n")[0].partition(":")[0]
    )
    parser.add_argument("--part", choices=["programs", "overhead"], help="run only this part; default: both")
    parser.add_argument("--programs", nargs="+", metavar="NAME", help="programs to run; default: all")
    parser.add_argument(
        "--repetitions", type=int, default=2, choices=range(1, 100), metavar="N", help="timed runs of which the fastest counts"
    )
    parser.add_argument("--no-rocm", action="store_true", help="leave out AMD's runtime")
    publisher = Publisher("applications", parser, arguments)
    options = publisher.options
    root = rocm_root_dir()
    chosen = [program for program in all_programs() if not options.programs or program.name in options.programs]
    recorded = recorded_outputs()
    used_root = None if options.no_rocm or not is_complete(root) else root
    passed = True
    if options.part != "overhead":
        measurements = []
        for program in chosen:
            measurements.append(measure(program, used_root, recorded[program.name]))
            print(f"{program.name}: {'passed' if measurements[-1].passed else 'FAILED'}", file=sys.stderr, flush=True)
        publisher.publish_figures("applications", summary(measurements))
        rows = {measured.program.name: _row(measured) for measured in measurements}
        publisher.publish("programs", _COLUMNS, rows, width=150, suffix="_programs")
        passed = all(measured.passed for measured in measurements)
    if options.part != "programs":
        start_up, overheads = start_up_seconds(options.repetitions), measure_overheads(options.repetitions)
        publisher.publish_figures("time of rocm-perf run", times(overheads, start_up), suffix="_times")
        overhead_rows = {one.name: _overhead_row(one) for one in overheads}
        publisher.publish("overhead", _OVERHEAD_COLUMNS, overhead_rows, _overhead_data(overheads), width=150, suffix="_overhead")
        passed = passed and all(overhead.passed for overhead in overheads)
    sys.exit(0 if passed else 1)


def summary(measurements: Sequence[ApplicationMeasurement]) -> list[Figure]:
    """Return the figures of all programs."""
    count = len(measurements)
    passed = sum(measured.passed for measured in measurements)
    built = sum(measured.built_again for measured in measurements)
    return [
        Figure("passed", "programs that pass, with equal output", f"{passed} of {count}", f"{count}"),
        Figure("built", "sources and kernels that second runs compile or translate", f"{built}", "0"),
    ]


def times(overheads: Sequence[Overhead], start_up: float) -> list[Figure]:
    """Return the figures of start and overhead."""
    checks, worst_checks = geometric_mean_and_worst(overheads, lambda one: one.check_factor)
    profile, worst_profile = geometric_mean_and_worst(overheads, lambda one: one.profile_factor)
    return [
        Figure("checks", "time with `--check all`, mean (worst kernel)", f"{checks:.1f} x ({worst_checks:.1f} x)", "< 4 x"),
        Figure("profile", "time with `--profile`, likewise", f"{profile:.1f} x ({worst_profile:.1f} x)", "< 1.5 x"),
        Figure("start_up", "start of `rocm-perf run` with warm caches", f"{start_up:.2f} s", "< 0.5 s"),
    ]


def _overhead_row(one: Overhead) -> tuple[str, ...]:
    plain = one.plain
    return (
        one.name,
        f"{plain.seconds:.2f} s",
        _relative(one.checked, plain.seconds),
        _relative(one.profiled, plain.seconds),
        f"{plain.cpu_seconds:.2f} s",
        f"{one.checked.cpu_seconds / plain.cpu_seconds:.1f} x",
        f"{one.profiled.cpu_seconds / plain.cpu_seconds:.1f} x",
    )


def _overhead_data(overheads: Sequence[Overhead]) -> dict[str, dict[str, float]]:
    """Return unrounded times."""
    return {
        one.name: {
            f"{name}{kind}": getattr(run, seconds)
            for name, run in (("plain", one.plain), ("checked", one.checked), ("profiled", one.profiled))
            for kind, seconds in (("_s", "seconds"), ("_cpu_s", "cpu_seconds"))
        }
        for one in overheads
    }


def _row(measured: ApplicationMeasurement) -> tuple[str, ...]:
    return (
        measured.program.name,
        "recorded" if measured.rocm is None else _result(measured.rocm),
        _result(measured.lab),
        _result(measured.checked),
        _result(measured.profiled),
        "equal" if measured.equal_output else "DIFFERENT",
        str(measured.built_again),
    )


def _result(run: Run) -> str:
    return "passed" if run.exit_code == 0 else f"exit code {run.exit_code}"


def _relative(run: Run, plain_s: float) -> str:
    return f"{run.seconds / plain_s:.1f} x" if run.exit_code == 0 else _result(run)


if __name__ == "__main__":
    main()
