"""Calls whose results depend only on their arguments: `impure_call(unit, part)`."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from rocm_perf_lab.optimize.syntax_nodes import called_name, text_of, walk

if TYPE_CHECKING:
    from tree_sitter import Node

    from rocm_perf_lab.optimize.source_tree import SourceUnit

_STATE = frozenset({"threadIdx", "blockIdx", "blockDim", "gridDim", "static", "__shared__", "asm", "->"})
_PURE = re.compile(
    r"""f?(?:max|min)f?|f?absf?|(?:__)?(?:r?sqrt|exp|exp2|exp10|expm1|log|log2|log10|log1p|pow|sin|cos|tan|tanh|sinh|cosh|erf|erfc|floor|ceil|
    round|rint|nearbyint|trunc|fma|fmod|cbrt|copysign|ldexp|atan|atan2|asin|acos|hypot|rcp)f?|isnan|isinf|isfinite|__f\w+_r[nzud]|
    __\w+2\w+|__(?:float|int|uint)_as_\w+|__float22\w+|make_\w+|__popcll?|__clzl*|__ffsl*|__brev|float|int|double|unsigned|
    __builtin_f\w+|static_cast|__h(?:add|mul|sub|fma)|__ldg|__saturatef|__fdividef|__expf|__logf|__ocml_\w+""",
    re.VERBOSE,
)
_EXCHANGE = re.compile(r"__shfl(?:_xor|_up|_down)?|__builtin_amdgcn_(?:mov_dpp|update_dpp|ds_bpermute)|__builtin_bit_cast")


def impure_call(unit: SourceUnit, part: Node, *, depth: int = 4, collective: bool = False) -> str | None:
    """Return the name of a called function whose result may depend on more than its arguments, or None.

    Args:
        unit: Source.
        part: Node with the calls.
        depth: Maximum nesting of functions.
        collective: Whether functions may exchange values within a wavefront.
    """
    for node in walk(part):
        if node.type in ("asm_statement", "gnu_asm_expression", "lambda_expression", "ERROR", "goto_statement"):
            return "unsupported code"
        if node.type != "call_expression":
            continue
        name = called_name(node)
        if _is_pure(name, collective):
            continue
        own = [f for f in unit.reachable(node) if f != node and f.type == "function_definition"]
        if not own or depth == 0 or any(_has_memory(f, collective) for f in own):
            return name
    return None


def is_pure_call(name: str) -> bool:
    """Return whether the result of a function is known to depend only on its arguments."""
    return _PURE.fullmatch(name) is not None


def _is_pure(name: str, collective: bool) -> bool:
    return is_pure_call(name) or (collective and _EXCHANGE.fullmatch(name) is not None)


def _has_memory(function: Node, collective: bool) -> bool:
    """Return whether a function has pointers, references, static variables or work-item builtins, or calls unknown functions."""
    kinds = {
        "pointer_declarator",
        "reference_declarator",
        "pointer_expression",
        "subscript_expression",
        "abstract_reference_declarator",
    }
    for node in walk(function):
        if node.type in kinds or text_of(node) in _STATE:
            return True
        if node.type == "call_expression" and not _is_pure(called_name(node), collective):
            return True
    return False
