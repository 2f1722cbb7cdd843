"""Names of the pseudo-code's types: `.f32` behind a value, `32'F` before a cast or a declaration."""

from __future__ import annotations

import re

from rocm_perf_lab.emulator.pcode.values import UnsupportedSemantics

_SUFFIX = re.compile(r"(bf|fp|[uifb])(\d+)$")
_CAST = re.compile(r"(\d+)'(BF|[IUFB])$")
_KINDS = {"u": "u", "i": "i", "f": "f", "b": "u", "bf": "bf", "fp": "u"}
"""Kinds of :class:`~rocm_perf_lab.emulator.pcode.values.Value` by letter."""


def suffix_type(name: str) -> tuple[str, int]:
    """Kind and bits of `f32`.

    Raises:
        UnsupportedSemantics: No such type.
    """
    match = _SUFFIX.match(name)
    if match is None:
        raise UnsupportedSemantics(f"type {name}")
    return _KINDS[match[1]], int(match[2])


def cast_type(name: str) -> tuple[str, int]:
    """Kind and bits of `32'F`.

    Raises:
        UnsupportedSemantics: No such type.
    """
    match = _CAST.match(name)
    if match is None:
        raise UnsupportedSemantics(f"cast to {name}")
    return _KINDS[match[2].lower()], int(match[1])
