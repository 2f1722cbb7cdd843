"""Matrix multiplication: f16 inputs, f32 accumulation, one block of C per program."""

import triton
import triton.language as tl


@triton.jit
def gemm(
    a_ptr, b_ptr, c_ptr, m, n, k,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP_M: tl.constexpr,
):  # fmt: skip
    # Programs that run at the same time share blocks of B: GROUP_M rows of blocks at once.
    pid = tl.program_id(0)
    blocks_m, blocks_n = tl.cdiv(m, BLOCK_M), tl.cdiv(n, BLOCK_N)
    first_m = pid // (GROUP_M * blocks_n) * GROUP_M
    rows_of_group = min(blocks_m - first_m, GROUP_M)
    block_m = first_m + pid % (GROUP_M * blocks_n) % rows_of_group
    block_n = pid % (GROUP_M * blocks_n) // rows_of_group

    rows = (block_m * BLOCK_M + tl.arange(0, BLOCK_M)) % m
    columns = (block_n * BLOCK_N + tl.arange(0, BLOCK_N)) % n
    inner = tl.arange(0, BLOCK_K)
    a_block = a_ptr + rows[:, None] * k + inner[None, :]
    b_block = b_ptr + inner[:, None] * n + columns[None, :]

    accumulator = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for start in range(0, k, BLOCK_K):
        a = tl.load(a_block, mask=inner[None, :] < k - start, other=0.0)
        b = tl.load(b_block, mask=inner[:, None] < k - start, other=0.0)
        accumulator = tl.dot(a, b, accumulator)
        a_block += BLOCK_K
        b_block += BLOCK_K * n

    out_rows = block_m * BLOCK_M + tl.arange(0, BLOCK_M)
    out_columns = block_n * BLOCK_N + tl.arange(0, BLOCK_N)
    mask = (out_rows[:, None] < m) & (out_columns[None, :] < n)
    tl.store(c_ptr + out_rows[:, None] * n + out_columns[None, :], accumulator.to(c_ptr.dtype.element_ty), mask=mask)
