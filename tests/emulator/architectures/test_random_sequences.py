"""Random sequences of common instructions on all architectures against NumPy, as optimised code and as shared operations."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from rocm_perf_lab.emulator.structures import WaveStatus
from tests.builders.opcodes import Snippets
from tests.builders.sequences import FIRST_SCALAR, LDS_WORDS, MEMORY_WORDS, REGISTERS, SCALARS, Generator, Wavefront
from tests.builders.waves import WaveBench
from tests.emulator.architectures.test_common_instructions import CDNA

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

LANE_REGISTER, FIRST_LDS_WORD = 12, 64
PER_BATCH, LENGTH = 6, 14
BATCHES = [
    0,
    *(pytest.param(number, marks=pytest.mark.slow) for number in range(1, 4)),
    *(pytest.param(number, marks=pytest.mark.corpus) for number in range(4, 80)),
]


def start(seed: int) -> Wavefront:
    """Return the state before a sequence: numbers of all magnitudes."""
    rng = np.random.default_rng([seed, 1])

    def words(*shape: int) -> NDArray[np.uint32]:
        return (rng.integers(0, 1 << 32, shape, dtype=np.uint64) >> rng.integers(0, 32, shape, dtype=np.uint64)).astype(np.uint32)

    return Wavefront(words(REGISTERS, 64), words(SCALARS), words(LDS_WORDS), words(MEMORY_WORDS))


def run(snippets: Snippets, text: str, before: Wavefront, *, optimised: bool) -> Wavefront:
    """Return the state after a sequence on the emulator."""
    with WaveBench() as bench:
        buffer = bench.buffer(before.memory)
        for register, values in enumerate(before.vgprs):
            bench.row(register)[:] = values
        bench.row(LANE_REGISTER)[:] = np.arange(64)
        for number, value in enumerate(before.sgprs):
            bench.wave.sgpr[FIRST_SCALAR + number] = int(value)
        bench.wave.sgpr[2], bench.wave.sgpr[3] = buffer.address & 0xFFFFFFFF, buffer.address >> 32
        bench.lds[FIRST_LDS_WORD : FIRST_LDS_WORD + LDS_WORDS] = before.lds
        assert bench.execute(snippets, text, optimised=optimised) == WaveStatus.BARRIER
        active = np.array([bench.wave.sgpr[126 + lane // 32] >> lane % 32 & 1 for lane in range(64)], bool)
        return Wavefront(
            np.stack([bench.row(register).copy() for register in range(REGISTERS)]),
            np.array([bench.wave.sgpr[FIRST_SCALAR + number] for number in range(SCALARS)], np.uint32),
            bench.lds[FIRST_LDS_WORD : FIRST_LDS_WORD + LDS_WORDS].copy(),
            bench.content(buffer, np.uint32).view(np.uint32),
            active,
        )


def sequences(batch: int) -> list[tuple[str, Callable[[Wavefront], None], int]]:
    seeds = range(PER_BATCH * batch, PER_BATCH * (batch + 1))
    return [(*Generator(seed, f"S{seed}").sequence(LENGTH), seed) for seed in seeds]


@pytest.mark.parametrize("batch", BATCHES)
def test_sequences_have_the_same_results_everywhere(batch: int) -> None:
    drawn = sequences(batch)
    for architecture in CDNA:
        snippets = Snippets([text for text, _, _ in drawn], architecture=architecture)
        for text, apply, seed in drawn:
            expected = start(seed)
            apply(expected)
            for optimised in (True, False):
                found = run(snippets, text, start(seed), optimised=optimised)
                for part in ("vgprs", "sgprs", "lds", "memory", "active"):
                    message = f"{part} on {architecture}, optimised {optimised}, seed {seed}:\n{text}"
                    np.testing.assert_array_equal(getattr(found, part), getattr(expected, part), err_msg=message)


def test_sequences_have_every_kind_of_item() -> None:
    text = "\n".join(text for batch in range(3) for text, _, _ in sequences(batch))

    for part in ("v_mad_u64", "ds_add_u32", "ds_bpermute", "global_atomic_xor", "s_cbranch_execz", "s_cbranch_scc1", "_dpp",
                 "v_pk_fma_f32", "v_fma_f64", "v_readfirstlane", "s_mul_hi_u32"):  # fmt: skip
        assert part in text
