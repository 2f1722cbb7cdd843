"""Instructions that architectures share have one encoding and one translation; the others are refused by name.

The oracles of `tests/emulator/opcodes` run on gfx942. Equal translations extend their results to the other architectures.
"""

from __future__ import annotations

import re
import subprocess
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from rocm_perf_lab.arch.registry import emulated_architectures, load_architecture
from rocm_perf_lab.core.errors import LabError
from rocm_perf_lab.emulator.coverage import UNSUPPORTED, opcodes
from rocm_perf_lab.emulator.errors import IllegalInstruction
from rocm_perf_lab.emulator.isa import instruction_set as instruction_sets
from rocm_perf_lab.emulator.isa.decode import decode_one
from rocm_perf_lab.emulator.isa.instruction_set import instruction_set
from rocm_perf_lab.emulator.program import decode_program
from rocm_perf_lab.emulator.translate.function import kernel_ir
from rocm_perf_lab.toolchain.compilers import find_compiler
from tests.builders.opcodes import assemble, assemble_end
from tests.emulator.architectures import test_cdna2, test_cdna4, test_matrix_model, test_narrow_conversions
from tests.emulator.opcodes import test_matrices
from tests.emulator.opcodes.test_completeness import TABLES

REFERENCE = "gfx942"
CDNA = [name for name in emulated_architectures() if not instruction_set(name).decoder.own_tables]
OTHERS = [name for name in CDNA if name != REFERENCE]
MEMORY = [
    *(f"global_load_{kind} v20, v[0:1], off offset:-8" for kind in ("ubyte", "sbyte_d16", "ushort", "short_d16_hi", "dword")),
    *(f"global_load_dwordx{n} v[20:{19 + n}], v2, s[2:3]" for n in (2, 3, 4)),
    *(f"global_store_dwordx{n} v[0:1], v[8:{7 + n}], off" for n in (2, 3, 4)),
    *(f"global_atomic_{op} v[0:1], v2, off" for op in ("add", "smin", "umax", "inc", "add_f32", "pk_add_f16", "swap")),
    *(f"global_atomic_{op} v[0:1], v[2:3], off" for op in ("add_f64", "min_f64", "add_x2", "cmpswap")),
    "flat_load_dwordx4 v[20:23], v[0:1]", "flat_store_short v[0:1], v2", "flat_atomic_add_f64 v[0:1], v[2:3]",
    "buffer_load_dwordx3 v[20:22], v2, s[4:7], s8 offen offset:40", "buffer_store_byte v2, v3, s[4:7], 0 idxen",
    "buffer_atomic_add v2, off, s[4:7], 0", "buffer_load_format_xyzw v[20:23], off, s[4:7], 0",
    "scratch_load_dword v20, v2, off offset:4", "scratch_store_dwordx2 off, v[2:3], s4",
    *(f"ds_{op} v0, v2" for op in ("add_u32", "min_f32", "add_f32", "or_b32", "write_b8", "write_b32")),
    "ds_read_b128 v[20:23], v0 offset:16", "ds_read2st64_b64 v[20:23], v0 offset1:3", "ds_bpermute_b32 v20, v0, v2",
    "ds_swizzle_b32 v20, v0 offset:0x801f", "ds_add_rtn_f64 v[20:21], v0, v[2:3]", "ds_append v20",
    "s_load_dwordx8 s[8:15], s[2:3], 0x40", "s_buffer_load_dword s8, s[4:7], 0x10", "s_memtime s[8:9]", "s_dcache_wb",
]  # fmt: skip
"""One instruction of each form; the runtime functions that they call do not depend on the architecture."""
OF_ARCHITECTURE = {
    "gfx950": r"v_cvt_((pk|sr)_)?(f32_)?[fb][pf]8|v_cvt_pk_f32_[fb][pf]8|v_mfma_\w+_[fb][pf]8|v_smfmac_",
    "gfx90a": r"v_dot2c?_f32_f16",
}
"""Instructions with other results: 8-bit floats of the Open Compute Project, sparse products that FP16_OVFL limits, products of
halves without denormals."""
OTHER_ENCODING = {"gfx90a": r"scratch_load_dword v20, v2"}
"""Scratch addresses in VGPRs, which have a bit of their own since gfx940."""
SUFFIX = re.compile(r"_(e32|e64|dpp|sdwa)$")
LABEL = re.compile(r"\b\d[fb]\b")


@cache
def texts() -> tuple[str, ...]:
    """Return single instructions of the tables, with operands, and the matrix and memory instructions."""
    lines = [line.strip() for table in TABLES for text in table.texts() for line in re.split(r"[\n;]", text)]
    lines += [test_matrices.dense_text(name) for name in test_matrices.DENSE]
    lines += [test_matrices.sparse_text(name) for name in test_matrices.SPARSE]
    return tuple(dict.fromkeys(line for line in (*lines, *MEMORY) if line and not LABEL.search(line)))


@cache
def rejected(architecture: str) -> frozenset[str]:
    """Return the texts that the assembler of LLVM refuses for an architecture."""
    compiler = find_compiler(("clang", "pip"))
    with TemporaryDirectory() as directory:
        source = Path(directory, "code.s")
        source.write_text("\n".join([".text", *texts(), ""]))
        flags = ("--target=amdgcn-amd-amdhsa", f"-mcpu={architecture}", "-c", "-o", f"{directory}/code.o", str(source))
        done = subprocess.run((*compiler.command, *flags), capture_output=True, text=True, check=False)
    lines = [int(line) for line in re.findall(r"code\.s:(\d+):\d+: error:", done.stderr)]
    return frozenset(texts()[line - 2] for line in lines)


def translation(code: bytes, architecture: str) -> str:
    return kernel_ir(decode_program("one", code + assemble_end(), 0, (0,), instruction_set(architecture)))


def codes(lines: list[str], architecture: str) -> list[bytes]:
    marker = "s_nop 0x123"
    separator = assemble([marker])
    return assemble([line for text in lines for line in (text, marker)], architecture).split(separator)[:-1]


@pytest.mark.parametrize("architecture", OTHERS)
def test_common_instructions_have_one_encoding_and_one_translation(architecture: str) -> None:
    common = [text for text in texts() if text not in rejected(architecture) | rejected(REFERENCE)]
    own, reference = codes(common, architecture), codes(common, REFERENCE)

    assert [text for text, *pair in zip(common, own, reference, strict=True) if pair[0] != pair[1]] == [
        text for text in common if re.match(OTHER_ENCODING.get(architecture, "never"), text)
    ]
    differs = [
        text
        for text, code, other in zip(common, own, reference, strict=True)
        if translation(code, architecture) != translation(other, REFERENCE)
    ]
    assert len(common) > 1000
    assert differs
    assert [text for text in differs if not re.match(OF_ARCHITECTURE[architecture], text)] == []
    expected = [text for text in common if re.match(OF_ARCHITECTURE[architecture], text)]
    assert set(differs) == set(expected)


@pytest.mark.parametrize("architecture", OTHERS)
def test_instructions_that_the_assembler_refuses_are_refused_by_name(architecture: str) -> None:
    refused = [text for text in texts() if text in rejected(architecture) and text not in rejected(REFERENCE)]
    isa = instruction_set(architecture)
    own = {one.mnemonic for one in isa.own_opcodes}
    executed = []
    for text, code in zip(refused, codes(refused, REFERENCE), strict=True):
        try:
            instruction = decode_one(code, 0, isa)
        except IllegalInstruction as error:
            name = SUFFIX.sub("", text.split()[0])
            assert error.what in (
                f"illegal instruction: {architecture} has no {name}",
                f"illegal instruction: not an encoding of {architecture}",
            )
            continue
        executed.append((text.split()[0], instruction.mnemonic))

    assert refused
    # gfx90a has these numbers too: for the same matrix instructions under older names, or for other instructions.
    assert all(name.upper() == mnemonic or mnemonic in own for name, mnemonic in executed)
    assert all(name.startswith(("v_mfma_", "v_smfmac_", "v_fmamk_", "v_fmaak_")) for name, _ in executed)


@pytest.mark.parametrize("architecture", CDNA)
def test_absent_instructions_are_not_in_the_coverage_table(architecture: str) -> None:
    parameters = load_architecture(architecture).emulator
    assert parameters is not None
    own = {one.mnemonic for one in parameters.own_opcodes}

    listed = {opcode.mnemonic for opcode in opcodes(architecture)}

    assert own <= listed
    assert [name for name in listed - own if re.fullmatch(parameters.absent, name)] == []
    assert len([o for o in opcodes(architecture) if o.how != UNSUPPORTED]) > 1500


@pytest.mark.parametrize("architecture", OTHERS)
def test_every_arithmetic_opcode_that_the_reference_lacks_is_in_a_table(architecture: str) -> None:
    own_tests = {"gfx90a": (test_cdna2,), "gfx950": (test_cdna4, test_narrow_conversions, test_matrix_model)}[architecture]
    texts = [text for tests in own_tests for text in tests.texts()]
    code, isa = assemble(texts, architecture), instruction_set(architecture)
    tested, address = set(), 0
    while address < len(code):
        instruction = decode_one(code[address : address + 20], address, isa)
        tested.add(instruction.mnemonic)
        address += instruction.size

    lacks = {o.mnemonic for o in opcodes(architecture) if o.how != UNSUPPORTED} - {o.mnemonic for o in opcodes(REFERENCE)}

    # Global wave sync needs several workgroups: tests/runtime/test_hip_programs.py.
    assert lacks
    assert sorted(lacks - tested - {"DS_GWS_INIT", "DS_GWS_BARRIER"}) == []


def test_an_architecture_without_parameters_is_refused_with_the_list_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    described = load_architecture("gfx1030").model_copy(update={"emulator": None})
    monkeypatch.setattr(instruction_sets, "load_architecture", lambda _: described)

    with pytest.raises(LabError, match="does not execute gfx1030") as raised:
        instruction_set("gfx1030")

    assert "gfx90a, gfx942, gfx950" in str(raised.value.hint)
