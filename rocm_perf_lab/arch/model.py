"""Facts about one GPU architecture, as stated in `arch/<name>.yaml`.

:class:`Processor` has the facts for reading code objects and traces; :class:`Architecture` adds limits, counters and
emulator parameters.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field, model_validator

from rocm_perf_lab.core.models import StrictModel

if TYPE_CHECKING:
    from collections.abc import Iterator

_DESCRIPTOR_VGPR_UNITS = 0x3F
_DESCRIPTOR_SGPR_SHIFT, _DESCRIPTOR_SGPR_UNITS = 6, 0xF
_SGPRS_PER_UNIT = 16
_WORKGROUP_LDS_BYTES = 65536
_CLOCKS_PER_PASS = 4
_ACCUM_OFFSET_UNITS, _VGPRS_PER_ACCUM_OFFSET = 0x3F, 4


class WaveLimits(StrictModel):
    """Limits on the wavefronts of one SIMD, in one wave size and mode."""

    wave_size: Literal[32, 64]
    max_waves_per_simd: int
    vgprs_per_lane: int
    """Registers in a SIMD's file per lane slot, for all wavefronts together."""
    vgpr_granule: int
    max_addressable_vgprs: int
    agprs_share_file: bool
    """Whether AGPRs are allocated from the VGPR file, after the architectural VGPRs rounded up to 4 (CDNA2 and later)."""
    sgpr_limits: dict[int, int] = {}
    """Waves per SIMD -> largest SGPR count that allows them; empty if SGPRs do not limit occupancy."""


class LdsPool(StrictModel):
    """LDS shared by a group of SIMDs: a CU, or a WGP on RDNA."""

    bytes: int
    granule_bytes: int
    max_per_workgroup_bytes: int
    simds: int
    workgroup_slots: int
    """Maximum number of resident workgroups of more than one wavefront (barrier slots)."""


class ArchitectureCaches(StrictModel):
    """Cache facts that all products of an architecture share; a target adds the sizes of L2 and MALL."""

    vector_l1_bytes: int
    vector_l1_line_bytes: int
    vector_l1_ways: int
    scalar_l1_bytes: int
    instruction_l1_bytes: int
    l2_line_bytes: int


class CounterBlock(StrictModel):
    """One hardware block with performance counters."""

    slots: int
    """Counters that one profiling pass can collect."""
    prefixes: tuple[str, ...]
    """First parts of the names of the block's counters."""


class RegisterCounts(StrictModel):
    """VGPRs, AGPRs and SGPRs of one kernel."""

    vgprs: int
    agprs: int
    sgprs: int


class RegisterEncoding(StrictModel):
    """Encoding of register counts in kernel descriptors (COMPUTE_PGM_RSRC1 and 3) and in rocprofv3 output.

    Sources: LLVM "User Guide for AMDGPU Backend"; rocprofiler-sdk, code_object.cpp.
    """

    vgprs_per_unit: dict[int, int] = Field(min_length=1)
    """Wave size -> VGPRs per unit of GRANULATED_WORKITEM_VGPR_COUNT."""
    agprs: Literal["none", "separate", "unified"]
    """Separate: a second file of the same size. Unified: one allocation, which ACCUM_OFFSET divides."""
    fixed_sgprs: int | None = None
    """SGPRs of every wavefront if the descriptor does not encode them (GFX10 and later)."""
    profiler_reports_half: bool = False
    """Whether rocprofv3 decodes the VGPR field with units of half the size and reports no AGPRs."""

    def allocated(self, rsrc1: int, rsrc3: int, wave_size: int) -> RegisterCounts:
        """Return the allocation that a kernel descriptor encodes; `vgprs` includes the AGPRs of a unified file."""
        vgprs = self._vgprs(rsrc1, wave_size)
        return RegisterCounts(
            vgprs=vgprs,
            agprs=max(0, vgprs - _architectural(rsrc3)) if self.agprs == "unified" else 0,
            sgprs=_encoded_sgprs(rsrc1),
        )

    def reported(self, rsrc1: int, rsrc3: int, wave_size: int) -> RegisterCounts:
        """Return the counts that rocprofv3 reports for a kernel descriptor; `vgprs` are the architectural ones."""
        vgprs = self._vgprs(rsrc1, wave_size)
        sgprs = _encoded_sgprs(rsrc1) if self.fixed_sgprs is None else self.fixed_sgprs
        if self.profiler_reports_half:
            return RegisterCounts(vgprs=vgprs // 2, agprs=0, sgprs=sgprs)
        if self.agprs == "unified":
            return RegisterCounts(vgprs=_architectural(rsrc3), agprs=vgprs - _architectural(rsrc3), sgprs=sgprs)
        return RegisterCounts(vgprs=vgprs, agprs=vgprs if self.agprs == "separate" else 0, sgprs=sgprs)

    def _vgprs(self, rsrc1: int, wave_size: int) -> int:
        units = (rsrc1 & _DESCRIPTOR_VGPR_UNITS) + 1
        return units * self.vgprs_per_unit.get(wave_size, max(self.vgprs_per_unit.values()))


def _encoded_sgprs(rsrc1: int) -> int:
    return ((rsrc1 >> _DESCRIPTOR_SGPR_SHIFT & _DESCRIPTOR_SGPR_UNITS) // 2 + 1) * _SGPRS_PER_UNIT


def _architectural(rsrc3: int) -> int:
    return ((rsrc3 & _ACCUM_OFFSET_UNITS) + 1) * _VGPRS_PER_ACCUM_OFFSET


class OwnOpcode(StrictModel):
    """Opcode that the decoder's tables lack, or have for another instruction."""

    encoding: str
    """Layout in the tables: `VOP3P`, `MUBUF`."""
    opcode: int
    mnemonic: str
    """Upper case. One of the tables if the architecture has that instruction under another number."""
    like: int
    """Opcode of the tables with the same operands."""


class InstructionDecoder(StrictModel):
    """Decoder of machine code for machines without llvm-objdump."""

    tables: str
    """Name of the instruction tables in `tinygrad.renderer.amd`, or of a file in `arch/encodings`."""
    own_tables: bool = False
    """Whether the tables are a file in `arch/encodings`."""
    waitcnt: dict[str, tuple[tuple[int, int], ...]]
    """Counter -> its bits in the immediate of S_WAITCNT as (lowest bit, number of bits), least significant part first."""

    names: dict[str, str] = {}
    """Regular expressions of names in the tables, in lower case, and LLVM's names for this architecture."""
    cache_names: dict[str, str] = {}
    """LLVM's names of the cache modifiers sc0, nt and sc1 if they differ."""
    own_opcodes: tuple[OwnOpcode, ...] = ()
    """Those of the emulator's parameters."""

    def waits(self, immediate: int) -> dict[str, int]:
        """Return the counters that an S_WAITCNT waits for, and the values it waits for. All ones in a field do not wait."""
        return {counter: value for counter, value, most in self._counters(immediate) if value != most}

    def limits(self, immediate: int) -> dict[str, int]:
        """Return all counters of an S_WAITCNT with their values."""
        return {counter: value for counter, value, _ in self._counters(immediate)}

    def _counters(self, immediate: int) -> Iterator[tuple[str, int, int]]:
        """Yield name, value and largest value of each counter."""
        for counter, parts in self.waitcnt.items():
            value = width = 0
            for lowest, bits in parts:
                value |= (immediate >> lowest & (1 << bits) - 1) << width
                width += bits
            yield counter, value, (1 << width) - 1


HardwareRegister = Literal["status", "hw_id", "gpr_alloc", "lds_alloc", "sh_mem_bases", "xcc_id", "hw_id1", "shader_cycles"]


class OperationName(StrictModel):
    """Operations that an architecture calls differently than the emulator, which uses the names of CDNA."""

    pattern: str
    """Regular expression of whole names of the architecture."""
    name: str
    r"""Name in the emulator; \1 is the first group of the pattern."""


class EmulatorParameters(StrictModel):
    """Parameters of the emulator for an architecture that it executes."""

    absent: str
    """Regular expression of the mnemonics in the decoder's tables that the architecture lacks."""
    own_opcodes: tuple[OwnOpcode, ...] = ()
    lds_load_address_bits: int = 16
    """Bits of M0 that address the LDS in loads to LDS."""
    architected_scratch: bool = True
    """Whether hardware adds the scratch of the wavefront to scratch addresses. Otherwise kernels get a buffer resource for it."""
    marks_atomic_stores: bool = True
    """Whether the encoding of atomic and volatile stores differs from that of other stores."""
    clamps_sparse_products: bool = False
    """Whether FP16_OVFL limits results of sparse matrix products to the largest numbers."""
    flushes_half_products: bool = False
    """Whether matrix and dot products of 16-bit floats flush denormal operands and results."""
    negates_f64_products: bool = True
    """Whether BLGP negates the operands of float64 matrix instructions."""
    counters: str = r"(?!SQ_INSTS_WAVE32|SQ_WAVE(32|64)_INSTS).*"
    """Regular expression of the exact counters that the emulator has for the architecture."""
    names: tuple[OperationName, ...] = ()
    """The first row that matches applies."""
    packed_work_item_ids: bool = True
    """Whether VGPR 0 holds the work-item ids of all axes. Otherwise VGPRs 0 to 2 hold one each."""
    keeps_upper_halves: bool = False
    """Whether every 16-bit operation writes only half of its register. Otherwise those older than gfx9 clear the rest."""
    compares_into_exec_only: bool = False
    """Whether V_CMPX writes EXEC only. Otherwise it writes VCC or another mask too."""
    selects_range_check: bool = False
    """Whether buffer resources have one format field, and select how they check ranges."""
    flat_offset_bits: int = 13
    """Signed offset of GLOBAL and SCRATCH; that of FLAT is one bit shorter and unsigned."""
    no_address_register: tuple[int, ...] = (0x7F,)
    """SADDR of accesses without a scalar address. With several, only SCRATCH with the first one has a vector address."""
    lanes_per_permutation: int = 64
    """Lanes among which DS_PERMUTE and DS_BPERMUTE move data."""
    getpc_opcode: int = 0x1C
    """SOP1 opcode of S_GETPC_B64; that of S_SETPC_B64 follows."""
    absent_dpp: tuple[int, ...] = ()
    """Control words of DPP that the architecture lacks."""
    hardware_registers: dict[int, HardwareRegister] = {
        2: "status", 4: "hw_id", 5: "gpr_alloc", 6: "lds_alloc", 15: "sh_mem_bases", 20: "xcc_id"
    }  # fmt: skip
    """Registers of S_GETREG by number, except MODE; others read as zero."""


class MatrixPasses(StrictModel):
    """Time for which matrix instructions occupy the matrix core of a SIMD."""

    pattern: str
    """Regular expression, searched in the lower-case text of the instruction."""
    passes: int
    """A pass is four clocks."""


class DriverFacts(StrictModel):
    """Facts that the kernel driver reports to ROCm's runtime, besides those of the target.

    The emulated driver presents them. Firmware and debugger versions select features of the runtime; they have no other meaning.
    """

    family_id: int
    """AMDGPU_FAMILY_* of amdgpu_drm.h."""
    device_id: int
    """PCI device ID."""
    revision_id: int = 0
    """PCI revision ID, which distinguishes products with one device ID."""
    marketing_name: str | None = None
    """Name in libdrm's amdgpu.ids; None for the product name of the target."""
    firmware_version: int
    """Of the compute micro engine (MEC)."""
    sdma_firmware_version: int
    sdma_engines: int
    sdma_xgmi_engines: int = 0
    sdma_queues_per_engine: int = 8
    compute_queues: int = 24
    global_wave_syncs: int = 64
    shader_arrays_per_engine: int = 1
    scratch_slots_per_cu: int = 32
    watch_points: int = 4
    debug_properties: int = 0
    memory_clock_mhz: int
    memory_bus_bits: int
    gpu_link: Literal["xgmi", "pcie"]
    """Link between two GPUs of one machine."""
    pci_class: int = 0x120000
    """0x120000: processing accelerator; 0x030000: display controller."""


class Processor(StrictModel):
    """A processor whose code objects can be read."""

    name: str
    """Name for `--offload-arch`: gfx942."""
    elf_machine: int
    """EF_AMDGPU_MACH in the ELF flags."""
    wave_sizes: tuple[Literal[32, 64], ...] = Field(min_length=1)
    """The compiler's default first."""
    registers: RegisterEncoding
    generic_targets: tuple[str, ...] = ()
    """Generic targets whose code runs on the processor: gfx9-4-generic."""
    settings: tuple[Literal["sramecc", "xnack"], ...] = ()
    """Settings of the processor that its code may require to be on or off."""
    fixed_settings: dict[str, bool] = {}
    """Settings that all GPUs of the processor have on or off."""
    decoder: InstructionDecoder | None = None
    """None if only llvm-objdump can disassemble its code."""

    @property
    def workgroup_lds_bytes(self) -> int:
        """Largest LDS allocation of a workgroup."""
        return _WORKGROUP_LDS_BYTES


class Architecture(Processor):
    """A described architecture: everything except the facts of single products."""

    family: str
    """Name of the generation: cdna3, rdna2."""
    gfx_target_version: int
    """Number that the driver and rocprofiler-sdk report: 90402 for gfx942."""
    nearest_for: tuple[int, ...] = ()
    """GFX generations whose undescribed members are treated like this architecture."""
    simds_per_cu: int
    max_workgroup_size: int = 1024
    default_mode: str
    """The one of `modes` that the compiler uses by default."""
    modes: dict[str, WaveLimits] = Field(min_length=1)
    lds: dict[str, LdsPool] = Field(min_length=1)
    """Keys: those of `modes`."""
    caches: ArchitectureCaches
    float8: Literal["fnuz", "ocp"] | None = None
    """Variant of the 8-bit floats in hardware; None if it has none."""
    counter_set: str
    """Key of its expressions in `rocprof/metrics.yaml`; architectures with the same counters share it."""
    counters_catalogued: bool = False
    """Whether `rocprof/counters.yaml` describes its counters and certifies their emulated values."""
    counter_blocks: dict[str, CounterBlock]
    emulator: EmulatorParameters | None = None
    """None if the emulator cannot execute its code."""
    recognised_by: str | None = None
    """Regular expression, searched in lower-case instructions that no other architecture of the GFX generation has."""
    matrix_passes: tuple[MatrixPasses, ...] = ()
    """The first matching row applies; empty if the architecture has no matrix cores, or none with a documented rate."""
    timing: dict[str, Any] = {}
    """Defaults of the emulator's timing parameters; see :mod:`rocm_perf_lab.target.timing`."""
    driver: dict[str, Any] = {}
    """Defaults of :class:`DriverFacts`; targets add the facts of the product."""

    def matrix_clocks(self, text: str) -> int | None:
        """Return the clocks for which an instruction occupies the matrix core, or None for other and unknown instructions."""
        lowered = text.lower()
        found = next((row.passes for row in self.matrix_passes if re.search(row.pattern, lowered)), None)
        return None if found is None else _CLOCKS_PER_PASS * found

    @property
    def workgroup_lds_bytes(self) -> int:
        """Largest LDS allocation of a workgroup."""
        return max(pool.max_per_workgroup_bytes for pool in self.lds.values())

    @model_validator(mode="before")
    @classmethod
    def _give_opcodes_to_the_decoder(cls, values: dict[str, Any]) -> dict[str, Any]:
        """Add the opcodes in the emulator's parameters to the disassembly."""
        decoder, emulator = values.get("decoder"), values.get("emulator")
        if not isinstance(decoder, dict) or not isinstance(emulator, dict) or "own_opcodes" not in emulator:
            return values
        return {**values, "decoder": {"own_opcodes": emulator["own_opcodes"], **decoder}}

    @model_validator(mode="after")
    def _modes_are_complete(self) -> Architecture:
        if self.modes.keys() != self.lds.keys():
            raise ValueError(f"modes ({', '.join(self.modes)}) and lds ({', '.join(self.lds)}) need the same keys")
        if self.default_mode not in self.modes:
            raise ValueError(f"default_mode {self.default_mode} is not one of: {', '.join(self.modes)}")
        return self

    def target_defaults(self) -> dict[str, Any]:
        """Return the keys of a target that its architecture defines, as plain data."""
        return self.model_dump(include=_TARGET_KEYS)


_TARGET_KEYS = {
    "family",
    "gfx_target_version",
    "simds_per_cu",
    "max_workgroup_size",
    "default_mode",
    "modes",
    "lds",
    "caches",
    "timing",
    "driver",
}
