"""Distributions of input values in trials.

Only buffers with random initial values are changed, because others may contain indices or tables. Integers remain within the
range of the description.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from rocm_perf_lab.core.expressions import evaluate_integer
from rocm_perf_lab.languages.arguments import BufferArgument, ConstantInit, IntegersInit, NormalInit, UniformInit
from rocm_perf_lab.languages.data_types import DTYPES
from rocm_perf_lab.verify.regions import regions

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from numpy.typing import NDArray

    from rocm_perf_lab.languages.arguments import Argument
    from rocm_perf_lab.languages.description import KernelDescription

Inputs = Literal[
    "random", "described", "constant", "ascending", "descending", "huge", "tiny", "spike", "exact", "signs", "large", "zeros",
    "special", "ties", "denormal", "extremes", "nan", "infinities", "sparse", "signed zeros", "cancelling", "powers", "close",
    "regions", "content", "planted", "halves",
]  # fmt: skip

INPUT_NAMES: dict[Inputs, str] = {
    "random": "random inputs",
    "described": "inputs as described",
    "constant": "constant inputs",
    "ascending": "ascending inputs",
    "descending": "descending inputs",
    "huge": "huge inputs",
    "tiny": "tiny inputs",
    "spike": "inputs with a few large elements",
    "exact": "small integers as inputs",
    "signs": "inputs of mixed signs",
    "large": "inputs of both signs",
    "zeros": "all inputs zero",
    "special": "inputs with NaN, infinity, zeros and subnormals",
    "ties": "inputs with equal elements",
    "denormal": "subnormal inputs",
    "extremes": "rows of extreme values",
    "nan": "rows with several NaN",
    "infinities": "a few infinities of one sign",
    "sparse": "many zeros and a few infinities and NaN",
    "signed zeros": "rows of one sign, with zeros of both signs",
    "cancelling": "elements that cancel each other",
    "powers": "rows of one power of two",
    "close": "large integers next to each other",
    "regions": "rows, columns, tiles and planes of one special value",
    "content": "outputs with initial content",
    "planted": "inputs with chosen values",
    "halves": "halves between integers, with one largest value per row",
}
HARSH: frozenset[Inputs] = frozenset({"huge", "tiny", "spike", "large", "denormal"})
"""Distributions with rounding errors that may exceed a tolerance chosen for the described inputs."""
WITHOUT_REFERENCE: frozenset[Inputs] = frozenset({"special", "content", "planted"})
"""Distributions for which the outputs of the unmodified kernel are expected, if the reference does not define them."""
PARTIAL: frozenset[Inputs] = frozenset({"extremes", "nan", "infinities", "sparse", "signed zeros", "regions"})
"""Distributions for which only elements are compared whose reference equals the unmodified kernel; others may overflow."""
NOT_FINITE: frozenset[Inputs] = PARTIAL - {"extremes"}
"""Distributions of `PARTIAL` for which expected NaN and infinity are also compared."""
REVEALING: tuple[Inputs, ...] = ("special", *sorted(NOT_FINITE), "cancelling", "powers")
"""Distributions whose effects depend on the elements that one work-item processes in sequence; also tried with long rows."""
FACTORS: dict[Inputs, tuple[float, ...]] = {
    "huge": (2.0**10, 2.0**6),
    "tiny": (2.0**-20, 2.0**-8),
    "large": (64.0, 8.0, 1.0),
}
"""Factors of the described inputs; the first one that the unmodified kernel supports is used."""
_FOR_INTEGERS: frozenset[Inputs] = frozenset(
    {"constant", "ascending", "descending", "spike", "zeros", "ties", "signs", "extremes", "powers", "close", "regions"}
)
_ONLY_INTEGERS: frozenset[Inputs] = frozenset({"powers", "close"})
FLOATS = ("f16", "bf16", "f32", "f64")
_SPECIALS = (np.nan, np.inf, -np.inf, -0.0, 1e-42, 6e4)
"""The last two are a subnormal f32, and a number near the largest f16."""
_SPECIAL_PLACES = 6
_LEAST_PER_SPECIAL = 8
"""Elements of a small array per special value, so that not all results are NaN, which would hide differences."""
_SHARE_OF_NAN = 0.25
_ROWS_WITH_NAN = 0.75
_SEGMENT = 256
"""Elements of a one-dimensional array that form a row."""
_SHARE_OF_ZEROS = 0.5
_SHARE_OF_SIGNED_ZEROS = 0.25
_ELEMENTS_PER_INFINITY = 512
_MOST_INFINITIES = 32
_CANCELLING = 64
_CLOSE = 8
_POWERS = 4
"""Number of largest powers of two in a range of integers to use; sums of many of them wrap around to zero."""
_OFFSET = 2.0
_KINDS_OF_ROWS = (0, 1, 2, 2, 0, 2, 2, 2)
"""0: random signs; 1: negative; 2: positive."""
_SORTED_AS_A_WHOLE = 0.3
_SPIKE = 64.0
_SPIKE_PLACES = (0.4, 0.1, 0.25, 0.25)
"""Probability of a large element at the end of a row, at its beginning, next to the end of a tile, and at a random position."""
_TILES = (64, 128, 256, 512, 1024, 2048, 4096)
_LARGEST_DENORMAL_STEPS = 1 << 6
_SCALES_OF_HALVES = (1.0, 2.0, 4.0)
_LARGE_IN_REGIONS = 1e12
"""Products of three, and sums of many products, are finite in f32 in any order of summation."""
_LARGE_HALF_IN_REGIONS = 100.0
_MAGNITUDES = (1e3, 1e5, 1e10, 1e20, 1e29, 1e31, 2e38)
"""Values that code often uses instead of infinity to initialise a maximum or minimum are near these."""


@dataclass(frozen=True)
class InputKind:
    """Distribution of inputs, with a factor for floating-point values."""

    inputs: Inputs
    factor: float = 1.0
    values: tuple[float | None, ...] = ()
    """For `planted`: values that elements have in turn; None keeps a random one. For `halves`: the largest value."""

    def __str__(self) -> str:
        name = INPUT_NAMES[self.inputs]
        if self.values:
            return f"{name} ({', '.join(f'{value:g}' for value in self.values if value is not None)})"
        return f"{name}, {self.factor:g} times as large" if self.factor != 1 else name


def possible_inputs(description: KernelDescription) -> tuple[tuple[InputKind, ...], ...]:
    """Return the distributions that change an input, grouped into families; of each, the first supported one is used."""
    buffers = [a for a in description.arguments if isinstance(a, BufferArgument) and is_random(a)]
    has_floats = any(a.dtype in FLOATS for a in buffers)
    has_integers = any(isinstance(a.init, IntegersInit) for a in buffers)
    found: list[tuple[InputKind, ...]] = []
    for kind in INPUT_NAMES:
        if kind in ("random", "described", "content", "planted", "halves"):
            continue
        if (has_floats and kind not in _ONLY_INTEGERS) or (has_integers and kind in _FOR_INTEGERS):
            found.append(tuple(InputKind(kind, factor) for factor in FACTORS.get(kind, (1.0,))))
    return tuple(found)


def is_random(argument: BufferArgument) -> bool:
    """Return whether a buffer has random initial values."""
    return isinstance(argument.init, NormalInit | UniformInit | IntegersInit)


def is_accumulated(argument: Argument) -> bool:
    """Return whether an argument is a read-write buffer with a constant initial value."""
    return isinstance(argument, BufferArgument) and argument.access == "inout" and isinstance(argument.init, ConstantInit)


def changed_values(
    data: NDArray[Any],
    argument: BufferArgument,
    kind: InputKind,
    rng: np.random.Generator,
    params: Mapping[str, Any],
    *,
    is_minor: bool = False,
) -> NDArray[Any]:
    """Return the content of an input in a trial.

    Args:
        data: Described content, in the shape of the buffer.
        argument: Buffer.
        kind: Distribution.
        rng: Generator for positions and values.
        params: Params of the trial, for the range of integers.
        is_minor: Another input is much larger. Regions of such an input, often weights, are finite: the product of an infinite
            weight and padding is NaN, and a rewrite may omit this product.

    Returns:
        Content with the same type and shape.
    """
    if kind.inputs == "content" and is_accumulated(argument):
        return rng.integers(1, 8, data.shape).astype(data.dtype)
    if not is_random(argument) or kind.inputs in ("random", "described", "content") or data.size == 0:
        return data
    if isinstance(argument.init, IntegersInit):
        low = evaluate_integer(argument.init.low, params, where=f"kernel.arguments.{argument.name}")
        high = evaluate_integer(argument.init.high, params, where=f"kernel.arguments.{argument.name}")
        if kind.inputs == "planted":
            return planted(data, kind.values, low, high - 1)
        return _integers(data, kind.inputs, rng, low, high - 1)
    if data.dtype != DTYPES[argument.dtype] or not _is_float(data):
        return data
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        return planted(data, kind.values, -np.inf, np.inf) if kind.inputs == "planted" else _floats(data, kind, rng, is_minor)


def planted(data: NDArray[Any], values: tuple[float | None, ...], low: float, high: float) -> NDArray[Any]:
    """Return an array whose elements have the values in turn; None, and values outside [low, high], keep the element."""
    changed = data.reshape(-1).copy()
    for place, value in enumerate(values):
        if value is not None and low <= value <= high:
            changed[place :: len(values)] = np.array([value]).astype(data.dtype)[0]
    return changed.reshape(data.shape)


def next_to(values: Iterable[float]) -> tuple[float | None, ...]:
    """Return values to plant: each value, the next smaller and larger f32, and its negative, between random ones."""
    wanted: list[float | None] = []
    for value in values:
        single = np.float32(value)
        below, above = np.nextafter(single, np.float32(-np.inf)), np.nextafter(single, np.float32(np.inf))
        wanted += [float(single), None, float(below), float(above), None, -float(single)]
    return (*wanted, None) if wanted else ()


def _is_float(data: NDArray[Any]) -> bool:
    return data.dtype.kind == "f" or "float" in data.dtype.name


def _integers(data: NDArray[Any], kind: Inputs, rng: np.random.Generator, low: int, high: int) -> NDArray[Any]:
    match kind:
        case "constant":
            return np.full_like(data, data.reshape(-1)[0])
        case "ascending" | "descending":
            return _ordered(data, rng, kind)
        case "zeros" if low <= 0 <= high:
            return np.zeros_like(data)
        case "spike":
            return _spiked(np.full_like(data, low), rng, lambda count: np.full(count, high))
        case "signs":  # the extremes of the range
            return rng.choice(np.array([low, high]), data.shape).astype(data.dtype)
        case "close":
            return (high - rng.integers(0, min(_CLOSE, high - low + 1), data.shape)).astype(data.dtype)
        case "ties":
            return rng.choice(data.reshape(-1)[:3], data.shape)
        case "extremes":
            return _by_rows(data, lambda number, row: np.full_like(row, (low, high)[number % 2]) if number % 3 else row)
        case "powers" if high > 0:
            largest = int(high).bit_length() - 1
            start = int(rng.integers(0, _POWERS))
            return _by_rows(data, lambda number, row: np.full_like(row, 1 << max(largest - (start + number) % _POWERS, 0)))
        case "regions":
            return regions(data, rng, [low, high, *([0] if low <= 0 <= high else [])])
        case _:
            return data


def _floats(data: NDArray[Any], kind: InputKind, rng: np.random.Generator, is_minor: bool) -> NDArray[Any]:
    if kind.inputs in ("ascending", "descending") and data.dtype.kind == "f":
        return _ordered(data, rng, kind.inputs)  # Several times as fast as in double precision.
    values = data.astype(np.float64)
    result = _float_values(values, kind, rng, data, is_minor)
    return np.ascontiguousarray(result.reshape(data.shape).astype(data.dtype))


def _float_values(
    values: NDArray[np.float64], kind: InputKind, rng: np.random.Generator, data: NDArray[Any], is_minor: bool
) -> NDArray[Any]:
    is_positive = bool(values.min() >= 0)
    match kind.inputs:
        case "constant":
            return np.full_like(values, values.reshape(-1)[0])
        case "ascending" | "descending":
            return _ordered(values, rng, kind.inputs)  # NumPy does not sort these types.
        case "huge" | "tiny":
            return values * kind.factor
        case "spike":
            return _spiked(values, rng, lambda count: _SPIKE + rng.integers(0, 8, count))
        case "exact":
            choices = [1.0, 2.0, 3.0] if is_positive else [-2.0, -1.0, 1.0, 2.0, 3.0]
            return np.asarray(rng.choice(choices, values.shape))
        case "signs":
            return np.asarray(values * rng.choice([-1.0, 1.0], size=values.shape))
        case "large":
            return _of_both_signs(values, rng) * kind.factor
        case "zeros":
            return np.zeros_like(values)
        case "special":
            changed = data.reshape(-1).copy()
            count = min(_SPECIAL_PLACES, -(-changed.size // _LEAST_PER_SPECIAL))
            changed[rng.integers(0, changed.size, count)] = rng.permutation(_SPECIALS)[:count].astype(changed.dtype)
            if changed.size >= 2 * _LEAST_PER_SPECIAL:
                changed[changed.size // 2] = -0.0  # of all inputs: only a sum of two negative zeros is negative
            return changed
        case "nan" | "infinities" | "sparse" | "signed zeros":
            return _not_finite(values, kind.inputs, rng)
        case "regions":
            large = _LARGE_IN_REGIONS if data.dtype.itemsize > 2 or data.dtype.name == "bfloat16" else _LARGE_HALF_IN_REGIONS
            finite = [0.0, -0.0, -large, large, 1 / large]  # Products with a subnormal value lose precision.
            return regions(values, rng, finite if is_minor else [-np.inf, np.inf, np.nan, *finite])
        case "cancelling":
            return _cancelling(values, rng)
        case "ties":
            return rng.choice(values.reshape(-1)[:3], values.shape)
        case "halves":
            return _halves(values, (kind.values or (1.0,))[0] or 1.0, rng)
        case "extremes":
            return _extremes(values, rng, np.inf if data.dtype.itemsize > 2 else 6e4)
        case _:
            steps = rng.integers(1, _LARGEST_DENORMAL_STEPS, values.shape)
            signs = 1.0 if is_positive else rng.choice([-1.0, 1.0], values.shape)
            return steps * signs * _smallest(data)


def _smallest(data: NDArray[Any]) -> float:
    """Return the smallest positive number of a type."""
    bits: NDArray[Any] = np.ones(1, np.dtype(f"u{data.dtype.itemsize}"))
    return float(bits.view(data.dtype)[0].astype(np.float64))


def _ordered(values: NDArray[Any], rng: np.random.Generator, kind: Inputs) -> NDArray[Any]:
    """Return sorted values: all of them, or each row."""
    axis = None if values.ndim < 2 or rng.random() < _SORTED_AS_A_WHOLE else -1
    ordered = np.sort(values, axis=axis)
    turned = ordered if kind == "ascending" else np.flip(ordered, axis=-1)
    return np.ascontiguousarray(turned.reshape(values.shape))


def _spiked(values: NDArray[Any], rng: np.random.Generator, draw: Callable[[int], NDArray[Any]]) -> NDArray[Any]:
    """Return values with one large element per row: at the ends of rows and of tiles, and at random positions."""
    rows = values.reshape(-1, values.shape[-1] if values.ndim > 1 else values.size).copy()
    count = rows.shape[1]
    tiles = [p for tile in _TILES for p in (tile - 1, tile) if p < count] or [0]
    choices = (
        np.full(len(rows), count - 1),
        np.zeros(len(rows)),
        rng.choice(tiles, len(rows)),
        rng.integers(0, count, len(rows)),
    )
    chosen = np.choose(rng.choice(len(choices), len(rows), p=_SPIKE_PLACES), choices).astype(np.int64)
    rows[np.arange(len(rows)), chosen] = draw(len(rows))
    return rows.reshape(values.shape)


def _extremes(values: NDArray[np.float64], rng: np.random.Generator, largest: float) -> NDArray[np.float64]:
    """Return rows that are random, of one large magnitude and sign, entirely infinite, or infinite in one element."""
    start = int(rng.integers(0, 4 * len(_MAGNITUDES)))

    def changed(number: int, row: NDArray[Any]) -> NDArray[Any]:
        turn, kind = divmod(start + number, 4)
        sign = -1.0 if turn % 3 else 1.0
        match kind:
            case 0:
                return row
            case 1:
                return np.full_like(row, sign * np.inf)
            case 2:
                magnitude = min(_MAGNITUDES[turn % len(_MAGNITUDES)], largest / 2)
                return sign * magnitude * (1 + 0.5 * rng.random(row.shape))
            case _:
                return np.where(np.arange(row.size) == rng.integers(0, max(row.size, 1)), sign * np.inf, row)

    return _by_rows(values, changed)


def _not_finite(values: NDArray[np.float64], kind: Inputs, rng: np.random.Generator) -> NDArray[np.float64]:
    """Return values with NaN, infinities or zeros; few infinities, so that most results are not NaN."""
    few = min(-(-values.size // _ELEMENTS_PER_INFINITY), _MOST_INFINITIES)
    places, drawn = rng.integers(0, values.size, few), rng.random(values.shape)
    changed = values.copy()
    match kind:
        case "nan":
            if values.ndim > 1:
                chosen = rng.random((*values.shape[:-1], 1)) < _ROWS_WITH_NAN
            else:
                chosen = np.repeat(rng.random(values.size // _SEGMENT + 1) < 1 - _ROWS_WITH_NAN, _SEGMENT)[: values.size]
            return np.where(chosen & (drawn < _SHARE_OF_NAN), np.nan, values)
        case "infinities":
            changed.reshape(-1)[places] = rng.choice([-np.inf, np.inf])
            return changed
        case "sparse":
            changed = np.where(drawn < _SHARE_OF_ZEROS, np.copysign(0.0, values), values)
            changed.reshape(-1)[places] = rng.choice([-np.inf, np.inf, np.nan], few)
            return changed
        case _:
            signs = rng.choice([-1.0, 1.0], (*values.shape[:-1], 1) if values.ndim > 1 else (1,))
            zeros = np.copysign(0.0, rng.choice([-1.0, 1.0], values.shape))
            signed: NDArray[np.float64] = np.where(drawn < _SHARE_OF_SIGNED_ZEROS, zeros, np.abs(values) * signs)
            return signed


def _cancelling(values: NDArray[np.float64], rng: np.random.Generator) -> NDArray[np.float64]:
    """Return small integers of which every 64 consecutive ones, in different orders, add up to zero."""
    half = rng.choice([1.0, 2.0, 3.0], (-(-values.size // _CANCELLING), _CANCELLING // 2))
    pairs = np.concatenate([half, -half], axis=1)
    ordered: NDArray[np.float64] = rng.permuted(pairs, axis=1)
    return ordered.reshape(-1)[: values.size].reshape(values.shape)


def _halves(values: NDArray[np.float64], largest: float, rng: np.random.Generator) -> NDArray[np.float64]:
    """Return half-integers below `largest`, which is one element of each row; rows are multiplied by 1, 2 or 4.

    A row divided by its maximum and multiplied by `largest` then consists of exact ties.
    """
    lowest = 0 if values.min() >= 0 else -int(largest)

    def changed(number: int, row: NDArray[Any]) -> NDArray[Any]:
        halves = rng.integers(lowest, max(int(largest), 1), row.size) + 0.5
        halves[rng.integers(0, max(row.size, 1), min(row.size, 1))] = largest
        return halves * _SCALES_OF_HALVES[number % len(_SCALES_OF_HALVES)]

    return _by_rows(values, changed)


def _by_rows(values: NDArray[Any], changed: Callable[[int, NDArray[Any]], NDArray[Any]]) -> NDArray[Any]:
    """Return values with every row replaced by `changed(number, row)`; a one-dimensional array is one row."""
    rows = values.reshape(-1, values.shape[-1]) if values.ndim > 1 else values.reshape(1, -1)
    return np.stack([changed(number, row) for number, row in enumerate(rows)]).reshape(values.shape)


def _of_both_signs(values: NDArray[np.float64], rng: np.random.Generator) -> NDArray[np.float64]:
    """Return values with signs by row: of eight rows, two are random, one negative and five positive, to keep sums large.

    A one-dimensional array is divided into eight parts instead of rows.
    """
    rows = values.shape[0] if values.ndim > 0 else 1
    places = np.arange(rows) % 8 if values.ndim > 1 else np.arange(rows) * 8 // max(rows, 1)
    kind = np.array(_KINDS_OF_ROWS)[places].reshape(-1, *[1] * (values.ndim - 1))
    far = np.abs(values) + _OFFSET
    drawn = values * rng.choice([-1.0, 1.0], size=values.shape)
    result: NDArray[np.float64] = np.where(kind == 0, drawn, np.where(kind == 1, -far, far))
    return result
