"""Compile a kernel, launch it on the device, verify its output, and analyse the recorded database.

A profile uses the workbench once, an optimization many times.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from functools import cached_property
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from rocm_perf_lab.analysis.describe import describe
from rocm_perf_lab.analysis.diagnosis import diagnose
from rocm_perf_lab.core.errors import LabError
from rocm_perf_lab.core.files import write_bytes, write_text
from rocm_perf_lab.core.printed import PRINTED_NAME, text_of
from rocm_perf_lab.device.instruction_counts import COUNTS_NAME, counts_document
from rocm_perf_lab.device.launch import build_launch, launch_geometry
from rocm_perf_lab.jobs.run_directory import ATT_DIRECTORY, ROCPD_DIRECTORY, TIMELINE
from rocm_perf_lab.languages.compilation import compile_description
from rocm_perf_lab.languages.source_launch import with_source_launch
from rocm_perf_lab.optimize.inspection import inspect
from rocm_perf_lab.profiling.documents import write_documents
from rocm_perf_lab.profiling.passes import run_passes
from rocm_perf_lab.profiling.profile import build_profile
from rocm_perf_lab.profiling.selection import rank_kernels
from rocm_perf_lab.replay.device import ProvidesExpectedOutputs
from rocm_perf_lab.report.perfetto import write_perfetto
from rocm_perf_lab.rocprof.roofline_csv import read_roofline_csv
from rocm_perf_lab.target.occupancy import launch_occupancy
from rocm_perf_lab.toolchain.compilers import find_compiler
from rocm_perf_lab.toolchain.disassembly import disassemble
from rocm_perf_lab.toolchain.elf_file import parse_elf
from rocm_perf_lab.toolchain.kernel_lookup import find_kernel
from rocm_perf_lab.toolchain.kernel_occupancy import occupancy_request
from rocm_perf_lab.verify.outputs import VerificationResult, verify_outputs
from rocm_perf_lab.verify.reference import expected_outputs
from rocm_perf_lab.verify.tolerances import kernel_tolerances

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from rocm_perf_lab.analysis.diagnosis import Diagnosis
    from rocm_perf_lab.config.lab import LabConfig
    from rocm_perf_lab.core.printed import PrintedPiece
    from rocm_perf_lab.device.protocol import Device, Finding, Launch
    from rocm_perf_lab.languages.description import KernelDescription
    from rocm_perf_lab.languages.spec import Tolerance
    from rocm_perf_lab.optimize.inspection import Inspection
    from rocm_perf_lab.profiling.passes import PassResults
    from rocm_perf_lab.profiling.profile import Profile
    from rocm_perf_lab.target.occupancy import Occupancy
    from rocm_perf_lab.target.peaks import MeasuredPeaks
    from rocm_perf_lab.toolchain.build import BuildResult
    from rocm_perf_lab.toolchain.code_object import KernelMetadata
    from rocm_perf_lab.toolchain.compilers import Compiler
    from rocm_perf_lab.toolchain.sandbox import Sandbox


@dataclass(frozen=True)
class CompiledKernel:
    """Kernel of one build, and its description with the launch that the source requests."""

    build: BuildResult
    kernel: KernelMetadata
    occupancy: Occupancy
    description: KernelDescription

    def launch(self) -> Launch:
        """Build the launch with new buffers."""
        return build_launch(self.description, self.build.code_object, self.kernel.symbol, self.build.contract)

    @cached_property
    def machine_code_sha256(self) -> str:
        """SHA-256 of the instructions of the kernel, without line tables and names."""
        code = parse_elf(self.build.code_object.data).read(self.kernel.entry_address, self.kernel.code_bytes)
        return hashlib.sha256(code).hexdigest()

    @property
    def launched_code_sha256(self) -> str:
        """SHA-256 of the instructions and of the launch: equal instructions with different grids are different programs."""
        own = self.description
        launch = (*own.grid, "x", *own.block, "x", *own.work_items, "x", own.dynamic_lds_bytes)
        return hashlib.sha256(f"{self.machine_code_sha256} {' '.join(map(str, launch))}".encode()).hexdigest()

    def disassembly(self) -> str:
        """Return the listing: one instruction per line, with its address."""
        lines = disassemble(self.build.code_object, self.kernel.symbol)
        return "".join(f"{line.address:8x}  {line.text}\n" for line in lines)


@dataclass(frozen=True)
class ProfiledKernel:
    """Profile of one build; `artifacts` are the files written for it."""

    compiled: CompiledKernel
    profile: Profile
    diagnosis: Diagnosis
    verification: VerificationResult | None
    findings: tuple[Finding, ...]
    artifacts: tuple[Path, ...]
    printed: tuple[PrintedPiece, ...] = ()

    @property
    def runtime_ns(self) -> float:
        """Median duration of the kernel."""
        return self.diagnosis.stability.median_ns


class Workbench:
    """Compiles and profiles one kernel description on one device."""

    def __init__(self, config: LabConfig, device: Device) -> None:
        self._config = config
        self._device = device
        self._expected: Mapping[str, NDArray[Any]] | None = None
        self._tolerances: Mapping[str, Tolerance | NDArray[np.float64]] = {}

    @cached_property
    def _compiler(self) -> Compiler:
        return find_compiler(self._config.toolchain.compilers)

    @cached_property
    def _measured_peaks(self) -> MeasuredPeaks | None:
        path = self._config.passes.roofline_csv
        return read_roofline_csv(path) if path is not None else None

    def compile(self, source: Path, *, sandbox: Sandbox | None = None, fresh: bool = False) -> CompiledKernel:
        """Compile a source in place of the described one.

        Args:
            source: Source file.
            sandbox: Limits of the compiler, for an untrusted source.
            fresh: Ignore the compile cache.

        Raises:
            CompileError: The source does not compile.
            CompilerNotFound: No compiler is installed.
            KernelNotFound: The code object has no kernel of that entry.
        """
        description, target = self._config.kernel, self._config.target
        build = self.build(description, source, sandbox=sandbox, fresh=fresh)
        kernel = find_kernel(build.code_object, description.entry)
        own = with_source_launch(description, source)
        geometry = launch_geometry(own, build.contract)
        asked = occupancy_request(kernel, workgroup_size=prod(geometry.block), dynamic_lds_bytes=geometry.dynamic_lds_bytes)
        return CompiledKernel(build, kernel, launch_occupancy(target, asked), own)

    def build(
        self,
        description: KernelDescription,
        source: Path,
        *,
        sandbox: Sandbox | None = None,
        fresh: bool = False,
        promise_checks: bool = False,
    ) -> BuildResult:
        """Compile a source with a description whose params may differ from the configured ones.

        With `promise_checks`, misaligned accesses and false assumptions trap.

        Raises:
            CompileError: The source does not compile.
            CompilerNotFound: No compiler is installed.
        """
        return compile_description(
            description,
            source,
            architecture=self._config.target.architecture,
            compiler=lambda: self._compiler,
            optimisation=self._config.toolchain.optimisation,
            sandbox=sandbox,
            fresh=fresh,
            promise_checks=promise_checks,
        )

    def inspect(self, compiled: CompiledKernel, source: Path, *, sandbox: Sandbox | None = None) -> Inspection:
        """Collect the facts that guards examine.

        Args:
            compiled: The build.
            source: Its source file.
            sandbox: Limits of the compiler, for an untrusted source.

        Raises:
            SyntaxTreeError: The compiler returns no syntax tree of the source.
        """
        geometry = launch_geometry(compiled.description, compiled.build.contract)
        return inspect(
            self._config.kernel,
            source,
            compiled.build,
            compiler=self._compiler,
            architecture=self._config.target.architecture,
            work_items=prod(geometry.block),
            dynamic_lds_bytes=geometry.dynamic_lds_bytes,
            optimisation=self._config.toolchain.optimisation,
            sandbox=sandbox,
        )

    def run(self, compiled: CompiledKernel, directory: Path) -> ProfiledKernel:
        """Launch, verify, profile and analyse a kernel; all files are written to `directory`.

        Raises:
            LabError: The kernel faulted, or its output cannot be compared.
        """
        launch = compiled.launch()
        passes = run_passes(
            self._device,
            launch,
            directory=directory / ROCPD_DIRECTORY,
            runs=self._config.passes.runs,
            counters=self._config.passes.counters,
            att=directory / ATT_DIRECTORY if self._config.passes.thread_trace else None,
        )
        verification = self._verify(launch, passes.outputs)
        profile, diagnosis = self._analyze(compiled, passes)
        described = describe(
            profile,
            diagnosis,
            passes.trace,
            dag_nodes=self._config.passes.dag_nodes,
            result="not checked" if verification is None else "correct" if verification.passed else "wrong",
            result_evidence=None if verification is None else str(verification),
        )
        documents = write_documents(directory, described)
        timeline = () if not passes.trace.provenance.has_times else (directory / TIMELINE,)
        for path in timeline:
            write_perfetto(path, passes.trace, diagnosis.critical_path, att=passes.att)
        databases = sorted((directory / ROCPD_DIRECTORY).rglob("*.db"))
        observations = _write_observations(passes, launch, directory)
        files = (*documents, *timeline, *_write_binaries(compiled, directory), *databases, *observations)
        return ProfiledKernel(compiled, profile, diagnosis, verification, passes.findings, files, passes.printed)

    def _analyze(self, compiled: CompiledKernel, passes: PassResults) -> tuple[Profile, Diagnosis]:
        build, identity = compiled.build, self._device.identity
        profile = build_profile(
            passes.trace,
            target=self._config.target,
            identity_note=f"{identity.name}: {identity.reason}",
            resources=compiled.kernel,
            symbol=compiled.kernel.symbol,
            helper_patterns=self._config.passes.helper_kernels,
            counter_traces=passes.counter_traces,
            code_object_sha256=build.code_object.sha256,
            versions={**identity.versions, build.compiler_name: build.compiler_version},
            failures=(*build.notes, *passes.failures),
        )
        diagnosis = diagnose(
            profile,
            passes.trace,
            deterministic=self._device.deterministic,
            att=passes.att if passes.att is not None else passes.att_reason,
            measured=self._measured_peaks,
        )
        return profile, diagnosis

    def time_ns(self, compiled: CompiledKernel, directory: Path, *, dispatches: int) -> float:
        """Return the median time in ns of `dispatches` dispatches in a separate process, without verification and counters.

        Raises:
            LabError: The profiler recorded no dispatch.
        """
        passes = run_passes(self._device, compiled.launch(), directory=directory, runs=dispatches, counters=())
        durations = [
            passes.trace.dispatches.duration_ns[kernel.dispatches]
            for kernel in rank_kernels(passes.trace, self._config.passes.helper_kernels)
            if kernel.mangled_name.removesuffix(".kd") == compiled.kernel.symbol.removesuffix(".kd")
        ]
        if not durations:
            raise LabError("the profiler recorded no dispatch of the kernel", where=str(directory))
        return float(np.median(np.concatenate(durations)))

    def _verify(self, launch: Launch, outputs: Mapping[str, NDArray[Any]]) -> VerificationResult | None:
        """Verify the outputs; None for the first run of a kernel without a reference, whose output becomes the reference."""
        if self._expected is None:
            known = self._device.expected_outputs(launch) if isinstance(self._device, ProvidesExpectedOutputs) else None
            reference = known if known is not None else expected_outputs(self._config.kernel, launch)
            if reference is None:
                self._expected, self._tolerances = dict(outputs), dict(self._config.kernel.tolerance)
                return None
            self._expected = reference
            kernel = self._config.kernel
            self._tolerances = dict(kernel.tolerance) if known is not None else kernel_tolerances(kernel, launch, reference)
        return verify_outputs(outputs, self._expected, self._tolerances)


def _write_observations(passes: PassResults, launch: Launch, directory: Path) -> tuple[Path, ...]:
    """Write findings, instruction counts and printed text, if any."""
    files: list[Path] = []
    if passes.findings:
        files.append(write_findings(passes.findings, directory))
    if passes.instruction_counts:
        counts = counts_document(launch.symbol, launch.code_object.sha256, passes.instruction_counts)
        write_text(directory / COUNTS_NAME, counts)
        files.append(directory / COUNTS_NAME)
    if passes.printed:
        write_text(directory / PRINTED_NAME, text_of(passes.printed))
        files.append(directory / PRINTED_NAME)
    return tuple(files)


def write_findings(findings: Sequence[Finding], directory: Path) -> Path:
    """Write `checks.json`, the findings of the emulator's checks."""
    path = directory / "checks.json"
    write_text(path, json.dumps({"schema_version": "1.0", "findings": [asdict(f) for f in findings]}, indent=2) + "\n")
    return path


def _write_binaries(compiled: CompiledKernel, directory: Path) -> tuple[Path, ...]:
    code_object = directory / "kernel.hsaco"
    write_bytes(code_object, compiled.build.code_object.data)
    listing = directory / "kernel.s"
    try:
        write_text(listing, compiled.disassembly())
    except LabError:  # no disassembler for this GPU
        return (code_object,)
    return (code_object, listing)
