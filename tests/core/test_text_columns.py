"""Text in columns: East Asian characters occupy two, combining characters none."""

from __future__ import annotations

import textwrap

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from rocm_perf_lab.core.text_columns import columns_of, first_columns, last_columns, padded, wrapped_columns
from rocm_perf_lab.toolchain.kernel_names import short_name

WORDS = st.text(alphabet="ab核函é\u0301🧮 <>-", max_size=120)


def test_a_wide_character_takes_two_columns() -> None:
    assert columns_of("核函a") == 5
    assert first_columns("核函a", 3) == "核"
    assert last_columns("a核函", 3) == "函"
    assert padded("核", 4) == "核  "
    assert wrapped_columns("核核 函函 a", 5) == ["核核", "函函", "a"]
    assert wrapped_columns("核核核核核", 5) == ["核核", "核核", "核"]
    assert short_name("核函数行列計算", 10) == "核函..計算"


@given(text=WORDS, width=st.integers(2, 40))
def test_no_line_is_wider_and_no_character_is_lost(text: str, width: int) -> None:
    lines = wrapped_columns(text, width)

    assert all(cell_len(line) <= width for line in lines)
    assert "".join("".join(lines).split()) == "".join(text.split())


@given(text=st.text(alphabet="ab <>-", max_size=120), width=st.integers(2, 40))
def test_plain_text_is_wrapped_as_by_the_standard_library(text: str, width: int) -> None:
    assert wrapped_columns(text, width) == textwrap.wrap(text, width, break_on_hyphens=False)


@pytest.mark.parametrize("width", [8, 20, 34, 60])
def test_a_name_of_wide_characters_fits_its_columns(width: int) -> None:
    assert cell_len(short_name("行列" * 20 + "<型, 型型, 型型型型型型>", width)) <= width
