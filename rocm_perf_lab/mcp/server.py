"""The server: one tool per command, and the documents of runs as resources."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ResourceError, ToolError

from rocm_perf_lab import __version__
from rocm_perf_lab.core.errors import LabError
from rocm_perf_lab.mcp.jobs import run_worker

if TYPE_CHECKING:
    from collections.abc import Mapping

Parameters = dict[str, int | float | str | bool]
_INSTRUCTIONS = """Profile, optimize, autotune, compare and replay AMD GPU kernels. Without a GPU, kernels run on an emulator:
its times are estimates (time_kind is emulated), never to be reported as measured. Start with doctor, then profile. The ledger
of a profile lists where the time goes, with suggestions; optimize tries rewrites and keeps those that are correct and faster."""
_OUTPUTS = Path("outputs")
_LARGEST_DOCUMENT = 1 << 20


def lab_server() -> MCPServer:
    """Return the server with all tools and resources."""
    server = MCPServer("rocm-perf-lab", instructions=_INSTRUCTIONS, version=__version__)
    for tool in (profile, optimize, autotune, analyze, compare, replay, doctor, list_runs, read_run):
        server.tool()(tool)
    server.resource("runs://{date}/{run}/{document}", mime_type="application/json", name="document of a run")(document_of)
    return server


async def _answer(context: Context, function: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    lines = 0

    async def progress(text: str) -> None:
        nonlocal lines
        lines += 1
        await context.report_progress(lines, message=text)

    given = {name: value for name, value in arguments.items() if value is not None}
    try:
        return await run_worker(function, given, progress)
    except LabError as error:
        raise ToolError(str(error)) from error


async def profile(
    context: Context, kernel: str, parameters: Parameters | None = None, target: str | None = None, device: str | None = None,
    thread_trace: bool = False, overrides: list[str] | None = None,
) -> dict[str, Any]:  # fmt: skip
    """Compile, run, check and profile a described kernel; returns metrics and the ledger of lost time.

    Args:
        context: The request.
        kernel: Name of a kernel: a directory of experiments/.
        parameters: Parameters of the kernel, for example {"cols": 2048}.
        target: GPU to model or expect, for example mi300x.
        device: auto, emulator or rocm.
        thread_trace: Record a thread trace as well: cycles and waits per instruction.
        overrides: Overrides of the configuration, for example passes.runs=10.
    """
    passes = {"passes": "deep"} if thread_trace else {}
    settings = {name: value for name, value in {"target": target, "device": device, **passes}.items() if value is not None}
    given = {"kernel": kernel, "overrides": overrides or [], "parameters": (parameters or {}) | settings}
    return await _answer(context, "profile", given)


async def optimize(
    context: Context, kernel: str, budget: int = 10, parameters: Parameters | None = None, target: str | None = None,
    overrides: list[str] | None = None,
) -> dict[str, Any]:  # fmt: skip
    """Rewrite a kernel, keep versions that are correct and faster; returns the verdicts, the best source and its diff.

    Args:
        context: The request.
        kernel: Name of a kernel.
        budget: Maximum number of evaluated rewrites.
        parameters: Parameters of the kernel.
        target: GPU.
        overrides: Overrides of the configuration, for example optimizer=transforms.
    """
    settings = {} if target is None else {"target": target}
    given = {"kernel": kernel, "budget": budget, "overrides": overrides or [], "parameters": (parameters or {}) | settings}
    return await _answer(context, "optimize", given)


async def autotune(
    context: Context, kernel: str, space: str, budget: int = 20, parameters: Parameters | None = None, seed: int | None = None,
    overrides: list[str] | None = None,
) -> dict[str, Any]:  # fmt: skip
    """Find the fastest configuration of a kernel; returns the best parameters and the fastest trials.

    Args:
        context: The request.
        kernel: Name of a kernel.
        space: Option of the group space, or a YAML file with a search space.
        budget: Number of configurations to evaluate.
        parameters: Parameters of the kernel that are not searched.
        seed: Random seed; the same seed repeats the same search.
        overrides: Overrides of the configuration.
    """
    given = {"kernel": kernel, "space": space, "budget": budget, "seed": seed, "overrides": overrides or []}
    return await _answer(context, "autotune", given | {"parameters": parameters or {}})


async def analyze(context: Context, paths: list[str], kernel: str | None = None, target: str | None = None) -> dict[str, Any]:
    """Analyse recordings of AMD's profilers (rocpd, JSON, CSV, thread traces, PC samples); needs no GPU.

    Args:
        context: The request.
        paths: Files and directories; they are recognised by content.
        kernel: Regular expression of the kernel.
        target: GPU, if the recording does not identify it.
    """
    return await _answer(context, "analyze", {"paths": paths, "kernel": kernel, "target": target})


async def compare(context: Context, base: str, new: str, fail_over: str = "5%", force: bool = False) -> dict[str, Any]:
    """Compare two profiles kernel by kernel; `regressions` names kernels that are significantly slower.

    Args:
        context: The request.
        base: Directory of the first run.
        new: Directory of the second run.
        fail_over: Share by which a kernel must be slower.
        force: Compare even different GPUs, or emulated with measured times.
    """
    return await _answer(context, "compare", {"base": base, "new": new, "fail_over": fail_over, "force": force})


async def replay(
    context: Context, capture: str, iterations: int = 1, hsaco: str | None = None, check: bool = False,
    device: Literal["auto", "rocm", "emulator"] = "auto",
) -> dict[str, Any]:  # fmt: skip
    """Replay a captured dispatch at its virtual addresses, optionally with another code object.

    Args:
        context: The request.
        capture: Directory of the capture.
        iterations: Number of replays.
        hsaco: Code object that replaces the captured one.
        check: Compare the memory after the replays with the captured one.
        device: Device to replay on.
    """
    given = {"capture": capture, "iterations": iterations, "hsaco": hsaco, "check": check, "device": device}
    return await _answer(context, "replay", given)


async def doctor(context: Context) -> dict[str, Any]:
    """Check GPU, ROCm, compilers and emulator of this machine, with hints for missing parts."""
    return await _answer(context, "doctor", {})


async def list_runs(
    context: Context, kernel: str | None = None, target: str | None = None, job: str | None = None
) -> dict[str, Any]:
    """List tracked runs, the newest first, with parameters and metrics.

    Args:
        context: The request.
        kernel: Only runs of this kernel.
        target: Only runs for this GPU.
        job: Only runs of this command, for example optimize.
    """
    return await _answer(context, "list_runs", {"kernel": kernel, "target": target, "job": job})


async def read_run(context: Context, directory: str) -> dict[str, Any]:
    """Return the results in the directory of a run.

    Args:
        context: The request.
        directory: Directory of the run.
    """
    return await _answer(context, "read_run", {"directory": directory})


def document_of(date: str, run: str, document: str) -> str:
    """Return a JSON document of a run below outputs/, for example runs://2026-01-31/12-00-00-1-profile-softmax/profile.json."""
    path = _OUTPUTS / date / run / document
    if path.suffix != ".json" or not path.resolve().is_relative_to(_OUTPUTS.resolve()) or not path.is_file():
        raise ResourceError(f"there is no document {document} of the run {date}/{run}")
    if path.stat().st_size > _LARGEST_DOCUMENT:
        raise ResourceError(f"{path} is larger than 1 MiB: read the file")
    return path.read_text(encoding="utf-8")
