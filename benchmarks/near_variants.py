"""Near variants of one matrix product on the emulator: `python -m benchmarks.near_variants`.

Absolute times of these kernels are not published. For some pairs, published measurements state which one is slower; these pairs
are checked. The other times only show the order of the variants in the model.
"""

from __future__ import annotations

import argparse
from dataclasses import asdict, dataclass

from benchmarks.figures import Publisher
from benchmarks.timing.emulation import Emulation
from benchmarks.timing.gemm_measures import gemm_variant

SIDE = 2048
COLUMNS = ("variant or relation", "time or ratio", "rate or result", "reason")


@dataclass(frozen=True)
class Variant:
    """A kernel of `benchmarks/kernels/timing`.

    Args:
        name: Name in the tables.
        file: Source file, which decides the data type.
        kernel: Name of the kernel.
        block: Work-items of a workgroup in x and y.
        tile: Rows and columns of the product per workgroup.
        run_k: Size of the longer of two products from which the time is extrapolated along k.
        b_transposed: Whether B is stored n x k.
    """

    name: str
    file: str
    kernel: str
    block: tuple[int, int]
    tile: tuple[int, int]
    run_k: int
    b_transposed: bool = False


@dataclass(frozen=True)
class Relation:
    """Order of two variants according to a published measurement."""

    slower: str
    faster: str
    reason: str


def _f32(kernel: str, block: tuple[int, int], tile: tuple[int, int], *, b_transposed: bool = False, name: str = "") -> Variant:
    return Variant(name or kernel, "gemm_f32.hip", kernel, block, tile, 64, b_transposed)


def _f16(kernel: str, side: int, *, waves: int = 4) -> Variant:
    return Variant(kernel, "gemm_f16.hip", kernel, (64 * waves, 1), (side, side), 256, kernel.endswith("_bt"))


VARIANTS = (
    _f32("naive_lanes_in_rows", (256, 1), (256, 1)),
    _f32("naive_lanes_in_columns", (256, 1), (1, 256)),
    _f32("naive_lanes_in_columns", (16, 16), (16, 16), name="naive_16x16"),
    _f32("naive_b_transposed", (256, 1), (1, 256), b_transposed=True),
    _f32("naive_b_transposed", (16, 16), (16, 16), b_transposed=True, name="naive_16x16_b_transposed"),
    _f32("naive_b_transposed_float4", (256, 1), (1, 256), b_transposed=True),
    _f32("naive_four_columns", (64, 4), (4, 256)),
    _f32("tile_16", (16, 16), (16, 16)),
    _f32("tile_32", (32, 32), (32, 32)),
    _f32("block_64_4x4", (256, 1), (64, 64)),
    _f32("block_64_4x4_float4", (256, 1), (64, 64)),
    _f32("block_64_4x4_padded", (256, 1), (64, 64)),
    _f32("block_64_4x4_b_transposed", (256, 1), (64, 64), b_transposed=True),
    _f32("block_64_4x4_double", (256, 1), (64, 64)),
    _f32("block_128_8x8", (256, 1), (128, 128)),
    _f32("block_128_8x8_padded", (256, 1), (128, 128)),
    _f32("block_128_8x8_double", (256, 1), (128, 128)),
    _f32("block_128_8x8_b_transposed", (256, 1), (128, 128), b_transposed=True),
    _f32("block_128_spread_renumbered", (256, 1), (128, 128)),
    _f16("direct_32", 64),
    _f16("direct_32_bt", 64),
    _f16("ushort_64", 64),
    *(_f16(f"staged_64{name}", 64) for name in ("", "_bt", "_padded_bt", "_double_bt", "_deep_bt")),
    *(_f16(f"staged_128{name}", 128) for name in ("", "_bt", "_padded_bt", "_double_bt", "_tall_bt")),
    _f16("staged_128_8waves_bt", 128, waves=8),
)
_LINES = "a load from 64 lines takes 64 clk of the address pipe, a coalesced dword 4 (thread traces, section 6)"
_LADDER = "row 96 to 97: 120 and 29 ms (MI355X)"
_BLOCKS = "one output per work-item 4.4 ms, blocks of 8 x 8 1.9 ms (MI300A, HIP GEMM microbench)"
_CONFLICTS = "LDS reads with 8-way conflicts last up to 4 times as long (rows 74 to 76)"
_NARROW_STORES = "eight ds_write_b16 take 32 clk of the LDS pipe, one ds_write_b128 13 (thread traces, section 4)"
RELATIONS = (
    Relation("naive_lanes_in_rows", "naive_lanes_in_columns", _LINES),
    Relation("naive_b_transposed", "naive_lanes_in_columns", _LINES),
    Relation("naive_16x16_b_transposed", "naive_16x16", _LINES),
    Relation("naive_b_transposed", "naive_b_transposed_float4", "the same lines with a quarter of the loads (section 6)"),
    Relation("naive_16x16", "tile_16", _LADDER),
    Relation("tile_32", "block_64_4x4", _BLOCKS),
    Relation("tile_32", "block_128_spread_renumbered", _BLOCKS),
    Relation("direct_32_bt", "direct_32", "two strided loads of 64 clk per step, or one and four coalesced of 4 (section 6)"),
    Relation("ushort_64", "staged_64_bt", "272 clk of the address pipe per 16 of k, or 32 per 32 of k (section 6)"),
    Relation("staged_64_bt", "staged_64_padded_bt", _CONFLICTS),
    Relation("staged_128_bt", "staged_128_padded_bt", _CONFLICTS),
    Relation("staged_64", "staged_64_bt", _NARROW_STORES),
    Relation("staged_128", "staged_128_bt", _NARROW_STORES),
)


def main(arguments: list[str] | None = None) -> None:
    """Run all variants, and print and write their times and the stated relations."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.near_variants", description=(__doc__ or "").partition("\n")[0])
    publisher = Publisher("near_variants", parser, arguments)
    emulation = Emulation()
    times = {variant.name: microseconds(emulation, variant) for variant in VARIANTS}
    operations = 2 * SIDE**3
    rows = {name: (name, f"{time:,.0f} us", f"{operations / time / 1e6:.1f} TFLOP/s", "") for name, time in times.items()}
    for relation in RELATIONS:
        ratio = times[relation.slower] / times[relation.faster]
        holds = "holds" if ratio > 1 else "does not hold"
        pair = f"{relation.slower} slower than {relation.faster}"
        rows[pair] = (pair, f"{ratio:.2f} x", holds, relation.reason)
    held = sum(times[relation.slower] > times[relation.faster] for relation in RELATIONS)
    rows["relations"] = ("stated relations that hold", f"{held} of {len(RELATIONS)}", "", "")
    data = {"times": times, "relations": [asdict(relation) for relation in RELATIONS]}
    title = f"near variants of a product of {SIDE} x {SIDE} x {SIDE}, emulated"
    publisher.publish(title, COLUMNS, rows, data, width=160)


def microseconds(emulation: Emulation, variant: Variant) -> float:
    """Return the emulated time of a variant."""
    return gemm_variant(
        emulation,
        {
            "file": variant.file,
            "kernel": variant.kernel,
            "m": SIDE,
            "n": SIDE,
            "k": SIDE,
            "run_k": variant.run_k,
            "block_x": variant.block[0],
            "block_y": variant.block[1],
            "tile_m": variant.tile[0],
            "tile_n": variant.tile[1],
            "b_transposed": int(variant.b_transposed),
        },
    )


if __name__ == "__main__":
    main()
