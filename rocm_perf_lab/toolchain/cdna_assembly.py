"""Assembly text of CDNA instructions as LLVM writes it: `cdna_text(instruction, name, decoder)`.

The instruction is one of tinygrad's tables; names, operands and modifiers follow LLVM's AMDGPUInstPrinter.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from rocm_perf_lab.arch.model import InstructionDecoder

_SPECIAL = {
    102: "flat_scratch", 104: "xnack_mask", 106: "vcc", 124: "m0", 126: "exec", 235: "src_shared_base", 236: "src_shared_limit",
    237: "src_private_base", 238: "src_private_limit", 239: "src_pops_exiting_wave_id", 251: "src_vccz", 252: "src_execz",
    253: "src_scc", 254: "src_lds_direct",
}  # fmt: skip
_PAIRS = frozenset({102, 104, 106, 126})
_FLOATS = {240: "0.5", 241: "-0.5", 242: "1.0", 243: "-1.0", 244: "2.0", 245: "-2.0", 246: "4.0", 247: "-4.0"}
_FLOAT_BITS = {
    32: {0x3F00_0000: "0.5", 0xBF00_0000: "-0.5", 0x3F80_0000: "1.0", 0xBF80_0000: "-1.0", 0x4000_0000: "2.0",
         0xC000_0000: "-2.0", 0x4080_0000: "4.0", 0xC080_0000: "-4.0", 0x3E22_F983: "0.15915494"},
    16: {0x3800: "0.5", 0xB800: "-0.5", 0x3C00: "1.0", 0xBC00: "-1.0", 0x4000: "2.0", 0xC000: "-2.0", 0x4400: "4.0",
         0xC400: "-4.0", 0x3118: "0.15915494"},
}  # fmt: skip
_INV_2PI, _LITERAL, _VGPR, _TTMP = 248, 255, 256, 108
_OFF = 0x7F
_VOP3_ONLY = 0x1C0
"""First VOP3 opcode that is not the long form of another encoding."""
_NO_SUFFIX = ("v_nop", "v_readfirstlane_b32", "v_swap_b32", "v_clrexcp", "v_accvgpr_mov_b32", "v_pk_fmac_f16")
_SUFFIX = re.compile(r"_(e32|e64|dpp16|dpp|sdwa)$")
_SELECTIONS = ("BYTE_0", "BYTE_1", "BYTE_2", "BYTE_3", "WORD_0", "WORD_1", "DWORD")
_UNUSED = ("UNUSED_PAD", "UNUSED_SEXT", "UNUSED_PRESERVE")
_CARRY_WRITERS = ("v_add_co_u32", "v_sub_co_u32", "v_subrev_co_u32", "v_addc_co_u32", "v_subb_co_u32", "v_subbrev_co_u32")
_CARRY_READERS = ("v_addc_co_u32", "v_subb_co_u32", "v_subbrev_co_u32", "v_cndmask_b32")
_OUTPUT = {1: "mul:2", 2: "mul:4", 3: "div:2"}
_DPP_ROWS = {0x100: "row_shl", 0x110: "row_shr", 0x120: "row_ror", 0x150: "row_newbcast"}
_DPP_NAMES = {
    0x130: "wave_shl:1", 0x134: "wave_rol:1", 0x138: "wave_shr:1", 0x13C: "wave_ror:1", 0x140: "row_mirror",
    0x141: "row_half_mirror", 0x142: "row_bcast:15", 0x143: "row_bcast:31",
}  # fmt: skip
_REGISTER_NAMES = {
    1: "MODE", 2: "STATUS", 3: "TRAPSTS", 4: "HW_ID", 5: "GPR_ALLOC", 6: "LDS_ALLOC", 7: "IB_STS", 15: "SH_MEM_BASES",
    16: "TBA_LO", 17: "TBA_HI", 18: "TMA_LO", 19: "TMA_HI", 20: "XCC_ID",
}  # fmt: skip
_INDEX_MODES = ("SRC0", "SRC1", "SRC2", "DST")


def cdna_text(instruction: Any, name: str, decoder: InstructionDecoder) -> str:
    """Return the text of an instruction.

    Args:
        instruction: Decoded instruction of tinygrad's tables.
        name: Its mnemonic in lower case, with the suffix of the tables or without.
        decoder: Names of the architecture.
    """
    return _Text(instruction, name, decoder).text()


class _Text:
    def __init__(self, instruction: Any, name: str, decoder: InstructionDecoder) -> None:
        self._i = instruction
        self._decoder = decoder
        self._layout, _, self._variant = type(instruction).__name__.partition("_")
        self._base = _SUFFIX.sub("", name)
        for pattern, replacement in decoder.names.items():
            self._base = re.sub(pattern, replacement, self._base)
        self._fields = {field: self._number(field) for field, _ in instruction._fields}
        self._operands = instruction.operands

    def text(self) -> str:
        """Return mnemonic, operands and modifiers."""
        writer: Callable[[], tuple[list[str], list[str]]] = getattr(self, f"_{self._layout.lower()}", self._plain)
        operands, modifiers = writer()
        return " ".join(filter(None, [self._mnemonic(), ", ".join(operands), *modifiers]))

    # fields and registers

    def _number(self, field: str) -> int:
        value = getattr(self._i, field)
        offset = getattr(value, "offset", None)
        return int(offset) if offset is not None else int(getattr(value, "value", value) or 0)

    def _get(self, field: str) -> int:
        return self._fields.get(field, 0)

    def _mnemonic(self) -> str:
        base = self._base
        if self._variant.startswith("SDWA"):
            return f"{base}_sdwa"
        if self._variant.startswith("DPP"):
            return f"{base}_dpp"
        if self._layout in ("VOP3", "VOP3SD"):
            return base if self._get("op") >= _VOP3_ONLY else f"{base}_e64"
        if self._layout in ("VOP1", "VOP2", "VOPC") and base not in _NO_SUFFIX and not self._has_constant():
            return f"{base}_e32"
        return base

    def _has_constant(self) -> bool:
        """Return whether the instruction has a separate literal operand, like V_MADMK."""
        return self._variant == "LIT" and self._base.rpartition("_")[0].endswith(("mk", "ak"))

    def _bits(self, field: str, default: int = 32) -> int:
        described = self._operands.get(field)
        return described[1] if described is not None else default

    def _register(self, number: int, bits: int, *, accumulator: bool = False) -> str:
        count = max(1, bits // 32)
        if number >= _VGPR:
            return _range("a" if accumulator else "v", number - _VGPR, count)
        if number in _SPECIAL or number - 1 in _PAIRS:
            base = number if number in _SPECIAL else number - 1
            if base not in _PAIRS or count == 2:
                return _SPECIAL[base]
            return f"{_SPECIAL[base]}_{'lo' if number == base else 'hi'}"
        if _TTMP <= number < 124:
            return _range("ttmp", number - _TTMP, count)
        return _range("s", number, count)

    def _source(self, field: str, *, accumulator: bool = False) -> str:
        number = self._get(field)
        bits = self._bits(field)
        kind = self._operands[field][0].name if field in self._operands else ""
        if number == _LITERAL:
            is_wide = bits == 64 and "PK2" not in kind
            return _literal(self._get("literal"), 16 if bits == 16 and "PK2" not in kind else 32, floats=not is_wide)
        if 128 <= number <= 192:
            return str(number - 128)
        if 193 <= number <= 208:
            return str(192 - number)
        if number in _FLOATS:
            return _FLOATS[number]
        if number == _INV_2PI:
            return "0.15915494309189532" if bits == 64 and "PK" not in kind else "0.15915494"
        return self._register(number, bits, accumulator=accumulator)

    def _sources(self) -> list[str]:
        return [field for field in ("src0", "src1", "src2") if field in self._operands]

    # scalar

    def _plain(self) -> tuple[list[str], list[str]]:
        order = ("sdst", "ssrc0", "ssrc1")
        return [self._source(field) for field in order if field in self._operands and field in self._fields], []

    def _sopc(self) -> tuple[list[str], list[str]]:
        operands = [self._source(field) for field in ("ssrc0", "ssrc1") if field in self._operands]
        if self._base == "s_set_gpr_idx_on":
            operands[1:] = [_index_modes(self._get("ssrc1"))]
        return operands, []

    def _sopk(self) -> tuple[list[str], list[str]]:
        value = self._get("simm16") & 0xFFFF
        register = self._register(self._get("sdst"), 64 if self._base.endswith("b64") else 32)
        if self._base.startswith("s_setreg_imm32"):
            return [_hardware_register(value), _literal(self._get("literal"), 32)], []
        if "reg" in self._base:
            pair = [register, _hardware_register(value)]
            return pair if self._base.startswith("s_getreg") else pair[::-1], []
        return [register, str(value) if self._base.startswith(("s_call", "s_cbranch")) else f"{value:#x}"], []

    def _sopp(self) -> tuple[list[str], list[str]]:
        value, name = self._get("simm16") & 0xFFFF, self._base
        if name == "s_waitcnt":
            waits = self._decoder.waits(value) or self._decoder.limits(value)
            return [" ".join(f"{counter}({count})" for counter, count in waits.items())], []
        if name.startswith(("s_branch", "s_cbranch", "s_nop", "s_sleep", "s_setprio", "s_trap", "s_sethalt", "s_code_end")):
            return [str(value)], []
        if name == "s_sendmsg" or name == "s_sendmsghalt":
            return [_message(value)], []
        if name == "s_set_gpr_idx_mode":
            return [_index_modes(value)], []
        without = ("s_barrier", "s_endpgm", "s_wakeup", "s_icache_inv", "s_ttracedata", "s_set_gpr_idx_off", "s_endpgm_saved")
        return ([] if name in without and not value else [str(value)]), []

    def _smem(self) -> tuple[list[str], list[str]]:
        operands = []
        if "sdata" in self._operands:
            operands.append(self._register(self._get("sdata"), self._bits("sdata")))
        if "sbase" in self._operands:
            operands.append(self._register(self._get("sbase"), self._bits("sbase", 64)))
            if self._get("soffset_en"):
                operands.append(self._register(self._get("soffset"), 32))
            elif not self._get("imm"):
                operands.append(self._register(self._get("offset") & 0x7F, 32))
            else:
                offset = self._get("offset")
                signed = offset if "buffer" in self._base else _signed(offset, 21)
                operands.append(f"-{-signed:#x}" if signed < 0 else f"{signed:#x}")
        return operands, ["glc"] if self._get("glc") else []

    # vector

    def _vop1(self) -> tuple[list[str], list[str]]:
        operands: list[str] = []
        accumulates = self._base == "v_accvgpr_mov_b32"
        if self._base == "v_readfirstlane_b32":
            operands.append(self._register(self._get("vdst") - _VGPR, 32))
        elif "vdst" in self._operands:
            operands.append(self._register(self._get("vdst"), self._bits("vdst"), accumulator=accumulates))
        if "src0" in self._operands:
            operands.append(self._first_source(accumulator=accumulates))
        return operands, self._variant_modifiers(second=False)

    def _vop2(self) -> tuple[list[str], list[str]]:
        base = self._base
        operands = [self._register(self._get("vdst"), self._bits("vdst"))]
        if base in _CARRY_WRITERS:
            operands.append("vcc")
        operands.append(self._first_source())
        constant = [_literal(self._get("literal"), 16 if base.endswith("16") else 32)] if self._has_constant() else []
        if base.rpartition("_")[0].endswith("mk"):
            operands += constant
        operands.append(self._second_source())
        if base.rpartition("_")[0].endswith("ak"):
            operands += constant
        if base in _CARRY_READERS:
            operands.append("vcc")
        return operands, self._variant_modifiers(second=True)

    def _vopc(self) -> tuple[list[str], list[str]]:
        destination = self._register(self._get("sdst"), 64) if self._get("sd") else "vcc"
        return [destination, self._first_source(), self._second_source()], self._variant_modifiers(second=True)

    def _first_source(self, *, accumulator: bool = False) -> str:
        if self._variant.startswith("SDWA"):
            number = self._get("vsrc0") - (_VGPR if self._get("s0") else 0)
            return self._varied(self._inline(number, self._bits("src0")), "src0")
        if self._variant.startswith("DPP"):
            return self._varied(self._register(self._get("vsrc0"), self._bits("src0")), "src0")
        return self._source("src0", accumulator=accumulator)

    def _second_source(self) -> str:
        number, bits = self._get("vsrc1"), self._bits("vsrc1")
        if self._variant.startswith("SDWA") and self._get("s1"):
            return self._varied(self._inline(number - _VGPR, bits), "src1")
        text = self._register(number, bits)
        return self._varied(text, "src1") if self._variant and self._variant != "LIT" else text

    def _inline(self, number: int, bits: int) -> str:
        """Return a register or an inline constant of a byte-sized field."""
        if 128 <= number <= 192:
            return str(number - 128)
        if 193 <= number <= 208:
            return str(192 - number)
        return _FLOATS.get(number) or ("0.15915494" if number == _INV_2PI else self._register(number, bits))

    def _varied(self, text: str, source: str) -> str:
        """Apply the modifiers of a source of SDWA and DPP."""
        if self._get(f"{source}_sext"):
            return f"sext({text})"
        if self._get(f"{source}_abs"):
            text = f"|{text}|"
        return f"-{text}" if self._get(f"{source}_neg") else text

    def _variant_modifiers(self, *, second: bool) -> list[str]:
        if self._variant.startswith("SDWA"):
            return self._sdwa_modifiers(second=second)
        if not self._variant.startswith("DPP"):
            return []
        control = self._get("dpp")
        masks = [f"row_mask:{self._get('row_mask'):#x}", f"bank_mask:{self._get('bank_mask'):#x}"]
        return [_dpp_control(control), *masks, *(["bound_ctrl:0"] if self._get("bc") else [])]

    def _sdwa_modifiers(self, *, second: bool) -> list[str]:
        found = [*(["clamp"] if self._get("clmp") else []), *filter(None, [_OUTPUT.get(self._get("omod"))])]
        if self._layout != "VOPC":
            found += [f"dst_sel:{_SELECTIONS[self._get('dst_sel')]}", f"dst_unused:{_UNUSED[self._get('dst_unused')]}"]
        found.append(f"src0_sel:{_SELECTIONS[self._get('src0_sel')]}")
        return [*found, f"src1_sel:{_SELECTIONS[self._get('src1_sel')]}"] if second else found

    def _vop3(self) -> tuple[list[str], list[str]]:
        operands: list[str] = []
        destination = self._get("vdst")
        if self._base.startswith("v_readlane"):
            operands.append(self._register(destination - _VGPR if destination >= _VGPR else destination, 32))
        elif "vdst" in self._operands or self._variant == "SDST":
            operands.append(self._register(destination, self._bits("vdst", 64)))
        return self._with_sources(operands)

    def _vop3sd(self) -> tuple[list[str], list[str]]:
        operands = [self._register(self._get("vdst"), self._bits("vdst")), self._register(self._get("sdst"), 64)]
        return self._with_sources(operands)

    def _with_sources(self, operands: list[str]) -> tuple[list[str], list[str]]:
        sources = self._sources()
        for number, field in enumerate(sources):
            text = self._source(field)
            if self._get("abs") >> number & 1:
                text = f"|{text}|"
            operands.append(f"-{text}" if self._get("neg") >> number & 1 else text)
        modifiers = []
        if self._get("opsel"):
            bits = [self._get("opsel") >> number & 1 for number in range(len(sources))] + [self._get("opsel") >> 3]
            modifiers.append(f"op_sel:[{','.join(map(str, bits))}]")
        modifiers += ["clamp"] if self._get("clmp") else []
        return operands, [*modifiers, *filter(None, [_OUTPUT.get(self._get("omod"))])]

    def _vop3p(self) -> tuple[list[str], list[str]]:
        if self._variant == "MFMA":
            return self._matrix()
        accumulator = self._base.startswith("v_accvgpr_write")
        operands = [self._register(self._get("vdst"), self._bits("vdst"), accumulator=accumulator)]
        sources = self._sources()
        mixes = "_mix" in self._base
        for number, field in enumerate(sources):
            text = self._source(field, accumulator=self._base.startswith("v_accvgpr_read"))
            if mixes:
                text = f"|{text}|" if self._get("neg_hi") >> number & 1 else text
                text = f"-{text}" if self._get("neg") >> number & 1 else text
            operands.append(text)
        if self._base.startswith("v_accvgpr"):
            return operands, []
        high = self._get("opsel_hi") | self._get("opsel_hi2") << 2
        described = [("op_sel", self._get("opsel"), 0), ("op_sel_hi", high, 0 if mixes else -1)]
        if not mixes:
            described += [("neg_lo", self._get("neg"), 0), ("neg_hi", self._get("neg_hi"), 0)]
        modifiers = [_vector(name, value, default, len(sources)) for name, value, default in described]
        return operands, [*filter(None, modifiers), *(["clamp"] if self._get("clmp") else [])]

    def _matrix(self) -> tuple[list[str], list[str]]:
        sums = bool(self._get("acc_cd"))
        operands = [self._register(self._get("vdst"), self._bits("vdst"), accumulator=sums)]
        operands += [self._source(field, accumulator=bool(self._get("acc") >> n & 1)) for n, field in enumerate(("src0", "src1"))]
        sparse = "smfmac" in self._base
        operands.append(self._source("src2", accumulator=sums and not sparse))
        return operands, [f"{name}:{self._get(name)}" for name in ("cbsz", "abid", "blgp") if self._get(name)]

    # memory

    def _ds(self) -> tuple[list[str], list[str]]:
        accumulator = bool(self._get("acc"))
        operands = []
        for field in ("vdst", "addr", "data0", "data1"):
            if field in self._operands:
                text = self._register(self._get(field), self._bits(field), accumulator=accumulator and field != "addr")
                operands.append(text)
        first, second = self._get("offset0"), self._get("offset1")
        if re.search(r"(read|write|wrxchg)2(st64)?_", self._base):
            modifiers = [f"{name}:{value}" for name, value in (("offset0", first), ("offset1", second)) if value]
        elif self._base == "ds_swizzle_b32":
            modifiers = [f"offset:{_swizzle(first | second << 8)}"] if first | second else []
        else:
            modifiers = [f"offset:{first | second << 8}"] if first | second else []
        return operands, [*modifiers, *(["gds"] if self._get("gds") else [])]

    def _mubuf(self) -> tuple[list[str], list[str]]:
        if "srsrc" not in self._operands or self._base.startswith(("buffer_wb", "buffer_inv")):
            return [], self._cache_modifiers() if not self._base.startswith(("buffer_wbinvl1", "buffer_invl2")) else []
        operands = []
        loads_lds = bool(self._get("lds"))
        if "vdata" in self._operands and not loads_lds:
            operands.append(self._register(self._get("vdata"), self._bits("vdata"), accumulator=bool(self._get("acc"))))
        both, some = self._get("idxen") and self._get("offen"), self._get("idxen") or self._get("offen")
        operands.append(self._register(self._get("vaddr"), 64 if both else 32) if some else "off")
        operands += [self._register(self._get("srsrc"), 128), self._source("soffset")]
        modifiers = [name for name in ("idxen", "offen") if self._get(name)]
        modifiers += [f"offset:{self._get('offset')}"] if self._get("offset") else []
        caches = self._cache_modifiers()
        last = [name for name in caches if name == "scc"]  # after lds
        return operands, [*modifiers, *(c for c in caches if c not in last), *(["lds"] if loads_lds else []), *last]

    def _global(self) -> tuple[list[str], list[str]]:
        scalar = self._get("saddr") != _OFF
        return self._flat_operands(32 if scalar else 64, self._scalar_address()), self._flat_modifiers(13)

    def _scratch(self) -> tuple[list[str], list[str]]:
        return self._flat_operands(32, self._scalar_address()), self._flat_modifiers(13)

    def _flat(self) -> tuple[list[str], list[str]]:
        return self._flat_operands(64, []), self._flat_modifiers(0)

    def _scalar_address(self) -> list[str]:
        is_off = self._get("saddr") == _OFF
        return ["off" if is_off else self._register(self._get("saddr"), 32 if self._layout == "SCRATCH" else 64)]

    def _flat_operands(self, address_bits: int, scalar: list[str]) -> list[str]:
        accumulator = bool(self._get("acc"))
        operands = []
        returns = "atomic" not in self._base or self._get("sc0")
        if "vdst" in self._operands and returns:
            operands.append(self._register(self._get("vdst"), self._bits("vdst"), accumulator=accumulator))
        if self._layout == "SCRATCH" and scalar != ["off"]:
            operands.append("off")
        else:
            operands.append(self._register(self._get("addr"), address_bits))
        if "data" in self._operands:
            operands.append(self._register(self._get("data"), self._bits("data"), accumulator=accumulator))
        return operands + scalar

    def _flat_modifiers(self, signed_bits: int) -> list[str]:
        offset = self._get("offset")
        offset = _signed(offset, signed_bits) if signed_bits else offset
        return [*([f"offset:{offset}"] if offset else []), *self._cache_modifiers()]

    def _cache_modifiers(self) -> list[str]:
        return [self._decoder.cache_names.get(name, name) for name in ("sc0", "nt", "sc1") if self._get(name)]


def _range(letter: str, first: int, count: int) -> str:
    return f"{letter}{first}" if count == 1 else f"{letter}[{first}:{first + count - 1}]"


def _signed(value: int, bits: int) -> int:
    return value - (1 << bits) if value >> bits - 1 else value


def _literal(value: int, bits: int, *, floats: bool = True) -> str:
    value &= (1 << bits) - 1
    number = _signed(value, bits)
    if -16 <= number <= 64:
        return str(number)
    return (_FLOAT_BITS[bits].get(value) if floats else None) or f"{value:#x}"


def _vector(name: str, value: int, default: int, count: int) -> str | None:
    mask = (1 << count) - 1
    if value & mask == default & mask:
        return None
    return f"{name}:[{','.join(str(value >> number & 1) for number in range(count))}]"


def _dpp_control(control: int) -> str:
    if control < 0x100:
        return f"quad_perm:[{','.join(str(control >> 2 * lane & 3) for lane in range(4))}]"
    return _DPP_NAMES.get(control) or f"{_DPP_ROWS[control & 0x1F0]}:{control & 0xF}"


def _hardware_register(word: int) -> str:
    number, first, bits = word & 0x3F, word >> 6 & 0x1F, (word >> 11 & 0x1F) + 1
    name = f"HW_REG_{_REGISTER_NAMES[number]}" if number in _REGISTER_NAMES else str(number)
    return f"hwreg({name})" if (first, bits) == (0, 32) else f"hwreg({name}, {first}, {bits})"


def _message(value: int) -> str:
    names = {1: "MSG_INTERRUPT", 4: "MSG_SAVEWAVE", 9: "MSG_EARLY_PRIM_DEALLOC", 10: "MSG_GS_ALLOC_REQ"}
    return f"sendmsg({names[value]})" if value in names else str(value)


def _index_modes(value: int) -> str:
    return f"gpr_idx({','.join(name for bit, name in enumerate(_INDEX_MODES) if value >> bit & 1)})"


def _swizzle(offset: int) -> str:
    """Return the operand of DS_SWIZZLE: a permutation of four lanes, or masks of the lane number."""
    if offset >> 15:
        lanes = ",".join(str(offset >> 2 * lane & 3) for lane in range(4))
        return f"swizzle(QUAD_PERM,{lanes})" if offset >> 8 == 0x80 else str(offset)
    keep, fill, flip = offset & 0x1F, offset >> 5 & 0x1F, offset >> 10 & 0x1F
    if keep == 0x1F and not fill and flip and flip & (flip - 1) == 0:
        return f"swizzle(SWAP,{flip})"
    if keep == 0x1F and not fill and flip and flip & (flip + 1) == 0:
        return f"swizzle(REVERSE,{flip + 1})"
    group = 0x20 - keep
    if group and group & (group - 1) == 0 and keep == 0x20 - group and not flip and fill < group:
        return f"swizzle(BROADCAST,{group},{fill})"
    digits = "".join(_mask_digit(keep >> bit & 1, fill >> bit & 1, flip >> bit & 1) for bit in range(4, -1, -1))
    return f'swizzle(BITMASK_PERM,"{digits}")'


def _mask_digit(keep: int, fill: int, flip: int) -> str:
    zero, one = (0 & keep | fill) ^ flip, (1 & keep | fill) ^ flip
    if zero == one:
        return str(zero)
    return "p" if (zero, one) == (0, 1) else "i"
