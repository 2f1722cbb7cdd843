"""Pairing of the kernels of two runs."""

from __future__ import annotations

from rocm_perf_lab.analysis.kernel_pairs import KernelNames, KernelPair, pair_kernels


def named(*names: str) -> list[KernelNames]:
    return [KernelNames(f"_Z{name}", name) for name in names]


def test_the_symbol_takes_precedence_over_the_name() -> None:
    base = [KernelNames("a", "f()"), KernelNames("b", "f()")]

    assert pair_kernels(base, base[::-1]) == (KernelPair(1, 0, "symbol"), KernelPair(0, 1, "symbol"))


def test_kernels_of_one_name_are_paired_in_order() -> None:
    base, new = (
        [KernelNames("a", "f()"), KernelNames("b", "f()")],
        [KernelNames("c", "f()"), KernelNames("d", "f()"), KernelNames("e", "f()")],
    )

    assert pair_kernels(base, new) == (KernelPair(0, 0, "name"), KernelPair(1, 1, "name"), KernelPair(None, 2))


def test_a_single_candidate_with_other_template_arguments_matches() -> None:
    base = named("void ns::gemm<float, 64>(float*)", "void sum<int>(int*)")
    new = named("void sum<int>(int*)", "void ns::gemm<float, 128>(float*)")

    assert pair_kernels(base, new) == (KernelPair(1, 0, "symbol"), KernelPair(0, 1, "template"))


def test_several_template_instances_are_ambiguous() -> None:
    base, new = named("void gemm<1>()", "void gemm<2>()"), named("void gemm<3>()")

    assert pair_kernels(base, new) == (KernelPair(None, 0), KernelPair(0, None), KernelPair(1, None))


def test_a_namespace_is_part_of_the_name() -> None:
    assert pair_kernels(named("a::gemm<1>()"), named("b::gemm<1>()")) == (KernelPair(None, 0), KernelPair(0, None))


def test_launches_of_one_kernel_are_paired_by_shape_then_unknown_then_in_order() -> None:
    base = [KernelNames("a", "f()", shape) for shape in ("1 of 64", "2 of 64", None, "3 of 64")]
    new = [KernelNames("a", "f()", shape) for shape in ("9 of 64", "3 of 64", "8 of 64", "1 of 64", "7 of 64")]

    # 9 is paired with the unknown shape, 8 with the rest; 7 is left over.
    assert pair_kernels(base, new) == (
        KernelPair(2, 0, "symbol"),
        KernelPair(3, 1, "symbol"),
        KernelPair(1, 2, "symbol"),
        KernelPair(0, 3, "symbol"),
        KernelPair(None, 4),
    )
