"""The process that compiles one Triton kernel: `triton_worker.py DIRECTORY`, run in the directory of the source.

DIRECTORY holds `request.json` and receives `answer.json` and, on success, `kernel.hsaco`; an error has its file and line. The
file of the user is executed here, with stand-ins for libraries of its host code (`host_libraries.py`), so this program imports
only the standard library and Triton.
"""

from __future__ import annotations

import importlib.util
import json
import linecache
import re
import sys
import sysconfig
import traceback
import types
from pathlib import Path
from typing import Any

ALIGNMENT = 16
LARGEST_OFFSET = 2**31 - 1
_HOST_LIBRARIES = Path(__file__).absolute().with_name("host_libraries.py")


class Refused(Exception):
    """Mistake in the source or description of the user; `lasting` if it depends on the source alone, not on the machine."""

    def __init__(self, what: str, *, where: str | None = None, hint: str | None = None, lasting: bool = False) -> None:
        super().__init__(what)
        self.what, self.where, self.hint, self.lasting = what, where, hint, lasting


def main(directory: Path) -> None:
    """Compile the kernel in `request.json`."""
    request = json.loads((directory / "request.json").read_text())
    sys.path[:0] = request["import_dirs"]
    known = set(sys.modules)
    libraries = _host_libraries()
    libraries.install()
    try:
        answer = _compile(request, directory)
    except Refused as refusal:
        hint = refusal.hint
        if hint is None and libraries.NotInstalled.__name__ in refusal.what:
            hint = f"Install {', '.join(libraries.absent())}, or pass the value as a constexpr."
        message = {"what": refusal.what, "where": refusal.where, "hint": hint}
        answer = {"error": {**message, "lasting": refusal.lasting}}
    answer["dependencies"] = _user_files(known)
    (directory / "answer.json").write_text(json.dumps(answer))


def _host_libraries() -> Any:
    """Load the module next to this file by its path; sys.path must not contain this directory."""
    spec = importlib.util.spec_from_file_location("rocm_perf_lab_host_libraries", _HOST_LIBRARIES)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _compile(request: dict[str, Any], directory: Path) -> dict[str, Any]:
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    module = _run_source(request["source"])
    function = _jit_function(module, request)
    signature, constants, attributes = _specialise(function, request)
    options = _checked_options(request["options"], request["architecture"])
    try:
        compiled = triton.compile(
            ASTSource(fn=function, signature=signature, constexprs=constants, attrs=attributes),
            target=GPUTarget("hip", request["architecture"], request["wavefront_size"]),
            options=options,
        )
    except Exception as error:
        raise _located(error, module, request["source"]) from error
    (directory / "kernel.hsaco").write_bytes(compiled.asm["hsaco"])
    metadata = compiled.metadata
    return {
        "symbol": metadata.name,
        "work_items": metadata.num_warps * metadata.warp_size,
        "dynamic_lds_bytes": metadata.shared,
        "arguments": [name for name, kind in signature.items() if kind != "constexpr"],
        "scratch_bytes": metadata.global_scratch_size + metadata.profile_scratch_size,
    }


def _run_source(source: str) -> types.ModuleType:
    """Execute the user's file under its relative name, so that line tables do not depend on the directory."""
    module = types.ModuleType(Path(source).stem)
    module.__file__ = source
    text = Path(source).read_text()
    module.__package__ = _package(Path(source).absolute().parent, text)
    sys.modules[module.__name__] = module
    linecache.cache[source] = (len(text), None, text.splitlines(keepends=True), source)
    try:
        exec(compile(text, source, "exec"), module.__dict__)
    except SyntaxError as error:
        raise Refused(f"{error.msg}: {(error.text or '').strip()}", where=f"{error.filename}:{error.lineno}") from error
    except Exception as error:
        hint = None
        if isinstance(error, ModuleNotFoundError):
            hint = f"Install {error.name}, or import it inside the functions that need it: the kernel itself does not."
        raise Refused(_message(error), where=_last_line(error, source), hint=hint) from error
    return module


def _package(directory: Path, text: str) -> str | None:
    """Return the package of a file with relative imports, and make it importable."""
    names: list[str] = []
    levels = max((len(dots) for dots in re.findall(r"^\s*from\s+(\.+)", text, re.MULTILINE)), default=0)
    if not levels:
        return None
    while (directory / "__init__.py").is_file() or len(names) < levels:  # directories of a namespace have no such file
        names.insert(0, directory.name)
        directory = directory.parent
    sys.path.append(str(directory))
    return ".".join(names)


def _last_line(error: BaseException, source: str) -> str:
    """Return the line in the files of the user that raised an exception."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if frame.filename == source or _is_user_file(frame.filename)]
    return f"{own[-1].filename}:{own[-1].lineno}" if own else source


def _jit_function(module: types.ModuleType, request: dict[str, Any]) -> Any:
    from triton.runtime.jit import JITFunction

    kernels = {}
    for name, value in vars(module).items():
        inner = value
        while not isinstance(inner, JITFunction) and "fn" in getattr(
            inner, "__dict__", ()
        ):  # @triton.autotune, @triton.heuristics
            inner = inner.fn
        if isinstance(inner, JITFunction):
            kernels[name] = inner
    if request["entry"] not in kernels:
        raise Refused(
            f"there is no @triton.jit function {request['entry']!r}",
            where=request["source"],
            hint=f"entry may be one of: {', '.join(kernels)}" if kernels else "Put @triton.jit before the kernel.",
        )
    return kernels[request["entry"]]


def _specialise(function: Any, request: dict[str, Any]) -> tuple[dict[str, str], dict[Any, Any], dict[Any, Any]]:
    """Specialise as the launcher of Triton does: constants, 1 as a constant, divisibility by 16, 32-bit offsets."""
    arguments = {argument["name"]: argument for argument in request["arguments"]}
    constexprs = request["constexprs"]
    _check_names(function, arguments, constexprs, f"{request['source']}:{function.starting_line_number}")
    signature: dict[str, str] = {}
    constants: dict[Any, Any] = {}
    attributes: dict[Any, Any] = {}
    for parameter in function.params:
        name, position = parameter.name, (parameter.num,)
        argument = arguments.get(name)
        if argument is None:
            signature[name] = "constexpr"
            constants[position] = _constant(constexprs[name]) if name in constexprs else parameter.default
            continue
        free = not parameter.do_not_specialize
        aligned = free and not parameter.do_not_specialize_on_alignment
        if argument["kind"] == "buffer":
            signature[name] = f"*{argument['type']}"
            attributes[position] = [["tt.divisibility", ALIGNMENT]] if aligned else []
            if free and argument["bytes"] <= LARGEST_OFFSET:
                attributes[position] += [["tt.pointer_range", 32]]
        elif free and argument["integer"] == 1:
            signature[name] = "constexpr"
            constants[position] = 1
        else:
            signature[name] = argument["type"]
            if aligned and argument["integer"] is not None and argument["integer"] % ALIGNMENT == 0:
                attributes[position] = [["tt.divisibility", ALIGNMENT]]
    return signature, constants, attributes


def _check_names(function: Any, arguments: dict[str, Any], constexprs: dict[str, Any], where: str) -> None:
    names = [p.name for p in function.params]
    unknown = [name for name in (*arguments, *constexprs) if name not in names]
    if unknown:
        raise Refused(
            f"{function.__name__} has no parameter {', '.join(map(repr, unknown))}",
            where=where,
            hint=f"its parameters are: {', '.join(names)}",
        )
    for parameter in function.params:
        name = parameter.name
        if name in arguments and (parameter.is_constexpr or name in constexprs):
            raise Refused(f"parameter {name!r} is a constexpr, not an argument", where=where, hint="List it in constexprs.")
        if name not in arguments and name not in constexprs and not parameter.has_default:
            place = "constexprs" if parameter.is_constexpr else "arguments"
            raise Refused(f"parameter {name!r} has no value", where=where, hint=f"Add it to {place}.")


def _constant(value: Any) -> Any:
    import triton.language

    if isinstance(value, str) and value.startswith("tl."):
        found = getattr(triton.language, value.removeprefix("tl."), None)
        if found is None:
            raise Refused(f"triton.language has no {value.removeprefix('tl.')!r}", where=f"constexprs: {value}")
        return found
    return value


def _checked_options(options: dict[str, Any], architecture: str) -> dict[str, Any]:
    from triton.backends.amd.compiler import HIPOptions

    known = sorted(HIPOptions.__dataclass_fields__)
    unknown = [name for name in options if name not in known]
    if unknown:
        raise Refused(
            f"Triton has no option {', '.join(map(repr, unknown))}", where="options", hint=f"options: {', '.join(known)}"
        )
    try:
        HIPOptions(**{"arch": architecture} | options)
    except (AssertionError, ValueError, TypeError) as error:
        given = ", ".join(f"{name}={value}" for name, value in options.items())
        raise Refused(str(error) or "Triton rejects the options", where=f"options: {given}", hint="Change them.") from error
    return options


def _located(error: BaseException, module: types.ModuleType, source: str) -> Refused:
    """Convert an error of Triton, which counts lines from the `def` of the function, to a place in the file."""
    from triton.compiler.errors import CompilationError

    innermost = None
    link: BaseException | None = error
    while link is not None:
        if isinstance(link, CompilationError):
            innermost = link
        link = link.__cause__
    if innermost is None:
        return Refused(_message(error))
    cause = innermost.__cause__
    what = innermost.error_message or (_message(cause) if cause is not None else type(innermost).__name__)
    line = getattr(innermost.node, "lineno", 1)
    text = innermost.src.splitlines()[line - 1].strip() if innermost.src and line <= len(innermost.src.splitlines()) else ""
    what = f"{what}: {text}" if text else what
    function = _function_of(innermost.src, module)
    if function is None:
        return Refused(what, where=source, lasting=True)
    return Refused(what, where=f"{function.file_name}:{function.def_file_line_number + line - 1}", lasting=True)


def _function_of(text: str | None, module: types.ModuleType) -> Any:
    """Return the function with this source; functions of the user are searched before those of Triton."""
    from triton.runtime.jit import JITCallable

    others = sorted(sys.modules.values(), key=lambda m: not _is_user_file(getattr(m, "__file__", None)))
    for candidate in [module, *others]:
        for value in list(vars(candidate).values()):
            inner = value if isinstance(value, JITCallable) else getattr(value, "__dict__", {}).get("fn")
            if isinstance(inner, JITCallable) and inner.src == text:
                return inner
    return None


def _message(error: BaseException) -> str:
    text = str(error).strip() or "without a message"
    return f"{type(error).__name__}: {text}"


def _user_files(known: set[str]) -> list[str]:
    """Return the imported files of the user, which are inputs of the build, like headers."""
    files = (getattr(module, "__file__", None) for name, module in list(sys.modules.items()) if name not in known)
    return sorted({file for file in files if file and _is_user_file(file)})


def _is_user_file(file: str | None) -> bool:
    if not file or file.startswith("<") or not file.endswith(".py"):
        return False
    path = Path(file).absolute()
    installed = {sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    return not any(path.is_relative_to(directory) for directory in installed) and path not in (
        Path(__file__).absolute(),
        _HOST_LIBRARIES,
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]))
