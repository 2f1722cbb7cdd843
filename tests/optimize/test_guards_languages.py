"""Checks of the text of candidates in Triton and assembly: file access and effects outside of the kernel are refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from rocm_perf_lab.core.resources import resource_dir
from rocm_perf_lab.optimize.guards_languages import text_problem

EXPERIMENTS = resource_dir("experiments")
TRITON = (EXPERIMENTS / "layernorm_triton" / "kernel.py").read_bytes()
ASSEMBLY = (EXPERIMENTS / "vector_add_assembly" / "vector_add.s").read_bytes()
ROW = b"    row = tl.program_id(0)\n"
LOAD = b"  s_load_dwordx4"


@pytest.mark.parametrize(
    ("added", "reason"),
    [
        (b"import os\n", "imports os"),
        (b"from pathlib import Path\n", "imports pathlib"),
        (b"from . import other\n", "imports ."),
        (b"TEXT = open('/etc/hostname').read()\n", "uses open"),
        (b"X = ().__class__\n", "uses __class__"),
        (b"exec('import o' + 's')\n", "uses exec"),
        (b"triton.knobs.x = 1\n", "assigns to a part"),
        (b"X = print('hello')\n", "calls print"),
        (b"while True: pass\n", "has while"),
        (b"def broken(:\n", "no Python source"),
        (b"@triton.jit\ndef f(x):\n    return tl.inline_asm_elementwise('', '', [x], tl.int32, True, 1)\n", "inline_asm"),
    ],
)
def test_effects_of_a_triton_source_are_refused(added: bytes, reason: str) -> None:
    problem = text_problem("triton", TRITON, TRITON + b"\n" + added)

    assert problem is not None
    assert reason in problem


@pytest.mark.parametrize(
    "added",
    [
        b"import math\nfrom triton.language import cdiv\n",
        b"WIDTH: tl.constexpr = tl.constexpr(64)\nHALF = 32 // 2\n",
        b"@triton.jit\ndef squared(x):\n    return x * x if x.dtype == tl.float32 else tl.maximum(x, 0)\n",
        b'"""A comment about open files."""\n',
    ],
)
def test_helpers_of_a_triton_source_pass(added: bytes) -> None:
    assert text_problem("triton", TRITON, TRITON + b"\n" + added) is None


@pytest.mark.parametrize(
    ("added", "reason"),
    [
        (b'.incbin "/etc/hostname"\n', ".incbin"),
        (b'x: .INCLUDE "/etc/hostname"\n', ".include"),
        (b'.macro read name\n  .\\name "/etc/hostname"\n.endm\nread incbin\n', "a macro"),
        (b'.macro read one two\n  \\one\\two "/etc/hostname"\n.endm\nread .inc bin\n', "a macro"),
        (b"#include </etc/hostname>\n", "#include </etc/hostname>"),
        (b"\xc2\xa0#include </etc/hostname>\n", "U+00A0"),
        (b'#define A(x, y) x##y\nA(.inc, bin) "/etc/hostname"\n', "#define A"),
        (b"  s_memtime s[4:5]\n", "executes s_memtime"),
        (b"  s_getreg_b32 s4, hwreg(HW_REG_HW_ID)\n", "executes s_getreg_b32"),
    ],
)
def test_effects_of_an_assembly_source_are_refused(added: bytes, reason: str) -> None:
    problem = text_problem("assembly", ASSEMBLY, ASSEMBLY.replace(LOAD, added + LOAD, 1))

    assert problem is not None
    assert reason in problem


@pytest.mark.parametrize(
    "added",
    [
        b"  v_mov_b32 v3, 0.5   ; don't wait\n",
        b"#define WIDTH 4\n#if WIDTH > 2\n  s_nop 0\n#endif\n",
        b".macro added to from\n  v_add_f32 \\to, \\to, \\from\n.endm\n  added v1, v2\n",
        b".set offset, 16\n.Lloop:\n  s_nop 0\n",
    ],
)
def test_usual_assembly_passes(added: bytes) -> None:
    assert text_problem("assembly", ASSEMBLY, ASSEMBLY.replace(LOAD, added + LOAD, 1)) is None


@pytest.mark.parametrize("name", ["layernorm_triton", "gemm_triton", "softmax_triton", "attention_triton", "vector_add_assembly"])
def test_a_source_is_compared_with_itself(name: str) -> None:
    source = next(path for path in (EXPERIMENTS / name).iterdir() if path.suffix in (".py", ".s"))

    assert (
        text_problem("triton" if Path(source).suffix == ".py" else "assembly", source.read_bytes(), source.read_bytes()) is None
    )
