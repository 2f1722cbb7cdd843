"""The kernels of benchmarks/kernels/timing compute what their benchmarks time; sizes are small."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from benchmarks.near_variants import RELATIONS, VARIANTS, Variant
from benchmarks.timing.emulation import Emulation, output, scalar, source_buffer
from rocm_perf_lab.device.emulator import EmulatorDevice

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from rocm_perf_lab.device.protocol import BufferValue, Launch, ScalarValue

EMULATION = Emulation()
RANDOM = np.random.default_rng(7)


def results(launch: Launch, directory: Path) -> dict[str, NDArray[Any]]:
    run = EmulatorDevice(target=EMULATION.target).run(launch, database=directory / "results.db", runs=1, counters=())
    assert not run.findings
    return dict(run.outputs)


def small(shape: tuple[int, ...], dtype: str) -> NDArray[Any]:
    return RANDOM.integers(-3, 4, shape).astype(dtype)  # products and sums of these are exact


@pytest.mark.parametrize("variant", VARIANTS, ids=lambda variant: variant.name)
def test_variants_of_a_product_are_correct(variant: Variant, tmp_path: Path) -> None:
    m, n, k = max(variant.tile[0], 16), max(variant.tile[1], 16), 128
    dtype = "f4" if variant.file == "gemm_f32.hip" else "f2"
    a, b = small((m, k), dtype), small((k, n), dtype)
    stored = np.ascontiguousarray(b.T) if variant.b_transposed else b
    arguments: tuple[BufferValue | ScalarValue, ...] = (
        source_buffer("a", a.ravel()),
        source_buffer("b", stored.ravel()),
        output("c", m * n, dtype),
        *(scalar(name, value, "i4") for name, value in (("k", k), ("lda", k), ("ldb", stored.shape[1]), ("ldc", n))),
    )
    grid = (n // variant.tile[1], m // variant.tile[0], 1)
    launch = EMULATION.launch(variant.file, variant.kernel, grid, (*variant.block, 1), arguments)

    c = results(launch, tmp_path)["c"].reshape(m, n)

    np.testing.assert_array_equal(c, a.astype("f4") @ b.astype("f4"))


@pytest.mark.parametrize("defines", [{}, {"INTERLEAVE": 2, "BARRIERS": 2}, {"PER_PHASE": 1, "GROUP_M": 1}])
def test_product_in_tiles_of_256_is_correct(defines: dict[str, int], tmp_path: Path) -> None:
    m, n, k = 512, 256, 256
    a, b = small((m, k), "f2"), small((n, k), "f2")
    arguments: tuple[BufferValue | ScalarValue, ...] = (
        source_buffer("a", a.ravel()),
        source_buffer("b", b.ravel()),
        output("c", m * n, "f2"),
        *(scalar(name, value, "i4") for name, value in (("m", m), ("n", n), ("k", k))),
    )
    launch = EMULATION.launch("gemm_256.hip", "gemm_256", (2, 1, 1), (256, 1, 1), arguments, **defines)

    c = results(launch, tmp_path)["c"].reshape(m, n)

    np.testing.assert_array_equal(c, a.astype("f4") @ b.T.astype("f4"))


def test_relations_name_variants() -> None:
    names = {variant.name for variant in VARIANTS}

    assert {relation.slower for relation in RELATIONS} | {relation.faster for relation in RELATIONS} <= names
    assert len(names) == len(VARIANTS)


@pytest.mark.parametrize("kernel", ["transpose_naive", "transpose_lds", "transpose_lds_padded"])
def test_transpositions(kernel: str, tmp_path: Path) -> None:
    matrix = np.arange(128 * 128, dtype="f4").reshape(128, 128)
    arguments = (source_buffer("in", matrix.ravel()), output("out", matrix.size, "f4"), scalar("side", 128, "i4"))
    launch = EMULATION.launch("movement.hip", kernel, (2, 2, 1), (64, 16, 1), arguments)

    np.testing.assert_array_equal(results(launch, tmp_path)["out"].reshape(128, 128), matrix.T)


def test_concatenation(tmp_path: Path) -> None:
    wide, narrow = RANDOM.integers(0, 1 << 32, (2, 3, 256), np.uint32), RANDOM.integers(0, 1 << 32, (3, 2, 32), np.uint32)
    arguments = (
        source_buffer("wide", wide.ravel()),
        source_buffer("narrow", narrow.ravel()),
        output("out", 3 * 2 * 288, "u4"),
        scalar("tokens", 3, "i4"),
        scalar("heads", 2, "i4"),
    )
    launch = EMULATION.launch("movement.hip", "concat_plain", (3, 1, 1), (128, 1, 1), arguments)

    expected = np.concatenate([wide.transpose(1, 0, 2), narrow], axis=2)
    np.testing.assert_array_equal(results(launch, tmp_path)["out"].reshape(3, 2, 288), expected)


@pytest.mark.parametrize("kernel", ["scatter_add", "scatter_add_combined"])
def test_scattered_additions(kernel: str, tmp_path: Path) -> None:
    index, values = RANDOM.integers(0, 5, 200), small((200,), "f4")
    arguments = (source_buffer("in", values), source_buffer("index", index), output("out", 5, "f4"), scalar("count", 200, "i4"))
    launch = EMULATION.launch("movement.hip", kernel, (1, 1, 1), (256, 1, 1), arguments)

    np.testing.assert_array_equal(results(launch, tmp_path)["out"], np.bincount(index, values, 5))


def test_sum_of_all_values(tmp_path: Path) -> None:
    values = small((4096,), "f4")
    arguments = (source_buffer("in", values), output("partial_sums", 5, "f4"), output("done", 1, "u4"), scalar("each", 4, "i4"))
    launch = EMULATION.launch("movement.hip", "sum_all", (4, 1, 1), (256, 1, 1), arguments)

    assert results(launch, tmp_path)["partial_sums"][4] == values.sum()


@pytest.mark.parametrize(("kernel", "lds"), [("rms_norm_reread", 0), ("rms_norm_lds", 1024)])
def test_rms_norm(kernel: str, lds: int, tmp_path: Path) -> None:
    x, residual, weight = (RANDOM.standard_normal(shape).astype("f2") for shape in ((2, 512), (2, 512), (512,)))
    buffer = output("residual", 1024, "f2")
    buffer.data[:] = residual.ravel()
    arguments = (
        source_buffer("x", x.ravel()),
        buffer,
        source_buffer("weight", weight),
        output("out", 1024, "u1"),
        scalar("scale", 8.0, "f4"),
        scalar("width", 512, "i4"),
    )
    launch = EMULATION.launch("normalisation.hip", kernel, (2, 1, 1), (64, 1, 1), arguments, dynamic_lds_bytes=lds)

    outputs = results(launch, tmp_path)

    total = (x + residual).astype("f4")
    expected = total / np.sqrt((total**2).mean(axis=1, keepdims=True) + 1e-6) * weight.astype("f4") * 8
    np.testing.assert_array_equal(outputs["residual"].reshape(2, 512), (x + residual))
    np.testing.assert_allclose(from_fp8(outputs["out"]).reshape(2, 512), expected, rtol=0.0725, atol=0.002)


@pytest.mark.parametrize(("kernel", "groups"), [("swiglu_scalar", 2), ("swiglu_packed", 1)])
def test_swiglu(kernel: str, groups: int, tmp_path: Path) -> None:
    x = RANDOM.standard_normal((2, 512)).astype("f2")
    arguments = (
        source_buffer("x", x.ravel()),
        output("out", 512, "u1"),
        scalar("scale", 1.0, "f4"),
        scalar("half", 256, "i4"),
    )
    launch = EMULATION.launch("normalisation.hip", kernel, (groups, 1, 1), (64, 1, 1), arguments)

    gate, up = x[:, :256].astype("f4"), x[:, 256:].astype("f4")
    expected = gate / (1 + np.exp(-gate)) * up
    np.testing.assert_allclose(from_fp8(results(launch, tmp_path)["out"]).reshape(2, 256), expected, rtol=0.0725, atol=0.002)


def from_fp8(values: NDArray[Any]) -> NDArray[np.float32]:
    """Return e4m3fnuz values: bias 8, no infinities, 0x80 is not a number."""
    raw = values.view(np.uint8).astype(int)
    sign, exponent, mantissa = np.where(raw & 128, -1.0, 1.0), raw >> 3 & 15, raw & 7
    magnitude = np.where(exponent == 0, mantissa / 8 * 2.0**-7, (1 + mantissa / 8) * 2.0 ** (exponent - 8.0))
    return (sign * magnitude).astype(np.float32)
