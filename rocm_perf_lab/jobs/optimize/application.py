"""`job=optimize_application`: the closed loop on a kernel of an application."""

from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from rocm_perf_lab.jobs.analyze.kernel_analysis import KernelSelector, analyze_traces, target_of_trace
from rocm_perf_lab.jobs.optimize.application_bench import ApplicationBench
from rocm_perf_lab.jobs.optimize.application_source import (
    DEFAULT_BUILD,
    ApplicationBuilder,
    ApplicationSource,
    find_source,
    require_placeholders,
)
from rocm_perf_lab.jobs.optimize.bench import read_source, share_of
from rocm_perf_lab.jobs.optimize.models import failure_of, open_proposer
from rocm_perf_lab.jobs.optimize.reporter import LoopReporter, show_progress
from rocm_perf_lab.jobs.optimize.results import write_results
from rocm_perf_lab.jobs.optimize.setup import (
    LoopComponents,
    clear_directory,
    confirm,
    ordered_transforms,
    policy_of,
)
from rocm_perf_lab.jobs.profile.application_profiler import ApplicationDevice
from rocm_perf_lab.jobs.records import RebuildCheck, analysis_params, optimizer_params, profile_metrics
from rocm_perf_lab.jobs.run_directory import ROCPD_DIRECTORY
from rocm_perf_lab.jobs.show import runtime_text, show_locations, show_profile
from rocm_perf_lab.languages.description import KernelDescription
from rocm_perf_lab.optimize.loop import ClosedLoop
from rocm_perf_lab.optimize.loop_result import LoopResult
from rocm_perf_lab.optimize.proposal import Proposal
from rocm_perf_lab.optimize.ranking import KernelShare, rank_by_measuring, reason_to_stop
from rocm_perf_lab.optimize.resume import JOURNAL, Journal, JournalHeader
from rocm_perf_lab.optimize.source_tree import SourceError, parse_source
from rocm_perf_lab.profiling.selection import rank_kernels
from rocm_perf_lab.toolchain.compilers import find_compiler
from rocm_perf_lab.verify.application_outputs import ApplicationVerifier

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rocm_perf_lab.jobs.analyze.kernel_analysis import KernelAnalysis
    from rocm_perf_lab.jobs.lab import Lab
    from rocm_perf_lab.profiling.application import ApplicationPasses, ApplicationProfiler
    from rocm_perf_lab.profiling.selection import RankedKernel
    from rocm_perf_lab.rocprof.trace import Trace
    from rocm_perf_lab.target.model import Target
    from rocm_perf_lab.tracking.run import RunTracker


class OptimizeApplicationJob:
    """Builds and profiles an application, rewrites a kernel of it, and keeps rewrites that are correct and faster.

    Args:
        command: Program and arguments.
        source: File with the kernel; None searches next to the program.
        build: Build command with `{source}` and `{binary}`; None means `DEFAULT_BUILD`.
        verify: Command that exits with 0 if the outputs are correct, with `{binary}`; None compares outputs.
        compare_files: Files that the application writes.
        kernel: Regular expression for the kernel; None selects the one with the largest possible gain.
        timeout_s: Limit of one run and of one build in seconds.
        device: `rocm` profiles with rocprofv3, `emulator` on an emulated GPU, `auto` with rocprofv3 if there is a GPU.
        root: ROCm directory tree for the emulator, which becomes the application's root directory.
    """

    def __init__(
        self,
        *,
        command: Sequence[str],
        source: str | None = None,
        build: str | None = None,
        verify: str | None = None,
        compare_files: Sequence[str] = (),
        kernel: str | None = None,
        timeout_s: float = 600.0,
        device: str = "auto",
        root: str | None = None,
    ) -> None:
        self._assumed = [name for name, value in (("--source", source), ("--build", build)) if value is None]
        require_placeholders(build if build is not None else DEFAULT_BUILD)
        arguments = tuple(map(str, command))
        path = Path(source) if source is not None else find_source(arguments[0])
        self._build = build
        self._application = ApplicationSource(path, build or DEFAULT_BUILD, arguments)
        self._verifier = ApplicationVerifier(tuple(Path(name).absolute() for name in compare_files), verify, timeout_s)
        self._kernel = kernel
        self._timeout_s = timeout_s
        self._device = ApplicationDevice(device, None if root is None else Path(root))

    def run(self, lab: Lab) -> None:
        """Run the optimization.

        Raises:
            LabError: The unmodified application cannot be built, run, profiled or compared.
        """
        profiler = self._device.profiler(lab.config)
        application = replace(self._application, build=self._build or self._device.default_build(lab.config.target))
        text = read_source(application.source)
        if self._assumed:
            lab.console.print(f"[bold]source[/]  {application.source}", soft_wrap=True)
            lab.console.print(f"[bold]build[/]   {application.build}", soft_wrap=True)
            lab.console.print(f"        (default; set {' and '.join(self._assumed)} to change)", soft_wrap=True)
        if not lab.resumed:
            clear_directory(lab.output_dir)
        builder = ApplicationBuilder(application, lab.output_dir / "proposals", self._timeout_s, profiler)
        baseline = Proposal.of(text, transform="none", description="the unmodified source", parent=None)
        found, symbol = self._first_look(lab, profiler, baseline, builder)
        described = KernelDescription(
            name=found.profile.kernel.name.partition("(")[0],
            source=self._application.source.absolute(),
            entry=symbol,
            arguments=(),
            grid=tuple(found.profile.grid),
            block=tuple(found.profile.block),
        )
        lab = replace(lab, settings=lab.config.model_copy(update={"kernel": described, "target": found.profile.target}))
        parse_source(text.encode(), symbol)
        parts = LoopComponents.of(lab)
        confirm(lab, parts.model)
        lab.console.print(f"[bold]device[/]  {profiler.device}", soft_wrap=True)
        with lab.tracker as tracker:
            show_profile(lab.console, found, found.time_kind, "baseline")
            tracker.set_tags(
                {"job": lab.job_name, "command": shlex.join(self._application.command), "time_kind": found.time_kind}
            )
            tracker.log_params({**analysis_params(found), **optimizer_params(lab.config)})
            tracker.log_metrics(profile_metrics(found))
            bench = self._bench(lab, profiler, parts, found, builder)
            result = self._search(lab, parts, bench, tracker, baseline, found)
            write_results(
                lab,
                tracker,
                result,
                rebuild=lambda _: _rebuild(bench, result.best),
                isolation=str(parts.sandbox.protection()),
                word=found.time_kind,
                errors=found.profile.timing_errors,
            )
            lab.console.print(f"[bold]binary[/]  {builder.binary(result.best)}", soft_wrap=True)
        show_locations(lab, lab.tracker)
        lab.answer(lab.output_dir / "optimize.json", runtime_text(result.best_runtime_ns, found.time_kind))

    def _first_look(
        self, lab: Lab, profiler: ApplicationProfiler, baseline: Proposal, builder: ApplicationBuilder
    ) -> tuple[KernelAnalysis, str]:
        """Build and profile the unmodified application with counters, and select the kernel to rewrite."""
        with lab.console.status("building and profiling the application") as status:
            builder.place(baseline)
            builder.build(baseline)
            command, place = builder.command(baseline), lab.output_dir / "baseline" / ROCPD_DIRECTORY
            runs = profiler.passes(command, place, self._timeout_s, status.update)
            traces, problems = runs.times(1)
            gpu = target_of_trace(traces[0], lab.config.target)

            counted: dict[str, tuple[tuple[Trace, ...], tuple[str, ...]]] = {}

            def look(kernel: RankedKernel) -> KernelAnalysis:
                name = kernel.mangled_name
                if name not in counted:
                    directory = place / f"kernel_{len(counted) + 1}" if counted else place
                    more = profiler.passes(command, directory, self._timeout_s, status.update)
                    counted[name] = more.counters(gpu.target.architecture, lab.config.passes.counters, name)
                counters, failures = counted[name]
                return analyze_traces(
                    traces,
                    lab.output_dir / "baseline",
                    kernel=kernel,
                    target=gpu.target,
                    helper_patterns=lab.config.passes.helper_kernels,
                    note=f"{profiler.name}: {shlex.join(self._application.command)}",
                    counter_traces=counters,
                    problems=(*problems, *failures, *gpu.notes),
                )

            kernel = self._most_worthwhile(lab, traces[0], gpu.target, look)
            found = look(kernel)
        return found, _symbol(kernel)

    def _most_worthwhile(
        self, lab: Lab, trace: Trace, target: Target, look: Callable[[RankedKernel], KernelAnalysis]
    ) -> RankedKernel:
        """Return the kernel that `--kernel` selects, or the kernel in the source with the largest possible gain."""
        choice = KernelSelector(self._kernel, True, lab.config.passes.helper_kernels)
        if self._kernel is not None:
            return choice.of(trace, target)
        content = self._application.source.read_bytes()
        critical = choice.critical(trace, target)
        here = {k.mangled_name: (k, share) for k, share in critical if _is_defined_in(content, _symbol(k))}
        elsewhere = [
            k.name for k, share in critical if k.mangled_name not in here and share >= lab.config.optimizer.min_improvement
        ]
        if elsewhere:
            lab.console.print(f"[dim]not in {self._application.source.name}: {', '.join(elsewhere)}[/]", soft_wrap=True)
        if len(here) < 2:
            return next(iter(here.values()))[0] if here else critical[0][0]

        def look_at(share: KernelShare) -> KernelShare:
            return replace(share_of(look(here[share.name][0])), name=share.name)

        ranking = rank_by_measuring([KernelShare(name, share, None) for name, (_, share) in here.items()], look_at)
        for place, share in enumerate(ranking, start=1):
            lab.console.print(f"[bold]rank {place}[/]  {here[share.name][0].name}: {_gain_text(share)}", soft_wrap=True)
        return here[ranking[0].name][0]

    def _bench(
        self, lab: Lab, profiler: ApplicationProfiler, parts: LoopComponents, found: KernelAnalysis, builder: ApplicationBuilder
    ) -> ApplicationBench:
        helpers, mangled = lab.config.passes.helper_kernels, found.profile.kernel.mangled_name
        x, y, z = found.profile.block

        def runs_of(command: list[str], place: Path) -> ApplicationPasses:
            return profiler.passes(command, place / ROCPD_DIRECTORY, self._timeout_s, lambda _: None)

        def profile(command: list[str], place: Path) -> KernelAnalysis:
            traces, problems = runs_of(command, place).times(1)
            kernel = KernelSelector(f"^{mangled.removesuffix('.kd')}", False, helpers).of(traces[0], lab.config.target)
            note = f"{profiler.name}: {shlex.join(command)}"
            return analyze_traces(
                traces, place, kernel=kernel, target=lab.config.target, helper_patterns=helpers, note=note, problems=problems
            )

        def time_ns(command: list[str], place: Path) -> float:
            (trace,), _ = runs_of(command, place).times(1)
            (kernel,) = [k for k in rank_kernels(trace, helpers) if k.mangled_name == mangled]
            return kernel.total_ns / len(kernel.dispatches)

        return ApplicationBench(
            builder=builder,
            kernel=mangled.removesuffix(".kd"),
            block=x * y * z,
            target=lab.config.target,
            compiler=find_compiler(lab.config.toolchain.compilers),
            sandbox=parts.sandbox,
            verifier=self._verifier,
            plain=profiler.plain,
            profile=profile,
            time_ns=time_ns,
            band=found.profile.timing_errors.decisive if found.profile.timing_errors is not None else None,
        )

    def _search(
        self,
        lab: Lab,
        parts: LoopComponents,
        bench: ApplicationBench,
        tracker: RunTracker,
        baseline: Proposal,
        found: KernelAnalysis,
    ) -> LoopResult:
        settings = lab.config.optimizer
        share = share_of(found)
        stop = reason_to_stop(share, settings.min_improvement)
        built = bench.build(baseline)
        evaluation = bench.evaluate(baseline, built)
        if stop is not None:
            lab.console.print(f"[yellow]no potential gain[/]: {stop}")
            return LoopResult(baseline, evaluation.runtime_ns, baseline, evaluation.runtime_ns, (), stop)
        lab.console.print(f"[bold]rank[/]    {share.name}: {share.possible_gain:.0%} of the total time can be saved")
        journal = Journal(lab.output_dir / JOURNAL)
        header = journal.begin(JournalHeader(baseline=baseline.id, runtime_ns=evaluation.runtime_ns, tracking_run=tracker.run_id))

        transforms = ordered_transforms(lab, parts.transforms, found.diagnosis)

        def directory_of(proposal: Proposal) -> Path:
            return lab.output_dir / "baseline" if proposal.id == baseline.id else bench.builder.directory_of(proposal)

        with (
            show_progress(lab.console) as progress,
            open_proposer(lab, parts.model, transforms, parts.guards, tracker, directory_of, progress.spent) as proposer,
        ):
            loop = ClosedLoop(
                bench=bench,
                entry=bench.kernel,
                proposer=proposer,
                guards=parts.guards,
                policy=policy_of(settings),
                observer=LoopReporter(lab, tracker, bench.profiled, baseline, progress, journal),
                search=parts.search,
                store=journal,
            )
            result = loop.run(baseline, built, replace(evaluation, runtime_ns=header.runtime_ns))
            failure = failure_of(proposer)
            if failure is not None and not result.verdicts:
                raise failure
            return result


def _symbol(kernel: RankedKernel) -> str:
    return kernel.mangled_name.removesuffix(".kd")


def _is_defined_in(content: bytes, symbol: str) -> bool:
    try:
        parse_source(content, symbol)
    except SourceError:
        return False
    return True


def _gain_text(kernel: KernelShare) -> str:
    if kernel.headroom is None:
        return f"at most {kernel.possible_gain:.0%} of the total time, its share of the critical path"
    return (
        f"{kernel.possible_gain:.0%} of the total time: {kernel.critical_share:.0%} of the critical path, "
        f"{kernel.headroom:.1f} times its roofline time"
    )


def _rebuild(bench: ApplicationBench, best: Proposal) -> RebuildCheck:
    """Compile the device code of the stored source again, without the cache."""
    path = bench.builder.source(best)
    if not path.exists():
        bench.builder.place(best)
    first, again = bench.compile(path), bench.compile(path, fresh=True)
    return RebuildCheck(first.code_object.sha256, again.code_object.sha256, again.command)
