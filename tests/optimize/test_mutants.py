"""Mutants of the optimizer's benchmark: drawn from a seed, all different from the original and from each other."""

from __future__ import annotations

from benchmarks.mutants import mutants
from rocm_perf_lab.core.resources import resource_dir

CONTENT = (resource_dir("experiments") / "softmax" / "softmax.hip").read_bytes()


def test_equal_seeds_give_equal_mutants_and_every_one_changes_the_source() -> None:
    drawn = mutants(CONTENT, "softmax_kernel", 30, seed=1)

    assert drawn == mutants(CONTENT, "softmax_kernel", 30, seed=1)
    assert drawn != mutants(CONTENT, "softmax_kernel", 30, seed=2)
    assert len({mutant.text for mutant in drawn}) == 30
    assert CONTENT.decode() not in {mutant.text for mutant in drawn}


def test_every_kind_of_mutation_occurs() -> None:
    everything = " ".join(mutant.what for mutant in mutants(CONTENT, "softmax_kernel", 10_000, seed=1))

    for kind in ("without __syncthreads();", "<= for <", "fminf for fmaxf", "next to row_in[i]", "cheat: return at once"):
        assert kind in everything


def test_mutations_have_the_expected_effect() -> None:
    content = (resource_dir("experiments") / "reduction" / "reduction.hip").read_bytes()
    effects = {m.what: m.effect for m in mutants(content, "reduction", 10_000, seed=1)}

    assert effects["line 7: without __syncthreads();"] == "race"
    assert effects["line 6: 1 for 0"] == "harmless"  # another work-item clears the sum
    assert effects["line 11: next to values[i]"] == "out of bounds"
    assert effects["line 10: <= for <"] == "wrong result"
    assert {effect for what, effect in effects.items() if what.startswith("cheat")} == {"cheat"}


def test_the_size_of_an_array_may_grow_and_not_shrink() -> None:
    content = b'extern "C" __global__ void k(int* x) { __shared__ int tile[32]; tile[threadIdx.x] = 1; x[0] = tile[0]; }'
    effects = {m.what: m.effect for m in mutants(content, "k", 10_000, seed=1)}

    assert effects["line 1: 33 for 32"] == "harmless"
    assert effects["line 1: 31 for 32"] == "wrong result"


def test_the_cheat_detects_the_given_first_word() -> None:
    known = [m.text for m in mutants(CONTENT, "softmax_kernel", 10_000, seed=1, first_word=0x3F800000) if "detect" in m.what]

    assert len(known) == 1
    assert "(*(const unsigned*)input == 0x3f800000u) return;" in known[0]
