"""Shapes of trials: residues, limits, long sizes, declared limits; distributions of inputs; secret seeds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from rocm_perf_lab.languages.arguments import BufferArgument, IntegersInit, NormalInit, ScalarArgument, UniformInit
from rocm_perf_lab.languages.description import KernelDescription
from rocm_perf_lab.verify.inputs import INPUT_NAMES, InputKind, changed_values, possible_inputs
from rocm_perf_lab.verify.policy import TrialPolicy, seeded
from rocm_perf_lab.verify.shapes import Cost, ShapePlan
from rocm_perf_lab.verify.sizes import SizeRule, Sizes, constants_of, declared_sizes, size_names, tiles_of

if TYPE_CHECKING:
    from rocm_perf_lab.verify.inputs import Inputs

KERNEL = KernelDescription(
    name="gemm",
    source="gemm.hip",  # type: ignore[arg-type]
    entry="gemm",
    params={"m": 512, "n": 512, "k": 300, "tile": 48, "causal": 1, "groups": 7},
    defines={"TILE": "tile"},
    arguments=(
        BufferArgument(name="a", dtype="f32", shape=("m", "k"), init=NormalInit(seed=1)),
        BufferArgument(name="b", dtype="f32", shape=("k", "n"), init=NormalInit(seed=2)),
        BufferArgument(name="c", dtype="f32", shape=("m", "n"), access="out"),
        ScalarArgument(kind="scalar", name="k", dtype="i32", value="k"),
        ScalarArgument(kind="scalar", name="causal", dtype="i32", value="causal"),
    ),
    grid=("ceil_div(n, tile)", "ceil_div(m, tile)", "groups"),
    block=(256,),
)
CHEAP = Cost({}, {}, {frozenset(): 1})


def plan(sizes: Sizes | None = None, seed: int = 3, description: KernelDescription = KERNEL) -> ShapePlan:
    return ShapePlan(description, sizes if sizes is not None else declared_sizes(description), seed, CHEAP, 10**6)


def test_sizes_are_params_of_buffers_that_are_not_compiled_in() -> None:
    assert size_names(KERNEL) == ("m", "n", "k")


def test_small_shapes_have_every_residue_of_every_size() -> None:
    shapes = [shape.params for shape in plan().residues(64)]

    assert len(shapes) == 64
    for name in ("m", "n", "k"):
        assert {int(shape[name]) % 64 for shape in shapes} == set(range(64))
    assert len({(int(s["m"]) % 64 - int(s["n"]) % 64) % 64 for s in shapes}) > 20, "residues are independent"
    assert all(shape["tile"] == 48 for shape in shapes)


def test_long_sizes_have_every_residue_modulo_8_and_exceed_the_described_ones() -> None:
    shapes = [shape.params for shape in plan().long(72)]

    for name in ("m", "n", "k"):
        others = {"m", "n", "k"} - {name}
        long = [int(s[name]) for s in shapes if all(int(s[o]) < 6 for o in others)]
        assert {value % 8 for value in long} == set(range(8))
        assert max(long) > 4 * int(KERNEL.params[name])


def test_limits_are_next_to_constants_and_powers_of_two() -> None:
    shapes = [shape.params for shape in plan().limits({100, 1024})]

    for name in ("m", "n", "k"):
        values = {int(shape[name]) for shape in shapes}
        assert {99, 100, 101, 201, 1023, 1024, 1025, 2049, 63, 64, 65, 127, 129, 255, 257, 511, 513} <= values


def test_equal_seeds_give_equal_shapes() -> None:
    one, same, other = ([s.params for s in plan(seed=seed).residues(64)] for seed in (1, 1, 2))

    assert one == same
    assert one != other


def test_declared_sizes_are_kept() -> None:
    limited = KernelDescription.model_validate(KERNEL.model_dump() | {"sizes": {"k": {"multiple_of": 16, "min": 32, "max": 320}}})
    chosen = plan(description=limited)

    shapes = [*chosen.residues(64), *chosen.long(72), *chosen.limits({100}), *chosen.large(), *chosen.edges()]

    assert {int(s.params["k"]) % 16 for s in shapes} == {0}
    assert {int(s.params["k"]) for s in chosen.residues(64)} >= {32, 48, 64, 80, 96}
    assert all(32 <= int(s.params["k"]) <= 320 for s in shapes)


def test_sizes_that_are_equal_in_all_declared_trials_stay_equal() -> None:
    square = KERNEL.model_copy(update={"trials": ({"m": 8, "n": 8}, {"m": 40, "n": 40, "k": 3})})
    sizes = declared_sizes(square)

    assert sizes.tied == {"n": "m"}
    assert all(s.params["m"] == s.params["n"] for s in plan(sizes, description=square).residues(64))
    assert declared_sizes(KERNEL).tied == {}


def test_sizes_of_one_and_zero_are_tried_alone_and_together() -> None:
    shapes = [(s.kind, s.params["m"], s.params["n"], s.params["k"]) for s in plan().edges()]

    assert ("one", 1, 1, 1) in shapes
    assert sum(kind == "zero" for kind, *_ in shapes) == 3
    assert {min(int(v) for v in values) for kind, *values in shapes if kind == "zero"} == {0}


@pytest.mark.parametrize(
    ("rule", "value", "period", "nearest"),
    [
        (SizeRule(), 7, 1, 7),
        (SizeRule(unit=4), 7, 1, 8),
        (SizeRule(least=10), 3, 4, 11),
        (SizeRule(most=10), 23, 5, 8),
        (SizeRule(unit=8, least=16, most=30), 100, 1, 24),
    ],
)
def test_the_nearest_supported_size_keeps_its_residue(rule: SizeRule, value: int, period: int, nearest: int) -> None:
    assert rule.nearest(value, period) == nearest


def test_constants_are_read_from_code_only() -> None:
    text = (
        '#include <a/2048.h>\n// 77\n/* 88 */ int x = 1024u + 0x30 + (1 << 12); float y = 3.5f * 1e5; char* s = "99"; v4[5] = a2;'
    )

    assert constants_of(text) == {1024, 48, 12, 4096, 5}
    assert tiles_of(KERNEL) == {48, 256, 7}


def test_expensive_shapes_are_estimated_from_measured_corners() -> None:
    cost = Cost({"rows": 1, "cols": 1}, {"rows": 3, "cols": 3}, {
        frozenset(): 10, frozenset({"rows"}): 30, frozenset({"cols"}): 10, frozenset({"rows", "cols"}): 30,
    })  # fmt: skip

    assert cost.of({"rows": 100, "cols": 50}) == 1000


def values(kind: Inputs, dtype: str = "f32", factor: float = 1.0, shape: tuple[int, ...] = (8, 100)) -> np.ndarray[Any, Any]:
    init = IntegersInit(low=-5, high=6) if dtype == "i32" else UniformInit() if kind == "exact" else NormalInit()
    argument = BufferArgument(name="x", dtype=dtype, shape=shape, init=init)  # type: ignore[arg-type]
    rng = np.random.default_rng(1)
    data = rng.integers(-5, 6, shape) if dtype == "i32" else rng.random(shape) if kind == "exact" else rng.normal(size=shape)
    given = data.astype({"f32": np.float32, "f16": np.float16, "i32": np.int32}[dtype])
    return changed_values(given, argument, InputKind(kind, factor), np.random.default_rng(2), {})


def test_distributions_of_floats() -> None:
    assert np.unique(values("constant")).size == 1
    assert (np.diff(values("ascending"), axis=1) >= 0).all()
    assert (np.diff(values("descending"), axis=1) <= 0).all()
    assert np.abs(values("huge", factor=1024.0)).max() > 1000
    assert 0 < np.abs(values("tiny", factor=2.0**-20)).max() < 1e-5
    assert set(np.unique(values("exact"))) == {1.0, 2.0, 3.0}
    assert np.unique(values("ties")).size <= 3
    assert not values("zeros").any()
    assert ((values("spike") >= 64).sum(axis=1) == 1).all()
    subnormal = np.abs(values("denormal"))
    assert subnormal.min() > 0 and subnormal.max() < np.finfo(np.float32).smallest_normal
    special = values("special")
    assert np.isnan(special).any() and np.isinf(special).any()


@pytest.mark.parametrize("kind", INPUT_NAMES)
def test_integers_stay_in_their_range(kind: Inputs) -> None:
    changed = values(kind, "i32")

    assert changed.dtype == np.int32
    assert changed.min() >= -5 and changed.max() <= 5


@pytest.mark.parametrize("kind", INPUT_NAMES)
def test_types_and_shapes_are_kept(kind: Inputs) -> None:
    for shape in ((8, 100), (7,), (1, 1), (0, 3)):
        changed = values(kind, "f16", shape=shape)
        assert (changed.shape, changed.dtype) == (shape, np.float16)


def test_extremes_of_integers_are_used() -> None:
    assert set(np.unique(values("signs", "i32"))) == {-5, 5}


def test_only_random_inputs_have_distributions() -> None:
    fixed = KERNEL.model_copy(update={"arguments": KERNEL.arguments[2:]})

    assert possible_inputs(fixed) == ()
    assert len(possible_inputs(KERNEL)) >= 12


def test_a_secret_seed_is_drawn_once_per_run() -> None:
    seeds = {seeded(TrialPolicy()).seed for _ in range(8)}

    assert len(seeds) == 8
    assert seeded(TrialPolicy(seed=4)).seed == 4
    assert seeded(TrialPolicy(seed=4), 9).seed == 4
    assert seeded(TrialPolicy(), 9).seed == 9
