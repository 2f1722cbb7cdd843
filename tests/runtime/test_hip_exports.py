"""Exported names of the HIP runtime: those of AMD's library with their versions, and which of them are missing."""

import re
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from rocm_perf_lab.runtime.hip_build import HIP_SOURCES, build_hip_runtime
from rocm_perf_lab.runtime.hip_exports import export_map, missing_list, versions_of
from rocm_perf_lab.toolchain.elf_file import parse_elf

LISTING = """
00000000003bd640 g    DF .text  00000000000008a9  hip_4.2     hipMalloc
00000000003bd650 g    DF .text  00000000000008a9 (hip_4.2)    hipFree
00000000003bd660 g    DF .text  00000000000008a9  hip_6.0     hipGetDevicePropertiesR0600
00000000003bd670 g    DF .text  00000000000008a9  hip_4.2     amd_dbgapi_get_build_id
0000000000000000 g    DO *ABS*  0000000000000000  hip_4.2     hip_4.2
0000000000000000      DF *UND*  0000000000000000  GLIBC_2.2.5 free
"""
SHT_DYNSYM, STB_GLOBAL = 11, 1
SYMBOL = struct.Struct("<IBBHQQ")
FACTS = Path(__file__).parent / "programs" / "used_functions.txt"


def test_versions_come_from_the_listing() -> None:
    versions = versions_of(LISTING)
    assert versions == {"hip_4.2": ["hipFree", "hipMalloc"], "hip_6.0": ["hipGetDevicePropertiesR0600"]}
    script = export_map(versions)
    assert script.index("hip_4.2 {") < script.index("hip_6.0 {") < script.index("hip_7.0 {")
    assert "} hip_4.2;" in script
    assert re.findall("^MISSING.*", missing_list(versions), re.MULTILINE) == [
        "MISSING(hipFree)",
        "MISSING(hipGetDevicePropertiesR0600)",
        "MISSING(hipMalloc)",
    ]


@pytest.mark.slow
def test_functions_that_programs_use_are_implemented() -> None:
    bindings = _exported_bindings((build_hip_runtime() / "libamdhip64.so.6").read_bytes())
    declared = set(re.findall(r"MISSING\((\w+)\)", (HIP_SOURCES / "missing.inc").read_text()))
    assert declared <= set(bindings)
    implemented = {name for name in declared if bindings[name] == STB_GLOBAL}
    assert "hipGLGetDevices" not in implemented
    assert set(FACTS.read_text().split()) <= implemented
    assert len(implemented) >= 120


def _exported_bindings(library: bytes) -> dict[str, int]:
    """Return the binding of each defined dynamic symbol; those of missing functions are weak."""
    elf = parse_elf(library)
    table = next(section for section in elf.sections if section.kind == SHT_DYNSYM)
    names = elf.content(elf.sections[table.link])
    entries = SYMBOL.iter_unpack(elf.content(table))
    return {names[name : names.index(b"\0", name)].decode(): info >> 4 for name, info, _, section, *_ in entries if section}


@pytest.mark.slow
def test_a_missing_function_says_so_once() -> None:
    code = (
        "import ctypes, sys\n"
        "library = ctypes.CDLL(sys.argv[1])\n"
        "print([library.hipGLGetDevices() for _ in range(2)], library.hipPeekAtLastError())\n"
    )
    library = build_hip_runtime() / "libamdhip64.so.6"
    process = subprocess.run([sys.executable, "-c", code, str(library)], capture_output=True, text=True, check=True)
    assert process.stdout == "[801, 801] 801\n"
    assert process.stderr == (
        "rocm-perf-lab HIP: hipGLGetDevices is not part of rocm-perf-lab's HIP runtime; "
        "use an installed ROCm: rocm-perf run --runtime rocm ...\n"
    )


@pytest.mark.slow
def test_ranges_of_roctx_nest_under_the_linkers_name_of_its_library() -> None:
    code = (
        "import ctypes, sys\n"
        "library = ctypes.CDLL(sys.argv[1])\n"
        "library.roctxMarkA(b'begin')\n"
        "pushed = [library.roctxRangePushA(b'outer'), library.roctxRangePushA(b'inner')]\n"
        "print(pushed, [library.roctxRangePop() for _ in range(3)])\n"
    )
    library = build_hip_runtime() / "libroctx64.so"
    process = subprocess.run([sys.executable, "-c", code, str(library)], capture_output=True, text=True, check=True)
    assert process.stdout == "[0, 1] [1, 0, -1]\n"
