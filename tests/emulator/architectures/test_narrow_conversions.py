"""Conversions to small floats, and of 32 elements, of gfx950: against exact fractions and the list of all values of a format."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np
import pytest

from rocm_perf_lab.emulator.program import DEFAULT_MODE
from rocm_perf_lab.emulator.structures import LANES, WaveStatus
from tests.builders.opcodes import Snippets, assert_same, edge_floats
from tests.builders.waves import WaveBench

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

ARCHITECTURE = "gfx950"
FP16_OVERFLOW = DEFAULT_MODE | 1 << 23
SOURCES: dict[str, Any] = {"f32": np.float32, "f16": np.float16, "bf16": ml_dtypes.bfloat16}
SOURCE_MANTISSA = {"f32": 23, "f16": 10, "bf16": 7}
SIX_BITS: dict[str, Any] = {"fp6": ml_dtypes.float6_e2m3fn, "bf6": ml_dtypes.float6_e3m2fn}
OLD = 0x12345678


@dataclass(frozen=True)
class Format:
    """Small float by the list of its finite magnitudes; `overflow` is the code of an overflow, that of the largest by default."""

    bits: int
    mantissa: int
    dtype: Any
    nan: int
    overflow: int | None = None

    @property
    def magnitudes(self) -> list[Fraction]:
        """Return the values of the codes from 0 on, and the value that would follow the largest."""
        storage = f"u{np.dtype(self.dtype).itemsize}"
        codes = np.arange(1 << self.bits - 1, dtype=storage)
        with np.errstate(invalid="ignore"):
            values = [float(v) for v in codes.view(self.dtype).astype(np.float64) if np.isfinite(v)]
        exact = list(map(Fraction, values))
        return [*exact, 2 * exact[-1] - exact[-2]]


FORMATS = {
    "fp8": Format(8, 3, ml_dtypes.float8_e4m3fn, 0x7F, 0x7F),
    "bf8": Format(8, 2, ml_dtypes.float8_e5m2, 0x7E, 0x7C),
    "fp6": Format(6, 3, ml_dtypes.float6_e2m3fn, 0x1F),
    "bf6": Format(6, 2, ml_dtypes.float6_e3m2fn, 0x1F),
    "fp4": Format(4, 1, ml_dtypes.float4_e2m1fn, 0x7),
    "f16": Format(16, 10, np.float16, 0x7E00, 0x7C00),
    "bf16": Format(16, 7, ml_dtypes.bfloat16, 0x7FC0, 0x7F80),
}
MAGNITUDES = {name: kind.magnitudes for name, kind in FORMATS.items()}


@dataclass(frozen=True)
class Conversion:
    """Instruction with its formats: `count` elements, each with a fresh random number if `stochastic`."""

    target: str
    source: str
    stochastic: bool
    count: int
    selected: int = 0
    after: str = ""

    @property
    def text(self) -> str:
        """Return the instruction with its source in v0 and v2, random numbers in v4, scales in v6, and its result in v20."""
        packed = "pk_" if self.count == 2 else ""
        name = f"v_cvt_scalef32_{'sr_' if self.stochastic else ''}{packed}{self.target}_{self.source}"
        pair = "v[0:1]" if self.stochastic else "v0, v2"
        sources = pair if self.source == "f32" and self.count == 2 else "v0"
        operands = f"v20, {sources}{', v4' if self.stochastic else ''}, v6"
        inputs = operands.count(",")
        if self.count * FORMATS[self.target].bits == 16:
            selection = [0] * inputs + [self.selected] if self.selected else []
        else:
            selection = [0, 0, self.selected & 1, self.selected >> 1] if self.selected else []
        return f"{name} {operands}" + (f" op_sel:[{','.join(map(str, selection))}]" if selection else "")


CONVERSIONS = [
    *(Conversion(target, source, False, 2, selected) for target in ("fp8", "bf8") for source in SOURCES for selected in (0, 1)),
    *(Conversion(target, source, True, 1, n) for target in ("fp8", "bf8") for n, source in enumerate(SOURCES)),
    *(Conversion("fp4", source, stochastic, 2, n) for n, source in enumerate(SOURCES) for stochastic in (False, True)),
    Conversion("bf8", "f32", True, 1, 3),
]  # fmt: skip
SIXES = [
    *(f"v_cvt_scalef32_2xpk16_{six}_f32 v[20:25], v[64:79], v[80:95], v6" for six in SIX_BITS),
    *(f"v_cvt_scalef32_pk32_{six}_{source} v[20:25], v[64:79], v6" for six in SIX_BITS for source in ("f16", "bf16")),
    *(f"v_cvt_scalef32_sr_pk32_{six}_f32 v[20:25], v[64:95], v4, v6" for six in SIX_BITS),
    *(f"v_cvt_scalef32_sr_pk32_{six}_{source} v[20:25], v[64:79], v4, v6" for six in SIX_BITS for source in ("f16", "bf16")),
]  # fmt: skip
WIDENED = [
    f"v_cvt_scalef32_pk32_{target}_{six} v[64:{95 if target == 'f32' else 79}], v[20:25], v6"
    for six in SIX_BITS
    for target in SOURCES
]
STOCHASTIC = {f"v_cvt_sr_{target}_f32 v20, {source}, v4{after}": (target, negates) for target in ("f16", "bf16")
              for source, negates, after in (("v0", False, ""), ("-v0", True, " op_sel:[0,0,1]"))}  # fmt: skip


@pytest.fixture(scope="module")
def snippets() -> Snippets:
    return Snippets(texts(), architecture=ARCHITECTURE)


@pytest.fixture(scope="module")
def saturating() -> Snippets:
    narrow = [c.text for c in CONVERSIONS if c.selected == 0 or c.count == 1]
    return Snippets([*narrow, *STOCHASTIC], architecture=ARCHITECTURE, mode=FP16_OVERFLOW)


def texts() -> list[str]:
    """Return the tested instructions."""
    return [*(c.text for c in CONVERSIONS), *SIXES, *WIDENED, *STOCHASTIC]


# ---- oracle ----


def rounded(
    value: float, scale: int, target: str, *, source: str = "f32", seed: int | None = None, saturates: bool = False
) -> int:
    """Return the code of value / 2^(scale - 127), by search in the list of all values of the format.

    Args:
        value: Source.
        scale: Exponent with a bias of 127; 255 is NaN.
        target: Format.
        source: Format of the value, of which the random bits extend the mantissa.
        seed: Random number; to nearest even without.
        saturates: FP16_OVFL.
    """
    kind, magnitudes = FORMATS[target], MAGNITUDES[target]
    sign = int(np.signbit(value)) << kind.bits - 1
    if np.isnan(value) or scale == 255:
        return sign | kind.nan
    largest = len(magnitudes) - 2
    overflow = largest if kind.overflow is None or (saturates and not (target in SOURCES and np.isinf(value))) else kind.overflow
    if np.isinf(value):
        return sign | overflow
    size = abs(Fraction(value)) / Fraction(2) ** (scale - 127)
    if size >= magnitudes[-1]:
        return sign | overflow
    code = bisect_right(magnitudes, size) - 1
    share = (size - magnitudes[code]) / (magnitudes[code + 1] - magnitudes[code])
    if seed is None:
        code += share > Fraction(1, 2) or (share == Fraction(1, 2) and code % 2 == 1)
    else:
        dropped = SOURCE_MANTISSA[source] - kind.mantissa
        code += int(share * (1 << dropped)) + (seed >> 32 - dropped) >= 1 << dropped
    return sign | (overflow if code > largest else code)


def followed(seed: int) -> int:
    """Return the next number of V_PRNG_B32."""
    return seed << 1 & 0xFFFFFFFF ^ (197 if seed >> 31 else 0)


def sources(source: str, target: str, seed: int) -> NDArray[Any]:
    """Return edges of the source format, numbers at and next to halfway points of the target, and random ones."""
    rng = np.random.default_rng(seed)
    dtype = SOURCES[source]
    magnitudes = np.array([float(m) for m in MAGNITUDES[target]])
    chosen = magnitudes[rng.integers(0, len(magnitudes), 400)] if len(magnitudes) > 400 else magnitudes
    halfway = (chosen[:-1] + np.roll(chosen, -1)[:-1]) / 2
    near = np.concatenate([chosen, halfway, halfway * (1 + 2.0**-9), halfway * (1 - 2.0**-8), halfway * (1 + 2.0**-20)])
    ordinary = rng.normal(0, 3, 200)
    drawn = rng.integers(0, 1 << 8 * np.dtype(dtype).itemsize, 500, dtype=np.uint64)
    anything = drawn.astype(f"u{np.dtype(dtype).itemsize}").view(dtype)
    edges = edge_floats(np.float32) if source == "bf16" else edge_floats(dtype)
    with np.errstate(all="ignore"):
        parts = [np.concatenate([near, -near, ordinary]).astype(dtype), edges.astype(dtype), anything]
    values: NDArray[Any] = rng.permutation(np.concatenate(parts))
    return values


def scales_of(count: int, seed: int) -> NDArray[np.uint32]:
    """Return float32 scales: most are 1, others any power of two, infinity or NaN; mantissas and signs have no effect."""
    rng = np.random.default_rng(seed + 50)
    exponents = np.where(rng.random(count) < 0.6, 127, rng.choice([0, 1, 64, 120, 126, 128, 131, 190, 253, 254, 255], count))
    noise: NDArray[np.uint32] = rng.integers(0, 1 << 23, count).astype(np.uint32)
    return exponents.astype(np.uint32) << np.uint32(23) | noise | (noise & np.uint32(1)) << np.uint32(31)


def as_words(values: NDArray[Any]) -> NDArray[np.uint32]:
    """Return elements of one lane per row as 32-bit words."""
    return np.ascontiguousarray(values).view(np.uint32)


# ---- pairs and single elements ----


@pytest.mark.parametrize(
    ("conversion", "saturates"),
    [(c, False) for c in CONVERSIONS] + [(c, True) for c in CONVERSIONS if c.selected == 0 or c.count == 1],
    ids=lambda x: x.text.partition(" ")[0] + str(x.selected) if isinstance(x, Conversion) else "saturates" * x,
)
def test_numbers_are_narrowed_after_division(
    snippets: Snippets, saturating: Snippets, conversion: Conversion, saturates: bool
) -> None:
    seed = CONVERSIONS.index(conversion)
    columns = [sources(conversion.source, conversion.target, seed + 100 * n) for n in range(conversion.count)]
    count = min(map(len, columns)) // LANES * LANES
    columns = [c[:count] for c in columns]
    scales, seeds = scales_of(count, seed), np.random.default_rng(seed).integers(0, 1 << 32, count, dtype=np.uint64)
    inputs: dict[int, NDArray[Any]] = {4: seeds.astype(np.uint32), 6: scales, 20: np.full(count, OLD, np.uint32)}
    if conversion.source == "f32":
        second = 1 if conversion.stochastic else 2
        inputs |= {second * n: column for n, column in enumerate(columns)}
    elif conversion.count == 2:
        inputs[0] = as_words(np.stack(columns, axis=1))[:, 0]
    else:
        inputs[0] = columns[0]
    outcome = (saturating if saturates else snippets).run(conversion.text, inputs)

    bits = FORMATS[conversion.target].bits
    width = bits * conversion.count
    shift = width * conversion.selected
    expected = []
    for i, old_scale in enumerate(scales):
        code, random = 0, int(seeds[i])
        for n, column in enumerate(columns):
            one = rounded(
                float(column[i]), int(old_scale) >> 23 & 0xFF, conversion.target, source=conversion.source,
                seed=random if conversion.stochastic else None, saturates=saturates,
            )  # fmt: skip
            code |= one << bits * n
            random = followed(random)
        expected.append(OLD & ~(((1 << width) - 1) << shift) | code << shift)
    assert_same(conversion.text, outcome.row(20), np.array(expected, np.uint32), [*columns, scales, seeds])


@pytest.mark.parametrize("text", STOCHASTIC)
@pytest.mark.parametrize("saturates", [False, True])
def test_random_bits_extend_the_dropped_part_of_a_float32(
    snippets: Snippets, saturating: Snippets, text: str, saturates: bool
) -> None:
    target, negates = STOCHASTIC[text]
    values = sources("f32", target, 1)
    seeds = np.random.default_rng(5).integers(0, 1 << 32, len(values), dtype=np.uint64).astype(np.uint32)
    old = np.full(len(values), OLD, np.uint32)
    outcome = (saturating if saturates else snippets).run(text, {0: values, 4: seeds, 20: old})

    signed = [-float(v) if negates else float(v) for v in values]
    codes = [rounded(v, 127, target, seed=int(s), saturates=saturates) for v, s in zip(signed, seeds, strict=True)]
    upper = "op_sel" in text
    written = outcome.row(20)[: len(values)] >> np.uint32(16 if upper else 0)
    dtype = FORMATS[target].dtype
    actual, expected = (np.asarray(c).astype(np.uint16).view(dtype).astype(np.float32) for c in (written, codes))
    assert_same(text, actual, expected, [values, seeds])
    kept = outcome.row(20)[: len(values)] >> np.uint32(0 if upper else 16) & np.uint32(0xFFFF)
    assert set(kept.tolist()) == {OLD & 0xFFFF if upper else OLD >> 16}


# ---- 32 elements of 6 bits ----


def packed(codes: Sequence[int]) -> list[int]:
    number = sum(code << 6 * n for n, code in enumerate(codes))
    return [number >> 32 * n & 0xFFFFFFFF for n in range(6)]


@pytest.mark.parametrize("text", SIXES)
def test_32_numbers_are_narrowed_to_six_bits(snippets: Snippets, text: str) -> None:
    _, target, source = text.partition(" ")[0].rsplit("_", 2)
    values = np.resize(sources(source, target, SIXES.index(text)), (LANES, 32))
    scales, seeds = scales_of(LANES, 3), np.random.default_rng(1).integers(0, 1 << 32, LANES, dtype=np.uint64)
    with WaveBench() as bench:
        words = as_words(values)
        for n in range(words.shape[1]):
            bench.row(64 + n)[:] = words[:, n]
        bench.row(4)[:], bench.row(6)[:] = seeds, scales
        assert bench.execute(snippets, text) == WaveStatus.BARRIER
        actual = [[int(bench.row(20 + n)[lane]) for n in range(6)] for lane in range(LANES)]

    order = [16 * (n % 2) + n // 2 for n in range(32)] if "2xpk16" in text else list(range(32))  # two sources alternate
    for lane in range(LANES):
        codes, random = [], int(seeds[lane])
        for n in order:
            seed = random if "_sr_" in text else None
            codes.append(rounded(float(values[lane, n]), int(scales[lane]) >> 23 & 0xFF, target, source=source, seed=seed))
            random = followed(random)
        assert actual[lane] == packed(codes), f"lane {lane}: {values[lane]}, scale {scales[lane]:#x}"


@pytest.mark.parametrize("text", WIDENED)
def test_32_numbers_of_six_bits_are_widened_exactly_and_rounded_once(snippets: Snippets, text: str) -> None:
    _, target, source = text.partition(" ")[0].rsplit("_", 2)
    codes = np.stack([np.random.default_rng(lane).permutation(64)[:32] for lane in range(LANES)]).astype(np.uint8)
    scales = scales_of(LANES, 9)
    with WaveBench() as bench:
        for lane in range(LANES):
            for n, word in enumerate(packed(codes[lane].tolist())):
                bench.row(20 + n)[lane] = word
        bench.row(6)[:] = scales
        assert bench.execute(snippets, text) == WaveStatus.BARRIER
        words = np.stack([bench.row(64 + n) for n in range(32 if target == "f32" else 16)], axis=1)
        actual = np.ascontiguousarray(words).view(SOURCES[target]).astype(np.float32)

    exponents = scales >> np.uint32(23) & np.uint32(0xFF)
    factor = np.where(exponents == 255, np.nan, 2.0 ** (exponents.astype(np.float64) - 127))
    with np.errstate(all="ignore"):
        exact = codes.view(SIX_BITS[source]).astype(np.float64) * factor[:, None]
        expected = exact.astype(np.float32).astype(SOURCES[target]).astype(np.float32)
    assert_same(text, actual.ravel(), expected.ravel(), [codes.ravel(), np.repeat(scales, 32)])


def test_an_operand_may_overlap_the_result(snippets: Snippets) -> None:
    """Elements in v[16:31] become v[20:25]: all of them are read before the result is written."""
    text = "v_cvt_scalef32_pk32_fp6_f16 v[20:25], v[16:31], v6"
    overlapping = Snippets([text], architecture=ARCHITECTURE)
    values = np.resize(np.arange(-8, 8, 0.25, dtype=np.float16), (LANES, 32))
    words = as_words(values)
    outcome = overlapping.run(text, {6: np.full(LANES, 1, np.float32), **{16 + n: words[:, n].copy() for n in range(16)}})

    expected = [packed([rounded(float(v), 127, "fp6") for v in row]) for row in values]
    assert [[int(outcome.row(20 + n)[lane]) for n in range(6)] for lane in range(LANES)] == expected
