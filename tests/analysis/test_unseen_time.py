"""Time of a dispatch outside of the traced wavefronts."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from rocm_perf_lab.analysis.launch_account import fixed_launch_ns
from rocm_perf_lab.analysis.ledger import Cause
from rocm_perf_lab.analysis.thread_trace import ThreadTrace, analyse
from rocm_perf_lab.analysis.unseen_time import DispatchCoverage, unseen_time
from tests.builders.profiles import vec_copy_profile
from tests.builders.simd_traces import Step, Traced

if TYPE_CHECKING:
    from pathlib import Path

    from rocm_perf_lab.profiling.profile import Profile

FMA = ("v_fma_f32 v2, v1, v1, v2", "")
ATOMIC = ("global_atomic_add v0, v1, s[0:1]", "")
STEPS: list[Step] = [(1, 0, 0, 4), (2, 4, 0, 4)]


def analysed(*code: tuple[str, str]) -> ThreadTrace:
    found = analyse(Traced([*code]).wave(STEPS).trace(), launched_waves=1000)
    assert isinstance(found, ThreadTrace)
    return found


@pytest.fixture
def profile(tmp_path: Path) -> Profile:
    """A dispatch whose launch is a tenth of its time."""
    found = vec_copy_profile(tmp_path)
    return replace(found, durations_ns=(round(10 * fixed_launch_ns(found.target)),))


@pytest.mark.parametrize(
    ("code", "clocks", "cause"),
    [
        ((FMA, FMA), 100_000, Cause.TAIL),
        ((FMA, ATOMIC), 100_000, Cause.ATOMIC_CONTENTION),
        ((FMA, ATOMIC), 100_000_000, Cause.TAIL),
    ],
)
def test_the_rest_of_the_dispatch_is_a_tail_unless_atomics_explain_it(
    code: tuple[tuple[str, str], ...], clocks: float, cause: Cause, profile: Profile
) -> None:
    """1,000 atomics are 70 clocks each in 100,000 clocks of which 70 % are unseen, and 70,000 each in 100 million."""
    (part,) = unseen_time(analysed(*code), profile, DispatchCoverage(0.2, is_known=True, is_complete=True, clocks=clocks))

    assert part.cause is cause
    assert part.share == pytest.approx(1 - 0.2 - 0.1, abs=0.001)


def test_a_dispatch_that_ends_with_the_traced_wavefronts_has_no_tail(profile: Profile) -> None:
    coverage = DispatchCoverage(0.85, is_known=True, is_complete=True, clocks=1000)

    assert not list(unseen_time(analysed(FMA, FMA), profile, coverage))


def test_a_compute_unit_with_twice_the_mean_work_shows_half_a_tail(profile: Profile) -> None:
    coverage = DispatchCoverage(0.85, is_known=True, is_complete=True, clocks=1000, mean_work=0.5)

    (part,) = unseen_time(analysed(FMA, FMA), profile, coverage)

    assert part.cause is Cause.TAIL
    assert part.share == pytest.approx(0.425)
