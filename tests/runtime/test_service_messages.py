"""Mirrors of the structures of `driver/service.h` against the compiled ones."""

import ctypes
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import rocm_perf_lab.runtime
from rocm_perf_lab.core.resources import zig_environment
from rocm_perf_lab.runtime import dispatch_records, hip_code, hip_compilation, messages
from rocm_perf_lab.runtime.messages import Hello, MessageError, MessageKind, parse, parse_ranges, parse_words, texts

HEADER = Path(rocm_perf_lab.runtime.__file__).parent / "driver" / "service.h"
MIRRORS = {
    "rpl_message": messages.MessageHeader,
    "rpl_hello": messages.Hello,
    "rpl_kernel_query": messages.KernelQuery,
    "rpl_kernel_answer": messages.KernelAnswer,
    "rpl_hot_blocks": messages.HotBlocks,
    "rpl_fault_report": messages.FaultReport,
    "rpl_dispatch_record": dispatch_records.DispatchHeader,
    "rpl_duration": dispatch_records.DurationAnswer,
    "rpl_entry": dispatch_records.EntryHeader,
    "rpl_process_entry": dispatch_records.ProcessHeader,
    "rpl_counts_entry": dispatch_records.CountsHeader,
    "rpl_dispatch_entry": dispatch_records.DispatchEntry,
    "rpl_copy_entry": dispatch_records.CopyEntry,
    "rpl_hip_code_query": hip_code.HipCodeQuery,
    "rpl_hip_code": hip_code.HipCodeAnswer,
    "rpl_hip_kernel": hip_code.HipKernel,
    "rpl_hip_argument": hip_code.HipArgument,
    "rpl_hip_compile": hip_compilation.HipCompile,
    "rpl_hip_compiled": hip_compilation.HipCompiled,
}


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Return the output of a C program that prints sizes, offsets and kinds."""
    lines = []
    for name, mirror in MIRRORS.items():
        lines.append(f'printf("{name} %zu\\n", sizeof(struct {name}));')
        for field, *_ in mirror._fields_:
            lines.append(f'printf("{name}.{field} %zu\\n", offsetof(struct {name}, {field}));')
    lines += [f'printf("{kind.name} %d\\n", RPL_{kind.name});' for kind in MessageKind]
    lines.append('printf("PROTOCOL %d\\n", RPL_PROTOCOL);')
    directory = tmp_path_factory.mktemp("layout")
    source = directory / "layout.c"
    body = "\n".join(lines)
    source.write_text(f'#include <stdio.h>\n#include <stddef.h>\n#include "{HEADER}"\nint main(void) {{ {body} return 0; }}')
    program = directory / "layout"
    subprocess.run([sys.executable, "-m", "ziglang", "cc", str(source), "-o", str(program)], check=True, env=zig_environment())
    return subprocess.run([program], capture_output=True, text=True, check=True).stdout.splitlines()


def test_mirrors_have_the_compiled_layout(compiled: list[str]) -> None:
    expected = []
    for name, mirror in MIRRORS.items():
        expected.append(f"{name} {ctypes.sizeof(mirror)}")
        expected += [f"{name}.{field} {getattr(mirror, field).offset}" for field, *_ in mirror._fields_]
    expected += [f"{kind.name} {int(kind)}" for kind in MessageKind]
    expected.append(f"PROTOCOL {messages.PROTOCOL}")

    assert compiled == expected


@given(st.binary(max_size=40))
def test_messages_of_any_content_are_read_or_refused(content: bytes) -> None:
    if len(content) < 8:
        with pytest.raises(MessageError, match="too short"):
            parse(Hello, content)
    else:
        hello, rest = parse(Hello, content)
        assert bytes(hello) + rest == content
    assert len(parse_ranges(content)) == len(content) // 16


def test_too_few_counts_are_refused() -> None:
    assert parse_words((7).to_bytes(8, "little") + bytes(4), 1) == (7,)
    with pytest.raises(MessageError, match="15 bytes of counts instead of 16"):
        parse_words(bytes(15), 2)


def test_texts_end_with_zero_and_contain_none() -> None:
    assert texts("a\0b", "ü") == b"ab\0\xc3\xbc\0"
