"""Packing of kernel arguments, and the registers that point to them."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocm_perf_lab.core.geometry import Geometry
from rocm_perf_lab.emulator.initial_state import dispatch_packet, initial_state
from rocm_perf_lab.emulator.kernarg import KernelArgumentError, hidden_values, pack_kernarg
from rocm_perf_lab.toolchain.code_object import KernelArgument, KernelDescriptor, KernelMetadata

if TYPE_CHECKING:
    from collections.abc import Sequence

GEOMETRY = Geometry(grid=(7, 3, 2), block=(64, 4, 1), dynamic_lds_bytes=512)
KERNARG, PACKET = 0x1234_5678_9000, 0x1234_5678_A000


def descriptor(*, properties: int = 0, rsrc1: int = 0, rsrc2: int = 0, preload: int = 0) -> KernelDescriptor:
    return KernelDescriptor(0, 0, 0, 0, rsrc1, rsrc2, 0, properties, preload)


def kernel(arguments: Sequence[KernelArgument], kernarg_bytes: int = 64) -> KernelMetadata:
    return KernelMetadata(
        symbol="scale", name="scale", entry_address=0, code_bytes=0, descriptor_address=0, descriptor=descriptor(),
        vgpr_count=0, agpr_count=0, sgpr_count=0, vgpr_spill_count=0, sgpr_spill_count=0, lds_bytes=0, scratch_bytes=0,
        kernarg_bytes=kernarg_bytes, kernarg_alignment=8, wavefront_size=64, max_flat_workgroup_size=1024,
        required_workgroup_size=None, uses_dynamic_stack=False, arguments=tuple(arguments),
    )  # fmt: skip


POINTER = KernelArgument("x", 0, 8, "global_buffer", "float*")
FACTOR = KernelArgument("factor", 8, 4, "by_value", "float")
HIDDEN = [
    KernelArgument("", 16, 4, "hidden_block_count_x"),
    KernelArgument("", 20, 2, "hidden_group_size_y"),
    KernelArgument("", 22, 2, "hidden_remainder_x"),
    KernelArgument("", 24, 2, "hidden_grid_dims"),
    KernelArgument("", 28, 4, "hidden_dynamic_lds_size"),
    KernelArgument("", 32, 4, "hidden_shared_base"),
    KernelArgument("", 40, 8, "hidden_global_offset_x"),
]


def test_arguments_are_at_the_offsets_of_the_metadata() -> None:
    segment = pack_kernarg(kernel([POINTER, FACTOR, *HIDDEN]), [0x1000_0000_2000, struct.pack("<f", 2.5)], GEOMETRY)

    assert struct.unpack_from("<Qf", segment) == (0x1000_0000_2000, 2.5)
    assert struct.unpack_from("<IHHH", segment, 16) == (7, 4, 0, 3)
    assert struct.unpack_from("<II", segment, 28) == (512, 0x7FFF_0000)
    assert struct.unpack_from("<Q", segment, 40) == (0,)
    assert len(segment) == 64


def test_a_wrong_number_of_arguments_is_reported_with_their_names() -> None:
    with pytest.raises(KernelArgumentError, match="has 2 arguments, but 1 were passed") as caught:
        pack_kernarg(kernel([POINTER, FACTOR]), [0], GEOMETRY)

    assert "argument 1 (factor: float, 4 bytes)" in str(caught.value)


def test_a_scalar_of_the_wrong_size_names_the_argument() -> None:
    with pytest.raises(KernelArgumentError, match="8 bytes was passed, but the kernel expects 4") as caught:
        pack_kernarg(kernel([POINTER, FACTOR]), [0, struct.pack("<d", 2.5)], GEOMETRY)

    assert "factor" in str(caught.value)


@pytest.mark.parametrize("values", [[struct.pack("<Q", 1), struct.pack("<f", 1)], [0, 0]])
def test_buffers_and_scalars_are_not_mixed_up(values: list[int | bytes]) -> None:
    with pytest.raises(KernelArgumentError):
        pack_kernarg(kernel([POINTER, FACTOR]), values, GEOMETRY)


@given(grid=st.tuples(*[st.integers(1, 9)] * 3), block=st.tuples(*[st.integers(1, 9)] * 3))
def test_hidden_sizes_multiply_to_the_grid_in_work_items(grid: tuple[int, int, int], block: tuple[int, int, int]) -> None:
    geometry = Geometry(grid, block)
    hidden = hidden_values(geometry)

    products = tuple(hidden[f"hidden_block_count_{axis}"] * hidden[f"hidden_group_size_{axis}"] for axis in "xyz")

    assert products == geometry.work_items


@pytest.mark.parametrize(("grid", "dimensions"), [((5, 1, 1), 1), ((1, 1, 1), 1), ((1, 5, 1), 2), ((1, 1, 5), 3)])
def test_dimensions_of_size_one_do_not_count(grid: tuple[int, int, int], dimensions: int) -> None:
    assert Geometry(grid, (1, 1, 1)).dimensions == dimensions


def test_the_dispatch_packet_counts_work_items() -> None:
    packet = dispatch_packet(GEOMETRY, lds_bytes=512, scratch_bytes=16, kernel_object=0xABC, kernarg_address=KERNARG)

    assert len(packet) == 64
    assert struct.unpack_from("<3H", packet, 4) == (64, 4, 1)
    assert struct.unpack_from("<5I", packet, 12) == (448, 12, 2, 16, 512)
    assert struct.unpack_from("<2Q", packet, 32) == (0xABC, KERNARG)


def state_of(kernel_descriptor: KernelDescriptor, kernarg: bytes = b"") -> tuple[int, ...]:
    state = initial_state(
        kernel_descriptor,
        kernarg=kernarg,
        kernarg_address=KERNARG,
        dispatch_packet_address=PACKET,
        scratch_bytes=48,
    )
    return state.user_sgprs


def test_user_sgprs_follow_the_enable_bits_in_order() -> None:
    dispatch_and_kernarg_and_scratch_size = 1 << 1 | 1 << 3 | 1 << 6

    registers = state_of(descriptor(properties=dispatch_and_kernarg_and_scratch_size))

    assert registers == (PACKET & 0xFFFFFFFF, PACKET >> 32, KERNARG & 0xFFFFFFFF, KERNARG >> 32, 48)


def test_a_private_segment_buffer_takes_four_registers() -> None:
    assert state_of(descriptor(properties=1 | 1 << 3))[4] == KERNARG & 0xFFFFFFFF


def test_preloaded_arguments_follow_the_pointers() -> None:
    two_from_dword_one = 2 | 1 << 7

    registers = state_of(descriptor(properties=1 << 3, preload=two_from_dword_one), struct.pack("<4I", 9, 8, 7, 6))

    assert registers[2:] == (8, 7)


def test_mode_and_ids_come_from_the_resource_registers() -> None:
    rounds_and_denormals, dx10_clamp, ieee = 0xF0 << 12, 1 << 21, 1 << 23
    x_and_z_and_two_ids = 1 << 7 | 1 << 9 | 1 << 11

    state = initial_state(
        descriptor(rsrc1=rounds_and_denormals | dx10_clamp | ieee, rsrc2=x_and_z_and_two_ids),
        kernarg=b"", kernarg_address=0, dispatch_packet_address=0, scratch_bytes=0,
    )  # fmt: skip

    assert (state.mode, state.system_sgprs, state.work_item_id_dims) == (0x3F0, 0b101, 1)


@pytest.mark.parametrize("damaged", [kernel([POINTER], 2**62), kernel([KernelArgument("x", 2**63, 8, "global_buffer")])])
def test_metadata_with_an_impossible_segment_size_are_refused(damaged: KernelMetadata) -> None:
    with pytest.raises(KernelArgumentError, match="damaged"):
        pack_kernarg(damaged, [0], GEOMETRY)
