"""Heaviest chains in a graph whose nodes have at most two predecessors: the recurrences of the critical path.

Each entry depends on earlier ones, so that the loops cannot be vectorised. Large graphs are walked by code that llvmlite
compiles, in a twentieth of the time; small ones, and all if llvmlite is not installed, by plain loops with equal results.
"""

from __future__ import annotations

import ctypes
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Integers = NDArray[np.int64]
    Reals = NDArray[np.float64]

_NATIVE_FROM = 100_000
"""Minimum number of entries for which compilation (0.1 s) is worthwhile."""
_AT_ONCE = 1 << 16
_IR = """
define void @heaviest_to(i64 %n, ptr %first, ptr %second, ptr %weight, ptr %out) {
start:
  %some = icmp sgt i64 %n, 0
  br i1 %some, label %loop, label %done
loop:
  %i = phi i64 [ 0, %start ], [ %next, %loop ]
  %next = add nsw i64 %i, 1
  %at_first = getelementptr i64, ptr %first, i64 %i
  %at_second = getelementptr i64, ptr %second, i64 %i
  %one = load i64, ptr %at_first
  %two = load i64, ptr %at_second
  %at_one = getelementptr double, ptr %out, i64 %one
  %at_two = getelementptr double, ptr %out, i64 %two
  %a = load double, ptr %at_one
  %b = load double, ptr %at_two
  %is_larger = fcmp ogt double %a, %b
  %before = select i1 %is_larger, double %a, double %b
  %at_weight = getelementptr double, ptr %weight, i64 %i
  %own = load double, ptr %at_weight
  %here = fadd double %before, %own
  %target = getelementptr double, ptr %out, i64 %next
  store double %here, ptr %target
  %more = icmp slt i64 %next, %n
  br i1 %more, label %loop, label %done
done:
  ret void
}

define void @heaviest_from(i64 %n, ptr %first, ptr %second, ptr %weight, ptr %out) {
start:
  %some = icmp sgt i64 %n, 0
  br i1 %some, label %loop, label %done
loop:
  %entry = phi i64 [ %n, %start ], [ %i, %loop ]
  %i = add nsw i64 %entry, -1
  %at_weight = getelementptr double, ptr %weight, i64 %i
  %own = load double, ptr %at_weight
  %source = getelementptr double, ptr %out, i64 %entry
  %after = load double, ptr %source
  %here = fadd double %after, %own
  store double %here, ptr %source
  %at_first = getelementptr i64, ptr %first, i64 %i
  %one = load i64, ptr %at_first
  %at_one = getelementptr double, ptr %out, i64 %one
  %a = load double, ptr %at_one
  %raises_a = fcmp olt double %a, %here
  %new_a = select i1 %raises_a, double %here, double %a
  store double %new_a, ptr %at_one
  %at_second = getelementptr i64, ptr %second, i64 %i
  %two = load i64, ptr %at_second
  %at_two = getelementptr double, ptr %out, i64 %two
  %b = load double, ptr %at_two
  %raises_b = fcmp olt double %b, %here
  %new_b = select i1 %raises_b, double %here, double %b
  store double %new_b, ptr %at_two
  %more = icmp sgt i64 %i, 0
  br i1 %more, label %loop, label %done
done:
  ret void
}
"""


def heaviest_to(weight: Reals, first: Integers, second: Integers) -> Reals:
    """Return the weight of the heaviest chain that ends with each entry, including the entry; shape (n + 1,).

    Args:
        weight: Weight of each entry, shape (n,), not negative.
        first: One predecessor of each entry: entries count from 1, and 0 stands for none.
        second: The other predecessor.
    """
    native = _native("heaviest_to", len(weight))
    if native is not None:
        return _called(native, weight, first, second)
    longest = [0.0]
    append = longest.append
    for at in range(0, len(weight), _AT_ONCE):
        columns = (column[at : at + _AT_ONCE].tolist() for column in (first, second, weight))
        for earlier, other, own in zip(*columns, strict=True):
            one, two = longest[earlier], longest[other]
            append((one if one > two else two) + own)
    return np.array(longest)


def heaviest_from(weight: Reals, first: Integers, second: Integers) -> Reals:
    """Return the weight of the heaviest chain that starts with each entry, including the entry; arguments as above."""
    native = _native("heaviest_from", len(weight))
    if native is not None:
        return _called(native, weight, first, second)
    tail = [0.0] * (len(weight) + 1)
    for end in range(len(weight), 0, -_AT_ONCE):
        chosen = slice(max(end - _AT_ONCE, 0), end)
        columns = (column[chosen][::-1].tolist() for column in (first, second, weight))
        for entry, earlier, other, own in zip(range(end, chosen.start, -1), *columns, strict=True):
            tail[entry] = here = tail[entry] + own
            if tail[earlier] < here:
                tail[earlier] = here
            if tail[other] < here:
                tail[other] = here
    return np.array(tail)


def _called(native: Any, weight: Reals, first: Integers, second: Integers) -> Reals:
    out = np.zeros(len(weight) + 1)
    arrays = (np.ascontiguousarray(first), np.ascontiguousarray(second), np.ascontiguousarray(weight, np.float64), out)
    native(len(weight), *(array.ctypes.data for array in arrays))
    return out


def _native(name: str, entries: int) -> Any:
    """Return a compiled function, or None if compilation is not worthwhile or fails."""
    return _functions().get(name) if entries >= _NATIVE_FROM else None


@cache
def _functions() -> dict[str, Any]:
    try:
        import llvmlite.binding as llvm
    except ImportError:
        return {}
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    machine = llvm.Target.from_default_triple().create_target_machine(opt=2, jit=True)
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(_IR), machine)
    engine.finalize_object()
    kind = ctypes.CFUNCTYPE(None, ctypes.c_int64, *[ctypes.c_void_p] * 4)
    found: dict[str, Any] = {}
    for name in ("heaviest_to", "heaviest_from"):
        found[name] = kind(engine.get_function_address(name))
        found[name].engine = engine  # The engine owns the code.
    return found
