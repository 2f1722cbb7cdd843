"""Matrix instructions of an architecture, and their intrinsics in LLVM's intermediate representation."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rocm_perf_lab.emulator.isa.instruction_set import instruction_set

if TYPE_CHECKING:
    from collections.abc import Sequence

_LANES = 64
_SHAPE = re.compile(r"V_(S?MFMAC?)_(?:SCALE_)?([FI]\d+)_(\d+)X(\d+)X(\d+)(?:_(\d+)B)?_(\w+)")
_NEWER = {"XF32", "FP8", "BF8", "F8F6F4"}
"""Element types whose intrinsics separate shape and type by a dot."""


def matrix_mnemonics(architecture: str) -> list[str]:
    """Return the names of all matrix instructions of an architecture."""
    from tinygrad.runtime.autogen.amd.cdna.enum import VOP3POp, VOP3PX2Op

    isa = instruction_set(architecture)
    tables = {one.name for kind in (VOP3POp, VOP3PX2Op) for one in kind if _SHAPE.match(one.name) and isa.has(one.name)}
    return sorted(tables | {own.mnemonic for own in isa.own_opcodes if _SHAPE.match(own.mnemonic)})


@dataclass(frozen=True)
class MatrixShape:
    """Parts of the name of a matrix instruction: sizes, number of blocks and element types."""

    sparse: bool
    result: str
    m: int
    n: int
    k: int
    blocks: int
    elements: str

    @classmethod
    def of(cls, mnemonic: str) -> MatrixShape:
        """Return the parts of a name: V_MFMA_F32_32X32X4_2B_BF16."""
        match = _SHAPE.fullmatch(mnemonic)
        assert match is not None, mnemonic
        m, n, k, blocks = (int(size or 1) for size in match.group(3, 4, 5, 6))
        return cls(match[1] == "SMFMAC", match[2], m, n, k, blocks, match[7])

    @property
    def operations(self) -> int:
        """Multiplications and additions of one wavefront, dense."""
        return 2 * self.m * self.n * self.k * self.blocks


def matrix_call(mnemonic: str, formats: tuple[int, int] = (0, 0)) -> tuple[str, list[str], str]:
    """Return an LLVM call of a matrix intrinsic on %a, %b and %c, the types of these three, and the declaration.

    Args:
        mnemonic: Name of the instruction.
        formats: Formats of A and B of an f8f6f4 product.
    """
    shape = MatrixShape.of(mnemonic)
    result = _vector(shape.m * shape.n * shape.blocks // _LANES, {"F32": "float", "I32": "i32", "F64": "double"}[shape.result])
    per_lane = shape.m * shape.k * shape.blocks // _LANES
    size = f"{shape.result.lower()}.{shape.m}x{shape.n}x{shape.k}"
    if shape.elements == "F8F6F4":
        types = [_vector(8 if one < 2 else 6 if one < 4 else 4, "i32") for one in formats]
        name = f"llvm.amdgcn.mfma.scale.{size}.f8f6f4.{''.join(map(_mangled, types[:1]))}.{_mangled(types[1])}"
        scale = "7" if "SCALE" in mnemonic else "0"
        return _called(name, [*types, result], [*map(str, formats), "0", scale, "0", scale])
    wide = shape.elements in ("F16", "BF16") and per_lane == (16 if shape.sparse else 8)
    element = _element(shape, wide=wide)
    counts = (per_lane // 2 if shape.sparse else per_lane, per_lane)
    types = [*(_packed(element, count, sparse=shape.sparse) for count in counts), result]
    kind = ".".join(shape.elements.lower().split("_"))
    if shape.sparse:
        return _called(f"llvm.amdgcn.smfmac.{size}.{kind}", types, ["%i", "0", "0"])
    newer = wide or bool(set(shape.elements.split("_")) & _NEWER) or (shape.elements == "I8" and per_lane > 4)
    suffix = ".1k" if shape.elements == "BF16" and per_lane == 4 else ""
    return _called(f"llvm.amdgcn.mfma.{size}{'.' if newer else ''}{kind}{suffix}", types, ["0", "0", "0"])


def module(calls: Sequence[tuple[str, list[str], str]]) -> str:
    """Return an LLVM module with a kernel per call, which loads the operands and stores the result; float64 is added to first."""
    lines = ['target triple = "amdgcn-amd-amdhsa"', *sorted({declaration for _, _, declaration in calls})]
    for number, (call, types, _) in enumerate(calls):
        lines += [f"define amdgpu_kernel void @k{number}(ptr addrspace(1) %p, i32 %i) {{"]
        lines += [f"  %{one} = load volatile {kind}, ptr addrspace(1) %p" for one, kind in zip("abc", types, strict=True)]
        result, kind = "%d", types[2]
        lines += [f"  %d = {call}"]
        if kind.endswith(("double", "double>")):
            one = "splat (double 1.0)" if kind.startswith("<") else "1.0"
            lines, result = [*lines, f"  %e = fadd {kind} %d, {one}"], "%e"
        lines += [f"  store volatile {kind} {result}, ptr addrspace(1) %p", "  ret void", "}"]
    return "\n".join(lines) + "\n"


def _called(name: str, types: list[str], immediates: list[str]) -> tuple[str, list[str], str]:
    arguments = [f"{kind} %{one}" for one, kind in zip("abc", types, strict=True)] + [f"i32 {value}" for value in immediates]
    declared = ", ".join([*types, *["i32"] * len(immediates)])
    return f"call {types[2]} @{name}({', '.join(arguments)})", types, f"declare {types[2]} @{name}({declared})"


def _element(shape: MatrixShape, *, wide: bool) -> str:
    if shape.elements == "BF16":
        return "bfloat" if wide else "i16"
    return {"F16": "half", "F32": "float", "XF32": "float", "F64": "double"}.get(shape.elements, "i8")


def _packed(element: str, count: int, *, sparse: bool) -> str:
    """Return the type of `count` elements of a lane; bytes are passed in integers."""
    if element != "i8":
        return _vector(count, element)
    return "i64" if count == 8 and not sparse else _vector(count // 4, "i32")


def _vector(count: int, element: str) -> str:
    return element if count == 1 else f"<{count} x {element}>"


def _mangled(kind: str) -> str:
    return re.sub(r"<(\d+) x (\w+)>", r"v\1\2", kind)
