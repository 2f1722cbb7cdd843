from __future__ import annotations

from rocm_perf_lab.rocprof.registers import ReportedRegisters, corrected_vgprs, reported_registers


def test_an_mi300x_copy_kernel_reports_four_agprs_that_it_does_not_have() -> None:
    # The stored MI300X profile of vecCopy says 4 VGPR, 4 AGPR, 16 SGPR: one granule of 8 registers, ACCUM_OFFSET 4.
    found = reported_registers("gfx942", compute_pgm_rsrc1=0, compute_pgm_rsrc3=0, wavefront_size=64)

    assert found == ReportedRegisters(arch_vgprs=4, accum_vgprs=4, sgprs=16)


def test_unified_file_splits_the_allocation_at_the_accumulation_offset() -> None:
    # 8 granules of 8 = 64 registers, of which (9 + 1) * 4 = 40 are architectural; SGPR field 5 -> (5 // 2 + 1) * 16.
    found = reported_registers("gfx90a", compute_pgm_rsrc1=7 | 5 << 6, compute_pgm_rsrc3=9, wavefront_size=64)

    assert found == ReportedRegisters(arch_vgprs=40, accum_vgprs=24, sgprs=48)


def test_rdna_has_wave_dependent_granules_and_fixed_sgprs() -> None:
    wave32 = reported_registers("gfx1030", compute_pgm_rsrc1=2, compute_pgm_rsrc3=0, wavefront_size=32)
    wave64 = reported_registers("gfx1030", compute_pgm_rsrc1=2, compute_pgm_rsrc3=0, wavefront_size=64)

    assert (wave32, wave64) == (ReportedRegisters(24, 0, 128), ReportedRegisters(12, 0, 128))


def test_gfx908_reports_as_many_agprs_as_vgprs() -> None:
    found = reported_registers("gfx908", compute_pgm_rsrc1=3, compute_pgm_rsrc3=0, wavefront_size=64)

    assert (found.arch_vgprs, found.accum_vgprs) == (16, 16)


def test_the_halved_vgprs_of_gfx950_are_corrected() -> None:
    """A vector copy on an MI350 is reported with 4 VGPRs and no AGPRs; its descriptor allocates one unit of 8."""
    reported = reported_registers("gfx950", compute_pgm_rsrc1=0, compute_pgm_rsrc3=0, wavefront_size=64)

    assert (reported.arch_vgprs, reported.accum_vgprs) == (4, 0)
    assert corrected_vgprs("gfx950", 4, 0, [0, 0]) == (8, 0)
    assert corrected_vgprs("gfx950", 160, 0, []) == (256, 64)  # 320 registers, of which 256 are architectural
    assert corrected_vgprs("gfx950", 8, 0, [0, 4]) == (8, 0)  # a version of rocprofv3 that reports AGPRs
    assert corrected_vgprs("gfx942", 4, 0, [0]) == (4, 0)
