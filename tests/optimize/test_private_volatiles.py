"""Volatile local variables are allowed; volatile accesses of memory that others see are not."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from rocm_perf_lab.optimize.guards_code import SameCodeObject
from rocm_perf_lab.optimize.inspection import CandidateSource, Inspection
from rocm_perf_lab.optimize.source_tree import parse_source
from rocm_perf_lab.toolchain.build import CompileRequest
from rocm_perf_lab.toolchain.kernel_lookup import find_kernel
from rocm_perf_lab.toolchain.syntax import read_syntax
from tests.builders.candidates import the_compiler
from tests.builders.kernels import build_hip, write_source

if TYPE_CHECKING:
    from pathlib import Path

KERNEL = """#include <hip/hip_runtime.h>
template <class T> __device__ void put(T& to, float x) {{ to = x; }}
extern "C" __global__ void k(const float* a, float* out, int n) {{
  const int t = threadIdx.x;
  {body}
}}
"""
BASELINE = "float sum = 0; for (int i = t; i < n; i += 64) sum += a[i]; out[t] = sum;"
RIGHT = {
    "compensated sum": """float sum = 0, c = 0;
      for (int i = t; i < n; i += 64) {
        volatile float y = a[i] - c; volatile float next = sum + y; volatile float d = next - sum; c = d - y; sum = next;
      }
      out[t] = sum;""",
    "changes in branches": """volatile float sum = 0, c(0);
      for (int i = t; i < n; i += 64) { if (a[i] > 0) sum += a[i]; else (c) -= a[i]; }
      volatile int seen = 0; ++seen; seen = 2; out[t] = sum - c + seen;""",
    "array": "volatile float x[8] = {1}; for (int i = t; i < n; i += 64) x[i & 7] += a[i]; out[t] = x[0] + x[n & 7];",
    "one of two": "volatile float y = a[t], z = 2; volatile float x[2][2]; x[t & 1][0] = n > 5 ? y : z; out[t] = x[n & 1][0];",
    "members": "struct Sum { volatile double s, c; } x = {0, 0}; for (int i = t; i < n; i += 64) x.s += a[i]; out[t] = x.s;",
    "volatile pointer": "const float* volatile p = a; out[t] = p[t];",
    "alias": "using Kept = volatile float; Kept y = a[t]; y = y + 1; out[t] = y;",
}
WRONG = {
    "pointer to the output": "volatile float* o = out; o[t] = a[t];",
    "cast of the output": "((volatile float*)out)[t] = a[t];",
    "alias of the output": "using Kept = volatile float; *(Kept*)(out + t) = a[t];",
    "reference to the output": "volatile float y = a[t]; volatile float& o = out[t]; o = y;",
    "volatile local and output": "volatile float y = a[t]; const_cast<volatile float&>(out[t]) = y;",
    "one of both": "volatile float y = a[t]; volatile float* o = n > 5 ? &y : out; *o = 1; out[1] = y;",
    "index out of a local array": "volatile float y[1]; volatile float* o = y; o += out - (float*)o; o[t] = a[t];",
    "LDS": "__shared__ volatile float s[64]; s[t] = a[t]; __syncthreads(); out[t] = s[63 - t];",
    "LDS of the name of a local": """{ volatile float s = a[t]; out[t] = s; } __shared__ volatile float s[64];
      s[t] = a[t]; __syncthreads(); out[t] = s[63 - t];""",
    "atomic store": "volatile float y = a[t]; __hip_atomic_store(&out[t], y, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);",
    "reference in a structure": "struct R { volatile float& r; }; R x{out[t]}; x.r = a[t];",
    "member of the output": "struct S { volatile float s; }; volatile float y = a[t]; ((S*)out)[t].s = y;",
    "reference to a structure": "struct S { volatile float s; }; volatile float y = a[t]; S& o = ((S*)out)[t]; o.s = y;",
    "choice of a local and the output": "volatile float y = a[t]; (n > 5 ? y : *(volatile float*)out) = 2;",
    "template": "put<volatile float>(out[t], a[t]);",
}  # fmt: skip


def candidate(body: str, directory: Path) -> CandidateSource:
    directory.mkdir()
    text = KERNEL.format(body=body)
    code_object = build_hip(text, directory).code_object
    syntax = read_syntax(CompileRequest(write_source(text, directory)), compiler=the_compiler())
    inspection = Inspection(syntax, code_object, frozenset(), 64, "")
    return CandidateSource(parse_source(text.encode(), "k"), find_kernel(code_object, "k"), 8.0, inspection)


@pytest.fixture(scope="module")
def baseline(tmp_path_factory: pytest.TempPathFactory) -> CandidateSource:
    return candidate(BASELINE, tmp_path_factory.mktemp("baseline") / "source")


@pytest.mark.parametrize("body", RIGHT.values(), ids=RIGHT)
def test_volatile_local_variables_are_allowed(body: str, baseline: CandidateSource, tmp_path: Path) -> None:
    result = SameCodeObject().check(baseline, candidate(body, tmp_path / "candidate"))

    assert (result.passed, result.detail) == (True, "no new capability")


@pytest.mark.parametrize("body", WRONG.values(), ids=WRONG)
def test_volatile_and_atomic_stores_elsewhere_are_refused(body: str, baseline: CandidateSource, tmp_path: Path) -> None:
    result = SameCodeObject().check(baseline, candidate(body, tmp_path / "candidate"))

    assert not result.passed
    assert "has volatile or atomic stores" in result.detail
