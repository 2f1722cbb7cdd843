"""Complete code objects from assembly."""

from __future__ import annotations

import subprocess
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from rocm_perf_lab.toolchain.compilers import find_compiler

DESCRIPTOR = """
.rodata
.p2align 6
.amdhsa_kernel {name}
  .amdhsa_next_free_vgpr 32
  .amdhsa_next_free_sgpr 64
  .amdhsa_accum_offset 32
  .amdhsa_user_sgpr_kernarg_segment_ptr 1
  .amdhsa_group_segment_fixed_size {lds}
  .amdhsa_kernarg_size 64
.end_amdhsa_kernel
"""
METADATA = """
.amdgpu_metadata
---
amdhsa.version: [1, {minor}]
{target}amdhsa.kernels:
{kernels}...
.end_amdgpu_metadata
"""
_KERNEL_METADATA = """  - .name: {name}
    .symbol: {name}.kd
    .kernarg_segment_size: 64
    .kernarg_segment_align: 8
    .group_segment_fixed_size: {lds}
    .private_segment_fixed_size: 0
    .wavefront_size: 64
    .sgpr_count: 64
    .vgpr_count: 32
    .max_flat_workgroup_size: 256
    .args:
      - {{.name: out, .size: 8, .offset: 0, .value_kind: global_buffer, .address_space: global}}
"""
_OS_ABI, _ELFOSABI_AMDGPU_HSA = 7, 64


def kernel_text(name: str, body: str, *, lds: int = 0) -> str:
    """Return one kernel with its descriptor; s[0:1] is the kernarg segment, s2 the workgroup, v0 the work-item."""
    code = f".text\n.p2align 8\n.globl {name}\n.type {name},@function\n{name}:\n{body}\n.size {name}, .-{name}\n"
    return code + DESCRIPTOR.format(name=name, lds=lds)


def metadata_text(*names: str, version: int = 5, target: str = "gfx942", lds: int = 0) -> str:
    """Return the metadata of kernels with one buffer argument."""
    kernels = "".join(_KERNEL_METADATA.format(name=name, lds=lds) for name in names)
    line = f"amdhsa.target: amdgcn-amd-amdhsa--{target}\n" if version > 3 else ""
    return METADATA.format(minor=version - 3, target=line, kernels=kernels)


@cache
def assemble_code_object(text: str, *, version: int = 5, cpu: str = "gfx942", link: bool = True) -> bytes:
    """Return the linked code object with a version in its ELF header."""
    compiler = find_compiler(("pip",))
    assert compiler.linker is not None
    with TemporaryDirectory() as directory:
        source, relocatable, target = (Path(directory, name) for name in ("code.s", "code.o", "code.hsaco"))
        flags: tuple[str, ...]
        if version == 2:  # the compiler only assembles it without an operating system
            flags = ("--target=amdgcn--", f"-mcpu={cpu}")
            source.write_text(f"{text}\n")
        else:
            flags = ("--target=amdgcn-amd-amdhsa", f"-mcpu={cpu}", f"-mcode-object-version={version}")
            source.write_text(f".amdhsa_code_object_version {version}\n{text}\n")
        _run(*compiler.command, *flags, "-c", "-o", str(relocatable), str(source))
        if not link:
            return relocatable.read_bytes()
        _run(*compiler.linker, "-shared", "--no-undefined", "-o", str(target), str(relocatable))
        data = bytearray(target.read_bytes())
        if version == 2:
            data[_OS_ABI] = _ELFOSABI_AMDGPU_HSA
        return bytes(data)


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[:3000]
