"""Width and ideal service time of memory instructions, by mnemonic."""

from __future__ import annotations

import numpy as np
import pytest

from rocm_perf_lab.analysis.intervals import Integral, clipped, joined, length, served, union
from rocm_perf_lab.analysis.traced_units import lane_bytes


@pytest.mark.parametrize(
    ("mnemonic", "size"),
    [
        ("global_load_dword", 4), ("global_load_dwordx4", 16), ("buffer_load_ushort", 2), ("global_load_ubyte", 1),
        ("global_load_b128", 16), ("buffer_load_u8", 1), ("global_load_short_d16_hi", 2), ("flat_store_dwordx2", 8),
        ("buffer_load_format_xyzw", 16), ("tbuffer_load_format_xy", 8), ("global_load_lds_dwordx4", 16),
        ("ds_read_b64", 8), ("ds_write2_b64", 16), ("ds_read2st64_b32", 8), ("ds_load_2addr_b64", 16), ("ds_write_b8", 1),
        ("ds_read_u16", 2), ("ds_bpermute_b32", 4), ("ds_add_f32", 4), ("ds_add_rtn_f64", 8),
        ("global_atomic_add_x2", 8), ("global_atomic_add_f32", 4), ("buffer_inv", 0), ("buffer_wbl2", 0), ("scratch_load_b32", 4),
    ],
)  # fmt: skip
def test_bytes_per_lane(mnemonic: str, size: int) -> None:
    assert lane_bytes(mnemonic) == size


def test_a_union_has_no_gaps_between_touching_intervals() -> None:
    starts, ends = np.array([20, 0, 8, 4, 30]), np.array([24, 4, 8, 10, 31])

    begins, stops = union(starts, ends)

    assert (begins.tolist(), stops.tolist()) == ([0, 20, 30], [10, 24, 31])
    assert length((begins, stops)) == 15
    assert [part.tolist() for part in clipped((begins, stops), 5, 22)] == [[5, 20], [10, 22]]
    assert length(joined([(begins, stops), (np.array([9]), np.array([21]))])) == 25


def test_requests_are_served_one_after_the_other() -> None:
    starts, ends = served(np.array([0, 0, 2, 100]), np.array([4.0, 8.0, 4.0, 4.0]))

    assert (starts.tolist(), ends.tolist()) == ([0, 4, 12, 100], [4, 12, 16, 104])


def test_amounts_are_spread_over_overlapping_intervals() -> None:
    found = Integral.of_spread(np.array([0, 5]), np.array([10, 15]), np.array([10.0, 20.0]))

    assert found.at(np.array([-5, 0, 5, 10, 15, 99])).tolist() == [0, 0, 5, 20, 30, 30]
