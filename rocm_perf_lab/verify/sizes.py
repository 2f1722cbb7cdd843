"""Sizes of a kernel: which params are sizes, their supported values, and numbers in the source that may limit them."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from rocm_perf_lab.core.expressions import ExpressionError, evaluate_integer
from rocm_perf_lab.languages.arguments import BufferArgument, ScalarArgument, StructArgument

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from rocm_perf_lab.languages.arguments import Argument, Expression
    from rocm_perf_lab.languages.description import KernelDescription

Params = dict[str, int | float | str]
_SMALLEST_CONSTANT = 3
_LARGEST_CONSTANT = 1 << 24
_COMMENTS = re.compile(r"//[^\n]*|/\*.*?\*/|\"(?:\\.|[^\"\\\n])*\"|^[ \t]*#[ \t]*include[^\n]*", re.DOTALL | re.MULTILINE)
_SHIFTS = re.compile(r"\b1[uUlL]*\s*<<\s*(\d{1,2})\b")
_INTEGERS = re.compile(r"(?<![\w.])(0[xX][0-9a-fA-F]+|\d+)[uUlL]*(?![\w.])")


@dataclass(frozen=True)
class SizeRule:
    """Supported values of one size: multiples of `unit` from `least` to `most`, and optionally 0."""

    unit: int = 1
    least: int = 1
    most: int | None = None
    zero: bool = True

    def nearest(self, value: int, period: int = 1) -> int:
        """Return the supported value nearest to `value`; it differs by multiples of `period` units, to keep a residue."""
        value = -(-value // self.unit) * self.unit
        step = self.unit * period
        if self.most is not None and value > self.most:
            value -= -(-(value - self.most) // step) * step
        if value < self.least:
            value += -(-(self.least - value) // step) * step
        if self.most is not None and value > self.most:
            value = self.most // self.unit * self.unit
        return value


@dataclass(frozen=True)
class Sizes:
    """Sizes of a kernel and their supported values.

    Args:
        rules: Sizes that vary independently.
        tied: Sizes that must be equal to another size.
    """

    rules: Mapping[str, SizeRule] = field(default_factory=dict)
    tied: Mapping[str, str] = field(default_factory=dict)

    def params(self, given: Mapping[str, Any], values: Mapping[str, int]) -> Params:
        """Return params with changed sizes, including tied ones."""
        return {**given, **values, **{name: values[leader] for name, leader in self.tied.items() if leader in values}}


def size_names(description: KernelDescription) -> tuple[str, ...]:
    """Return the integer params in shapes and grids on which the compiled code does not depend."""
    compiled, used = compiled_names(description), set[str]()
    for argument in description.arguments:
        if isinstance(argument, BufferArgument):
            used |= _names(argument.shape)
    scalars = set[str]().union(*(_names(_values(a)) for a in description.arguments if not isinstance(a, BufferArgument)))
    used |= scalars & _names([*description.grid, *description.work_items])
    params = description.params
    return tuple(n for n, value in params.items() if _is_integer(value) and int(value) > 0 and n in used - compiled)


def compiled_names(description: KernelDescription) -> set[str]:
    """Return the params on which the compiled code or the workgroup size depends."""
    compiled = _names([*description.defines.values(), *description.constexprs.values(), *description.block, *description.flags])
    compiled |= _names([*description.options.values(), description.dynamic_lds_bytes])
    for variable in description.variables:
        compiled |= _names(variable.shape)  # The compiled code depends on the size of its variables.
    return compiled


def declared_sizes(description: KernelDescription) -> Sizes:
    """Return the sizes with the rules of `sizes`, and ties of sizes that are equal in the description and in all `trials`."""
    names = size_names(description)
    rules = {}
    for name in names:
        limits = description.sizes.get(name)
        rules[name] = SizeRule()
        if limits is not None:
            rules[name] = SizeRule(limits.multiple_of, max(limits.min, 1), limits.max, zero=limits.min == 0)
    known = [description.params, *({**description.params, **other} for other in description.trials)]
    tied: dict[str, str] = {}
    for index, name in enumerate(names if description.trials else ()):
        leader = next((n for n in names[:index] if n not in tied and all(p[n] == p[name] for p in known)), None)
        if leader is not None:
            tied[name] = leader
    return Sizes({name: rule for name, rule in rules.items() if name not in tied}, tied)


def constants_of(text: str) -> set[int]:
    """Return the integers in a source, without comments, strings and included names; `1 << n` is evaluated."""
    code = _COMMENTS.sub(" ", text)
    shifted = {1 << int(exponent) for exponent in _SHIFTS.findall(code) if int(exponent) < 32}
    found = {int(number, 0) if number[:2] in ("0x", "0X") else int(number) for number in _INTEGERS.findall(code)}
    return {value for value in found | shifted if _SMALLEST_CONSTANT <= value <= _LARGEST_CONSTANT}


def tiles_of(description: KernelDescription) -> set[int]:
    """Return the values of compiled-in params and workgroup sizes, whose multiples are the borders of tiles."""
    expressions = [*description.defines.values(), *description.constexprs.values(), *description.block, *description.grid]
    found = set[int]()
    for expression in expressions:
        names = _names([expression])
        found |= {int(v) for n, v in description.params.items() if n in names - set(size_names(description)) and _is_integer(v)}
        try:
            if names.isdisjoint(size_names(description)) and expression is not None:
                found.add(evaluate_integer(expression, description.params, where="kernel.block"))
        except ExpressionError:
            continue
    return {value for value in found if _SMALLEST_CONSTANT <= value <= _LARGEST_CONSTANT}


def _values(argument: Argument) -> Sequence[Expression]:
    match argument:
        case StructArgument():
            return [member.value for member in argument.fields]
        case ScalarArgument():
            return [argument.value]
        case _:
            return []


def _is_integer(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _names(expressions: Iterable[Expression | None]) -> set[str]:
    return {name for e in expressions if isinstance(e, str) for name in re.findall(r"[A-Za-z_]\w*", e)}
