"""Names of kernels in a column: what is dropped first, and names that stay different."""

from __future__ import annotations

import pytest

from rocm_perf_lab.toolchain.kernel_names import short_name, short_names

FILL = (
    "void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float>, std::array<char*, 1ul> >"
    "(int, at::native::FillFunctor<float>, std::array<char*, 1ul>)"
)
TILES = "Cijk_Ailk_Bljk_BBS_BH_Bias_HA_S_SAV_UserArgs_MT{}x32x256_MI16x16x1_SN_LDSB1_AFC0_WS64_WG32_8_1"


@pytest.mark.parametrize(
    ("name", "width", "expected"),
    [
        ("vecCopy(double*, double*, double*, int, int) [clone .kd]", 20, "vecCopy"),
        ("_Z7vecCopyPdS_S_ii.kd", 20, "vecCopy"),
        ("attn_fwd.kd", 20, "attn_fwd"),
        ("void (anonymous namespace)::scan<float>(float*)", 40, "(anonymous namespace)::scan<float>"),
        ("void (anonymous namespace)::scan<float>(float*)", 20, "scan<float>"),
        (FILL, 38, "vectorized_elementwise_kernel<4, F.. >"),
        (FILL, 80, "vectorized_elementwise_kernel<4, FillFunctor<float>, array<char*, 1ul> >"),
        ("a" * 100, 10, "aaaaa..aaa"),
        ("", 10, ""),
    ],
)
def test_parameters_then_namespaces_then_the_middle_are_dropped(name: str, width: int, expected: str) -> None:
    assert short_name(name, width) == expected


@pytest.mark.parametrize("width", [12, 20, 34, 60])
def test_no_name_is_longer_than_its_column(width: int) -> None:
    names = [FILL, TILES.format(64), TILES.format(128), "operator()", "f<g<h<int> > >", "x::y::z<1>", "<", "(", "void f", "..."]

    assert all(len(text) <= width for text in (*short_names(names, width), *(short_name(name, width) for name in names)))


def test_different_kernels_have_different_short_names() -> None:
    names = [TILES.format(size) for size in (16, 64, 128)]

    found = short_names(names, 34)

    assert len(set(found)) == 3
    assert all(f"MT{size}" in text for size, text in zip((16, 64, 128), found, strict=True))
    assert short_names([TILES.format(16)] * 2, 34)[0] == short_names([TILES.format(16)], 34)[0]
