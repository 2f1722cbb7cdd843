"""Headers that a rewrite may include: those of HIP, of C and C++, and of ROCm's device libraries."""

from __future__ import annotations

import re

_CPP_NAMES = (
    "algorithm any array atomic barrier bit bitset cassert cctype cerrno cfenv cfloat charconv chrono cinttypes climits cmath "
    "compare complex concepts coroutine cstdarg cstddef cstdint cstdio cstdlib cstring ctime cuchar deque exception expected "
    "functional initializer_list iterator limits map memory mdspan new numbers numeric optional ranges ratio set span stdexcept "
    "string string_view tuple type_traits typeindex typeinfo unordered_map utility variant vector version"
)
_C_NAMES = "assert complex errno fenv float inttypes limits math stdalign stdbool stddef stdint stdio stdlib string"
_HIP = re.compile(r"hip/(?:hip_[a-z0-9_]+|device_functions|math_functions|[a-z]+_types|library_types)\.h|hip/hiprtc\.h")
_DETAIL = re.compile(r"hip/amd_detail/amd_hip_(?:fp16|bfloat16|bf16|fp8|complex|cooperative_groups|vector_types|\w+_atomics)\.h")
_LIBRARIES = re.compile(r"(?:rocwmma|rocprim|hipcub)/[a-z0-9_]+(?:/[a-z0-9_]+)*\.(?:h|hpp)")


def is_standard_header(name: str) -> bool:
    """Return whether the operand of `#include`, without brackets or quotes, is a standard header."""
    if name in _CPP_NAMES.split() or (name.endswith(".h") and name[:-2] in _C_NAMES.split()):
        return True
    return any(pattern.fullmatch(name) for pattern in (_HIP, _DETAIL, _LIBRARIES))
