"""Measures of kernels that mostly move data: fills, concatenation, transposition, reductions, scattered additions."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from benchmarks.timing.emulation import output, scalar, source_buffer

if TYPE_CHECKING:
    from collections.abc import Callable

    from benchmarks.timing.emulation import Emulation
    from benchmarks.timing.published import Parameters

SOURCE = "movement.hip"
BLOCK = 256


def fill(emulation: Emulation, parameters: Parameters) -> float:
    """Return the microseconds of a fill."""
    count = int(parameters["bytes"]) // 16
    arguments = (output("out", count * 4, "u4"), scalar("value", 7, "u4"))
    return emulation.nanoseconds(emulation.launch(SOURCE, "fill", (count // BLOCK, 1, 1), (BLOCK, 1, 1), arguments)) / 1000


def concat(emulation: Emulation, parameters: Parameters) -> float:
    """Return the microseconds of a concatenation of 512 and 64 values per token and head."""
    tokens, heads = int(parameters["tokens"]), int(parameters["heads"])
    arguments = (
        source_buffer("wide", np.zeros(tokens * heads * 256, np.uint32)),
        source_buffer("narrow", np.zeros(tokens * heads * 32, np.uint32)),
        output("out", tokens * heads * 288, "u4"),
        scalar("tokens", tokens, "i4"),
        scalar("heads", heads, "i4"),
    )
    groups = tokens * heads * 64 // BLOCK
    return (
        emulation.nanoseconds(emulation.launch(SOURCE, str(parameters["kernel"]), (groups, 1, 1), (BLOCK, 1, 1), arguments))
        / 1000
    )


def transpose(emulation: Emulation, parameters: Parameters) -> float:
    """Return the microseconds of a copy or a transposition of a square f32 matrix in tiles of 64 x 64."""
    side = int(parameters["side"])
    arguments = (
        source_buffer("in", np.zeros(side * side, np.float32)),
        output("out", side * side, "f4"),
        scalar("side", side, "i4"),
    )
    grid = (side // 64, side // 64, 1)
    return emulation.nanoseconds(emulation.launch(SOURCE, str(parameters["kernel"]), grid, (64, 16, 1), arguments)) / 1000


def sum_gb_per_s(emulation: Emulation, parameters: Parameters) -> float:
    """Return the GB/s of a sum of `values` f32."""
    values, each = int(parameters["values"]), int(parameters["each"])
    block = int(parameters["block"])
    groups = values // each // block
    arguments = (
        source_buffer("in", np.zeros(values, np.float32)),
        output("partial_sums", groups + 1, "f4"),
        output("done", 1, "u4"),
        scalar("each", each, "i4"),
    )
    launch = emulation.launch(SOURCE, "sum_all", (groups, 1, 1), (block, 1, 1), arguments)
    return 4 * values / emulation.nanoseconds(launch)


def row_sums(emulation: Emulation, parameters: Parameters) -> float:
    """Return the microseconds of the sums of `rows` rows of 128 f32; time is proportional to the number of rows."""
    run, rows = int(parameters["run_rows"]), int(parameters["rows"])
    arguments = (source_buffer("in", np.zeros(run * 128, np.float32)), output("out", run, "f4"))
    grid = (run * 32 // BLOCK, 1, 1)
    launch = emulation.launch(SOURCE, str(parameters["kernel"]), grid, (BLOCK, 1, 1), arguments)
    return emulation.nanoseconds(launch) * rows / run / 1000


def scatter(emulation: Emulation, parameters: Parameters) -> float:
    """Return the milliseconds of additions of `items` values to random ones of `bins` sums."""
    items, bins = int(parameters["items"]), int(parameters["bins"])
    arguments = (
        source_buffer("in", np.ones(items, np.float32)),
        source_buffer("index", np.random.default_rng(1).integers(0, bins, items, np.int64)),
        output("out", bins, "f4"),
        scalar("count", items, "i4"),
    )
    grid = (-(-items // BLOCK), 1, 1)
    launch = emulation.launch(SOURCE, str(parameters["kernel"]), grid, (BLOCK, 1, 1), arguments)
    return emulation.nanoseconds(launch) / 1e6


def index_add(emulation: Emulation, parameters: Parameters) -> float:
    """Return the microseconds of additions of rows of 128 f32 to random rows of a table; proportional to the number of rows."""
    run, rows, table = int(parameters["run_rows"]), int(parameters["rows"]), int(parameters["table_rows"])
    arguments = (
        source_buffer("in", np.zeros(run * 128, np.float32)),
        source_buffer("index", np.random.default_rng(1).integers(0, table, run, np.int32)),
        output("table", table * 128, "f4"),
    )
    launch = emulation.launch(SOURCE, str(parameters["kernel"]), (run * 128 // BLOCK, 1, 1), (BLOCK, 1, 1), arguments)
    return emulation.nanoseconds(launch) * rows / run / 1000


MOVEMENT_MEASURES: dict[str, Callable[[Emulation, Parameters], float]] = {
    "fill": fill,
    "concat": concat,
    "transpose": transpose,
    "sum_gb_per_s": sum_gb_per_s,
    "row_sums": row_sums,
    "scatter": scatter,
    "index_add": index_add,
}
