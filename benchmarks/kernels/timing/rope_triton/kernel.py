"""Rotary position embedding of pairs of neighbouring values, in place: BLOCK_M tokens of one head per program."""

import triton
import triton.language as tl


@triton.jit
def rope(x_ptr, cos_ptr, sin_ptr, tokens, HEADS: tl.constexpr, PAIRS: tl.constexpr, BLOCK_M: tl.constexpr):  # noqa: N803
    token = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)[:, None]
    pair = tl.arange(0, PAIRS)[None, :]
    inside = token < tokens
    even = x_ptr + (token * HEADS + tl.program_id(1)) * (2 * PAIRS) + 2 * pair
    cos = tl.load(cos_ptr + token * PAIRS + pair, mask=inside, other=0.0)
    sin = tl.load(sin_ptr + token * PAIRS + pair, mask=inside, other=0.0)
    real = tl.load(even, mask=inside, other=0.0).to(tl.float32)
    imaginary = tl.load(even + 1, mask=inside, other=0.0).to(tl.float32)
    tl.store(even, (real * cos - imaginary * sin).to(x_ptr.dtype.element_ty), mask=inside)
    tl.store(even + 1, (real * sin + imaginary * cos).to(x_ptr.dtype.element_ty), mask=inside)
