"""ROCm releases that Debian packages, and the directory tree of each: package names, suites and pins of apt."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rocm_perf_lab.core.errors import LabError
from rocm_perf_lab.runtime.rocm_root import ROOT_VARIABLE, rocm_root_dir

if TYPE_CHECKING:
    from pathlib import Path

DEFAULT_SUITE = "sid"
_SYSTEM = ("base-files", "base-passwd", "libc-bin", "bash", "dash", "coreutils", "findutils", "grep", "sed", "mawk", "perl")
_COMPILERS = ("g++", "libc6-dev", "hipcc", "libamdhip64-dev", "libhsa-runtime-dev")
_TOOLS = ("rocm-smi", "amd-smi")
_OPENCL = ("clinfo", "rocm-opencl-icd", "ocl-icd-libopencl1", "ocl-icd-opencl-dev", "python3-pyopencl", "python3-pytest")
_LIBRARIES = ("librocprim-dev", "libhipcub-dev", "librocthrust-dev", "libhipfft-dev", "librocfft-dev", "python3", "python3-numpy")
_APPLICATIONS = ("hashcat", "hashcat-data")


@dataclass(frozen=True)
class DebianRelease:
    """ROCm packages of a Debian suite."""

    suite: str
    """Suite or code name."""
    hip: str
    """Package of the HIP runtime."""
    others: tuple[str, ...] = ()
    """Packages in addition to the compilers, the HIP runtime and rocminfo."""
    base_suite: str = ""
    """Suite with the remaining packages, if `suite` is incomplete."""
    pinned: tuple[str, ...] = ()
    """Names of packages, with wildcards, that are installed from `suite` even if `base_suite` contains them."""

    @property
    def packages(self) -> tuple[str, ...]:
        """Return the packages of a tree; dependencies are added by apt."""
        return (*_SYSTEM, *_COMPILERS, self.hip, "rocminfo", *self.others)

    @property
    def root(self) -> Path:
        """Return the directory of the tree; it may not exist."""
        default = rocm_root_dir()
        is_named = self.suite == DEFAULT_SUITE or ROOT_VARIABLE in os.environ
        return default if is_named else default.with_name(f"{default.name}-{self.suite}")

    def sources(self, mirror: str) -> str:
        """Return apt's list of sources."""
        suites = [suite for suite in (self.suite, self.base_suite) if suite]
        return "".join(f"deb {mirror} {suite} main\n" for suite in suites)

    def preferences(self) -> str:
        """Return apt's preferences; empty if the suite is complete."""
        if not self.pinned:
            return ""
        return f"Package: {' '.join(self.pinned)}\nPin: release a={self.suite}\nPin-Priority: 990\n"


RELEASES = {
    release.suite: release
    for release in (
        DebianRelease("bookworm", "libamdhip64-5"),  # ROCm 5.2.3
        DebianRelease("trixie", "libamdhip64-5"),  # ROCr 6.1.2, HIP 5.7.1
        DebianRelease("sid", "libamdhip64-6", (*_TOOLS, *_OPENCL, *_LIBRARIES, *_APPLICATIONS)),  # 6.4.3
        DebianRelease(
            "experimental",  # 7.2.4
            "libamdhip64-7",
            base_suite="sid",
            pinned=("*hip*", "*hsa*", "*rocm*", "*amd-comgr*"),
        ),
    )
}


def release_of(suite: str) -> DebianRelease:
    """Return the release of a suite.

    Raises:
        LabError: The packages of the suite are not known.
    """
    if suite not in RELEASES:
        raise LabError(f"suite {suite} is not known", hint=f"choose one of: {', '.join(RELEASES)}")
    return RELEASES[suite]
