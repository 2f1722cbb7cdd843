"""Headers that a HIP source includes and that are not installed.

A header of a host library (MPI, GoogleTest, rocBLAS, ...) gets an empty stand-in, so that the kernels of the source compile.
A header of a device library, of CUDA, of the user's own project, or of an unknown library is an error: kernels may depend on it.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import TYPE_CHECKING

from rocm_perf_lab.core.files import write_text

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

HOST_LIBRARIES: Mapping[str, tuple[str, ...]] = {
    "HIP's host API": ("hip/hiprtc.h", "hiprtc.h", "hip/hip_profile.h", "hip/hip_gl_interop.h", "hip/hip_hcc.h"),
    "MPI": ("mpi.h", "mpi-ext.h", "openmpi/mpi.h", "mpi/mpi.h"),
    "OpenMP": ("omp.h", "omp-tools.h", "ompt.h"),
    "rocBLAS": ("rocblas.h", "rocblas/*", "rocblas-*.h"),
    "hipBLAS": ("hipblas.h", "hipblas/*", "hipblaslt/*", "hipblas-common/*"),
    "rocSOLVER": ("rocsolver.h", "rocsolver/*", "hipsolver.h", "hipsolver/*"),
    "rocSPARSE": ("rocsparse.h", "rocsparse/*", "hipsparse.h", "hipsparse/*", "hipsparselt/*", "rocalution/*"),
    "rocFFT": ("rocfft.h", "rocfft/*", "hipfft.h", "hipfftXt.h", "hipfft/*"),
    "rocRAND": ("rocrand.h", "rocrand.hpp", "rocrand/rocrand.h", "rocrand/rocrand.hpp"),
    "hipRAND": ("hiprand.h", "hiprand.hpp", "hiprand/hiprand.h", "hiprand/hiprand.hpp"),
    "RCCL": ("rccl.h", "rccl/*", "nccl.h"),
    "MIOpen": ("miopen.h", "miopen/*", "migraphx/*"),
    "hipTensor": ("hiptensor.h", "hiptensor/*", "hiptensor.hpp"),
    "rocPRIM": ("rocprim/*", "rocprim.hpp"),
    "hipCUB": ("hipcub/*", "hipcub.hpp"),
    "rocThrust": ("thrust/*",),
    "ROCm profiling and management": (
        "roctx.h", "roctracer/*", "rocprofiler/*", "rocprofiler-sdk/*", "rocprofiler-sdk-roctx/*", "rocm_smi/*", "amd_smi/*",
        "hsa/*", "hsa.h", "rocm-core/*", "rocm_version.h",
    ),
    "GoogleTest": ("gtest/*", "gmock/*"),
    "a test library": ("catch2/*", "catch.hpp", "doctest.h", "doctest/*", "boost/ut.hpp"),
    "a benchmark library": ("benchmark/benchmark.h", "benchmark/export.h", "nanobench.h", "nvbench/*", "celero/*", "picobench*"),
    "a command line library": (
        "cxxopts.hpp", "CLI/*", "CLI11.hpp", "CLI11/*", "argparse.hpp", "argparse/*", "args.hxx", "docopt.h", "gflags/*",
        "popl.hpp", "clipp.h", "lyra/*", "argh.h", "cmdparser.hpp", "tclap/*", "structopt/*",
    ),
    "a formatting or logging library": (
        "fmt/*", "spdlog/*", "glog/*", "tabulate/*", "indicators/*", "termcolor/*", "rang.hpp", "magic_enum*", "absl/*",
        "folly/*", "easylogging++.h", "plog/*",
    ),
    "a JSON, YAML or XML library": (
        "nlohmann/*", "json.hpp", "json/json.h", "rapidjson/*", "simdjson.h", "yaml-cpp/*", "toml.hpp", "toml++/*", "tinyxml2.h",
        "pugixml.hpp", "cereal/*", "google/protobuf/*",
    ),
    "Boost": ("boost/*",),
    "Eigen": ("Eigen/*", "eigen3/*", "unsupported/Eigen/*"),
    "GLM": ("glm/*",),
    "PyTorch": ("torch/*", "ATen/*", "c10/*", "caffe2/*"),
    "Python": ("Python.h", "pybind11/*", "nanobind/*", "numpy/*"),
    "a numerical library": (
        "cblas.h", "lapacke.h", "lapack.h", "mkl.h", "mkl_*.h", "mkl/*", "openblas/*", "fftw3.h", "fftw3-mpi.h",
        "gsl/*", "armadillo", "metis.h", "parmetis.h", "petsc*.h", "suitesparse/*", "blis.h", "blis/*",
    ),
    "a threading or system library": (
        "tbb/*", "oneapi/tbb/*", "taskflow/*", "numa.h", "numaif.h", "hwloc.h", "hwloc/*", "papi.h", "likwid.h",
        "likwid-marker.h", "execinfo.h", "valgrind/*", "sys/sysctl.h", "sys/sysinfo.h", "infiniband/*", "ucx/*", "ucp/*", "uct/*",
        "jemalloc/*", "gperftools/*", "x86intrin.h", "liburing.h", "libaio.h",
    ),
    "a library for files": (
        "hdf5.h", "H5Cpp.h", "hdf5/*", "highfive/*", "netcdf*", "adios2*", "zlib.h", "lz4.h", "zstd.h", "bzlib.h", "snappy.h",
        "cnpy.h", "npy.hpp", "libnpy/*", "arrow/api.h", "arrow/io/api.h", "parquet/*", "sqlite3.h", "curl/*", "openssl/*",
    ),
    "a library for images or graphics": (
        "png.h", "png++/*", "jpeglib.h", "tiffio.h", "stb_image*.h", "stb/*", "lodepng.h", "opencv2/*", "opencv/*", "FreeImage.h",
        "CImg.h", "GL/*", "GLFW/*", "GLES*/*", "SDL.h", "SDL2/*", "X11/*", "vulkan/*", "SFML/*", "imgui*", "freeglut*",
    ),
}  # fmt: skip
"""Library -> patterns of its headers. An error in device code that uses one of them is reported."""

DEVICE_LIBRARIES: Mapping[str, tuple[str, ...]] = {
    "rocRAND's device functions": ("rocrand/rocrand_*", "rocrand_kernel.h"),
    "hipRAND's device functions": ("hiprand/hiprand_*", "hiprand_kernel.h"),
    "rocWMMA": ("rocwmma/*", "rocwmma.hpp"),
    "Composable Kernel": ("ck/*", "ck_tile/*"),
    "rocSHMEM": ("rocshmem/*", "rocshmem.hpp", "roc_shmem.hpp"),
    "libhipcxx": ("hip/std/*", "cuda/*", "nv/*"),
    "Kokkos or RAJA": ("Kokkos_*", "RAJA/*", "camp/*", "Cabana_*"),
}
"""Library -> patterns of headers that kernels are made of."""

_CUDA = ("cuda.h", "cuda_*", "cuda_runtime*", "cublas*", "curand*", "cufft*", "cusparse*", "cusolver*", "cudnn*", "cub/*",
         "cutlass/*", "cute/*", "nvrtc.h", "nvToolsExt.h", "nvtx3/*", "mma.h",
         "cooperative_groups.h", "cooperative_groups/*", "helper_cuda.h",
         "helper_functions.h", "device_launch_parameters.h", "cusolver*", "nvml.h")  # fmt: skip
_MISSING = re.compile(
    r"^(?P<file>\S[^\n]*?):(?P<line>\d+):\d+: (?:fatal )?error: '(?P<header>[^']+)' file not found\b", re.MULTILINE
)


@dataclass(frozen=True)
class MissingHeader:
    """A header that the compiler did not find: its name in the source, and file and line of the directive."""

    name: str
    file: str
    line: int


@dataclass(frozen=True)
class StandIn:
    """An empty header in a separate directory, so that no other header is found there."""

    name: str
    library: str
    directory: Path


def missing_header(log: str) -> MissingHeader | None:
    """Return the header that ended a compilation, if it was a missing one."""
    match = _MISSING.search(log)
    return MissingHeader(match["header"], match["file"], int(match["line"])) if match is not None else None


def host_library(name: str, host_headers: Sequence[str] = ()) -> str | None:
    """Return the host library of a header, or None if kernels may depend on the header.

    Args:
        name: Header that is not installed, as it is included: `mpi.h`, `rocblas/rocblas.h`.
        host_headers: Patterns of further headers that only host code uses, from the description of the kernel.
    """
    if ".." in Path(name).parts or Path(name).is_absolute():
        return None
    if _matches(name, host_headers):
        return "in host_headers"
    return library_of(name, HOST_LIBRARIES)


def hint_for(header: MissingHeader) -> str:
    """Return the hint for a compilation that ended at a missing header."""
    device_library = library_of(header.name, DEVICE_LIBRARIES)
    if device_library:
        return f"kernels use {device_library}: install ROCm, or add the directory that contains {header.name} to include_dirs"
    if _matches(header.name, _CUDA):
        return f"{header.name} is a header of CUDA: convert the source with hipify-perl"
    return (
        f"Add the directory of {header.name} to include_dirs; if only host code uses it, add {header.name} to host_headers "
        "and it is treated as empty."
    )


def make_stand_in(name: str, library: str, cache_dir: Path) -> StandIn:
    """Write the stand-in of a header below the cache directory."""
    directory = stand_in_directory(cache_dir) / hashlib.sha256(name.encode()).hexdigest()[:12]
    path = directory / name
    text = f"// {name} is not installed. This empty file is used instead: device code cannot use the library.\n"
    if not path.is_file() or path.read_text() != text:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_text(path, text)
    return StandIn(name, library, directory)


def stand_in_directory(cache_dir: Path) -> Path:
    """Return the directory of all stand-ins."""
    return cache_dir / "stand_ins"


def rules_identity() -> str:
    """Return a hash of the rules, for cache keys."""
    return hashlib.sha256(repr((HOST_LIBRARIES, DEVICE_LIBRARIES, _CUDA)).encode()).hexdigest()


def library_of(name: str, libraries: Mapping[str, tuple[str, ...]]) -> str | None:
    """Return the library whose patterns match a header, or None."""
    return next((library for library, patterns in libraries.items() if _matches(name, patterns)), None)


def _matches(name: str, patterns: Sequence[str]) -> bool:
    return any(fnmatch(name, pattern) for pattern in patterns)
