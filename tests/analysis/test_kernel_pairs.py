"""Which kernel of one run is which of another."""

from __future__ import annotations

from rocm_perf_lab.analysis.comparison import Names, Pair, pair_kernels


def named(*names: str) -> list[Names]:
    return [Names(f"_Z{name}", name) for name in names]


def test_the_symbol_comes_before_the_name() -> None:
    base = [Names("a", "f()"), Names("b", "f()")]

    assert pair_kernels(base, base[::-1]) == (Pair(1, 0, "symbol"), Pair(0, 1, "symbol"))


def test_kernels_of_one_name_are_paired_in_order() -> None:
    base, new = [Names("a", "f()"), Names("b", "f()")], [Names("c", "f()"), Names("d", "f()"), Names("e", "f()")]

    assert pair_kernels(base, new) == (Pair(0, 0, "name"), Pair(1, 1, "name"), Pair(None, 2))


def test_other_template_arguments_are_the_same_kernel_where_nothing_else_can_be() -> None:
    base = named("void ns::gemm<float, 64>(float*)", "void sum<int>(int*)")
    new = named("void sum<int>(int*)", "void ns::gemm<float, 128>(float*)")

    assert pair_kernels(base, new) == (Pair(1, 0, "symbol"), Pair(0, 1, "template"))


def test_of_several_instances_nobody_can_tell_which_is_which() -> None:
    base, new = named("void gemm<1>()", "void gemm<2>()"), named("void gemm<3>()")

    assert pair_kernels(base, new) == (Pair(None, 0), Pair(0, None), Pair(1, None))


def test_a_namespace_is_part_of_the_name() -> None:
    assert pair_kernels(named("a::gemm<1>()"), named("b::gemm<1>()")) == (Pair(None, 0), Pair(0, None))
