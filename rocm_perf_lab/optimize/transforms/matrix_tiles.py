"""Matrix products with matrix instructions on tiles in LDS.

A workgroup of four wavefronts computes one tile. It loads the next tiles of both operands into registers while matrix
instructions work on the current ones in LDS. Elements beyond the limits are zero in LDS. The order of additions changes.
"""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rocm_perf_lab.core.errors import LabError
from rocm_perf_lab.emulator.isa.instruction_set import instruction_set
from rocm_perf_lab.languages.source_launch import LaunchDescriptor
from rocm_perf_lab.optimize.syntax_nodes import line_of, text_of
from rocm_perf_lab.optimize.transforms.base import Rejection, Rewrite
from rocm_perf_lab.optimize.transforms.launch_edits import with_launch
from rocm_perf_lab.optimize.transforms.linear_indices import with_two_axes
from rocm_perf_lab.optimize.transforms.matrix_products import matrix_product
from rocm_perf_lab.optimize.transforms.rewriting import Edit
from rocm_perf_lab.optimize.transforms.thread_indices import LaunchSizes, covering
from rocm_perf_lab.optimize.transforms.untiled import without_tiles

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rocm_perf_lab.languages.description import KernelDescription
    from rocm_perf_lab.optimize.source_tree import SourceUnit
    from rocm_perf_lab.optimize.transforms.matrix_products import Factor, MatrixProduct
    from rocm_perf_lab.target.model import Target

_ITEMS = 256
_SIDE = 16
_NEWEST = "V_MFMA_I32_16X16X32_I8"
"""Opcode that identifies architectures with all of the instructions below."""


@dataclass(frozen=True)
class _Instruction:
    """Matrix instruction with a result of 16 x 16 elements.

    Args:
        builtin: Name of the compiler's builtin.
        stored: Element type in LDS.
        lanes: Elements of one operand per lane.
        depth: Length of the inner dimension.
        operand: Type of an operand.
        padding: Elements between rows in LDS, to avoid bank conflicts.
    """

    builtin: str
    stored: str
    lanes: int
    depth: int
    operand: str
    padding: int


_F16 = _Instruction("__builtin_amdgcn_mfma_f32_16x16x16f16", "_Float16", 4, 16, "rpl_operand", 4)
_BF16 = _Instruction("__builtin_amdgcn_mfma_f32_16x16x16bf16_1k", "short", 4, 16, "rpl_operand", 4)
_I8 = _Instruction("__builtin_amdgcn_mfma_i32_16x16x32_i8", "signed char", 8, 32, "long", 8)
_F32 = _Instruction("__builtin_amdgcn_mfma_f32_16x16x4f32", "float", 1, 4, "float", 1)
_INSTRUCTIONS = {
    ("float", "float"): _F32,
    **{(kind, "float"): _F16 for kind in ("__half", "_Float16", "half")},
    **{(kind, "float"): _BF16 for kind in ("__hip_bfloat16", "hip_bfloat16", "__bf16")},
    **{(kind, "int"): _I8 for kind in ("signed char", "int8_t")},
}


@dataclass(frozen=True)
class _Tile:
    """Rows and columns of a workgroup's results, and elements of the inner dimension that are in LDS at a time."""

    rows: int
    columns: int
    depth: int

    @property
    def waves(self) -> tuple[int, int]:
        """Wavefronts along rows and columns; each computes a multiple of 16 x 16."""
        if self.rows == _SIDE:
            return 1, 4
        return (4, 1) if self.columns == _SIDE else (2, 2)


class MatrixTiles:
    """Rewrites a matrix product with one element per work-item.

    Args:
        kernel: Description.
        target: GPU; gfx942 and gfx950 have the instructions.
        tiles: Rows and columns of the results of a workgroup, multiples of 32.
        depths: Matrix instructions per tile of the inner dimension.

    Raises:
        LabError: A tile is invalid.
    """

    name = "matrix tiles"

    def __init__(
        self,
        *,
        kernel: KernelDescription,
        target: Target,
        tiles: Sequence[Sequence[int]] = ((32, 32), (32, 64), (64, 64)),
        depths: Sequence[int] = (4, 2),
    ) -> None:
        for tile in tiles:
            if len(tile) != 2 or any(side % (2 * _SIDE) for side in tile):
                raise LabError(
                    f"invalid tile {list(tile)}", where="optimizer.transforms: tiles", hint="for example tiles: [[64, 64]]"
                )
        self._kernel = kernel
        isa = instruction_set(target.architecture)
        self._is_supported = bool(isa.matrix_passes) and isa.has(_NEWEST)
        self._tiles = [(tile[0], tile[1], depth) for depth in depths for tile in tiles]

    def propose(self, unit: SourceUnit) -> tuple[Rewrite, ...]:
        """Return one rewrite per tile."""
        found = self._product(unit)
        if isinstance(found, str):
            if (untiled := without_tiles(unit, self._kernel)) is not None:
                return self.propose(untiled)
            divided = with_two_axes(unit, self._kernel)
            return () if divided is None else self._with(divided[1]).propose(divided[0])
        product, instruction = found
        rewrites = []
        for rows, columns, depth in self._tiles:
            tile = _Tile(rows, columns, depth * instruction.depth)
            description = f"matrix instructions on tiles of {rows} x {columns}, {tile.depth} at a time"
            rewrites.append(Rewrite(description, self._rewritten(unit, product, instruction, tile)))
        return tuple(rewrites)

    def _with(self, kernel: KernelDescription) -> MatrixTiles:
        """Return the same transform for a different launch."""
        other = copy(self)
        other._kernel = kernel
        return other

    def rejections(self, unit: SourceUnit) -> tuple[Rejection, ...]:
        """Return the reason why the kernel is not rewritten."""
        found = self._product(unit)
        return (Rejection(line_of(unit.kernel), found),) if isinstance(found, str) else ()

    def _product(self, unit: SourceUnit) -> tuple[MatrixProduct, _Instruction] | str:
        if not self._is_supported:
            return "the GPU lacks these matrix instructions"
        product = matrix_product(unit, LaunchSizes(self._kernel))
        if isinstance(product, str):
            return product
        kinds = {factor.element for factor in product.factors}
        instruction = _INSTRUCTIONS.get((next(iter(kinds)), product.total_type)) if len(kinds) == 1 else None
        return (product, instruction) if instruction is not None else f"no matrix instruction for {', '.join(sorted(kinds))}"

    def _rewritten(self, unit: SourceUnit, product: MatrixProduct, instruction: _Instruction, tile: _Tile) -> str:
        body = unit.kernel.child_by_field_name("body")
        assert body is not None
        lines = "\n".join(f"  {line}" for line in _body(unit, product, instruction, tile))
        edits = [Edit(body.start_byte, body.end_byte, f"{{\n{lines}\n}}")]
        descriptor = LaunchDescriptor(grid=self._grid(product, tile), block=(_SIDE, _SIDE))
        return with_launch(unit, descriptor, edits)

    def _grid(self, product: MatrixProduct, tile: _Tile) -> tuple[str, ...]:
        first, second = product.factors
        sides = {first.index.axis: tile.rows, second.index.axis: tile.columns}
        block = LaunchSizes(self._kernel).block or (1, 1, 1)
        grid = [str(e) for e in self._kernel.grid]
        return tuple(
            covering(self._kernel, grid[place], block[place], sides[axis]) if axis in sides else grid[place]
            for place, axis in enumerate("xyz"[: len(grid)])
        )


def _body(unit: SourceUnit, product: MatrixProduct, instruction: _Instruction, tile: _Tile) -> list[str]:
    first, second = product.factors
    across, down = tile.waves[1], tile.waves[0]
    wave_rows, wave_columns = tile.rows // down, tile.columns // across
    blocks = (wave_rows // _SIDE, wave_columns // _SIDE)
    width = tile.depth + instruction.padding
    lines = [text_of(node) for node in product.uniform] + [f"if ({condition}) return;" for condition in product.returns]
    if instruction.operand == "rpl_operand":
        lines.append(f"typedef {instruction.stored} rpl_operand __attribute__((ext_vector_type({instruction.lanes})));")
    lines += [
        f"typedef {product.total_type} rpl_sums __attribute__((ext_vector_type(4)));",
        f"__shared__ __attribute__((aligned(16))) {instruction.stored} rpl_a[{tile.rows}][{width}];",
        f"__shared__ __attribute__((aligned(16))) {instruction.stored} rpl_b[{tile.columns}][{width}];",
        f"const int rpl_t = threadIdx.y * {_SIDE} + threadIdx.x, rpl_lane = rpl_t % 64, rpl_wave = rpl_t / 64;",
        f"const int rpl_row = blockIdx.{first.index.axis} * {tile.rows};",
        f"const int rpl_col = blockIdx.{second.index.axis} * {tile.columns};",
        f"const int rpl_wr = rpl_wave / {across} * {wave_rows}, rpl_wc = rpl_wave % {across} * {wave_columns};",
        f"rpl_sums rpl_acc[{blocks[0]}][{blocks[1]}] = {{}};",
    ]
    loads = (_Loads(first, "a", tile.rows, tile.depth), _Loads(second, "b", tile.columns, tile.depth))
    lines += [f"{instruction.stored} rpl_next_{x.name}[{x.each}];" for x in loads]
    lines.append("auto rpl_load = [&](int rpl_from) {")
    for x in loads:
        lines += [f"  {line}" for line in x.from_memory(product, instruction)]
    lines += ["};", "rpl_load(0);", f"for (int rpl_from = 0; rpl_from < {product.loop.end_text}; rpl_from += {tile.depth}) {{"]
    lines.append("  __syncthreads();")
    lines += [f"  {x.to_lds()}" for x in loads]
    lines += ["  __syncthreads();", f"  rpl_load(rpl_from + {tile.depth});", *_multiplied(instruction, tile, blocks), "}"]
    return lines + _stored(product, blocks)


@dataclass(frozen=True)
class _Loads:
    """Loads of one operand's tile: `side` elements by `depth` of the inner dimension."""

    factor: Factor
    name: str
    side: int
    depth: int

    @property
    def each(self) -> int:
        """Elements per work-item."""
        return self.side * self.depth // _ITEMS

    def _places(self) -> tuple[str, str]:
        """Return the position of an element along the side and along the inner dimension."""
        number = f"(rpl_t + {_ITEMS} * rpl_i)"
        if self.factor.along_loop:
            return f"{number} / {self.depth}", f"{number} % {self.depth}"
        return f"{number} % {self.side}", f"{number} / {self.side}"

    def from_memory(self, product: MatrixProduct, instruction: _Instruction) -> list[str]:
        side, inner = self._places()
        name, loop = self.factor.index.name, product.loop
        start = "rpl_row" if self.name == "a" else "rpl_col"
        load = self.factor.load
        value = f"__builtin_bit_cast({instruction.stored}, {load})" if self.factor.element != instruction.stored else load
        return [
            "#pragma unroll",
            f"for (int rpl_i = 0; rpl_i < {self.each}; ++rpl_i) {{",
            f"  const {product.index_types[name]} {name} = {start} + {side};",
            f"  const {loop.type_name} {loop.index} = rpl_from + {inner};",
            f"  rpl_next_{self.name}[rpl_i] = {name} < {product.bounds[name]} && {loop.index} < {loop.end_text} ? {value} : 0;",
            "}",
        ]

    def to_lds(self) -> str:
        side, inner = self._places()
        return (
            f"\n#pragma unroll\n  for (int rpl_i = 0; rpl_i < {self.each}; ++rpl_i) "
            f"rpl_{self.name}[{side}][{inner}] = rpl_next_{self.name}[rpl_i];"
        )


def _multiplied(instruction: _Instruction, tile: _Tile, blocks: tuple[int, int]) -> list[str]:
    pick = "*(const {kind}*)&" if instruction.lanes > 1 else ""
    pick = pick.format(kind=instruction.operand)
    return [
        "#pragma unroll",
        f"  for (int rpl_k = 0; rpl_k < {tile.depth}; rpl_k += {instruction.depth}) {{",
        f"    const int rpl_q = rpl_k + rpl_lane / {_SIDE} * {instruction.lanes};",
        f"    {instruction.operand} rpl_x[{blocks[0]}], rpl_y[{blocks[1]}];",
        "#pragma unroll",
        f"    for (int rpl_i = 0; rpl_i < {blocks[0]}; ++rpl_i) "
        f"rpl_x[rpl_i] = {pick}rpl_a[rpl_wr + {_SIDE} * rpl_i + rpl_lane % {_SIDE}][rpl_q];",
        "#pragma unroll",
        f"    for (int rpl_j = 0; rpl_j < {blocks[1]}; ++rpl_j) "
        f"rpl_y[rpl_j] = {pick}rpl_b[rpl_wc + {_SIDE} * rpl_j + rpl_lane % {_SIDE}][rpl_q];",
        "#pragma unroll",
        f"    for (int rpl_i = 0; rpl_i < {blocks[0]}; ++rpl_i)",
        "#pragma unroll",
        f"      for (int rpl_j = 0; rpl_j < {blocks[1]}; ++rpl_j)",
        f"        rpl_acc[rpl_i][rpl_j] = {instruction.builtin}(rpl_x[rpl_i], rpl_y[rpl_j], rpl_acc[rpl_i][rpl_j], 0, 0, 0);",
        "  }",
    ]


def _stored(product: MatrixProduct, blocks: tuple[int, int]) -> list[str]:
    """Return the code after the loop, for each result of a work-item."""
    first, second = (factor.index.name for factor in product.factors)
    before, after = product.element
    return [
        "#pragma unroll",
        f"for (int rpl_i = 0; rpl_i < {blocks[0]}; ++rpl_i)",
        "#pragma unroll",
        f"  for (int rpl_j = 0; rpl_j < {blocks[1]}; ++rpl_j)",
        "#pragma unroll",
        "    for (int rpl_e = 0; rpl_e < 4; ++rpl_e) {",
        f"      const {product.index_types[first]} {first} ="
        f" rpl_row + rpl_wr + {_SIDE} * rpl_i + rpl_lane / {_SIDE} * 4 + rpl_e;",
        f"      const {product.index_types[second]} {second} = rpl_col + rpl_wc + {_SIDE} * rpl_j + rpl_lane % {_SIDE};",
        f"      if ({first} < {product.bounds[first]} && {second} < {product.bounds[second]}) {{",
        *(f"        {text_of(node)}" for node in before),
        f"        {product.total} += rpl_acc[rpl_i][rpl_j][rpl_e];",
        *(f"        {text_of(node)}" for node in after),
        "      }",
        "    }",
    ]
