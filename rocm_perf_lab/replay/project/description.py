"""`kernel.yaml` of a project: the captured dispatch as a kernel description, with its buffers in files."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import yaml

from rocm_perf_lab.replay.kernarg import dynamic_lds_bytes
from rocm_perf_lab.replay.project.arguments import CapturedBuffer
from rocm_perf_lab.toolchain.elf_file import parse_elf

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from rocm_perf_lab.replay.capture import Capture
    from rocm_perf_lab.replay.project.arguments import CapturedArguments, CapturedValue
    from rocm_perf_lab.toolchain.code_object import CodeObject

_INTEGER = re.compile(r"-?\d+")
_BLOCK_MACRO = re.compile(r"block|threads|workgroup|wg", re.IGNORECASE)
_SPANNED = 2
"""Range of the search space: an integer macro divided by this factor, to the macro multiplied by it."""


@dataclass(frozen=True)
class KernelText:
    """Contents of `kernel.yaml`, and of `space.yaml` (None without integer macros)."""

    description: str
    space: str | None


@dataclass(frozen=True)
class CompiledForm:
    """Compilation of the source of a project: fields of the description that depend on it."""

    language: str
    source: str
    entry: str
    defines: Mapping[str, str]
    flags: Sequence[str]
    include_dirs: Sequence[str]


def kernel_text(
    capture: Capture, name: str, form: CompiledForm, arguments: CapturedArguments, built: CodeObject, *, with_data: bool
) -> KernelText:
    """Return the description of the captured dispatch.

    Args:
        capture: The capture.
        name: Name of the description.
        form: Source and flags.
        arguments: Arguments of the dispatch.
        built: The compiled source, whose module variables are described.
        with_data: Whether buffer contents are in `data`; otherwise buffers are described without contents, for device=replay.
    """
    packet = capture.dispatch.packet
    integers = {macro: int(value) for macro, value in form.defines.items() if _INTEGER.fullmatch(value)}
    document: dict[str, Any] = {"name": name, "language": form.language, "source": form.source, "entry": form.entry}
    if integers:
        document["params"] = integers
    if form.defines:
        document["defines"] = {macro: macro if macro in integers else repr(value) for macro, value in form.defines.items()}
    if form.flags:
        document["flags"] = list(form.flags)
    if form.include_dirs:
        document["include_dirs"] = list(form.include_dirs)
    document["arguments"] = [_argument(argument, with_data=with_data) for argument in arguments.arguments]
    variables = _variables(capture, built)
    if variables and with_data:
        document["variables"] = variables
    whole = all(items % size == 0 for items, size in zip(packet.grid_size, packet.workgroup_size, strict=True))
    if whole:
        groups = [items // size for items, size in zip(packet.grid_size, packet.workgroup_size, strict=True)]
        document["grid"] = _without_ones(groups)
    else:
        document["work_items"] = _without_ones(list(packet.grid_size))
    document["block"] = _block(packet.workgroup_size, integers)
    if dynamic_lds_bytes(capture):
        document["dynamic_lds_bytes"] = dynamic_lds_bytes(capture)
    if with_data and any(buffer.is_written for buffer in arguments.buffers):
        document["reference"] = "reference.py:captured_result"
    head = f"# The captured dispatch of {capture.dispatch.kernel.name}; contents and results are those of the capture.\n"
    text = yaml.safe_dump(document, sort_keys=False, default_flow_style=None, width=130, allow_unicode=True)
    return KernelText(head + text, _space(integers))


def write_data(capture: Capture, arguments: CapturedArguments, built: CodeObject, directory: Path) -> int:
    """Write the buffers and variables of a description; return the number of bytes."""
    directory.mkdir()
    total = 0
    for buffer in arguments.buffers:
        np.save(directory / f"{buffer.name}.npy", buffer.before)
        total += buffer.before.nbytes
        if buffer.is_written:
            np.save(directory / f"{buffer.name}.result.npy", buffer.after)
            total += buffer.after.nbytes
    for variable in _variables(capture, built):
        found = next(v for v in capture.dispatch.variables if v.name == variable["name"])
        content = np.frombuffer(capture.variables[found.offset : found.offset + found.size], np.uint8)
        np.save(directory / f"{found.name}.npy", content)
        total += content.nbytes
    return total


def data_bytes(arguments: CapturedArguments) -> int:
    """Return the total size in bytes of the files that :func:`write_data` writes for arguments."""
    return sum(buffer.before.nbytes * (2 if buffer.is_written else 1) for buffer in arguments.buffers)


def reference_text(arguments: CapturedArguments) -> str:
    """Return `reference.py`: the captured results."""
    names = [buffer.name for buffer in arguments.buffers if buffer.is_written]
    return (
        '"""Memory after the captured dispatch."""\n\nfrom pathlib import Path\n\nimport numpy as np\n\n'
        f"OUTPUTS = {names!r}\n\n\n"
        "def captured_result(**_):\n"
        '    """Return the captured outputs by name."""\n'
        '    data = Path(__file__).parent / "data"\n'
        '    return {name: np.load(data / f"{name}.result.npy") for name in OUTPUTS}\n'
    )


def _argument(argument: CapturedBuffer | CapturedValue, *, with_data: bool) -> dict[str, Any]:
    if not isinstance(argument, CapturedBuffer):
        members = [{"dtype": dtype, "value": value} for dtype, value in argument.members]
        if argument.is_struct:
            return {"name": argument.name, "kind": "struct", "fields": members}
        return {"name": argument.name, "kind": "scalar", **members[0]}
    init = {"kind": "file", "path": f"data/{argument.name}.npy"} if with_data else {"kind": "constant"}
    entry: dict[str, Any] = {
        "name": argument.name,
        "kind": "buffer",
        "dtype": argument.dtype,
        "shape": [len(argument.before)],
        "access": "inout" if argument.is_written else "in",
        "init": init,
    }
    return entry if argument.alignment == 256 else {**entry, "alignment": argument.alignment}


def _variables(capture: Capture, built: CodeObject) -> list[dict[str, Any]]:
    symbols = parse_elf(built.data).symbols
    return [
        {"name": v.name, "dtype": "u8", "shape": [v.size], "init": {"kind": "file", "path": f"data/{v.name}.npy"}}
        for v in capture.dispatch.described_variables
        if v.size and v.name in symbols and symbols[v.name].size == v.size
    ]


def _block(sizes: Sequence[int], integers: Mapping[str, int]) -> list[int | str]:
    """Return the workgroup size; x is a macro with that value and a name for a workgroup size, if one exists."""
    named = [name for name, value in integers.items() if value == sizes[0] and _BLOCK_MACRO.search(name)]
    x: list[int | str] = [named[0]] if len(named) == 1 else [sizes[0]]
    return [*x, *_without_ones(list(sizes))[1:]]


def _without_ones(sizes: list[int]) -> list[int]:
    while len(sizes) > 1 and sizes[-1] == 1:
        sizes = sizes[:-1]
    return sizes


def _space(integers: Mapping[str, int]) -> str | None:
    tunable = {name: value for name, value in integers.items() if value > 1}
    if not tunable:
        return None
    values = {name: [max(1, value // _SPANNED), value, value * _SPANNED] for name, value in tunable.items()}
    head = "# Values of the integer macros of kernel.yaml: edit them; results are compared with the capture.\n"
    return head + yaml.safe_dump({"parameters": values, "first": dict(tunable)}, sort_keys=False, default_flow_style=None)
