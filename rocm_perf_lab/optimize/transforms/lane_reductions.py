"""Code that reduces a value over a group of 8 to 1024 work-items; all of them receive the result.

Values of 4 bytes are combined by data-parallel primitives within 16 lanes. Wavefronts use shuffles, larger groups LDS.
"""

from __future__ import annotations

COMBINED = {
    "sum": "value += {other};",
    "max": "value = __builtin_elementwise_max(value, {other});",
    "min": "value = __builtin_elementwise_min(value, {other});",
    "or": "value |= {other};",
    "and": "value &= {other};",
    "xor": "value ^= {other};",
}
"""Statement that combines `value` with another value, by operation."""
WAVE = 64
_DPP = {2: "0xB1", 4: "0x4E", 8: "0x141", 16: "0x140"}
"""DPP controls that exchange halves of 2, 4, 8 and 16 lanes: permutations in quads, mirrored 8 lanes, mirrored 16 lanes."""


def group_function(operation: str, lanes: int, *, name: str | None = None) -> str:
    """Return a device function template, named `rpl_group_OPERATION` by default.

    Args:
        operation: Key of :data:`COMBINED`.
        lanes: Work-items of a group, a power of two; groups of more than a wavefront are whole workgroups, in one dimension.
        name: Name of the function.
    """
    step = COMBINED[operation]
    wave = min(lanes, WAVE)
    near = [width for width in _DPP if width <= wave]
    lines = [
        "template <typename T>",
        f"__device__ inline T {name or f'rpl_group_{operation}'}(T value) {{",
        "  if constexpr (sizeof(T) == 4) {",
        *(
            f"    {{ const T other = __builtin_bit_cast(T, __builtin_amdgcn_mov_dpp("
            f"__builtin_bit_cast(int, value), {_DPP[width]}, 0xf, 0xf, true)); {step.format(other='other')} }}"
            for width in near
        ),
        "  } else {",
        f"    for (int step = 1; step < {near[-1]}; step <<= 1) {{",
        f"      const T other = __shfl_xor(value, step); {step.format(other='other')}",
        "    }",
        "  }",
        f"  for (int step = {near[-1]}; step < {wave}; step <<= 1) {{",
        f"    const T other = __shfl_xor(value, step); {step.format(other='other')}",
        "  }",
    ]
    if lanes > WAVE:
        lines += [
            f"  __shared__ T of_wave[{lanes // WAVE}];",
            "  __syncthreads();",
            f"  if (threadIdx.x % {WAVE} == 0) of_wave[threadIdx.x / {WAVE}] = value;",
            "  __syncthreads();",
            "  value = of_wave[0];",
            f"  for (int wave = 1; wave < {lanes // WAVE}; ++wave) {{ {step.format(other='of_wave[wave]')} }}",
        ]
    return "\n".join([*lines, "  return value;", "}", "", ""])


def split_function(operation: str, splits: int, items: int) -> str:
    """Return a device function template `rpl_split_OPERATION` that combines values of work-items with one `threadIdx.x`.

    Args:
        operation: Key of :data:`COMBINED`.
        splits: Size of a workgroup along y.
        items: Size of a workgroup along x.
    """
    combine = COMBINED[operation].format(other="of_split[split][threadIdx.x]")
    return "\n".join(
        [
            "template <typename T>",
            f"__device__ inline T rpl_split_{operation}(T value) {{",
            f"  __shared__ T of_split[{splits}][{items}];",
            "  __syncthreads();",
            "  of_split[threadIdx.y][threadIdx.x] = value;",
            "  __syncthreads();",
            "  value = of_split[0][threadIdx.x];",
            f"  for (int split = 1; split < {splits}; ++split) {{ {combine} }}",
            "  return value;",
            "}",
            "",
            "",
        ]
    )
