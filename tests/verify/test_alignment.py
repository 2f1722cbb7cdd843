"""Alignment that rewrites assume: accesses that the compiler merges are right, statements of the source must hold."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
import pytest

from rocm_perf_lab.languages.arguments import BufferArgument, NormalInit, ScalarArgument
from rocm_perf_lab.languages.compilation import compile_description
from rocm_perf_lab.languages.description import KernelDescription
from rocm_perf_lab.toolchain.compilers import find_compiler
from rocm_perf_lab.verify.alignment import AddressResult, AlignmentTrials
from rocm_perf_lab.verify.comparison import EXACT, BaselineTrial
from rocm_perf_lab.verify.execution import TrialExecutor
from rocm_perf_lab.verify.policy import TrialPolicy
from rocm_perf_lab.verify.trial_runs import DEFAULT_BUDGET, EmulatorRunner
from rocm_perf_lab.verify.trials import Trial
from tests.builders.targets import mi300x

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from rocm_perf_lab.languages.arguments import Alignment, ScalarType

COLUMNS = {"aligned": 64, "odd": 37, "even": 38}
HEAD = "#include <hip/hip_runtime.h>\n#include <hip/hip_fp16.h>\n"
TWICE = """extern "C" __global__ void twice(const {type}* x, {type}* y, int cols) {{
  const {type}* in = x + (size_t)blockIdx.x * cols;
  {type}* out = y + (size_t)blockIdx.x * cols;
  {body}
}}
"""
BASELINE = "for (int i = threadIdx.x; i < cols; i += 64) out[i] = in[i] + in[i];"
TAIL = "for (int i = {width} * (cols / {width}) + threadIdx.x; i < cols; i += 64) out[i] = in[i] + in[i];"


@dataclass(frozen=True)
class Place:
    """A kernel of rows that doubles its input, and trials of it with three numbers of columns."""

    directory: Path

    def check(
        self, body: str, dtype: ScalarType = "f32", *, head: str = "", alignment: Alignment = 256, columns: str = "odd"
    ) -> AddressResult:
        """Return the assumptions of a body about x and y if both are aligned as promised."""
        names: Mapping[str, str] = {"f32": "float", "f16": "__half", "f64": "double", "u8": "unsigned char"}
        text = {name: HEAD + head + TWICE.format(type=names[dtype], body=b) for name, b in (("a", BASELINE), ("b", body))}
        for name, source in text.items():
            (self.directory / f"{name}.hip").write_text(source)
        description = KernelDescription(
            name="twice",
            source="a.hip",  # type: ignore[arg-type]
            entry="twice",
            params={"rows": 3, "cols": COLUMNS[columns]},
            arguments=(
                BufferArgument(name="x", dtype=dtype, shape=("rows", "cols"), init=NormalInit(seed=1), alignment=alignment),
                BufferArgument(name="y", dtype=dtype, shape=("rows", "cols"), access="out", alignment=alignment),
                ScalarArgument(kind="scalar", name="cols", dtype="i32", value="cols"),
            ),
            grid=("rows",),
            block=(64,),
        )
        executor = TrialExecutor(
            description,
            lambda d, source: compile_description(d, source, architecture="gfx942", compiler=find_compiler, promise_checks=True),
        )
        trials = AlignmentTrials(executor, EmulatorRunner(mi300x()), TrialPolicy(seed=1), [self._recorded(executor, columns)])
        assert trials.record_baseline(self.directory / "a.hip") == ()
        return trials.check(self.directory / "b.hip")

    def _recorded(self, executor: TrialExecutor, columns: str) -> BaselineTrial:
        trial = Trial(f"{columns} columns", {"rows": 3, "cols": COLUMNS[columns]}, (5,))
        run, _ = executor.run(trial, self.directory / "a.hip", 1, EmulatorRunner(mi300x()), DEFAULT_BUDGET)
        y = run.buffers["y"]
        untouched = {"y": np.zeros(y.shape, np.bool_)}
        stable = {"y": np.ones(y.shape, np.bool_)}
        return BaselineTrial(trial, {"y": y}, {"y": y}, stable, untouched, frozenset(), 10**6, run.instructions, {"y": EXACT})


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """Sources in a separate directory."""
    return Place(tmp_path)


def vector(kind: str, width: int) -> str:
    """Return a body that reads and writes vectors, and single elements at the end."""
    return (
        f"for (int i = threadIdx.x; i < cols / {width}; i += 64) {{ {kind} v = reinterpret_cast<const {kind}*>(in)[i];"
        f" v += v; reinterpret_cast<{kind}*>(out)[i] = v; }} {TAIL.format(width=width)}"
    )


PACKED = "struct __attribute__((packed, aligned(2))) Pair { __half a, b; };\n"
LOOSE = "typedef float loose __attribute__((ext_vector_type(4), aligned(4)));\n"
RIGHT: dict[str, tuple[Literal["f32", "f16", "f64", "u8"], str, str]] = {
    "merged": (
        "f16",
        "",
        "int i = threadIdx.x * 4; if (i + 3 < cols) {\n#pragma unroll\n"
        "for (int k = 0; k < 4; k++) out[i + k] = in[i + k] + in[i + k]; }" + TAIL.format(width=4),
    ),
    "memcpy": (
        "f32",
        "",
        "for (int i = threadIdx.x; i < cols / 4; i += 64) { float4 v; __builtin_memcpy(&v, in + 4 * i, 16); v += v;"
        " __builtin_memcpy(out + 4 * i, &v, 16); }" + TAIL.format(width=4),
    ),
    "packed": (
        "f16",
        PACKED,
        "for (int i = threadIdx.x; i < cols / 2; i += 64) { Pair v = reinterpret_cast<const Pair*>(in)[i];"
        " reinterpret_cast<Pair*>(out)[i] = Pair{v.a + v.a, v.b + v.b}; }" + TAIL.format(width=2),
    ),
    "reduced": ("f32", LOOSE, vector("loose", 4)),
    "guarded": (
        "f32",
        "",
        f"if (((size_t)in | (size_t)out) % 16 == 0) {{ {vector('float4', 4)} }} else {{ {BASELINE} }}",
    ),
    "peeled": (
        "f32",
        "",
        "int skip = (16 - (size_t)in % 16) % 16 / 4; skip = skip < cols ? skip : cols;"
        "if ((int)threadIdx.x < skip) out[threadIdx.x] = in[threadIdx.x] + in[threadIdx.x];"
        "int n = (cols - skip) / 4;"
        "for (int i = threadIdx.x; i < n; i += 64) { float4 v = reinterpret_cast<const float4*>(in + skip)[i]; v += v;"
        " __builtin_memcpy(out + skip + 4 * i, &v, 16); }"
        "for (int i = skip + 4 * n + threadIdx.x; i < cols; i += 64) out[i] = in[i] + in[i];",
    ),
}
RIGHT |= {  # written after the rules
    "bytes": (
        "f32",
        "",
        "for (int i = threadIdx.x; i < cols; i += 64) { float v; const char* a = (const char*)(in + i); char* b = (char*)&v;"
        " for (int k = 0; k < 4; k++) b[k] = a[k]; out[i] = v + v; }",
    ),
    "may alias": (
        "f16",
        "typedef unsigned int any __attribute__((aligned(2), may_alias));\n",
        "for (int i = threadIdx.x; i < cols / 2; i += 64) { any v = ((const any*)in)[i]; __half2 h; __builtin_memcpy(&h, &v, 4);"
        " h = __hadd2(h, h); __builtin_memcpy(out + 2 * i, &h, 4); }" + TAIL.format(width=2),
    ),
    "vectors in LDS": (
        "f32",
        "",
        "__shared__ float4 row[16]; float* flat = (float*)row; for (int i = threadIdx.x; i < cols; i += 64) flat[i] = in[i];"
        " __syncthreads(); for (int i = threadIdx.x; i < cols; i += 64) out[i] = row[i / 4].x * 0 + flat[i] + flat[i];",
    ),
    "register vector": (
        "f32",
        "",
        "for (int i = threadIdx.x * 4; i < cols; i += 256) { float4 v = {in[i], i + 1 < cols ? in[i + 1] : 0,"
        " i + 2 < cols ? in[i + 2] : 0, i + 3 < cols ? in[i + 3] : 0}; v += v; out[i] = v.x; if (i + 1 < cols) out[i + 1] = v.y;"
        " if (i + 2 < cols) out[i + 2] = v.z; if (i + 3 < cols) out[i + 3] = v.w; }",
    ),
}
WRONG: dict[str, tuple[Literal["f32", "f16", "f64", "u8"], str, str]] = {
    "float4": ("f32", "", vector("float4", 4)),
    "float2": ("f32", "", vector("float2", 2)),
    "half2": (
        "f16",
        "",
        "for (int i = threadIdx.x; i < cols / 2; i += 64) { __half2 v = reinterpret_cast<const __half2*>(in)[i];"
        " reinterpret_cast<__half2*>(out)[i] = __hadd2(v, v); }" + TAIL.format(width=2),
    ),
    "assumed": (
        "f32",
        "",
        "const float* a = (const float*)__builtin_assume_aligned(in, 16);"
        "for (int i = threadIdx.x; i < cols; i += 64) out[i] = a[i] + a[i];",
    ),
    "attribute": ("f32", "typedef float wide __attribute__((aligned(16)));\n", "for (int i = threadIdx.x; i < cols; i += 64)"
        " out[i] = 2 * *(const wide*)(in + i);"),
    "pool": (
        "u8",
        "",
        "for (int i = threadIdx.x; i < cols / 8; i += 64) { unsigned long long v = ((const unsigned long long*)in)[i];"
        " for (int k = 0; k < 8; k++) { unsigned char c = v >> 8 * k; out[8 * i + k] = c + c; } }" + TAIL.format(width=8),
    ),
}  # fmt: skip

WRONG |= {  # written after the rules
    "reference": (
        "f32",
        "__device__ float4 twice_of(const float4& v) { return v + v; }\n",
        "for (int i = threadIdx.x; i < cols / 4; i += 64) { float4 v = twice_of(*(const float4*)(in + 4 * i));"
        " __builtin_memcpy(out + 4 * i, &v, 16); }" + TAIL.format(width=4),
    ),
    "store only": (
        "f32",
        "",
        "for (int i = threadIdx.x; i < cols / 2; i += 64) *(float2*)(out + 2 * i) = {in[2 * i] * 2, in[2 * i + 1] * 2};"
        + TAIL.format(width=2),
    ),
    "double": (
        "f32",
        "",
        "for (int i = threadIdx.x; i < cols / 2; i += 64) { double d = ((const double*)in)[i]; float v[2];"
        " __builtin_memcpy(v, &d, 8); out[2 * i] = v[0] + v[0]; out[2 * i + 1] = v[1] + v[1]; }" + TAIL.format(width=2),
    ),
    "member of a structure": (
        "f32",
        "struct alignas(8) Pair { float a, b; };\n",
        "for (int i = threadIdx.x; i < cols / 2; i += 64) { const Pair* p = (const Pair*)in + i; out[2 * i] = p->a + p->a;"
        " out[2 * i + 1] = p->b + p->b; }" + TAIL.format(width=2),
    ),
}


@pytest.mark.parametrize("name", RIGHT)
@pytest.mark.parametrize("columns", ["odd", "aligned"])
def test_what_no_source_assumes_is_right_at_any_address(place: Place, name: str, columns: str) -> None:
    dtype, head, body = RIGHT[name]

    assert place.check(body, dtype, head=head, columns=columns) == AddressResult()


@pytest.mark.parametrize("name", WRONG)
def test_an_alignment_that_odd_rows_lack_is_wrong(place: Place, name: str) -> None:
    dtype, head, body = WRONG[name]

    result = place.check(body, dtype, head=head)

    assert result.reason is not None
    assert result.reason.startswith("b.hip:")
    assert "misaligned" in result.reason
    assert "[odd columns]" in result.reason


def test_an_alignment_that_only_the_buffers_have_is_listed(place: Place) -> None:
    result = place.check(vector("float4", 4), columns="aligned")

    assert result.reason is None
    assert {(a.buffer, a.alignment) for a in result.assumptions} == {("x", 16), ("y", 16)}
    assert str(result.assumptions[0]).startswith("assumes 16-byte alignment of buffer 'x' (b.hip:")


def test_the_description_may_promise_less(place: Place) -> None:
    result = place.check(vector("float4", 4), columns="aligned", alignment="element")

    assert result.reason is not None
    assert "misaligned" in result.reason


def test_only_the_buffer_that_is_read_in_vectors_is_listed(place: Place) -> None:
    body = (
        "for (int i = threadIdx.x; i < cols / 2; i += 64) { float2 v = reinterpret_cast<const float2*>(in)[i];"
        " out[2 * i] = v.x + v.x; out[2 * i + 1] = v.y + v.y; }"
    )

    result = place.check(body, columns="even")

    assert [(a.buffer, a.alignment) for a in result.assumptions] == [("x", 8)]
