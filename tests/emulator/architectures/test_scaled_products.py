"""Products of 4 to 8-bit floats with block exponents (gfx950) against the bit-exact model, for all pairs of formats."""

from __future__ import annotations

import numpy as np
import pytest

from rocm_perf_lab.emulator.structures import LANES, WaveStatus
from tests.builders import matrix_model as model
from tests.builders.opcodes import Snippets
from tests.builders.waves import WaveBench
from tests.emulator.architectures.test_cdna4 import BITS, ROW_C, ROW_D, ROW_SCALE, ROWS_A, ROWS_B, Narrow, packed
from tests.emulator.architectures.test_matrix_model import FP16_OVERFLOW, assert_equal, edges_of
from tests.emulator.opcodes import test_matrices as matrices

KINDS = ["fp8", "bf8", "fp6", "bf6", "fp4"]
"""In the order of the codes of CBSZ and BLGP."""
BLOCK = 32
PRODUCTS = [
    *(Narrow(edge, a, b, scaled=True, bytes_=(edge % 3, (a + b) % 4)) for edge in (16, 32) for a in range(5) for b in range(5)),
    *(Narrow(edge, a, a) for edge in (16, 32) for a in range(5)),
]  # fmt: skip
CLAMPED = [p for p in PRODUCTS if p.scaled and p.formats in ((0, 0), (1, 1), (4, 2))]


@pytest.fixture(scope="module")
def snippets() -> Snippets:
    return Snippets([p.text for p in PRODUCTS], architecture="gfx950")


@pytest.fixture(scope="module")
def limited() -> Snippets:
    return Snippets([p.text for p in CLAMPED], architecture="gfx950", mode=FP16_OVERFLOW)


class Case:
    """Operands as codes, (edge, K); exponents of their blocks, (edge, K / 32); C, (edge, edge)."""

    def __init__(self, product: Narrow, seed: int, *, is_large: bool = False) -> None:
        rng = np.random.default_rng(seed)
        edge, depth = product.edge, product.depth
        self.product = product
        self.codes = [self._codes(rng, KINDS[f], (edge, depth), specials=not is_large) for f in product.formats]
        blocks = depth // BLOCK
        usual = rng.integers(120, 135, (2, edge, blocks))
        extreme = rng.choice([0, 1, 63, 190, 253, 254, 255], (2, edge, blocks))
        self.exponents = np.where(rng.random((2, edge, blocks)) < 0.9, usual, extreme)
        if is_large:
            self.exponents = rng.integers(180, 190, (2, edge, blocks))
        if not product.scaled:
            self.exponents = np.full((2, edge, blocks), 127)
        drawn = rng.integers(0, 1 << 32, (edge, edge))
        ordinary = (
            rng.normal(0, 8, (edge, edge)).astype(np.float32) * np.float32(2.0) ** rng.integers(-20, 20, (edge, edge))
        ).astype(np.float32)
        chosen = rng.random((edge, edge))
        edges = rng.choice(edges_of(model.FORMATS["f32"]), (edge, edge))
        self.c = np.where(chosen < 0.7, ordinary.view(np.uint32), np.where(chosen < 0.85, edges, drawn)).astype(np.uint32)

    @staticmethod
    def _codes(rng: np.random.Generator, kind: str, shape: tuple[int, int], *, specials: bool) -> np.ndarray:
        form = model.FORMATS[kind]
        codes = rng.integers(0, 1 << form.bits, shape)
        small = rng.integers(0, 3 << form.mantissa, shape) | rng.integers(0, 2, shape) << form.bits - 1
        codes = np.where(rng.random(shape) < 0.3, small, codes)
        finite = np.array([not model.decode(code, kind).special for code in range(1 << form.bits)])
        allowed = finite[codes] | (rng.random(shape) < 0.01) & specials
        codes = np.where(allowed, codes, form.bias << form.mantissa)
        codes[0] = np.where(finite[codes[0]], codes[0], 0)
        return codes.astype(np.uint8)

    def run(self, snippets: Snippets) -> np.ndarray:
        """Return D as codes."""
        product, rng = self.product, np.random.default_rng(1)
        lane = np.arange(LANES)
        _, i, j = matrices.Shape(np.float32, product.edge, product.depth, 1, ("fp8", "fp8")).result()
        with WaveBench() as bench:
            for which, first in ((0, ROWS_A), (1, ROWS_B)):
                lanes = self.codes[which][product.place(which)]
                matrices.put(bench, "v", first, packed(lanes, BITS[product.formats[which]]))
                noise = rng.integers(0, 1 << 32, LANES, dtype=np.uint64).astype(np.uint32)
                shift = np.uint32(8 * product.bytes[which])
                exponents = self.exponents[which][lane % product.edge, lane // product.edge].astype(np.uint32)
                bench.row(ROW_SCALE + which)[:] = noise & ~(np.uint32(0xFF) << shift) | exponents << shift
            matrices.put(bench, "v", ROW_C, self.c[i, j])
            assert bench.execute(snippets, product.text) == WaveStatus.BARRIER
            lanes_d = matrices.get(bench, "v", ROW_D, i.shape[1], np.uint32)
        d = np.zeros_like(self.c)
        d[i, j] = lanes_d
        return d

    def expected(self, row: int, column: int) -> int:
        """Return the code of an element of D."""
        a, b = (
            [model.decode(int(code), KINDS[form]) for code in codes[index]]
            for codes, form, index in zip(self.codes, self.product.formats, (row, column), strict=True)
        )
        pairs = zip(self.exponents[0][row], self.exponents[1][column], strict=True)
        moves = [None if 255 in (x, y) else int(x) + int(y) - 254 for x, y in pairs]
        return model.aligned(a, b, int(self.c[row, column]), BLOCK, scales=moves)

    def places(self) -> list[tuple[int, int]]:
        """Return the elements of D to compare: two rows, and one element of every row."""
        rng = np.random.default_rng(self.product.edge)
        rows = [(row, column) for row in (0, int(rng.integers(self.product.edge))) for column in range(self.product.edge)]
        return rows + [(row, int(rng.integers(self.product.edge))) for row in range(self.product.edge)]


@pytest.mark.parametrize("product", PRODUCTS, ids=lambda p: p.text.partition(" ")[0] + str(p.formats))
def test_results_are_those_of_the_model(snippets: Snippets, product: Narrow) -> None:
    case = Case(product, PRODUCTS.index(product))
    d = case.run(snippets)

    for place in case.places():
        assert_equal(product.text, int(d[place]), case.expected(*place), place)


@pytest.mark.parametrize("product", CLAMPED, ids=lambda p: p.text.partition(" ")[0] + str(p.formats))
def test_fp16_overflow_limits_results(snippets: Snippets, limited: Snippets, product: Narrow) -> None:
    case = Case(product, 3, is_large=True)
    overflowing, clamped = case.run(snippets), case.run(limited)

    seen = 0
    for place in case.places():
        expected = case.expected(*place)
        assert_equal(product.text, int(overflowing[place]), expected, place)
        is_new = expected & 0x7FFFFFFF == 0x7F800000 and case.c[place] & 0x7FFFFFFF != 0x7F800000
        assert_equal(product.text, int(clamped[place]), expected - is_new, place)
        seen += is_new
    assert seen
