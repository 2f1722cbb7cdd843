"""Layer normalisation of rows: mean and variance in f32, then scale and shift."""

import triton
import triton.language as tl


@triton.jit
def layernorm(x_ptr, weight_ptr, bias_ptr, y_ptr, mean_ptr, rstd_ptr, cols, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    x_ptr += row * cols
    y_ptr += row * cols

    total = tl.zeros((BLOCK,), dtype=tl.float32)
    for start in range(0, cols, BLOCK):
        offsets = start + tl.arange(0, BLOCK)
        total += tl.load(x_ptr + offsets, mask=offsets < cols, other=0.0).to(tl.float32)
    mean = tl.sum(total, axis=0) / cols

    squares = tl.zeros((BLOCK,), dtype=tl.float32)
    for start in range(0, cols, BLOCK):
        offsets = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + offsets, mask=offsets < cols, other=0.0).to(tl.float32)
        difference = tl.where(offsets < cols, x - mean, 0.0)
        squares += difference * difference
    rstd = 1 / tl.sqrt(tl.sum(squares, axis=0) / cols + eps)
    tl.store(mean_ptr + row, mean)
    tl.store(rstd_ptr + row, rstd)

    for start in range(0, cols, BLOCK):
        offsets = start + tl.arange(0, BLOCK)
        mask = offsets < cols
        x = tl.load(x_ptr + offsets, mask=mask, other=0.0).to(tl.float32)
        weight = tl.load(weight_ptr + offsets, mask=mask)
        bias = tl.load(bias_ptr + offsets, mask=mask)
        tl.store(y_ptr + offsets, ((x - mean) * rstd * weight + bias).to(y_ptr.dtype.element_ty), mask=mask)
