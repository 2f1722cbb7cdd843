"""`rocm-perf`: thin commands that compose the same configuration as `python -m rocm_perf_lab`.

Only click is imported at start-up; everything else waits until a command needs it.
"""

from __future__ import annotations

import gc
import sys
from typing import TYPE_CHECKING, Any

import click

from rocm_perf_lab import __version__
from rocm_perf_lab.cli.autotune import autotune
from rocm_perf_lab.cli.optimize import COMMANDS as OPTIMIZE_COMMANDS
from rocm_perf_lab.cli.replay import replay
from rocm_perf_lab.core.errors import LabError

if TYPE_CHECKING:
    from collections.abc import Callable

_OBJECTS_PER_COLLECTION = 50_000
"""Python looks for cycles after every 700 new objects, which in a command of half a second is a twentieth of its time."""
_PASS_THROUGH = {"ignore_unknown_options": True, "allow_extra_args": True}


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="rocm-perf")
def main() -> None:
    """Profile, optimize and inspect AMD GPU kernels. Words like kernel=softmax override the configuration."""
    gc.set_threshold(_OBJECTS_PER_COLLECTION)


main.add_command(autotune)


@main.command(context_settings=_PASS_THROUGH, short_help="Profile an application, or a described kernel.")
@click.argument("words", nargs=-1, type=click.UNPROCESSED)
@click.option("--json", "as_json", is_flag=True, help="Print profile.json and nothing else.")
@click.option("--quiet", is_flag=True, help="Print the runtime and nothing else.")
@click.option("--runs", type=click.IntRange(min=1), metavar="N", help="Runs for times; ten or more for a comparison.")
@click.option("--kernel", metavar="REGEX", help="Kernel to look at; the one with the longest dispatch where it is left out.")
@click.option("--focus-critical", is_flag=True, help="Look at the kernel that contributes most to the critical path.")
@click.option("--deep-analysis", is_flag=True, help="Take a thread trace as well.")
@click.option("--roofline/--no-roofline", default=None, help="Draw roofline.png and .html; or collect no counters at all.")
@click.option("--roofline-csv", type=click.Path(), metavar="FILE", help="Measured peaks: roofline.csv of rocprof-compute.")
@click.option("--no-rocprof", is_flag=True, help="Only time the command by the clock.")
@click.option("--timeout", type=float, metavar="SECONDS", help="Longest time of one run.")
@click.option("--output", type=click.Path(file_okay=False), metavar="DIR", help="Directory of the run.")
@click.option("--debug", is_flag=True, help="Show the traceback of an error.")
def profile(words: tuple[str, ...], **options: Any) -> None:
    """Profile an application, or a kernel that a kernel.yaml describes.

    \b
    rocm-perf profile ./app --size 4096
        under rocprofv3; options that are not ours reach the application
    rocm-perf profile --json -- ./app --json
        what stands behind -- is the application's alone
    rocm-perf profile kernel=softmax kernel.params.cols=2048
    """

    def run() -> None:
        from rocm_perf_lab.cli.arguments import ProfileWords
        from rocm_perf_lab.cli.entry import run_application, run_hydra

        parsed = ProfileWords.parse(words, **{k: v for k, v in options.items() if k != "debug"})
        if parsed.is_described:
            run_hydra(parsed.overrides())
        else:
            run_application(parsed)

    _answer(run, options["debug"])


@main.command(short_help="Analyse what rocprofv3 left; no GPU, no rerun.")
@click.argument("databases", nargs=-1, required=True, type=click.Path())
@click.option("--att", type=click.Path(), metavar="DIR", help="Decoded thread trace that rocprofv3 --att left.")
@click.option("--counters", type=click.Path(), metavar="DIR", help="Databases, JSON or CSV files of counter runs.")
@click.option("--target", metavar="NAME", help="GPU, where the trace does not tell: mi300x, mi325x, ...")
@click.option("--kernel", metavar="REGEX", help="Kernel to look at; the one with the longest dispatch where it is left out.")
@click.option("--focus-critical", is_flag=True, help="Look at the kernel that contributes most to the critical path.")
@click.option("--roofline", is_flag=True, help="Draw roofline.png and roofline.html.")
@click.option("--roofline-csv", type=click.Path(), metavar="FILE", help="Measured peaks: roofline.csv of rocprof-compute.")
@click.option("--json", "as_json", is_flag=True, help="Print profile.json and nothing else.")
@click.option("--quiet", is_flag=True, help="Print the runtime and nothing else.")
@click.option("--output", type=click.Path(file_okay=False), metavar="DIR", help="Where the documents go; else a new directory.")
@click.option("--debug", is_flag=True, help="Show the traceback of an error.")
def analyze(databases: tuple[str, ...], debug: bool, **options: Any) -> None:
    """Analyse what rocprofv3 left: rocpd databases, JSON or CSV files, or directories with them. No GPU, no rerun."""

    def run() -> None:
        from pathlib import Path

        from rocm_perf_lab.jobs.analyze.job import AnalyzeRequest, run_analyze

        run_analyze(AnalyzeRequest.of([Path(path) for path in databases], **options))

    _answer(run, debug)


@main.command()
@click.argument("file", type=click.Path())
@click.option("--kernel", metavar="NAME", help="Symbol or C++ name; may be left out where the file has one kernel.")
@click.option("--grid", metavar="XxYxZ", help="Workgroups.")
@click.option("--work-items", metavar="XxYxZ", help="In place of --grid: all work-items; the last workgroup may be partial.")
@click.option("--block", required=True, metavar="XxYxZ", help="Work-items of a workgroup.")
@click.option("--cooperative", is_flag=True, help="All workgroups at once, so that they may wait for each other.")
@click.option("--arg", "arguments", multiple=True, metavar="TEXT", help="One argument; repeat in the kernel's order.")
@click.option("--lds", default=0, type=click.IntRange(min=0), metavar="BYTES", help="Dynamic LDS.")
@click.option("--target", default="mi300x", show_default=True, metavar="NAME", help="GPU whose limits and rates are emulated.")
@click.option("--check", default="none", metavar="KINDS", help="Defects to look for: all, or some: lds_races,barriers.")
@click.option("--max-instructions", type=click.IntRange(min=1), help="Wave instructions before a kernel counts as endless.")
@click.option("--output", type=click.Path(file_okay=False), metavar="DIR", help="Keep outputs, database and counts here.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document and nothing else.")
@click.option("--debug", is_flag=True, help="Show the traceback of an error.")
def emulate(
    file: str,
    kernel: str | None,
    grid: str | None,
    work_items: str | None,
    block: str,
    cooperative: bool,
    arguments: tuple[str, ...],
    lds: int,
    target: str,
    check: str,
    max_instructions: int | None,
    output: str | None,
    as_json: bool,
    debug: bool,
) -> None:
    """Run a kernel of FILE, a gfx942 code object, on the emulator.

    \b
    An argument is a buffer, a scalar, or raw bytes:
      dtype[shape]:initialiser[:key=value]...[:in|out|inout]
      --arg f32[512x4096]:normal:seed=1
      --arg f32[4096]:zeros:out
      --arg i32=1048576
      --arg hex=0000803f
    Initialisers: normal, uniform, integers, constant, zeros, ones, arange,
    poison, file=PATH.npy
    """

    def run() -> None:
        from pathlib import Path

        from rich.console import Console

        from rocm_perf_lab.jobs.emulate.job import run_emulate
        from rocm_perf_lab.jobs.emulate.request import EmulateRequest

        request = EmulateRequest(
            file=Path(file),
            grid=grid,
            block=block,
            work_items=work_items,
            cooperative=cooperative,
            arguments=arguments,
            kernel=kernel,
            dynamic_lds_bytes=lds,
            target=target,
            check=check,
            max_instructions=max_instructions,
        )
        run_emulate(request, Console(highlight=False), output=Path(output) if output else None, as_json=as_json)

    _answer(run, debug)


@main.command(short_help="List the instructions of a code object.")
@click.argument("file", type=click.Path())
@click.option("--kernel", metavar="NAME", help="Symbol or C++ name; all kernels where it is left out.")
@click.option("--source", "with_source", is_flag=True, help="Show the source line that instructions come from.")
@click.option("--counts", type=click.Path(), metavar="RUN", help="Directory (or database) that emulate --output left.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document and nothing else.")
@click.option("--debug", is_flag=True, help="Show the traceback of an error.")
def disassemble(file: str, kernel: str | None, with_source: bool, counts: str | None, as_json: bool, debug: bool) -> None:
    """List the instructions of FILE: a code object, an offload bundle, or a HIP object file or executable."""

    def run() -> None:
        from pathlib import Path

        from rich.console import Console

        from rocm_perf_lab.jobs.disassemble.job import DisassembleRequest, run_disassemble

        request = DisassembleRequest(Path(file), kernel, with_source, Path(counts) if counts else None)
        run_disassemble(request, Console(highlight=False), as_json=as_json)

    _answer(run, debug)


@main.command(short_help="Compare two profiles; exit with 1 on a regression.")
@click.argument("base", type=click.Path())
@click.argument("new", type=click.Path())
@click.option(
    "--fail-over", default="5%", show_default=True, metavar="SHARE", help="Exit with 1 where a kernel is slower by more."
)
@click.option("--force", is_flag=True, help="Compare different GPUs, or emulated and measured times, too.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document and nothing else.")
@click.option("--debug", is_flag=True, help="Show the traceback of an error.")
def compare(base: str, new: str, fail_over: str, force: bool, as_json: bool, debug: bool) -> None:
    """Compare two profiles (profile.json or a run's directory) kernel by kernel; exit with 1 on a significant regression.

    Noise is judged from the times of each kernel: it takes six or more of each, so profile with --runs 10.
    """

    def run() -> None:
        from pathlib import Path

        from rich.console import Console

        from rocm_perf_lab.jobs.compare.job import CompareRequest, run_compare

        request = CompareRequest(Path(base), Path(new), fail_over, force)
        if run_compare(request, Console(highlight=False), as_json=as_json):
            sys.exit(1)

    _answer(run, debug)


@main.command(short_help="Say what is found here, and how to get what is missing.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document and nothing else.")
@click.option("--debug", is_flag=True, help="Show the traceback of an error.")
def doctor(as_json: bool, debug: bool) -> None:
    """Say what is found of a GPU, ROCm, compilers and the emulator, and how to get what is missing."""

    def run() -> None:
        from rich.console import Console

        from rocm_perf_lab.jobs.doctor.job import run_doctor

        if not run_doctor(Console(highlight=False), as_json=as_json):
            sys.exit(2)

    _answer(run, debug)


@main.group(short_help="Explain metrics: formula, counters, unit, source.")
def metrics() -> None:
    """Explain the metrics over hardware counters: formula, counters, unit and source."""


_TARGET = click.option("--target", metavar="NAME", help="Only what the architecture of this GPU has, for example mi300x.")


@metrics.command("list")
@_TARGET
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document and nothing else.")
@click.option("--debug", is_flag=True, help="Show the traceback of an error.")
def metrics_list(target: str | None, as_json: bool, debug: bool) -> None:
    """List every metric."""

    def run() -> None:
        from rich.console import Console

        from rocm_perf_lab.jobs.metrics.job import list_metrics

        list_metrics(Console(highlight=False), target=target, as_json=as_json)

    _answer(run, debug)


@metrics.command("show")
@click.argument("name")
@_TARGET
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document and nothing else.")
@click.option("--debug", is_flag=True, help="Show the traceback of an error.")
def metrics_show(name: str, target: str | None, as_json: bool, debug: bool) -> None:
    """Show the metric NAME, for example vector_l1_hit_rate."""

    def run() -> None:
        from rich.console import Console

        from rocm_perf_lab.jobs.metrics.job import show_metric

        show_metric(Console(highlight=False), name, target=target, as_json=as_json)

    _answer(run, debug)


@main.command(short_help="Write the JSON Schemas of all documents.")
@click.argument("directory", type=click.Path(file_okay=False), default="schemas")
def schemas(directory: str) -> None:
    """Write the JSON Schemas of profile, roofline, dag, analysis, compare, autotune, captures and replays to DIRECTORY."""
    _answer(lambda: _write_schemas(directory), debug=False)


def _write_schemas(directory: str) -> None:
    from pathlib import Path

    from rocm_perf_lab.analysis.comparison_document import export_schema as export_compare_schema
    from rocm_perf_lab.analysis.documents import export_schemas
    from rocm_perf_lab.autotune.document import export_schema
    from rocm_perf_lab.replay.format import export_schemas as export_capture_schemas

    to = Path(directory)
    try:
        for path in (*export_schemas(to), export_compare_schema(to), export_schema(to), *export_capture_schemas(to)):
            click.echo(path)
    except OSError as error:
        hint = "name a directory that can be written"
        raise LabError(f"cannot write the schemas: {error.strerror or error}", where=directory, hint=hint) from error


main.add_command(replay)


def _answer(action: Callable[[], None], debug: bool) -> None:
    from rocm_perf_lab.cli.entry import exit_code_of

    sys.exit(exit_code_of(action, debug=debug))


for _command in OPTIMIZE_COMMANDS:
    main.add_command(_command)
