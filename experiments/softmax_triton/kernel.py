"""Row softmax: one program per row, which is held in registers."""

import triton
import triton.language as tl


@triton.jit
def softmax(input_ptr, output_ptr, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    offsets = tl.arange(0, BLOCK)
    mask = offsets < cols
    x = tl.load(input_ptr + row * cols + offsets, mask=mask, other=-float("inf"))
    numerator = tl.exp(x - tl.max(x, axis=0))
    tl.store(output_ptr + row * cols + offsets, numerator / tl.sum(numerator, axis=0), mask=mask)
