"""Demangling of C++ symbol names."""

from __future__ import annotations


def demangle(symbol: str) -> str:
    """Return `vecCopy(double*, double*)` for `_Z7vecCopyPdS_`; a symbol that is not mangled is returned unchanged."""
    if not symbol.startswith("_Z"):
        return symbol
    import pycxxfilt

    try:
        return str(pycxxfilt.itanium_demangle(symbol))
    except ValueError:
        return symbol


def base_name(demangled: str) -> str:
    """Return `ns::gemm` for `void ns::gemm<16, true>(float*)`: without return type, template arguments and parameters."""
    visible = _outside_brackets(demangled.replace("(anonymous namespace)", "{anonymous}"))
    head = visible.partition("(")[0].strip()
    return head.rpartition(" ")[2].replace("{anonymous}", "(anonymous namespace)")


def without_parameters(demangled: str) -> str:
    """Return `ns::gemm<16, true>` for `void ns::gemm<16, true>(float*)`: without return type and parameters."""
    depth = 0
    start = 0
    for position, character in enumerate(demangled):
        if character == "<":
            depth += 1
        elif character == ">":
            depth -= 1
        elif depth == 0 and character == " " and not demangled.startswith("namespace)", position + 1):
            start = position + 1
        elif depth == 0 and character == "(" and not demangled.startswith("(anonymous namespace)", position):
            return demangled[start:position]
    return demangled[start:]


def _outside_brackets(text: str) -> str:
    depth = 0
    kept = []
    for character in text:
        if character == "<":
            depth += 1
        elif character == ">":
            depth -= 1
        elif depth == 0:
            kept.append(character)
    return "".join(kept)
