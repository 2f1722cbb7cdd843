"""ROCm-like directory tree for build systems: `hipcc`, `hipconfig` and `clang++` of rocm-perf-lab, headers, CMake packages.

CMake finds the packages `hip` and `hip-lang` and the compiler for its language HIP there; makefiles use
`$(ROCM_PATH)/bin/hipcc`.
"""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from rocm_perf_lab.core.files import replace_link, write_text
from rocm_perf_lab.core.own_command import own_command
from rocm_perf_lab.core.resources import cache_dir
from rocm_perf_lab.jobs.run.launch import hip_library
from rocm_perf_lab.target.catalog import DEFAULT_TARGET, load_target
from rocm_perf_lab.toolchain.compilers import MARK_OF_LAB, find_compiler
from rocm_perf_lab.toolchain.hip_version import hip_version

if TYPE_CHECKING:
    from pathlib import Path

_COMPILERS = ("clang", "clang++", "amdclang", "amdclang++")
_HIPCONFIG = """
case "$1" in
  -p|--path|-R|--rocmpath) printf '%s' {root} ;;
  -l|--hipclangpath) printf '%s' {root}/llvm/bin ;;
  -v|--version|'') printf '%s' {version} ;;
  -P|--platform) printf amd ;;
  -c|--compiler) printf clang ;;
  -r|--runtime) printf rocclr ;;
  -C|--cpp_config) printf '%s' "-D__HIP_PLATFORM_AMD__= -I"{root}/include ;;
  *) echo "hipconfig of rocm-perf-lab has no option $1" >&2; exit 1 ;;
esac
"""
_HIP_PACKAGE = """
get_filename_component(_prefix "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)
set(HIP_VERSION @version@)
set(HIP_PLATFORM amd)
set(HIP_COMPILER clang)
set(HIP_RUNTIME rocclr)
set(HIP_FOUND TRUE)
set(hip_INCLUDE_DIR "${_prefix}/include")
set(hip_INCLUDE_DIRS "${_prefix}/include")
set(HIP_INCLUDE_DIRS "${_prefix}/include")
set(hip_LIB_INSTALL_DIR "${_prefix}/lib")
set(hip_BIN_INSTALL_DIR "${_prefix}/bin")
set(HIP_HIPCC_EXECUTABLE "${_prefix}/bin/hipcc")
set(HIP_HIPCONFIG_EXECUTABLE "${_prefix}/bin/hipconfig")
foreach(_name AMDGPU_TARGETS GPU_TARGETS)
  if(NOT DEFINED ${_name})
    set(${_name} @architecture@ CACHE STRING "Architectures of device code")
  endif()
endforeach()
if(NOT TARGET hip::amdhip64)
  add_library(hip::amdhip64 SHARED IMPORTED)
  set_target_properties(hip::amdhip64 PROPERTIES
    IMPORTED_LOCATION "${_prefix}/lib/libamdhip64.so"
    IMPORTED_NO_SONAME TRUE
    INTERFACE_COMPILE_DEFINITIONS "__HIP_PLATFORM_AMD__=1"
    INTERFACE_SYSTEM_INCLUDE_DIRECTORIES "${_prefix}/include")
  add_library(hip::host INTERFACE IMPORTED)
  set_target_properties(hip::host PROPERTIES INTERFACE_LINK_LIBRARIES hip::amdhip64)
  add_library(hip::device INTERFACE IMPORTED)
  set_target_properties(hip::device PROPERTIES INTERFACE_LINK_LIBRARIES hip::host)
  foreach(_architecture ${GPU_TARGETS})
    set_property(TARGET hip::device APPEND PROPERTY
      INTERFACE_COMPILE_OPTIONS "$<$<COMPILE_LANGUAGE:CXX>:--offload-arch=${_architecture}>")
  endforeach()
endif()
# Macros: a language is enabled in the scope of the directory, whose compiler for C++ may be any.
set(HIP_ROOT_DIR "${_prefix}")
macro(_hip_sources)
  cmake_parse_arguments(_hip "" "" "HIPCC_OPTIONS;HCC_OPTIONS;CLANG_OPTIONS;NVCC_OPTIONS" ${ARGN})
  if(NOT CMAKE_HIP_COMPILER)
    set(CMAKE_HIP_COMPILER "${HIP_ROOT_DIR}/llvm/bin/clang++")
    set(CMAKE_HIP_COMPILER_ROCM_ROOT "${HIP_ROOT_DIR}")
  endif()
  enable_language(HIP)
  set(_hip_files ${_hip_UNPARSED_ARGUMENTS})
  list(FILTER _hip_files EXCLUDE REGEX "^(EXCLUDE_FROM_ALL|SHARED|STATIC|MODULE)$")
  set_source_files_properties(${_hip_files} PROPERTIES LANGUAGE HIP)
endmacro()
macro(hip_add_executable _hip_name)
  _hip_sources(${ARGN})
  add_executable(${_hip_name} ${_hip_UNPARSED_ARGUMENTS})
  target_compile_options(${_hip_name} PRIVATE ${_hip_HIPCC_OPTIONS} ${_hip_CLANG_OPTIONS})
endmacro()
macro(hip_add_library _hip_name)
  _hip_sources(${ARGN})
  add_library(${_hip_name} ${_hip_UNPARSED_ARGUMENTS})
  target_compile_options(${_hip_name} PRIVATE ${_hip_HIPCC_OPTIONS} ${_hip_CLANG_OPTIONS})
endmacro()
"""
_LANGUAGE_PACKAGE = """
get_filename_component(_prefix "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)
if(NOT TARGET hip-lang::amdhip64)
  add_library(hip-lang::amdhip64 SHARED IMPORTED)
  set_target_properties(hip-lang::amdhip64 PROPERTIES
    IMPORTED_LOCATION "${_prefix}/lib/libamdhip64.so"
    IMPORTED_NO_SONAME TRUE
    INTERFACE_COMPILE_DEFINITIONS "__HIP_PLATFORM_AMD__=1")
  add_library(hip-lang::device INTERFACE IMPORTED)
  set_target_properties(hip-lang::device PROPERTIES INTERFACE_LINK_LIBRARIES hip-lang::amdhip64)
endif()
set(_CMAKE_HIP_DEVICE_RUNTIME_TARGET "hip-lang::device")
"""
_VERSION_PACKAGE = """
set(PACKAGE_VERSION @version@)
if(NOT PACKAGE_FIND_VERSION VERSION_GREATER PACKAGE_VERSION)
  set(PACKAGE_VERSION_COMPATIBLE TRUE)
  if(PACKAGE_FIND_VERSION VERSION_EQUAL PACKAGE_VERSION)
    set(PACKAGE_VERSION_EXACT TRUE)
  endif()
endif()
"""


def make_hip_tree() -> Path:
    """Return the tree; missing or different files are written.

    Raises:
        LabError: The compiler is not installed, or the HIP runtime cannot be built.
    """
    compiler = find_compiler(("pip",))
    version = hip_version(compiler)
    root = cache_dir() / "hip-tree"
    for path, text in _files(root, version).items():
        _write(root / path, text, executable=text.startswith("#!"))
    library = hip_library("lab", None)
    for name in ("libamdhip64.so", "libhiprtc.so"):
        replace_link(root / "lib" / name, library.with_name(name))
    if compiler.bundled_rocm is not None:
        replace_link(root / "include", compiler.bundled_rocm.include_dir)
    return root


def _files(root: Path, version: str) -> dict[str, str]:
    hipcc = shlex.join(own_command("hipcc"))
    quoted = shlex.quote(str(root))
    architecture = load_target(DEFAULT_TARGET).architecture
    numbers = "".join(
        f"HIP_VERSION_{name}={number}\n" for name, number in zip(("MAJOR", "MINOR", "PATCH"), version.split("."), strict=True)
    )

    def package(text: str) -> str:
        return text.lstrip().replace("@version@", version).replace("@architecture@", architecture)

    return {
        MARK_OF_LAB: "This directory was written by rocm-perf hipcc --print-root.\n",
        "bin/hipcc": f'#!/bin/sh\nexec {hipcc} "$@"\n',
        "bin/hipconfig": "#!/bin/sh" + _HIPCONFIG.format(root=quoted, version=version),
        "bin/rocm_agent_enumerator": f"#!/bin/sh\necho {architecture}\n",
        **{f"llvm/bin/{name}": f'#!/bin/sh\nexec {hipcc} --rocm-path={quoted} "$@"\n' for name in _COMPILERS},
        "share/hip/version": numbers,
        "lib/cmake/hip/hip-config.cmake": package(_HIP_PACKAGE),
        "lib/cmake/hip/hip-config-version.cmake": package(_VERSION_PACKAGE),
        "lib/cmake/hip-lang/hip-lang-config.cmake": package(_LANGUAGE_PACKAGE),
        "lib/cmake/hip-lang/hip-lang-config-version.cmake": package(_VERSION_PACKAGE),
    }


def _write(path: Path, text: str, *, executable: bool) -> None:
    # Unchanged files keep their modification time, which build systems compare.
    if not path.is_file() or path.read_text(encoding="utf-8") != text:
        write_text(path, text)
    if executable:
        path.chmod(0o755)
