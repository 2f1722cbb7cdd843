"""Attention with an online softmax: one block of queries per program, scores never leave the registers."""

import triton
import triton.language as tl


@triton.jit
def attention(
    q_ptr, k_ptr, v_ptr, out_ptr, length, scale,
    HEAD: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, CAUSAL: tl.constexpr,
):  # fmt: skip
    block_m, head = tl.program_id(0), tl.program_id(1)
    base = head.to(tl.int64) * length * HEAD
    rows = block_m * BLOCK_M + tl.arange(0, BLOCK_M)
    columns = tl.arange(0, BLOCK_N)
    inner = tl.arange(0, HEAD)

    q = tl.load(q_ptr + base + rows[:, None] * HEAD + inner[None, :], mask=rows[:, None] < length, other=0.0)
    scale_log2 = scale * 1.4426950408889634
    largest = tl.full((BLOCK_M,), -float("inf"), dtype=tl.float32)
    total = tl.zeros((BLOCK_M,), dtype=tl.float32)
    accumulator = tl.zeros((BLOCK_M, HEAD), dtype=tl.float32)
    end = min((block_m + 1) * BLOCK_M, length) if CAUSAL else length
    for start in range(0, end, BLOCK_N):
        keys = start + columns
        k = tl.load(k_ptr + base + keys[None, :] * HEAD + inner[:, None], mask=keys[None, :] < length, other=0.0)
        scores = tl.dot(q, k) * scale_log2
        visible = keys[None, :] < length
        if CAUSAL:
            visible = visible & (rows[:, None] >= keys[None, :])
        scores = tl.where(visible, scores, -1.0e30)
        new_largest = tl.maximum(largest, tl.max(scores, axis=1))
        weights = tl.exp2(scores - new_largest[:, None])
        shrink = tl.exp2(largest - new_largest)
        total = total * shrink + tl.sum(weights, axis=1)
        v = tl.load(v_ptr + base + keys[:, None] * HEAD + inner[None, :], mask=keys[:, None] < length, other=0.0)
        accumulator = tl.dot(weights.to(v.dtype), v, accumulator * shrink[:, None])
        largest = new_largest
    result = accumulator / total[:, None]
    tl.store(
        out_ptr + base + rows[:, None] * HEAD + inner[None, :],
        result.to(out_ptr.dtype.element_ty),
        mask=rows[:, None] < length,
    )
