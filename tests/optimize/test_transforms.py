"""Transforms: rewritten text, rejections, and correctness of rewrites on the emulator."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from rocm_perf_lab.core.errors import LabError
from rocm_perf_lab.core.resources import resource_dir
from rocm_perf_lab.languages.arguments import BufferArgument, ScalarArgument
from rocm_perf_lab.languages.description import KernelDescription
from rocm_perf_lab.optimize.source_tree import parse_source
from rocm_perf_lab.optimize.transforms.base import addresses_any, order_transforms
from rocm_perf_lab.optimize.transforms.hoisting import HoistInvariants
from rocm_perf_lab.optimize.transforms.launch_bounds import LaunchBounds, WavesPerEu
from rocm_perf_lab.optimize.transforms.parameters import RestrictPointers
from rocm_perf_lab.optimize.transforms.shared_padding import PadSharedMemory
from rocm_perf_lab.optimize.transforms.strength_reduction import ReduceStrength
from rocm_perf_lab.optimize.transforms.unroll import UnrollLoops
from rocm_perf_lab.optimize.transforms.vector_loads import VectorLoads
from rocm_perf_lab.optimize.transforms.wave_reduction import WaveReduction
from tests.builders.candidates import checker_of, described

if TYPE_CHECKING:
    from pathlib import Path

    from rocm_perf_lab.optimize.candidate import CandidateChecker
    from rocm_perf_lab.optimize.transforms.base import Transform

KERNEL = KernelDescription(
    name="k",
    source="k.hip",  # type: ignore[arg-type]
    entry="k",
    params={"n": 100, "block": 256},
    defines={"BLOCK": "block"},
    arguments=(
        BufferArgument(name="x", dtype="f32", shape=("n",), access="inout"),
        ScalarArgument(kind="scalar", name="n", dtype="i32", value="n"),
    ),
    grid=(1,),
    block=("block",),
)
SMALL = {
    "softmax": {"rows": 6, "cols": 300},
    "softmax_atomics": {"rows": 6, "cols": 300},
    "layernorm": {"rows": 6, "cols": 300},
    "transpose": {"rows": 96, "cols": 70},
    "gemm_naive": {"m": 12, "n": 70, "k": 36},
    "reduction": {"n": 40_000, "groups": 8},
    "histogram": {"n": 8_000, "groups": 4},
}
"""Small sizes of experiments, not all of them multiples of vectors or wavefronts."""


def transforms(kernel: KernelDescription = KERNEL) -> dict[str, Transform]:
    """Return all transforms by name."""
    found: list[Transform] = [
        WaveReduction(kernel=kernel), PadSharedMemory(), HoistInvariants(), VectorLoads(kernel=kernel), ReduceStrength(),
        UnrollLoops(factors=(2, 8)), RestrictPointers(), LaunchBounds(kernel=kernel), WavesPerEu(waves=(4,)),
    ]  # fmt: skip
    return {transform.name: transform for transform in found}


def texts(name: str, source: str) -> list[str]:
    return [r.text for r in transforms()[name].propose(parse_source(source.encode(), "k"))]


def reasons(name: str, source: str) -> list[str]:
    return [r.reason for r in transforms()[name].rejections(parse_source(source.encode(), "k"))]


def kernel(body: str, parameters: str = "float* x, int n") -> str:
    return f'extern "C" __global__ void k({parameters}) {{ {body} }}\n'


def test_pointers_are_restricted_and_const_if_only_read() -> None:
    source = kernel("y[n] = x[n];", "float* x, float* y, int n")

    assert texts("restrict", source) == [kernel("y[n] = x[n];", "const float* __restrict__ x, float* __restrict__ y, int n")]


def test_const_is_not_added_to_a_mangled_kernel() -> None:
    source = "__global__ void k(float* x, float* y) { y[0] = x[0]; }"

    assert texts("restrict", source) == ["__global__ void k(float* __restrict__ x, float* __restrict__ y) { y[0] = x[0]; }"]


@pytest.mark.parametrize("use", ["float* p = x; p[0] = 1;", "*x = 1;", "f(x);", "x[0]++;", "atomicAdd(&x[0], 1.0f);"])
def test_const_is_not_added_if_the_pointer_is_not_only_read(use: str) -> None:
    (text,) = texts("restrict", kernel(use))

    assert "const" not in text


def test_the_bound_is_the_macro_for_the_workgroup_size_if_present() -> None:
    with_macro = kernel("x[0] = BLOCK;")

    assert texts("launch bounds", with_macro) == [with_macro.replace(" k(", " __launch_bounds__(BLOCK) k(")]
    assert texts("launch bounds", kernel("")) == [kernel("").replace(" k(", " __launch_bounds__(256) k(")]
    assert texts("launch bounds", texts("launch bounds", with_macro)[0]) == []


def test_waves_per_eu_are_added_once() -> None:
    (text,) = texts("waves per EU", kernel(""))

    assert "void __attribute__((amdgpu_waves_per_eu(4))) k(" in text
    assert texts("waves per EU", text) == []


def test_rows_of_an_array_in_lds_are_padded_once() -> None:
    source = kernel("__shared__ float t[32][32]; t[threadIdx.x][0] = 1; x[0] = t[0][n];")

    (text,) = texts("pad LDS", source)

    assert "t[32][32 + 1];" in text
    assert texts("pad LDS", text) == []


@pytest.mark.parametrize("use", ["float* p = t[0];", "f(t);", "x[0] = sizeof(t);", "f(&t[0][0]);"])
def test_arrays_with_other_uses_are_not_padded(use: str) -> None:
    source = kernel(f"__shared__ float t[32][32]; {use}")

    assert texts("pad LDS", source) == []


def test_a_sum_in_memory_moves_to_a_register_and_back() -> None:
    source = kernel("for (int i = 0; i < n; ++i) c[n] += x[i];", "float* c, const float* x, int n")

    (text,) = texts("hoist invariants", source)

    assert "if ((0) < n) {" in text
    assert "float kept_0 = c[n];" in text
    assert "kept_0 += x[i];" in text
    assert "c[n] = kept_0;" in text
    assert texts("hoist invariants", text) == []


@pytest.mark.parametrize(
    "loop",
    [
        "for (int i = 0; i < n; ++i) c[i] += x[i];",  # not invariant
        "for (int i = 0; i < n; ++i) { c[n] += x[i]; c[i] = 0; }",  # the same buffer elsewhere
        "for (int i = 0; i < n; ++i) if (i > 2) c[n] += x[i];",  # not in every iteration
        "for (int i = 0; i < n; ++i) { c[n] += x[i]; if (x[i] > 0) break; }",  # may end early
        "for (int i = 0; i < n; ++i) { c[n] += x[i]; __syncthreads(); }",  # others may look
        "for (int i = 0; i < n; ++i) { c[n] += x[i]; n = n - 1; }",  # the place moves
        "float* p = n > 3 ? c : (float*)x; for (int i = 0; i < n; ++i) { c[n] += x[i]; p[i] = 1; }",  # may be the same buffer
    ],
)
def test_accesses_that_depend_on_the_loop_are_not_hoisted(loop: str) -> None:
    assert texts("hoist invariants", kernel(loop, "float* c, const float* x, int n")) == []


def test_a_division_by_an_invariant_float_becomes_a_product() -> None:
    (text,) = texts("strength reduction", kernel("float d = n; for (int i = 0; i < n; ++i) x[i] = x[i] / d;"))

    assert "const float reciprocal_of_d = 1.0f / d;" in text
    assert "x[i] = x[i] * reciprocal_of_d;" in text


def test_quotient_and_remainder_of_the_index_are_updated() -> None:
    source = kernel("for (int i = threadIdx.x; i < n; i += 256) x[i / w] = i % w;", "float* x, int n, int w")

    (text,) = texts("strength reduction", source)

    assert "int i_quotient = (threadIdx.x) / w;" in text
    assert "x[i_quotient] = i_remainder;" in text


@pytest.mark.parametrize(
    "loop", ["for (int i = 0; i < n; ++i) { d = d + 1; x[i] = x[i] / d; }", "for (int i = 0; i < n; ++i) x[i] = x[i] / n;"]
)
def test_other_divisions_are_not_changed(loop: str) -> None:
    assert texts("strength reduction", kernel(f"float d = 1; {loop}")) == []


def test_aligned_consecutive_elements_are_loaded_and_stored_as_vectors() -> None:
    source = kernel("for (int i = threadIdx.x; i < n; i += blockDim.x) y[i] = 2 * x[i];", "const float* x, float* y, int n")

    four, two = texts("vector loads", source)

    assert "if ((((size_t)(&y[0]) | (size_t)(&x[0])) & 15) == 0) {" in four
    assert "const float4 vector_1 = *reinterpret_cast<const float4*>(&x[i]);" in four
    assert "vector_0.w = 2 * vector_1.w;" in four
    assert "*reinterpret_cast<float4*>(&y[i]) = vector_0;" in four
    assert "& 7) == 0" in two
    assert texts("vector loads", four) == []  # the remaining loops are not vectorised again


def test_macros_and_local_names_of_index_and_workgroup_size_are_resolved() -> None:
    loop = "int lane = threadIdx.x; for (int i = lane; i < n; i += BLOCK) y[i] = x[i];"

    assert len(texts("vector loads", kernel(loop, "const float* x, float* y, int n"))) == 2


@pytest.mark.parametrize(("value", "found"), [("256", 2), ("128", 0), ("(1 << 8)", 0)])
def test_the_macro_for_the_workgroup_size_may_be_defined_in_the_source(value: str, found: int) -> None:
    without_macros = KERNEL.model_copy(update={"defines": {}, "block": (256,)})
    loop = "for (int i = threadIdx.x; i < n; i += WIDTH) y[i] = x[i];"
    source = f"#define WIDTH {value}\n{kernel(loop, 'const float* x, float* y, int n')}"

    assert len(VectorLoads(kernel=without_macros).propose(parse_source(source.encode(), "k"))) == found


@pytest.mark.parametrize(
    ("loop", "reason"),
    [
        ("for (int i = threadIdx.x; i < n; i += 64) y[i] = x[i];", "not known to be the workgroup"),
        ("for (int i = threadIdx.x; i < n; i += blockDim.x) y[2 * i] = x[2 * i];", "no consecutive"),
        ("for (int i = threadIdx.x; i < n; i += blockDim.x) if (x[i] > 0) y[i] = x[i];", "conditionally"),
        ("for (int i = 0; i < n; ++i) y[i] = y[i + 1];", "at several positions"),
        ("for (int i = 0; i < n; ++i) y[i] = y[i - 1] + x[i];", "at several positions"),
        ("int last = 0; for (int i = threadIdx.x; i < n; i += blockDim.x) last = x[i];", "carries last"),
        ("for (int i = 0; i < n; ++i) { y[i] = x[i]; __syncthreads(); }", "barrier"),
        ("for (int i = 0; i < n; ++i) { if (x[i] > 0) break; y[i] = x[i]; }", "break"),
        ("for (int i = 0; i < n; ++i) { y[i] = x[i]; n = 3; }", "an end that changes"),
    ],
)
def test_loops_without_consecutive_accesses_are_not_vectorised(loop: str, reason: str) -> None:
    source = kernel(loop, "const float* x, float* y, int n")

    assert texts("vector loads", source) == []
    assert any(reason in r for r in reasons("vector loads", source)), reasons("vector loads", source)


def test_atomics_on_one_address_become_one_per_wavefront() -> None:
    (text,) = texts("wave reduction", kernel("__shared__ float t; atomicAdd(&t, x[threadIdx.x]);"))

    assert "__shfl_xor(wave_value_0, rpl_lane)" in text
    assert "if (__lane_id() == 0) atomicAdd(&t, wave_value_0);" in text
    assert texts("wave reduction", text) == []


def test_a_condition_becomes_a_neutral_value() -> None:
    (text,) = texts("wave reduction", kernel("if (threadIdx.x < n) atomicAdd(x, 2.0f);"))

    assert "wave_value_0 = (threadIdx.x < n) ? 2.0f : 0;" in text


@pytest.mark.parametrize(
    "statement",
    [
        "atomicAdd(&x[threadIdx.x & 7], 1.0f);",  # places differ
        "int place = threadIdx.x; atomicAdd(&x[place], 1.0f);",
        "float old = atomicAdd(x, 1.0f); x[1] = old;",  # the result is used
        "if (threadIdx.x < n) return; atomicAdd(x, 1.0f);",  # some are gone
        "for (int i = threadIdx.x; i < n; ++i) atomicAdd(x, 1.0f);",  # some come more often
        "if (threadIdx.x < n) atomicMax((int*)x, 3);",  # no neutral value
    ],
)
def test_other_atomics_are_not_changed(statement: str) -> None:
    assert texts("wave reduction", kernel(statement)) == []
    assert reasons("wave reduction", kernel(statement))


def test_transforms_that_address_a_loss_come_first_and_none_is_excluded() -> None:
    everything = tuple(transforms().values())

    for classes in (["lds_bank_conflicts"], ["compute_bound"], []):
        ordered = order_transforms(everything, classes)

        assert sorted(t.name for t in ordered) == sorted(t.name for t in everything)
        addressed = [addresses_any(t, classes) for t in ordered]
        assert addressed == sorted(addressed, reverse=True)
    names = [t.name for t in order_transforms(everything, ["compute_bound"])]
    assert names.index("unroll") < names.index("pad LDS")


@pytest.mark.parametrize(
    "make",
    [
        lambda: VectorLoads(kernel=KERNEL, widths=(3,)),
        lambda: WavesPerEu(waves=(9,)),
        lambda: PadSharedMemory(elements=(0,)),
        lambda: PadSharedMemory(elements=()),
    ],
)
def test_arguments_out_of_range_are_rejected(make: object) -> None:
    with pytest.raises(LabError, match="must be"):
        make()  # type: ignore[operator]


def test_index_of_an_atomic_may_be_loaded_as_a_vector() -> None:
    loop = "for (int i = 0; i < n; ++i) atomicAdd({place}, 1u);"
    parameters = "unsigned int* bins, const unsigned int* values, int n"

    counted = kernel(loop.format(place="&bins[values[i] % 64]"), parameters)
    unknown = kernel(loop.format(place="bins + (values[i] % 64)"), parameters)

    assert len(texts("vector loads", counted)) == 2
    assert reasons("vector loads", unknown) == ["uses a pointer to an unknown buffer"]


def _rejected_rewrites(name: str, chosen: set[str], directory: Path, *, repeated: bool) -> list[tuple[str, str, str]]:
    """Return the rewrites of an experiment that are wrong; `repeated` adds rewrites of the first two rewrites."""
    description = described(resource_dir("experiments") / name, **SMALL[name])
    checker: CandidateChecker = checker_of(description)
    everything = [t for t in transforms(description).values() if t.name in chosen]
    unit = parse_source(description.source_path.read_bytes(), description.entry)
    rewrites = [(t.name, r) for t in everything for r in t.propose(unit)]
    for _, rewrite in list(rewrites)[:2] if repeated else ():
        again = parse_source(rewrite.text.encode(), description.entry)
        rewrites += [(t.name, r) for t in everything for r in t.propose(again)][:6]
    assert rewrites
    found: list[tuple[str, str, str]] = []
    each_once = {rewrite.text: (transform, rewrite) for transform, rewrite in rewrites}
    for number, (transform, rewrite) in enumerate(each_once.values()):
        source = directory / str(number) / description.source.name
        source.parent.mkdir()
        source.write_text(rewrite.text)
        result = checker.check(source)
        if result.stage != "right" and not (result.stage == "guard" and transform in ("unroll", "waves per EU")):
            found.append((f"{transform}: {rewrite.description}", result.stage, result.reason))
    return found


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "chosen"),
    [
        ("transpose", {"pad LDS"}),
        ("softmax_atomics", {"wave reduction"}),
        ("gemm_naive", {"hoist invariants"}),
        ("histogram", {"vector loads"}),
    ],
)
def test_rewrites_are_correct(name: str, chosen: set[str], tmp_path: Path) -> None:
    assert _rejected_rewrites(name, chosen, tmp_path, repeated=False) == []


@pytest.mark.slow
@pytest.mark.parametrize("name", SMALL)
def test_every_rewrite_of_every_experiment_is_correct(name: str, tmp_path: Path) -> None:
    assert _rejected_rewrites(name, set(transforms()), tmp_path, repeated=True) == []
