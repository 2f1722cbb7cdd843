"""Mutants of the optimizer's benchmark: drawn from a seed, all different from the original and from each other."""

from __future__ import annotations

from benchmarks.mutants import mutants
from rocm_perf_lab.resources import resource_dir

CONTENT = (resource_dir("experiments") / "softmax" / "softmax.hip").read_bytes()


def test_equal_seeds_give_equal_mutants_and_every_one_changes_the_source() -> None:
    drawn = mutants(CONTENT, "softmax_kernel", 30, seed=1)

    assert drawn == mutants(CONTENT, "softmax_kernel", 30, seed=1)
    assert drawn != mutants(CONTENT, "softmax_kernel", 30, seed=2)
    assert len({mutant.text for mutant in drawn}) == 30
    assert CONTENT.decode() not in {mutant.text for mutant in drawn}


def test_every_kind_is_among_all_of_them() -> None:
    everything = " ".join(mutant.what for mutant in mutants(CONTENT, "softmax_kernel", 10_000, seed=1))

    for kind in ("without __syncthreads();", "<= for <", "fminf for fmaxf", "next to row_in[i]", "cheat: nothing at all"):
        assert kind in everything
