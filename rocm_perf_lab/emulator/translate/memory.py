"""Memory instructions; each becomes one runtime call for all lanes."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from rocm_perf_lab.emulator.isa.instruction import OperandType
from rocm_perf_lab.emulator.pcode.values import UnsupportedSemantics, Value, constant
from rocm_perf_lab.emulator.structures import FIRST_AGPR_ROW, FIRST_TEMP_ROW, M0, NULL
from rocm_perf_lab.emulator.translate.operands import read_source
from rocm_perf_lab.emulator.translate.runtime_calls import call_runtime

if TYPE_CHECKING:
    from rocm_perf_lab.emulator.isa.instruction import Instruction
    from rocm_perf_lab.emulator.isa.instruction_set import InstructionSet
    from rocm_perf_lab.emulator.translate.state import BlockState

_WORD = OperandType("B32", 32)
_ADDRESS_VGPR64, _ADDRESS_SGPR, _ADDRESS_FLAT = 0, 1, 2
_RANGE_SELECT = 1 << 8
"""Added to the first register of a resource that selects how it checks ranges."""
_LOADED_ROW = FIRST_TEMP_ROW
_D16_LOW, _D16_HIGH, _D16_CLEARS = 8, 16, 32
_KINDS = {"UBYTE": (0, 1), "SBYTE": (1, 1), "BYTE": (0, 1), "USHORT": (2, 1), "SSHORT": (3, 1), "SHORT": (2, 1),
          "DWORD": (4, 1), "DWORDX2": (4, 2), "DWORDX3": (4, 3), "DWORDX4": (4, 4)}  # fmt: skip
"""enum rpl_kind and dwords by part of the mnemonic."""
_ATOMICS = {"SWAP": 0, "CMPSWAP": 1, "ADD": 2, "SUB": 3, "SMIN": 4, "UMIN": 5, "SMAX": 6, "UMAX": 7, "AND": 8, "OR": 9,
            "XOR": 10, "INC": 11, "DEC": 12, "ADD_F32": 13, "ADD_F64": 13, "MIN_F64": 14, "MAX_F64": 15,
            "PK_ADD_F16": 17, "PK_ADD_BF16": 18, "FMIN": 14, "FMAX": 15, "FCMPSWAP": 21, "CSUB": 22}  # fmt: skip
"""enum rpl_atomic."""
_LDS_ATOMICS = {"ADD": 2, "SUB": 3, "RSUB": 16, "INC": 11, "DEC": 12, "AND": 8, "OR": 9, "XOR": 10, "WRXCHG": 0,
                "MSKOR": 19, "CMPST": 1, "WRAP": 20}  # fmt: skip
_LDS_ATOMIC = re.compile(
    r"DS_(ADD|SUB|RSUB|INC|DEC|MIN|MAX|AND|OR|XOR|WRXCHG|MSKOR|CMPST|WRAP|PK_ADD)(?:_RTN)?_(?:RTN_)?(U|I|B|F|BF)(16|32|64)$"
)
_TYPED = re.compile(r"(LOAD|STORE)_FORMAT_(D16_(?:HI_)?)?(XYZW|XYZ|XY|X)$")
_PACKINGS = {None: 0, "D16_": 1, "D16_HI_": 2}
"""enum rpl_packing."""
_PACKING_CLEARS = 4
_LDS_ACCESS = re.compile(r"DS_(READ|WRITE)(2?)(ST64)?_([BUI])(\d+)(_D16)?(_HI)?$")
_LDS_TRANSPOSED = re.compile(r"DS_READ_B(?:64|96)_TR_B(4|6|8|16)$")
_LDS_EXCHANGE2 = re.compile(r"DS_WRXCHG2(ST64)?_RTN_B(32|64)$")
_LDS_ADD_THREAD_ID = {"DS_READ_ADDTID_B32": "rpl_lds_load", "DS_WRITE_ADDTID_B32": "rpl_lds_store"}
_ROW_OF_M0 = -1
_SCALAR_ACCESS = re.compile(r"S_(BUFFER_)?(?:(LOAD|STORE)_DWORD(?:X(\d+))?|(ATOMIC_\w+))$")
_SCALAR_CACHE = frozenset(
    {"S_DCACHE_INV", "S_DCACHE_WB", "S_DCACHE_INV_VOL", "S_DCACHE_WB_VOL", "S_DCACHE_DISCARD", "S_DCACHE_DISCARD_X2"}
)
_FENCES = {"BUFFER_WBL2": 1, "BUFFER_INV": 0, "BUFFER_INVL2": 0, "BUFFER_WBINVL1": 0, "BUFFER_WBINVL1_VOL": 0,
           "BUFFER_GL0_INV": 0, "BUFFER_GL1_INV": 0}  # fmt: skip
"""Release and acquire, which only the checks need: memory is coherent here."""


def translate_memory(state: BlockState, instruction: Instruction) -> None:
    """Emit one SMEM, GLOBAL, FLAT, SCRATCH, MUBUF, MTBUF or DS instruction.

    Raises:
        UnsupportedSemantics: The runtime has no function for it.
    """
    if instruction.mnemonic in _SCALAR_CACHE:
        return
    if instruction.mnemonic in _FENCES:
        call_runtime(state, "rpl_fence", instruction, _FENCES[instruction.mnemonic])
        return
    match instruction.encoding:
        case "SMEM":
            _scalar(state, instruction)
        case "GLOBAL" | "FLAT":
            _global(state, instruction)
        case "SCRATCH":
            _scratch(state, instruction)
        case "MUBUF" | "MTBUF":
            _buffer(state, instruction)
        case "DS":
            _lds(state, instruction)
        case _:
            raise UnsupportedSemantics(f"encoding {instruction.encoding}")


def _scalar(state: BlockState, instruction: Instruction) -> None:
    name, fields, builder = instruction.mnemonic, instruction.fields, state.scalar_builder
    data = fields["sdata"]
    if data == NULL:
        raise UnsupportedSemantics("the null register as data")
    if name in ("S_MEMTIME", "S_MEMREALTIME"):
        call_runtime(state, "rpl_clock", instruction, data, state.last_index - instruction.index)
        state.forget(data, 2)
        return
    match = _SCALAR_ACCESS.match(name)
    if match is None:
        raise UnsupportedSemantics("scalar access to scratch")
    offset = _scalar_offset(state, instruction)
    place: tuple[int | Value, ...]
    if match[1]:
        helper, place = "rpl_scalar_buffer", (fields["sbase"], builder.resize(offset, 32))
    else:
        helper, place = "rpl_scalar", (builder.binary("+", state.read64(fields["sbase"]), offset),)
    if match[2]:
        dwords = int(match[3] or 1)
        call_runtime(state, f"{helper}_{match[2].lower()}", instruction, data, *place, dwords)
        if match[2] == "LOAD":
            state.forget(data, dwords)
        return
    op, is64 = _atomic(match[4])
    call_runtime(state, f"{helper}_atomic", instruction, data, *place, op, is64, fields["glc"])
    if fields["glc"]:
        state.forget(data, 1 + is64)


def _scalar_offset(state: BlockState, instruction: Instruction) -> Value:
    """Return the sum of the immediate offset and of that in a register."""
    fields, builder = instruction.fields, state.scalar_builder
    has_immediate = bool(fields.get("imm", 1))
    offset: Value = constant(_signed(fields["offset"], 21), 64) if has_immediate else constant(0, 64)
    if fields.get("soffset_en", fields["soffset"] != NULL) or not has_immediate:
        register = fields["soffset"] if has_immediate or fields["soffset_en"] else fields["offset"] & 0x7F
        offset = builder.binary("+", offset, builder.resize(state.read32(register), 64, signed=False))
    return offset


def _global(state: BlockState, instruction: Instruction) -> None:
    offset_bits = instruction.isa.flat_offset_bits
    offset = _signed(instruction.raw, offset_bits)
    if instruction.encoding == "FLAT":
        offset &= (1 << offset_bits - 1) - 1
    base: Value = constant(0, 64)
    mode = _ADDRESS_FLAT if instruction.encoding == "FLAT" else _ADDRESS_VGPR64
    saddr = instruction.bits(54, 48)
    if instruction.encoding == "GLOBAL" and saddr not in instruction.isa.no_address_register:
        base, mode = state.read64(saddr), _ADDRESS_SGPR
    operation = instruction.mnemonic.partition("_")[2]
    target, data, address = _rows(instruction)
    place = (address, base, constant(offset, 64), mode)
    if operation.startswith("ATOMIC_"):
        op, is64 = _atomic(operation)
        returns = instruction.bits(16, 16)
        call_runtime(state, "rpl_global_atomic", instruction, target, data, *place, op, is64, returns)
        return
    if _loads_into_lds(instruction):
        _, kind, dwords = _access(operation.replace("LDS_", ""), instruction.isa)
        call_runtime(state, "rpl_global_load", instruction, _LOADED_ROW, *place, kind, dwords)
        _fill_lds(state, instruction, offset, dwords)
        return
    is_load, kind, dwords = _access(operation, instruction.isa)
    helper = "rpl_global_load" if is_load else "rpl_global_store"
    call_runtime(state, helper, instruction, target if is_load else data, *place, kind, dwords)


def _scratch(state: BlockState, instruction: Instruction) -> None:
    target, data, address = _rows(instruction)
    saddr = instruction.bits(54, 48)
    none = instruction.isa.no_address_register
    base = state.read32(saddr) if saddr not in none else constant(0)
    has_row = instruction.bits(13, 13) if instruction.isa.architected_scratch else saddr == none[0]
    row = address if has_row else -1
    offset = _signed(instruction.raw, instruction.isa.flat_offset_bits)
    operation = instruction.mnemonic.partition("_")[2]
    if _loads_into_lds(instruction):
        _, kind, dwords = _access(operation.replace("LDS_", ""), instruction.isa)
        call_runtime(state, "rpl_scratch_load", instruction, _LOADED_ROW, row, base, offset, kind, dwords)
        _fill_lds(state, instruction, offset, dwords)
        return
    is_load, kind, dwords = _access(operation, instruction.isa)
    helper = "rpl_scratch_load" if is_load else "rpl_scratch_store"
    call_runtime(state, helper, instruction, target if is_load else data, row, base, offset, kind, dwords)


def _buffer(state: BlockState, instruction: Instruction) -> None:
    """Emit MUBUF and MTBUF."""
    is_typed = instruction.encoding == "MTBUF"
    if instruction.fields.get("tfe"):
        raise UnsupportedSemantics("TFE")
    data = instruction.bits(47, 40) + (FIRST_AGPR_ROW if instruction.fields.get("acc") else 0)
    vaddr = instruction.bits(39, 32)
    has_index, has_offset = instruction.bits(13, 13), instruction.bits(12, 12)
    index_row = vaddr if has_index else -1
    offset_row = (vaddr + (1 if has_index else 0)) if has_offset else -1
    resource, offset = instruction.bits(52, 48) * 4, instruction.bits(11, 0)
    if instruction.isa.selects_range_check:
        resource |= _RANGE_SELECT
    scalar = read_source(state, instruction, instruction.bits(63, 56), _WORD)
    place = (resource, index_row, offset_row, scalar, offset)
    operation = instruction.mnemonic.partition("_")[2]
    if operation.startswith("ATOMIC_"):
        op, is64 = _atomic(operation)
        call_runtime(state, "rpl_buffer_atomic", instruction, data, *place, op, is64, instruction.bits(14, 14))
        return
    into_lds = not is_typed and instruction.bits(16, 16)
    row = _LOADED_ROW if into_lds else data
    typed = _TYPED.match(operation)
    if typed is not None and instruction.isa.selects_range_check:
        raise UnsupportedSemantics("formats of buffers")
    if typed is not None:
        form, count = instruction.bits(25, 19) if is_typed else -1, len(typed[3])
        helper = f"rpl_format_{typed[1].lower()}"
        packing = _PACKINGS[typed[2]]
        if typed[2] and typed[1] == "LOAD" and instruction.isa.clears_unused_halves:
            packing |= _PACKING_CLEARS
        call_runtime(state, helper, instruction, row, *place, count, packing, form)
    else:
        is_load, kind, count = _access(operation, instruction.isa)
        call_runtime(state, "rpl_buffer_load" if is_load else "rpl_buffer_store", instruction, row, *place, kind, count)
    if into_lds:
        _fill_lds(state, instruction, offset, count)


def _loads_into_lds(instruction: Instruction) -> bool:
    """Return whether a GLOBAL or SCRATCH load is one to LDS: by its name, or a bit of older encodings."""
    return "_LOAD_LDS_" in instruction.mnemonic or (not instruction.isa.architected_scratch and instruction.bits(13, 13) == 1)


def _fill_lds(state: BlockState, instruction: Instruction, offset: int, dwords: int) -> None:
    """Store the loaded rows to LDS from M0."""
    if dwords == 2:
        raise UnsupportedSemantics("loads of two dwords into LDS")
    builder = state.scalar_builder
    mask = (1 << instruction.isa.lds_load_address_bits) - 4
    base = builder.binary("+", builder.binary("&", state.read32(M0), constant(mask)), constant(offset & 0xFFFFFFFF))
    call_runtime(state, "rpl_lds_fill", instruction, _LOADED_ROW, base, dwords)


def meet_grid(state: BlockState, instruction: Instruction) -> None:
    """Emit the arrival of a wavefront at a barrier of global wave sync."""
    call_runtime(state, "rpl_gws_barrier", instruction, *_global_wave_sync(instruction))


def _global_wave_sync(instruction: Instruction) -> tuple[int, int]:
    """Return the row of the count of wavefronts and the offset of the resource."""
    return instruction.bits(39, 32), instruction.bits(15, 0)


def _lds(state: BlockState, instruction: Instruction) -> None:
    if instruction.mnemonic == "DS_GWS_INIT":
        call_runtime(state, "rpl_gws_init", instruction, *_global_wave_sync(instruction))
        return
    if instruction.fields["gds"]:
        raise UnsupportedSemantics("global data share")
    accumulator = FIRST_AGPR_ROW if instruction.fields.get("acc") else 0
    target, data1, data0 = (instruction.bits(high, high - 7) + accumulator for high in (63, 55, 47))
    address, offset0, offset1 = instruction.bits(39, 32), instruction.bits(7, 0), instruction.bits(15, 8)
    offset = offset0 | offset1 << 8
    permutes = {
        "DS_BPERMUTE_B32": ("rpl_bpermute", (target, address, data0, offset, instruction.isa.lanes_per_permutation)),
        "DS_PERMUTE_B32": ("rpl_permute", (target, address, data0, offset, instruction.isa.lanes_per_permutation)),
        "DS_SWIZZLE_B32": ("rpl_swizzle", (target, address, offset)),
    }
    if instruction.mnemonic in permutes:
        helper, arguments = permutes[instruction.mnemonic]
        call_runtime(state, helper, instruction, *arguments)
        return
    if instruction.mnemonic in ("DS_APPEND", "DS_CONSUME"):
        call_runtime(state, "rpl_lds_append", instruction, target, offset, int(instruction.mnemonic == "DS_CONSUME"))
        return
    if instruction.mnemonic in _LDS_ADD_THREAD_ID:
        helper = _LDS_ADD_THREAD_ID[instruction.mnemonic]
        call_runtime(state, helper, instruction, target if "load" in helper else data0, _ROW_OF_M0, offset, *_KINDS["DWORD"])
        return
    transposed = _LDS_TRANSPOSED.match(instruction.mnemonic)
    if transposed is not None:
        call_runtime(state, "rpl_lds_load_transposed", instruction, target, address, offset, int(transposed[1]))
        return
    exchange = _LDS_EXCHANGE2.match(instruction.mnemonic)
    if exchange is not None:
        dwords = int(exchange[2]) // 32
        unit = 4 * dwords * (64 if exchange[1] else 1)
        places = (address, offset0 * unit, offset1 * unit)
        call_runtime(state, "rpl_lds_exchange2", instruction, target, data0, data1, *places, dwords)
        return
    access = _LDS_ACCESS.match(instruction.mnemonic)
    if access is not None:
        _lds_access(state, instruction, access, (target, address, data0, data1))
        return
    op, is64 = _lds_atomic(instruction.mnemonic)
    returns = int("RTN" in instruction.mnemonic or "WRXCHG" in instruction.mnemonic)
    call_runtime(state, "rpl_lds_atomic", instruction, target, data0, data1, address, offset, op, is64, returns)


def _lds_access(state: BlockState, instruction: Instruction, access: re.Match[str], rows: tuple[int, int, int, int]) -> None:
    target, address, data0, data1 = rows
    bits, is_load = int(access[5]), access[1] == "READ"
    offset0, offset1 = instruction.bits(7, 0), instruction.bits(15, 8)
    if access[2]:
        unit = bits // 8 * (64 if access[3] else 1)
        offsets = (offset0 * unit, offset1 * unit)
        if is_load:
            call_runtime(state, "rpl_lds_load2", instruction, target, address, *offsets, bits // 32)
        else:
            call_runtime(state, "rpl_lds_store2", instruction, data0, data1, address, *offsets, bits // 32)
        return
    kind = {8: 0, 16: 2}.get(bits, 4) + (1 if access[4] == "I" and bits < 32 else 0)
    if access[6] or access[7]:
        kind |= _half(is_high=bool(access[7]), is_load=is_load, isa=instruction.isa)
    helper, row = ("rpl_lds_load", target) if is_load else ("rpl_lds_store", data0)
    call_runtime(state, helper, instruction, row, address, offset0 | offset1 << 8, kind, max(1, bits // 32))


def _rows(instruction: Instruction) -> tuple[int, int, int]:
    """Return the vdst, data and address rows of GLOBAL, FLAT and SCRATCH."""
    accumulator = FIRST_AGPR_ROW if instruction.fields.get("acc") else 0
    return instruction.bits(63, 56) + accumulator, instruction.bits(47, 40) + accumulator, instruction.bits(39, 32)


def _half(*, is_high: bool, is_load: bool, isa: InstructionSet) -> int:
    """Return the flags of enum rpl_kind of an access to half of a register."""
    if not is_load:
        return _D16_HIGH if is_high else 0
    return (_D16_HIGH if is_high else _D16_LOW) | (_D16_CLEARS if isa.clears_unused_halves else 0)


def _access(operation: str, isa: InstructionSet) -> tuple[bool, int, int]:
    """Return load or store, enum rpl_kind and dwords of `LOAD_DWORDX2`, `STORE_SHORT_D16_HI`, and so on."""
    match = re.match(r"(LOAD|STORE)_([A-Z]+(?:X\d)?)(_D16)?(_HI)?$", operation)
    if match is None or match[2] not in _KINDS:
        raise UnsupportedSemantics(f"memory operation {operation}")
    kind, dwords = _KINDS[match[2]]
    if match[3]:
        kind |= _half(is_high=bool(match[4]), is_load=match[1] == "LOAD", isa=isa)
    return match[1] == "LOAD", kind, dwords


def _atomic(operation: str) -> tuple[int, int]:
    name = operation.removeprefix("ATOMIC_")
    plain = name.removesuffix("_X2")
    if plain not in _ATOMICS:
        raise UnsupportedSemantics(f"atomic {name}")
    return _ATOMICS[plain], int(name.endswith(("_X2", "_F64")))


def _lds_atomic(mnemonic: str) -> tuple[int, int]:
    match = _LDS_ATOMIC.match(mnemonic)
    if match is None:
        raise UnsupportedSemantics(f"LDS operation {mnemonic}")
    name, kind, bits = match[1], match[2], int(match[3])
    if name == "PK_ADD":
        return (17 if kind == "F" else 18), 0
    if name in ("MIN", "MAX"):
        return {"U": 5, "I": 4, "F": 14}[kind] + ((2 if kind != "F" else 1) if name == "MAX" else 0), int(bits == 64)
    if kind == "F":
        return (21 if name == "CMPST" else 13), int(bits == 64)
    return _LDS_ATOMICS[name], int(bits == 64)


def _signed(value: int, bits: int) -> int:
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value
