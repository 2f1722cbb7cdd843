"""Float comparisons, classes, and the forms that write EXEC or an SGPR pair."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from rocm_perf_lab.emulator.structures import EXEC
from tests.builders.opcodes import TYPES, Row, Snippets, check_floats, edge_floats, edge_integers, pairs
from tests.emulator.opcodes.test_float import signals

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray


def unordered(a: Any, b: Any) -> Any:
    return np.isnan(a) | np.isnan(b)


COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    "f": lambda a, b: np.zeros(len(a), bool),
    "lt": lambda a, b: a < b,
    "eq": lambda a, b: a == b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "lg": lambda a, b: (a < b) | (a > b),
    "ge": lambda a, b: a >= b,
    "o": lambda a, b: ~unordered(a, b),
    "u": unordered,
    "nge": lambda a, b: ~(a >= b),
    "nlg": lambda a, b: ~((a < b) | (a > b)),
    "ngt": lambda a, b: ~(a > b),
    "nle": lambda a, b: ~(a <= b),
    "neq": lambda a, b: ~(a == b),
    "nlt": lambda a, b: ~(a < b),
    "tru": lambda a, b: np.ones(len(a), bool),
}


def class_of(x: Any, mask: NDArray[np.uint32]) -> NDArray[np.bool_]:
    tiny = np.finfo(x.dtype).tiny
    size, negative = np.abs(x), np.signbit(x)
    kinds = [
        signals(x), np.isnan(x) & ~signals(x),
        np.isneginf(x), negative & (size >= tiny) & np.isfinite(x), negative & (size < tiny) & (size > 0), negative & (size == 0),
        ~negative & (size == 0), ~negative & (size < tiny) & (size > 0), ~negative & (size >= tiny) & np.isfinite(x),
        np.isposinf(x),
    ]  # fmt: skip
    result = np.zeros(len(x), bool)
    for bit, member in enumerate(kinds):
        result |= member & (mask >> np.uint32(bit) & np.uint32(1)).astype(bool)
    return result


ROWS = [
    *(
        Row(f"v_cmp_{name}_f{bits}_e32", oracle, f"f{bits} f{bits}", None)
        for bits in (16, 32, 64)
        for name, oracle in COMPARISONS.items()
    ),
    *(Row(f"v_cmp_class_f{bits}_e32", class_of, f"f{bits} u32", None) for bits in (16, 32, 64)),
]
EXEC_ROWS = [
    *(
        (f"v_cmpx_{name}_f{bits}_e32", f"f{bits}", oracle)
        for bits in (16, 32, 64)
        for name, oracle in COMPARISONS.items()
    ),
    *(
        (f"v_cmpx_{name}_{kind}{bits}_e32", f"{kind}{bits}", COMPARISONS[alias])
        for kind in "iu"
        for bits in (16, 32, 64)
        for name, alias in {"f": "f", "lt": "lt", "eq": "eq", "le": "le", "gt": "gt", "ne": "neq", "ge": "ge", "t": "tru"}.items()
    ),
    *(
        (f"v_cmpx_class_f{bits}_e32", f"f{bits}", lambda a, b, bits=bits: class_of(a, b.view(f"u{bits // 8}").astype(np.uint32)))
        for bits in (16, 32)
    ),
]  # fmt: skip
CLASS_OF_DOUBLES = "v_cmpx_class_f64_e32 vcc, v[0:1], v2"
TO_SGPR = "v_cmp_lt_f32_e64 s[10:11], |v0|, -v2"
ACTIVE = 0x5A5A_0FF0_C33C_9669


def exec_text(name: str, kind: str) -> str:
    pair = kind.endswith("64")
    return f"{name} vcc, {'v[0:1], v[2:3]' if pair else 'v0, v2'}"


def texts() -> list[str]:
    """Return every instruction of this file."""
    return [*(row.text for row in ROWS), *(exec_text(name, kind) for name, kind, _ in EXEC_ROWS), TO_SGPR, CLASS_OF_DOUBLES]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_it_sets_one_bit_per_lane(snippets: Snippets, row: Row) -> None:
    check_floats(snippets, row)


@pytest.mark.parametrize(("name", "kind", "oracle"), EXEC_ROWS, ids=lambda value: value if isinstance(value, str) else "")
def test_cmpx_narrows_exec_and_sets_its_own_mask(snippets: Snippets, name: str, kind: str, oracle: Any) -> None:
    values = edge_floats(TYPES[kind]) if kind[0] == "f" else edge_integers(int(kind[1:])).view(TYPES[kind])
    a, b = (c[:128] for c in pairs(values, np.roll(values, 3), limit=128))
    outcome = snippets.run(exec_text(name, kind), {0: a, 2: b}, execute=ACTIVE)

    with np.errstate(invalid="ignore"):
        expected = np.asarray(oracle(a, b), bool) & np.array([ACTIVE >> n % 64 & 1 for n in range(128)], bool)
    assert np.array_equal(outcome.mask(EXEC), expected)
    assert np.array_equal(outcome.mask(), expected)


def test_a_compare_may_write_any_sgpr_pair_and_clears_the_bits_of_inactive_lanes(snippets: Snippets) -> None:
    a, b = (c[:128] for c in pairs(edge_floats(np.float32), edge_floats(np.float32), limit=128))
    outcome = snippets.run(TO_SGPR, {0: a, 2: b}, {10: 0xFFFFFFFF, 11: 0xFFFFFFFF}, execute=ACTIVE)

    active = np.array([ACTIVE >> n % 64 & 1 for n in range(128)], bool)
    assert np.array_equal(outcome.mask(10), (np.abs(a) < -b) & active)


def test_the_class_of_doubles_narrows_exec(snippets: Snippets) -> None:
    values, masks = pairs(edge_floats(np.float64), np.arange(1024, dtype=np.uint32) * 2 + 1, limit=512)
    outcome = snippets.run(CLASS_OF_DOUBLES, {0: values, 2: masks})

    assert np.array_equal(outcome.mask(EXEC)[: len(values)], class_of(values, masks)[: len(values)])
