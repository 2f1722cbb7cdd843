"""Compile one Triton kernel to a code object, with a cache: `compile_triton(TritonRequest(...)) -> BuildResult`.

Needs neither a GPU nor torch. The file of the user runs in a separate process (:mod:`.triton_worker`); modules that it imports,
except installed packages, belong to the build as headers do. Decisions of Triton about the launch, which are in its metadata
but not in the code object, become a :class:`LaunchContract`.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass, field
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from rocm_perf_lab.arch.registry import nearest_processor
from rocm_perf_lab.core.resources import cache_dir as default_cache_dir
from rocm_perf_lab.toolchain.build import BuildResult, CompileError, built_once, require_source
from rocm_perf_lab.toolchain.build_cache import CachedBuild
from rocm_perf_lab.toolchain.code_object import LaunchContract
from rocm_perf_lab.toolchain.elf import read_code_object

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rocm_perf_lab.toolchain.sandbox import Sandbox

_KEY_FORMAT = 1
_WORKER = Path(__file__).with_name("triton_worker.py")
_HOST_LIBRARIES = _WORKER.with_name("host_libraries.py")
_KNOBS = ("TRITON_", "AMDGCN_", "LLVM_", "MLIR_", "DISABLE_LLVM_")
_LONGEST_LOG = 20_000
_PIPELINE_FAILED = "Failures have been detected while processing an MLIR pass pipeline"


@dataclass(frozen=True)
class TritonArgument:
    """Runtime argument.

    `type` is the type in Triton (`fp16`, `i32`), for a buffer that of its elements. `bytes` is the size of a buffer, `integer`
    the value of an integer scalar; Triton specialises the kernel for both.
    """

    name: str
    kind: Literal["buffer", "scalar"]
    type: str
    bytes: int = 0
    integer: int | None = None


@dataclass(frozen=True)
class TritonRequest:
    """Source, entry and arguments of a Triton kernel.

    Args:
        source: Python file with the kernel.
        entry: Name of the `@triton.jit` function.
        arguments: Runtime arguments, by the names of the function's parameters.
        constexprs: Values of `tl.constexpr` parameters; `tl.NAME` means that type of `triton.language`.
        options: Options of Triton: num_warps, num_stages, waves_per_eu, matrix_instr_nonkdim, ...
        architecture: Processor name.
        import_dirs: Directories for imports, after the directory of the source.
    """

    source: Path
    entry: str
    arguments: tuple[TritonArgument, ...]
    constexprs: Mapping[str, int | float | str | None] = field(default_factory=dict)
    options: Mapping[str, int | float | str] = field(default_factory=dict)
    architecture: str = "gfx942"
    import_dirs: tuple[Path, ...] = ()


def compile_triton(request: TritonRequest, *, cache_dir: Path | None = None, sandbox: Sandbox | None = None) -> BuildResult:
    """Compile, or return the cached result if all inputs are unchanged.

    Args:
        request: Source, entry and arguments.
        cache_dir: Cache directory; the user's by default.
        sandbox: Sandbox for untrusted sources, which are Python programs.

    Raises:
        CompileError: Triton is not installed, or the source is missing, does not run or does not compile.
    """
    version = _triton_version()
    if version is None:
        raise CompileError(
            "Triton is not installed", log="", where=str(request.source), hint="pip install 'rocm-perf-lab[triton]'"
        )
    require_source(request.source)
    cache_dir = cache_dir or default_cache_dir()
    key = _cache_key(request, version)
    build, cached = built_once(lambda: _run(request, cache_dir, sandbox), key, request.source.parent, cache_dir)
    return BuildResult(
        code_object=read_code_object(build.content),
        command=build.command,
        compiler_name="triton",
        compiler_version=version,
        log=build.log,
        cached=cached,
        key=key,
        contract=build.contract,
    )


@cache
def _triton_version() -> str | None:
    """Return the installed version from the package metadata, because importing Triton is slow."""
    try:
        return metadata.version("triton")
    except metadata.PackageNotFoundError:
        return None


def _cache_key(request: TritonRequest, version: str) -> str:
    parts = [
        "triton",
        _KEY_FORMAT,
        version,
        hashlib.sha256(_WORKER.read_bytes() + _HOST_LIBRARIES.read_bytes()).hexdigest(),
        sys.version_info[:2],
        request.source.name,
        hashlib.sha256(request.source.read_bytes()).hexdigest(),
        _message(request),
        {name: value for name, value in _knobs().items() if name not in _OWN_KNOBS},
    ]
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def _message(request: TritonRequest) -> dict[str, Any]:
    """Return the request without the directory of the source; arguments are matched by name, so their order does not matter."""
    return {
        "source": request.source.name,
        "entry": request.entry,
        "arguments": [specialising(argument) for argument in request.arguments],
        "constexprs": dict(request.constexprs),
        "options": dict(request.options),
        "architecture": request.architecture,
        "wavefront_size": nearest_processor(request.architecture).wave_sizes[0],
    }


def specialising(argument: TritonArgument) -> dict[str, Any]:
    """Return an argument without the parts of its value that do not change the code, so that other sizes share a build."""
    row = asdict(argument)
    if argument.integer is not None:
        row["integer"] = 1 if argument.integer == 1 else 16 if argument.integer % 16 == 0 else 0x11
    row["bytes"] = min(argument.bytes, 2**31) if argument.bytes > 2**31 - 1 else 0
    return row


_OWN_KNOBS = frozenset({"TRITON_CACHE_DIR", "TRITON_HOME", "TRITON_ALWAYS_COMPILE"})


def _knobs() -> dict[str, str]:
    """Return the settings of Triton in the environment, which change its code; multiply-add fusion is on by default."""
    chosen = {name: value for name, value in os.environ.items() if name.startswith(_KNOBS)}
    return {"TRITON_DEFAULT_FP_FUSION": "1"} | chosen


def _run(request: TritonRequest, cache_dir: Path, sandbox: Sandbox | None) -> CachedBuild:
    parent = cache_dir / "triton"
    parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=parent) as name:
        directory = Path(name)
        source_dir = request.source.parent.absolute()
        imports = [str(source_dir), *(str(d.absolute()) for d in request.import_dirs)]
        (directory / "request.json").write_text(json.dumps({**_message(request), "import_dirs": imports}))
        run = _worker_run(request, directory.absolute(), imports, sandbox)
        answer = _answer(directory, run, request)
        return CachedBuild(
            content=(directory / "kernel.hsaco").read_bytes(),
            dependencies=tuple(_relative(Path(path), source_dir) for path in answer["dependencies"]),
            command=("triton.compile", request.source.name, request.entry, *_shown_options(request)),
            log=run.stderr[-_LONGEST_LOG:],
            contract=LaunchContract(
                arguments=tuple(answer["arguments"]),
                work_items=answer["work_items"],
                dynamic_lds_bytes=answer["dynamic_lds_bytes"],
            ),
        )


def _worker_run(
    request: TritonRequest, directory: Path, imports: Sequence[str], sandbox: Sandbox | None
) -> subprocess.CompletedProcess[str]:
    """Run the worker; in a sandbox it can read the sources and write to `directory` only.

    Raises:
        CompileError: The sandbox stopped the worker.
    """
    command = [sys.executable, "-P", str(_WORKER), str(directory)]
    source_dir = request.source.parent.absolute()
    variables = {
        **_knobs(),
        "TRITON_CACHE_DIR": str(directory),
        "TRITON_HOME": str(directory),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    if sandbox is None:
        return subprocess.run(
            command,
            cwd=source_dir,
            env={**os.environ, **variables},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
        )
    readable = [*map(Path, imports), _WORKER.parent]
    ended = sandbox.run(command, directory, readable=readable, cwd=source_dir, variables=variables)
    if ended.reason is not None:
        raise CompileError(
            f"the compiler was stopped: it {ended.reason}",
            log=ended.stderr,
            where=str(request.source),
            hint="Simplify the source, or raise the limits in optimizer.isolation.",
        )
    return subprocess.CompletedProcess(command, ended.returncode, ended.stdout, ended.stderr)


def _relative(path: Path, source_dir: Path) -> Path:
    return path.relative_to(source_dir) if path.is_relative_to(source_dir) else path


def _shown_options(request: TritonRequest) -> tuple[str, ...]:
    return tuple(f"{name}={value}" for name, value in (*request.constexprs.items(), *request.options.items()))


def _answer(directory: Path, run: subprocess.CompletedProcess[str], request: TritonRequest) -> dict[str, Any]:
    """Return the answer of the worker; its refusals, diagnostics of MLIR and crashes become a CompileError."""
    log = (run.stdout + run.stderr)[-_LONGEST_LOG:]
    path = directory / "answer.json"
    if not path.is_file():
        what = f"the compiling process ended with signal {-run.returncode}" if run.returncode < 0 else _last_line(log)
        raise CompileError(what, log=log, where=str(request.source), hint="See the full log of the compiler.")
    answer: dict[str, Any] = json.loads(path.read_text())
    error = answer.get("error")
    if error is not None:
        refused = _refusal(error, log, request)
        if error["lasting"]:
            refused.dependencies = tuple(
                _relative(Path(path), request.source.parent.absolute()) for path in answer["dependencies"]
            )
        raise refused
    if answer["scratch_bytes"]:
        raise CompileError(
            f"the kernel needs {answer['scratch_bytes']} bytes of scratch memory from its launcher, which is not supported",
            log=log,
            where=f"{request.source}: {request.entry}",
        )
    return answer


def _refusal(error: Mapping[str, Any], log: str, request: TritonRequest) -> CompileError:
    what, where = error["what"] or "", error["where"]
    diagnostics = re.findall(r"^(\S[^\n]*?\.py:\d+):\d+: error: ([^\n]+)$", log, re.MULTILINE)
    if where is None and diagnostics:
        where = diagnostics[0][0]
        what = "\n".join(message.removesuffix(_PIPELINE_FAILED) for _, message in diagnostics[:5])
    place = _in_directory(where or request.source.name, request.source.parent)
    return CompileError(what, log=log, where=place, hint=error["hint"] or f"Correct {place} and compile again.")


def _in_directory(where: str, directory: Path) -> str:
    """Return a place of the worker, which names files relative to the directory of the source."""
    file = where.rpartition(":")[0] or where
    return str(directory / where) if (directory / file).is_file() else where


def _last_line(log: str) -> str:
    lines = log.strip().splitlines()
    return lines[-1] if lines else "the compiling process ended without an answer"
