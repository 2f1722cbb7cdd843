"""Assembly text of instructions of the own tables, as llvm-objdump writes it: `assembly_text(instruction, ...) -> str`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rocm_perf_lab.toolchain.instruction_tables import FIRST_VGPR, LANE_MASK, LITERAL, TableOperand
from rocm_perf_lab.toolchain.rdna_operands import (
    FIRST_CONSTANT,
    NAMED_OPERANDS,
    NULL_REGISTER,
    buffer_format,
    dpp_control,
    hexadecimal,
    inline_constant_text,
    literal_text,
    message,
    register,
    selection_name,
    signed,
    small_decimal,
    swizzle,
    with_signs,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from rocm_perf_lab.arch.model import InstructionDecoder
    from rocm_perf_lab.toolchain.instruction_tables import InstructionTables, TableInstruction

_MULTIPLIERS = {1: "mul:2", 2: "mul:4", 3: "div:2"}
_SELECTIONS = ("BYTE_0", "BYTE_1", "BYTE_2", "BYTE_3", "WORD_0", "WORD_1", "DWORD")
_UNUSED = ("UNUSED_PAD", "UNUSED_SEXT", "UNUSED_PRESERVE")
_ALWAYS_DECIMAL = ("s_branch", "s_cbranch", "s_call_b64", "s_subvector_loop")
_DECIMAL = (
    *("s_nop", "s_sleep", "s_setprio", "s_sethalt", "s_setkill", "s_trap", "s_denorm_mode"),
    *("s_incperflevel", "s_decperflevel"),
)
_CARRIES = ("v_add_co_ci_u32", "v_sub_co_ci_u32", "v_subrev_co_ci_u32")
_READS_VCC = ("v_cndmask_b32", *_CARRIES)
_CACHE_BITS = ("glc", "slc", "dlc")
_PACKED_SIGNS = ("v_fma_mix_f32", "v_fma_mixlo_f16", "v_fma_mixhi_f16")


@dataclass(frozen=True)
class _Text:
    instruction: TableInstruction
    tables: InstructionTables
    decoder: InstructionDecoder
    wave_size: int

    @property
    def fields(self) -> Mapping[str, int]:
        return self.instruction.fields

    @property
    def mnemonic(self) -> str:
        return self.instruction.row.mnemonic

    def line(self) -> str:
        words = _WRITERS[self.instruction.row.encoding](self)
        return " ".join(filter(None, words))

    # operands

    def operands(self) -> list[str]:
        return [self.operand(operand) for operand in self.instruction.row.operands]

    def operand(self, operand: TableOperand) -> str:
        value = self.fields[operand.field]
        if operand.field == "literal":
            return f"{value:#x}"
        return self.source(value, operand)

    def source(self, value: int, operand: TableOperand) -> str:
        bits = self.wave_size if operand.format == LANE_MASK else operand.bits
        if value >= FIRST_VGPR or value < FIRST_CONSTANT or value in NAMED_OPERANDS:
            return register(value, max(1, bits // 32))
        if value == LITERAL:
            return literal_text(self.fields["literal"], operand)
        is_integer = not operand.format.endswith("F16")
        is_half = operand.bits == 16 and self.mnemonic.startswith("v_")
        is_pair = operand.format.startswith("PK2") and self.instruction.row.encoding == "VOP3P"
        return inline_constant_text(value, operand.bits, is_integer_half=is_integer and (is_half or is_pair))

    def scalar(self, value: int, words: int = 1) -> str:
        return register(value, words)

    # scalar instructions

    def scalar_alu(self) -> list[str]:
        return [self.mnemonic, ", ".join(self.operands())]

    def scalar_immediate(self) -> list[str]:
        operands = [self._immediate(o) if o.field == "simm16" else self._constant(o) for o in self.instruction.row.operands]
        return [self.mnemonic, ", ".join(operands)]

    def _constant(self, operand: TableOperand) -> str:
        if operand.field == "literal":
            return literal_text(self.fields["literal"], operand)
        return self.operand(operand)

    def _immediate(self, operand: TableOperand) -> str:
        value = self.fields["simm16"]
        if operand.format == "hwreg":
            return self._hardware_register(value)
        if self.mnemonic == "s_waitcnt":
            return self._waits(value)
        if self.mnemonic.startswith("s_sendmsg"):
            return message(value)
        if self.mnemonic == "s_endpgm":
            return str(value or "")
        if self.mnemonic.startswith(_ALWAYS_DECIMAL):
            return str(value)
        return small_decimal(value) if self.mnemonic.startswith(_DECIMAL) else f"{value:#x}"

    def _waits(self, value: int) -> str:
        waits = self.decoder.waits(value) or self.decoder.limits(value)
        return " ".join(f"{name}({count})" for name, count in waits.items())

    def _hardware_register(self, value: int) -> str:
        number, offset, bits = value & 0x3F, value >> 6 & 0x1F, (value >> 11) + 1
        name = self.tables.hardware_registers.get(number, "")
        text = f"HW_REG_{name}" if name else str(number)
        return f"hwreg({text})" if (offset, bits) == (0, 32) else f"hwreg({text}, {offset}, {bits})"

    def scalar_memory(self) -> list[str]:
        row = self.instruction.row
        operands = [small_decimal(self.fields[o.field]) if o.format == "imm" else self.operand(o) for o in row.operands]
        if all(operand.field != "sbase" for operand in row.operands):
            return [self.mnemonic, ", ".join(operands)]
        return [self.mnemonic, ", ".join([*operands, self._scalar_offset()]), *self._set("glc", "dlc")]

    def _scalar_offset(self) -> str:
        if self.fields["soffset"] != NULL_REGISTER:
            return self.scalar(self.fields["soffset"])
        return hexadecimal(signed(self.fields["offset"], 21))

    # vector instructions

    def vector(self) -> list[str]:
        match self.instruction.variant:
            case "SDWA" | "SDWA_SDST":
                return self._sdwa()
            case "DPP16" | "DPP8":
                return self._dpp()
        suffix = "_e32" if "e" in self.instruction.row.flags else ""
        operands = self.operands()
        if self.mnemonic == "v_readfirstlane_b32":
            operands[0] = self.scalar(self.fields["vdst"] - FIRST_VGPR)
        return [self.mnemonic + suffix, ", ".join(self._with_vcc(operands))]

    def _with_vcc(self, operands: list[str]) -> list[str]:
        vcc = "vcc" if self.wave_size == 64 else "vcc_lo"
        if self.mnemonic.startswith("v_cmp_"):
            return [vcc, *operands]
        if self.mnemonic in _CARRIES:
            operands = [operands[0], vcc, *operands[1:]]
        return [*operands, vcc] if self.mnemonic in _READS_VCC else operands

    def _sdwa(self) -> list[str]:
        fields, row = self.fields, self.instruction.row
        operands = []
        for operand in row.operands:
            text = self._sdwa_operand(operand)
            index = {"src0": 0, "vsrc1": 1}.get(operand.field)
            operands.append(text if index is None else self._sdwa_signed(text, index))
        operands = self._with_vcc(operands)
        if self.mnemonic.startswith("v_cmp_") and fields["sd"]:
            operands[0] = self.scalar(fields["sdst"], self.wave_size // 32)
        words = [f"{self.mnemonic}_sdwa", ", ".join(operands)]
        if "dst_sel" in fields:
            words += [*self._clamp(), f"dst_sel:{selection_name(_SELECTIONS, fields['dst_sel'])}"]
            words.append(f"dst_unused:{selection_name(_UNUSED, fields['dst_unused'])}")
        sources = (("src0", "src0_sel"), ("vsrc1", "src1_sel"))
        fed = {operand.field for operand in row.operands}
        return words + [f"{name}:{selection_name(_SELECTIONS, fields[name])}" for field, name in sources if field in fed]

    def _sdwa_operand(self, operand: TableOperand) -> str:
        if operand.field == "vdst":
            return self.operand(operand)
        name, flag = ("vsrc0", "s0") if operand.field == "src0" else ("vsrc1", "s1")
        value = self.fields[name] - (FIRST_VGPR if self.fields[flag] else 0)
        return self.source(value, operand)

    def _sdwa_signed(self, text: str, index: int) -> str:
        if self.fields[f"src{index}_sext"]:
            text = f"sext({text})"
        return with_signs(text, bool(self.fields[f"src{index}_neg"]), bool(self.fields[f"src{index}_abs"]))

    def _dpp(self) -> list[str]:
        fields = self.fields
        operands = []
        for operand in self.instruction.row.operands:
            value = fields["vsrc0" if operand.field == "src0" else operand.field]
            text = self.source(value, operand)
            index = {"src0": 0, "vsrc1": 1}.get(operand.field)
            if index is not None and self.instruction.variant == "DPP16":
                text = with_signs(text, bool(fields[f"src{index}_neg"]), bool(fields[f"src{index}_abs"]))
            operands.append(text)
        words = [f"{self.mnemonic}_dpp", ", ".join(self._with_vcc(operands))]
        if self.instruction.variant == "DPP8":
            lanes = ",".join(str(fields["lane_sel"] >> 3 * lane & 7) for lane in range(8))
            return [*words, f"dpp8:[{lanes}]", "fi:1" if fields["fi"] else ""]
        masks = [f"row_mask:{fields['row_mask']:#x}", f"bank_mask:{fields['bank_mask']:#x}"]
        return [
            *words,
            dpp_control(fields["dpp"]),
            *masks,
            "bound_ctrl:1" if fields["bc"] else "",
            "fi:1" if fields["fi"] else "",
        ]

    def long_vector(self) -> list[str]:
        fields, row = self.fields, self.instruction.row
        operands = []
        for operand in row.operands:
            text = self.operand(operand)
            if operand.field in _SOURCE_NUMBERS and operand.format != LANE_MASK:
                bit = 1 << _SOURCE_NUMBERS[operand.field]
                text = with_signs(text, bool(fields["neg"] & bit), bool(fields.get("abs", 0) & bit))
            operands.append(text)
        if self.mnemonic == "v_readlane_b32":
            operands[0] = self.scalar(fields["vdst"] - FIRST_VGPR)
        suffix = "_e64" if "e" in row.flags else ""
        return [self.mnemonic + suffix, ", ".join(operands), self._halves(), *self._clamp()]

    def _halves(self) -> str:
        """Return op_sel: one bit for each source, then one for the destination. Lane permutations have two other flags there."""
        selected = self.fields.get("opsel", 0)
        sources = sum(operand.field in _SOURCE_NUMBERS for operand in self.instruction.row.operands)
        if self.mnemonic.startswith("v_permlane"):
            bits = [selected & 1, selected >> 1 & 1]
        elif "h" in self.instruction.row.flags:
            bits = [*(selected >> i & 1 for i in range(sources)), selected >> 3]
        else:
            bits = []
        if not any(bits):
            return ""
        return f"op_sel:[{','.join(map(str, bits))}]"

    def packed_vector(self) -> list[str]:
        fields, row = self.fields, self.instruction.row
        sources = sum(operand.field in _SOURCE_NUMBERS for operand in row.operands)
        operands = self.operands()
        signs = [("neg_lo", fields["neg"], 0), ("neg_hi", fields["neg_hi"], 0)]
        every = (1 << sources) - 1
        high = fields["opsel_hi"] | fields["opsel_hi2"] << 2
        if self.mnemonic in _PACKED_SIGNS:
            operands = [operands[0], *(self._mixed(i, text) for i, text in enumerate(operands[1:]))]
            signs, every = [], 0
        chosen = [("op_sel", fields["opsel"], 0), ("op_sel_hi", high, every), *signs]
        modifiers = [f"{name}:[{','.join(str(value >> i & 1) for i in range(sources))}]"
                     for name, value, usual in chosen if value & ((1 << sources) - 1) != usual]  # fmt: skip
        return [self.mnemonic, ", ".join(operands), *modifiers, "clamp" if fields["clmp"] else ""]

    def _mixed(self, index: int, text: str) -> str:
        return with_signs(text, bool(self.fields["neg"] >> index & 1), bool(self.fields["neg_hi"] >> index & 1))

    def _clamp(self) -> list[str]:
        return ["clamp" if self.fields.get("clmp") else "", _MULTIPLIERS.get(self.fields.get("omod", 0), "")]

    # memory instructions

    def local_memory(self) -> list[str]:
        row, first, second = self.instruction.row, self.fields["offset0"], self.fields["offset1"]
        if row.mnemonic.split("_")[1].startswith(_TWO_ADDRESSES):
            offsets = [f"offset0:{first}" if first else "", f"offset1:{second}" if second else ""]
        else:
            offset = first | second << 8
            shown = swizzle(offset) if row.mnemonic == "ds_swizzle_b32" else str(offset)
            offsets = [f"offset:{shown}" if offset else ""]
        return [self.mnemonic, ", ".join(self.operands()), *offsets, *self._set("gds")]

    def flat_memory(self) -> list[str]:
        fields, row = self.fields, self.instruction.row
        returns = bool(fields["glc"]) or "atomic" not in row.mnemonic
        operands = [
            self._address(operand) if operand.field == "addr" else self.operand(operand)
            for operand in row.operands
            if operand.field != "vdst" or returns
        ]
        if row.encoding != "FLAT":
            operands.append(self._base())
        offset = fields["offset"] if row.encoding == "FLAT" else signed(fields["offset"], 12)
        return [
            self.mnemonic,
            ", ".join(operands),
            f"offset:{offset}" if offset else "",
            *self._set(*_CACHE_BITS),
            *self._set("lds"),
        ]

    def _address(self, operand: TableOperand) -> str:
        base, encoding = self.fields["saddr"], self.instruction.row.encoding
        if encoding == "SCRATCH":
            return self.scalar(self.fields["addr"]) if base == NULL_REGISTER else "off"
        return register(self.fields["addr"], 1 if encoding == "GLOBAL" and base not in (NULL_REGISTER, _NO_ADDRESS) else 2)

    def _base(self) -> str:
        base = self.fields["saddr"]
        if base in (NULL_REGISTER, _NO_ADDRESS):
            return "off"
        return self.scalar(base, 1 if self.instruction.row.encoding == "SCRATCH" else 2)

    def buffer_memory(self) -> list[str]:
        fields, row = self.fields, self.instruction.row
        operands = [
            self._buffer_operand(operand) for operand in row.operands if operand.field != "vdata" or not fields.get("lds")
        ]
        words = [self.mnemonic, ", ".join(operands)]
        if row.encoding == "MTBUF":
            words.append(buffer_format(fields["format"], self.tables.buffer_formats))
        offset = f"offset:{fields['offset']}" if fields["offset"] else ""
        if not row.operands:
            return words
        return [*words, *self._set("idxen", "offen"), offset, *self._set(*_CACHE_BITS, "tfe", "lds")]

    def _buffer_operand(self, operand: TableOperand) -> str:
        value = self.fields[operand.field]
        if operand.field == "vaddr":
            words = self.fields["idxen"] + self.fields["offen"]
            return register(value, words) if words else "off"
        if operand.field == "vdata":
            return register(value, operand.bits // 32 + self.fields["tfe"])
        return self.operand(operand)

    def _set(self, *names: str) -> list[str]:
        return [name for name in names if self.fields.get(name)]


_SOURCE_NUMBERS = {"src0": 0, "src1": 1, "src2": 2}
_NO_ADDRESS = 0x7F
_TWO_ADDRESSES = ("write2", "read2", "wrxchg2")
_WRITERS: Mapping[str, Callable[[_Text], list[str]]] = {
    **dict.fromkeys(("SOP1", "SOP2", "SOPC"), _Text.scalar_alu),
    **dict.fromkeys(("SOPK", "SOPP"), _Text.scalar_immediate),
    "SMEM": _Text.scalar_memory,
    **dict.fromkeys(("VOP1", "VOP2", "VOPC"), _Text.vector),
    **dict.fromkeys(("VOP3", "VOP3SD"), _Text.long_vector),
    "VOP3P": _Text.packed_vector,
    "DS": _Text.local_memory,
    **dict.fromkeys(("FLAT", "GLOBAL", "SCRATCH"), _Text.flat_memory),
    **dict.fromkeys(("MUBUF", "MTBUF"), _Text.buffer_memory),
}


def assembly_text(instruction: TableInstruction, tables: InstructionTables, decoder: InstructionDecoder, wave_size: int) -> str:
    """Return the text of an instruction as LLVM writes it for a wave size."""
    return _Text(instruction, tables, decoder, wave_size).line()
