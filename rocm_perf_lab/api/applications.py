"""Applications on emulated GPUs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from rocm_perf_lab.api import rich_display
from rocm_perf_lab.core.errors import LabError

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pandas as pd

    from rocm_perf_lab.jobs.run.document import RunDocument


@dataclass(frozen=True)
class EndedApplication:
    """Application that ran on emulated GPUs."""

    document: RunDocument

    @property
    def exit_code(self) -> int:
        """Exit code of the application; 128 + n if signal n ended it."""
        return self.document.exit_code

    @property
    def findings(self) -> pd.DataFrame:
        """Defects that checks found: check, kind, message, count, kernel, source line, call site."""
        import pandas as pd

        rows = [finding.model_dump() for finding in self.document.findings]
        return pd.DataFrame(rows, columns=["check", "kind", "message", "count", "kernel", "source", "instruction", "call_site"])

    def _repr_html_(self) -> str:
        found = self.document
        summary = {
            "command": " ".join(found.command),
            "GPU": f"{found.gpus} x {found.target} ({found.architecture}), {found.time_kind}",
            "exit code": str(found.exit_code),
            "dispatches": f"{found.dispatches:,}, {found.kernel_time_ns / 1e3:,.1f} us {found.time_kind}",
            "findings": str(len(found.findings)),
        }
        return rich_display.facts(summary) + rich_display.table(
            self.findings, ("check", "message", "kernel", "source"), "Findings"
        )


def run(
    command: Sequence[str | Path],
    *,
    sources: Sequence[str | Path] = (),
    build_args: str = "",
    check: str = "none",
    target: str = "mi300x",
    gpus: int = 1,
    runtime: Literal["auto", "rocm", "lab"] = "auto",
    root: str | Path | None = None,
    threads: int | None = None,
) -> EndedApplication:
    """Run an application, or HIP sources, on emulated GPUs. Standard input, output and error are those of this process.

    Args:
        command: Program and arguments; only the arguments if `sources` is not empty.
        sources: HIP sources to compile.
        build_args: Compiler and linker arguments.
        check: Defects to find: `all`, or names separated by commas, for example `races,bounds`.
        target: GPU to emulate.
        gpus: Number of GPUs.
        runtime: HIP runtime: AMD's, that of rocm-perf-lab, or AMD's if it is installed.
        root: ROCm directory tree; None runs the application on this system's root.
        threads: Threads per dispatch; None for one per CPU.

    Raises:
        LabError: The application cannot be compiled or started, or this machine cannot emulate the GPU.
    """
    from rocm_perf_lab.jobs.run.job import ApplicationRequest, run_recorded

    if not command and not sources:
        raise LabError("no command to run", where="command", hint="pass a program, or sources")
    request = ApplicationRequest(
        command=tuple(map(str, command)),
        sources=tuple(map(Path, sources)),
        build_args=build_args,
        check=check,
        target=target,
        gpus=gpus,
        runtime=runtime,
        root=Path(root) if root is not None else None,
        threads=threads,
        quiet=True,
    )
    return EndedApplication(run_recorded(request).document())
