"""Kernels in the HIP C++ of hiprtc, the runtime compiler: sources without includes and without host code."""

from __future__ import annotations

from rocm_perf_lab.languages.hip import HipLanguage


class HiprtcLanguage(HipLanguage):
    """HIP C++ as hiprtc compiles it: the declarations of HIP are built in, `__HIPCC_RTC__` is defined."""

    name = "hiprtc"
    fields = frozenset({"block", "work_items", "cooperative", "variables", "defines", "flags"})
    compiler_language = "hiprtc"
