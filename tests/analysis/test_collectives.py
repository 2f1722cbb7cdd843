"""Names of collectives in recordings of RCCL, MSCCL and frameworks, and names that only look alike."""

from __future__ import annotations

import pytest

from rocm_perf_lab.analysis.collectives import is_communication


@pytest.mark.parametrize(
    "name",
    [
        "ncclDevKernel_Generic_1(ncclDevKernelArgsStorage<4096ul>)",
        "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
        "ncclKernel_AllReduce_RING_LL_Sum_float(ncclDevComm*, unsigned long, ncclWork*)",
        "_Z24ncclDevKernel_Generic_1124ncclDevKernelArgsStorageILm4096EE",
        "mscclKernel_Sum_half_LL(ncclDevComm*, mscclAlgo*, mscclWork*)",
        "rccl_main_kernel",
        "void vllm::cross_device_reduce_1stage<__hip_bfloat16, 8>(vllm::RankData*)",
        "void (anonymous namespace)::oneShotAllReduceKernel<float>(float*)",
        "two_shot_all_reduce_kernel",
        "void aiter::reduce_scatter_cross_device_store<__half, 8>(int)",
        "all_gather_into_tensor_kernel",
        "moe_all2all_dispatch",
    ],
)
def test_a_collective_is_recognised(name: str) -> None:
    assert is_communication(name)


@pytest.mark.parametrize(
    "name",
    [
        "void at::native::reduce_kernel<128, 4, at::native::ReduceOp<float>>(at::native::ReduceOp<float>)",
        "void at::native::(anonymous namespace)::CatArrayBatchedCopy_contig<float>(float*)",
        "Cijk_Ailk_Bljk_BBS_BH_Bias_HA_S_SAV_UserArgs_MT64x32x256",
        "__amd_rocclr_copyBuffer",
        "void index_gather_kernel(ncclComm*)",
        "small_reduce_kernel",
        "_scatter_reduce_all",
    ],
)
def test_other_kernels_are_not_collectives(name: str) -> None:
    assert not is_communication(name)
