"""Contractions of two arrays as products of matrices."""

from __future__ import annotations

import numpy as np
import pytest

from rocm_perf_lab.verify.contraction import Contraction

CASES = {
    "hmd,hnd->hmn": ((2, 3, 4), (2, 5, 4), 4),
    "hmn,hnd->hmd": ((2, 3, 5), (2, 5, 4), 5),
    "ij,jk->ki": ((3, 4), (4, 5), 4),
    "i,j->ij": ((3,), (4,), 1),
    "ij,ij->": ((3, 4), (3, 4), 12),
    "n,cn->c": ((3,), (2, 3), 3),
}


@pytest.mark.parametrize("subscripts", CASES)
def test_a_contraction_equals_einsum(subscripts: str) -> None:
    one_shape, other_shape, terms = CASES[subscripts]
    rng = np.random.default_rng(1)
    one, other = rng.integers(-9, 9, one_shape).astype(float), rng.integers(-9, 9, other_shape).astype(float)
    contraction = Contraction.of([subscripts, one, other])
    assert contraction is not None
    assert np.array_equal(contraction(one, other), np.einsum(subscripts, one, other))
    assert contraction.terms(one) == terms


@pytest.mark.parametrize("subscripts", ["ii,ij->j", "ij,k->k", "ij,jk", "...j,jk->...k", "ij,jk->il"])
def test_other_sums_are_left_to_einsum(subscripts: str) -> None:
    assert Contraction.of([subscripts, np.ones((2, 2)), np.ones((2, 2))]) is None
