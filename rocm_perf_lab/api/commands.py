"""Functions of the API; each runs the job of one command and returns its results."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from rocm_perf_lab.api.composition import overrides_of, run_job, without_widget_warning
from rocm_perf_lab.api.results import Comparison, LabRun, Optimization, ReplayedCapture, Tuning
from rocm_perf_lab.core.errors import LabError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import pandas as pd

    Progress = Callable[[str], None]
    RunOrPath = LabRun | str | Path

_APPLICATION_SETTINGS = ("kernel", "runs", "device", "gpus", "threads", "root", "focus_critical", "timeout_s")


def profile(
    kernel: str | Sequence[str],
    *,
    overrides: Sequence[str] = (),
    output: str | Path | None = None,
    progress: Progress | None = None,
    **settings: Any,
) -> LabRun:
    """Profile a described kernel, or an application.

    Args:
        kernel: Name of a kernel (option of the group `kernel`), or program and arguments of an application as a list.
        overrides: Further overrides of the configuration, as on the command line.
        output: Directory of the run; None creates one below `outputs`.
        progress: Called with lines of text while the job runs.
        settings: Groups of the configuration (`target="mi250x"`, `device="emulator"`); others are parameters of the kernel
            (`cols=2048`), or keys of the job of an application (`runs=3`).

    Raises:
        NegativeResult: The output is wrong, or a check found a defect.
        LabError: The configuration is invalid, or the kernel cannot be compiled or run.
    """
    if isinstance(kernel, str):
        return LabRun(
            run_job("profile", [f"kernel={kernel}", *overrides_of(settings), *overrides], output=output, progress=progress)
        )
    from rocm_perf_lab.config.overrides import quoted, quoted_list

    own = {name: settings.pop(name) for name in _APPLICATION_SETTINGS if name in settings}
    rows = [f"job.{name}={quoted(value) if isinstance(value, str) else value}" for name, value in own.items()]
    command = f"job.command={quoted_list(tuple(map(str, kernel)))}"
    return LabRun(run_job("application", [command, *rows, *overrides_of(settings), *overrides], output=output, progress=progress))


def optimize(
    kernel: str,
    *,
    budget: int | None = None,
    overrides: Sequence[str] = (),
    output: str | Path | None = None,
    progress: Progress | None = None,
    **settings: Any,
) -> Optimization:
    """Rewrite a kernel, keep versions that are correct and faster, and roll back the others.

    Args:
        kernel: Name of a kernel.
        budget: Maximum number of evaluated rewrites.
        overrides, output, progress, settings: See :func:`profile`.

    Raises:
        LabError: The configuration is invalid, or the unmodified kernel cannot be compiled, run or verified.
    """
    limit = [] if budget is None else [f"optimizer.max_proposals={budget}"]
    rows = [f"kernel={kernel}", *limit, *overrides_of(settings), *overrides]
    return Optimization(run_job("optimize", rows, output=output, progress=progress))


def autotune(
    kernel: str,
    *,
    space: str | Path,
    budget: int | None = None,
    seed: int | None = None,
    overrides: Sequence[str] = (),
    output: str | Path | None = None,
    progress: Progress | None = None,
    **settings: Any,
) -> Tuning:
    """Find the fastest configuration of a kernel.

    Args:
        kernel: Name of a kernel.
        space: Option of the group `space`, or a file with a search space.
        budget: Number of configurations to evaluate.
        seed: Random seed; the same seed repeats the same search.
        overrides, output, progress, settings: See :func:`profile`.

    Raises:
        LabError: The configuration or the space is invalid, or every configuration fails.
    """
    from rocm_perf_lab.config.overrides import quoted

    path = Path(space)
    where = f"autotune.space={quoted(str(path.absolute()))}" if path.suffix else f"space={space}"
    limits = {"autotune.budget": budget, "autotune.seed": seed}
    rows = [f"{key}={value}" for key, value in limits.items() if value is not None]
    arguments = [f"kernel={kernel}", where, *rows, *overrides_of(settings), *overrides]
    return Tuning(run_job("autotune", arguments, output=output, progress=progress))


def analyze(
    *paths: str | Path,
    kernel: str | None = None,
    target: str | None = None,
    att: str | Path | None = None,
    counters: str | Path | None = None,
    roofline_csv: str | Path | None = None,
    focus_critical: bool = False,
    output: str | Path | None = None,
) -> LabRun:
    """Analyse recordings of AMD's profilers.

    Args:
        paths: Files and directories in any combination, recognised by content.
        kernel: Regular expression of the kernel; None selects the one with the longest exclusive time.
        target: GPU, if the recording does not identify it.
        att: Decoded thread trace, if it is not among the paths.
        counters: Counter collection runs, if they are not among the paths.
        roofline_csv: Measured peaks: roofline.csv of rocprof-compute.
        focus_critical: Analyse the kernel with the largest share of the critical path.
        output: Directory for the documents; None creates one below `outputs`.

    Raises:
        LabError: A file does not exist, or no recording can be read.
    """
    from rocm_perf_lab.jobs.analyze.job import analyze_files
    from rocm_perf_lab.jobs.analyze.request import AnalyzeRequest

    if not paths:
        raise LabError("no recording to analyse", where="paths", hint="pass files or directories of a profiler")
    request = AnalyzeRequest.of(
        [Path(path) for path in paths],
        kernel=kernel,
        target=target,
        att=att,
        counters=counters,
        roofline_csv=roofline_csv,
        focus_critical=focus_critical,
        output=output,
    )
    directory = request.directory
    analyze_files(request, directory)
    return LabRun(directory)


def compare(
    base: RunOrPath,
    new: RunOrPath,
    *,
    fail_over: str = "5%",
    normalise: Literal["workgroup", "byte"] | None = None,
    force: bool = False,
) -> Comparison:
    """Compare two profiles kernel by kernel, considering measurement noise.

    Args:
        base, new: Runs, their directories, or profile.json files.
        fail_over: Relative slowdown above which a kernel is a regression, for example `5%`.
        normalise: Compare different launch shapes per workgroup, or per byte of DRAM traffic.
        force: Compare even different GPUs, or emulated with measured times.

    Raises:
        LabError: A profile is invalid, or the runs are not comparable.
    """
    from rocm_perf_lab.jobs.compare.job import CompareRequest, compare_runs

    return Comparison(compare_runs(CompareRequest(_profile_of(base), _profile_of(new), fail_over, force, normalise)).document())


def replay(
    capture: str | Path,
    *,
    iterations: int = 1,
    hsaco: str | Path | None = None,
    check: bool = False,
    device: Literal["auto", "rocm", "emulator"] = "auto",
    target: str | None = None,
    rtol: float = 0.0,
    atol: float = 0.0,
) -> ReplayedCapture:
    """Replay a captured dispatch at its virtual addresses.

    Args:
        capture: Directory of the capture.
        iterations: Number of replays.
        hsaco: Code object that replaces the captured one.
        check: Compare the memory after each replay with the memory after the captured dispatch.
        device: Device to replay on.
        target: GPU to emulate; None selects one with the captured architecture.
        rtol, atol: Relative and absolute tolerance for floating-point values.

    Raises:
        LabError: The capture is damaged, cannot be replayed here, or the kernel failed.
    """
    from rocm_perf_lab.jobs.replay.commands import FullVmRequest, ReplayTarget, replay_capture

    where = ReplayTarget(capture_dir=Path(capture), device=device, target=target)
    override = Path(hsaco) if hsaco is not None else None
    request = FullVmRequest(where, iterations=iterations, hsaco=override, check=check, rtol=rtol, atol=atol)
    return ReplayedCapture(replay_capture(request))


def runs(*, uri: str | None = None, experiment: str = "rocm-perf-lab", children: bool = False, **conditions: str) -> pd.DataFrame:
    """Return the tracked runs as a table, newest first.

    Args:
        uri: MLflow store; None uses MLFLOW_TRACKING_URI, else the SQLite file in the working directory.
        experiment: MLflow experiment.
        children: Include the runs of proposals and trials.
        conditions: Values of tags: `kernel="softmax"`, `target="mi300x"`, `job="optimize"`, `time_kind="measured"`.

    Raises:
        TrackingError: The store cannot be used.
    """
    from rocm_perf_lab.tracking.table import runs_table

    with without_widget_warning():
        return runs_table(uri=uri, experiment=experiment, children=children, tags=conditions)


def report(*runs: RunOrPath, output: str | Path | None = None) -> Path:
    """Write one self-contained HTML page about one or several runs, and return its path.

    Args:
        runs: Runs, their directories, or files with `--json` output; several runs are compared with the first one.
        output: File; None is report.html in the directory of a single run, else in the working directory.

    Raises:
        LabError: A directory holds no run, or the file cannot be written.
    """
    from rocm_perf_lab.report.page import write_page

    directories = [run.directory if isinstance(run, LabRun) else Path(run) for run in runs]
    return write_page(directories, Path(output) if output is not None else None)


def _profile_of(run: RunOrPath) -> Path:
    if isinstance(run, Optimization):
        return run.directory / "baseline"
    return run.directory if isinstance(run, LabRun) else Path(run)
