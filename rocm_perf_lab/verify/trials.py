"""Trials: inputs, shapes and initial memory content that a rewrite has not seen.

A trial changes the inputs or the shape of a kernel description. Rewrites may depend on the description, but do not know the seed.
Equal seeds give equal bytes.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, replace
from math import prod
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from rocm_perf_lab.device.launch import build_launch
from rocm_perf_lab.device.protocol import BufferValue
from rocm_perf_lab.languages.arguments import (
    BufferArgument,
    ConstantInit,
    IntegersInit,
    NormalInit,
    ScalarArgument,
    StructArgument,
    UniformInit,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from rocm_perf_lab.device.protocol import Launch
    from rocm_perf_lab.languages.arguments import Argument, Expression, Initialiser, StructField
    from rocm_perf_lab.languages.description import KernelDescription
    from rocm_perf_lab.toolchain.build import BuildResult

Inputs = Literal["random", "described", "zeros", "special", "large", "small", "content"]
_ODD_SIZES = (5, 133, 37, 3, 67)
_MOST_ELEMENTS = 1 << 18
_SPECIALS = (np.nan, np.inf, -np.inf, -0.0, 1e-42, 6e4)
"""The last two: a subnormal float, and a number near the largest half."""
_SPECIAL_PLACES = 6
_FEW_ELEMENTS = 512
"""Smallest shape for repeated dispatches and special values; smaller shapes consist mostly of edge cases."""
_LARGE_FACTORS = (64.0, 8.0, 1.0)
_OFFSET = 2.0
_KINDS_OF_ROWS = (0, 1, 2, 2, 0, 2, 2, 2)
"""0: random signs; 1: negative; 2: positive."""
_SMALL_FACTOR = 2.0**-8
_OTHER_SCALARS = 1.5
_LONG = 8
_MOST_WORKGROUPS = 256
_FLOATS = ("f16", "bf16", "f32", "f64")


@dataclass(frozen=True)
class Trial:
    """One execution of a kernel with given inputs and shape.

    Args:
        name: Name in messages.
        params: Params of the description.
        rounds: Seeds of inputs; one dispatch per seed on the same memory, and the last one is compared.
        inputs: Kind of inputs; `described` means those of the description.
        in_place: Outputs share the memory of an input of the same shape.
        factor: Multiplies floating-point inputs.
        scalars: Multiplies floating-point scalar arguments.
        family: Of the trials of a family, only the first that the unmodified kernel supports is used.
    """

    name: str
    params: Mapping[str, int | float | str]
    rounds: tuple[int, ...]
    inputs: Inputs = "random"
    in_place: bool = False
    factor: float = 1.0
    scalars: float = 1.0
    family: str = ""


def planned_trials(description: KernelDescription, seed: int) -> tuple[Trial, ...]:
    """Return trials in order of cost: other shapes, repeated dispatches, other values, in place, and the described shape.

    Shapes are those of `trials` in the description. Without them, sizes that occur in shapes and scalar arguments, but not in
    macros, are made odd, halved and small. The caller finds out which trials the unmodified kernel supports.
    """
    given = dict(description.params)
    shapes = [given | dict(other) for other in description.trials] or [given | other for other in _other_sizes(description)]
    small = sorted([*shapes, given], key=lambda params: elements(description, params))
    smallest = next((params for params in small if elements(description, params) >= _FEW_ELEMENTS), small[-1])
    trials = [Trial(f"other shape ({_changes(params, given)})", params, (_draw(seed, n),)) for n, params in enumerate(shapes)]
    larger = _larger(description)
    if larger:
        trials.append(Trial(f"larger shape ({_changes(larger, given)})", larger, (_draw(seed, 100),)))
    long = _long(description)
    trials += [Trial(f"long shape ({_changes(p, given)})", p, (_draw(seed, 200 + n),)) for n, p in enumerate(long)]
    has_inputs = any(isinstance(a, BufferArgument) and a.dtype in _FLOATS and _is_random(a) for a in description.arguments)
    attempts = [(factor, params) for factor in _LARGE_FACTORS for params in (*long[-1:], smallest)]
    has_scalars = any(_has_float_value(a) for a in description.arguments)
    small_name = " and ".join(["small inputs"] * has_inputs + ["other scalars"] * has_scalars)
    trials += [
        Trial("three dispatches in a row", smallest, (_draw(seed, 101), _draw(seed, 102), _draw(seed, 103))),
        Trial("inputs as described", smallest, (_draw(seed, 108),), inputs="described"),
        Trial("inputs with NaN, infinity, zeros and subnormals", smallest, (_draw(seed, 104),), inputs="special"),
        Trial("all inputs zero", smallest, (_draw(seed, 105),), inputs="zeros"),
        *(_large(params, factor, _draw(seed, 300 + n)) for n, (factor, params) in enumerate(attempts) if has_inputs),
        Trial("output in the place of an input", smallest, (_draw(seed, 106),), in_place=True),
    ]
    if small_name:
        trials.append(
            Trial(small_name, smallest, (_draw(seed, 110),), inputs="small", factor=_SMALL_FACTOR, scalars=_OTHER_SCALARS)
        )
    if any(_is_accumulated(argument) for argument in description.arguments):
        trials.append(Trial("outputs with initial content", smallest, (_draw(seed, 111),), inputs="content"))
    return (*trials, Trial("other inputs", given, (_draw(seed, 107),)))


def _large(params: Mapping[str, int | float | str], factor: float, seed: int) -> Trial:
    name = f"inputs of both signs, {factor:g} times as large" if factor > 1 else "inputs of both signs"
    return Trial(name, params, (seed,), inputs="large", factor=factor, family="large")


def described(description: KernelDescription, trial: Trial, round_number: int = -1) -> KernelDescription:
    """Return the description of a trial: with its params and scalars, and with new random inputs unless `described`."""

    def scaled(value: ScalarArgument | StructField) -> ScalarArgument | StructField:
        return value.model_copy(update={"value": f"({value.value}) * {trial.scalars}"}) if value.dtype in _FLOATS else value

    def changed(argument: Argument) -> Argument:
        match argument:
            case ScalarArgument():
                return scaled(argument)  # type: ignore[return-value]
            case StructArgument():
                return argument.model_copy(update={"fields": tuple(scaled(member) for member in argument.fields)})
            case _:
                return argument

    arguments = tuple(changed(a) for a in description.arguments) if trial.scalars != 1.0 else description.arguments
    shaped = description.model_copy(update={"params": dict(trial.params), "arguments": arguments})
    return shaped if trial.inputs == "described" else reseeded(shaped, trial.rounds[round_number])


def reseeded(description: KernelDescription, seed: int) -> KernelDescription:
    """Return the description with other seeds of random inputs."""

    def drawn(init: Initialiser | None, index: int) -> Initialiser | None:
        if isinstance(init, NormalInit | UniformInit | IntegersInit):
            return init.model_copy(update={"seed": _draw(seed, index, init.seed)})
        return init

    arguments = tuple(
        a.model_copy(update={"init": drawn(a.init, index)}) if isinstance(a, BufferArgument) else a
        for index, a in enumerate(description.arguments)
    )
    variables = tuple(
        v.model_copy(update={"init": drawn(v.init, len(arguments) + index)}) for index, v in enumerate(description.variables)
    )
    return description.model_copy(update={"arguments": arguments, "variables": variables})


def trial_launches(description: KernelDescription, trial: Trial, build: BuildResult, symbol: str, *, poison: int) -> list[Launch]:
    """Return one launch per round. All buffers are read back; uninitialised ones hold random bytes with the seed `poison`."""
    launches = []
    for number in range(len(trial.rounds)):
        launch = build_launch(described(description, trial, number), build.code_object, symbol, build.contract)
        rng = np.random.default_rng([trial.rounds[number] & 0xFFFFFFFF, 1])
        kinds = {a.name: a for a in description.arguments if isinstance(a, BufferArgument)}
        arguments = tuple(
            replace(a, data=_content(a, kinds.get(a.name), trial, rng, poison, index), written=True)
            if isinstance(a, BufferValue)
            else a
            for index, a in enumerate(launch.arguments)
        )
        launches.append(replace(launch, arguments=arguments))
    return launches


def in_place_pairs(description: KernelDescription, trial: Trial) -> dict[str, str]:
    """Return outputs and inputs of equal type and shape that share memory in an in-place trial."""
    if not trial.in_place:
        return {}
    pairs: dict[str, str] = {}
    buffers = [a for a in description.arguments if isinstance(a, BufferArgument)]
    for output in (b for b in buffers if b.access == "out"):
        for source in (b for b in buffers if b.access == "in"):
            if (source.dtype, source.shape) == (output.dtype, output.shape) and source.name not in pairs.values():
                pairs[output.name] = source.name
                break
    return pairs


def elements(description: KernelDescription, params: Mapping[str, Any]) -> int:
    """Return the total number of elements of all buffers; a very large number if the params are invalid."""
    from rocm_perf_lab.core.expressions import ExpressionError, evaluate_integer

    total = 0
    try:
        for argument in description.arguments:
            if isinstance(argument, BufferArgument):
                count = 1
                for expression in argument.shape:
                    count *= evaluate_integer(expression, params, where="kernel.trials")
                total += count
    except ExpressionError:
        return 1 << 62
    return total


def _content(
    buffer: BufferValue, argument: BufferArgument | None, trial: Trial, rng: np.random.Generator, poison: int, index: int
) -> NDArray[Any]:
    data = buffer.data
    if not buffer.is_set:
        noise = np.random.default_rng([poison, index]).integers(0, 256, data.nbytes, np.uint8)
        return noise.view(data.dtype).reshape(data.shape)
    if trial.inputs == "content" and argument is not None and _is_accumulated(argument):
        return rng.integers(1, 8, data.shape).astype(data.dtype)
    if argument is None or not _is_random(argument):
        return data
    is_float = data.dtype.kind == "f" or "float" in data.dtype.name
    if trial.inputs == "zeros" and (is_float or bool(data.min() <= 0 <= data.max())):
        return np.zeros_like(data)
    if is_float and trial.inputs in ("large", "small"):
        values = data.astype(np.float64)
        with np.errstate(over="ignore"):
            return ((_of_both_signs(values, rng) if trial.inputs == "large" else values) * trial.factor).astype(data.dtype)
    if trial.inputs == "special" and is_float:
        changed = data.copy().reshape(-1)
        with np.errstate(over="ignore", invalid="ignore"):
            values = np.array(_SPECIALS).astype(changed.dtype)
        changed[rng.integers(0, changed.size, _SPECIAL_PLACES)] = values
        return changed.reshape(data.shape)
    return data


def _of_both_signs(values: NDArray[np.float64], rng: np.random.Generator) -> NDArray[np.float64]:
    """Return values with signs by row: of eight rows, two random, one negative, five positive, so that sums over rows stay large.

    A one-dimensional array is divided into eight parts instead of rows.
    """
    rows = values.shape[0] if values.ndim > 0 else 1
    places = np.arange(rows) % 8 if values.ndim > 1 else np.arange(rows) * 8 // max(rows, 1)
    kind = np.array(_KINDS_OF_ROWS)[places].reshape(-1, *[1] * (values.ndim - 1))
    far = np.abs(values) + _OFFSET
    drawn = values * rng.choice([-1.0, 1.0], size=values.shape)
    result: NDArray[np.float64] = np.where(kind == 0, drawn, np.where(kind == 1, -far, far))
    return result


def _is_random(argument: BufferArgument) -> bool:
    return isinstance(argument.init, NormalInit | UniformInit | IntegersInit)


def _has_float_value(argument: Argument) -> bool:
    match argument:
        case ScalarArgument():
            return argument.dtype in _FLOATS
        case StructArgument():
            return any(member.dtype in _FLOATS for member in argument.fields)
        case _:
            return False


def _is_accumulated(argument: Argument) -> bool:
    """Return whether an argument is a buffer that is read and written and has a constant initial value."""
    return isinstance(argument, BufferArgument) and argument.access == "inout" and isinstance(argument.init, ConstantInit)


def _long(description: KernelDescription) -> list[dict[str, int | float | str]]:
    """Return shapes with one size eight times as large and the others small, to exceed fixed capacities per row."""
    sizes = _sizes(description)
    small = {n: min(int(description.params[n]), _ODD_SIZES[i % len(_ODD_SIZES)]) for i, n in enumerate(sizes)}
    found: list[dict[str, int | float | str]] = []
    for name in sizes if len(sizes) > 1 else ():
        params: dict[str, int | float | str] = {**description.params, **small, name: int(description.params[name]) * _LONG + 1}
        if elements(description, params) <= _MOST_ELEMENTS and _workgroups(description, params) <= _MOST_WORKGROUPS:
            found.append(params)
    return found


def _workgroups(description: KernelDescription, params: Mapping[str, Any]) -> int:
    from rocm_perf_lab.core.expressions import evaluate_integer

    def sizes(expressions: Iterable[Expression]) -> list[int]:
        return [evaluate_integer(expression, params, where="kernel.grid") for expression in expressions]

    if description.grid:
        return prod(sizes(description.grid))
    return prod(-(-items // size) for items, size in zip(sizes(description.work_items), sizes(description.block), strict=False))


def _larger(description: KernelDescription) -> dict[str, int | float | str]:
    """Return a shape with all sizes larger than the measured ones, or an empty one if that is too expensive."""
    sizes = _sizes(description)
    for numerator, most in ((64, _MOST_ELEMENTS), (32, _MOST_ELEMENTS), (16, _MOST_ELEMENTS), (9, 8 * _MOST_ELEMENTS * 4)):
        larger = {**description.params, **{n: int(description.params[n]) * numerator // 8 + 1 for n in sizes}}
        if sizes and elements(description, larger) <= most:
            return larger
    return {}


def _sizes(description: KernelDescription) -> list[str]:
    """Return params in shapes and scalar arguments that the compiled code does not depend on."""
    compiled = _names([*description.defines.values(), *description.constexprs.values(), *description.block, *description.flags])
    compiled |= _names([*description.options.values(), description.dynamic_lds_bytes])
    used = set[str]()
    for argument in description.arguments:
        used |= _names(_expressions(argument))
    for variable in description.variables:
        compiled |= _names(variable.shape)  # the compiled code depends on the size of its variables
    return [
        name for name, value in description.params.items() if isinstance(value, int) and value > 1 and name in used - compiled
    ]


def _expressions(argument: Argument) -> Sequence[Expression]:
    match argument:
        case BufferArgument():
            return argument.shape
        case StructArgument():
            return [field.value for field in argument.fields]
        case ScalarArgument():
            return [argument.value]


def _other_sizes(description: KernelDescription) -> list[dict[str, int | float | str]]:
    """Return shapes with other values of the sizes that the compiled code does not depend on."""
    sizes = _sizes(description)
    odd = {n: min(int(description.params[n]), _ODD_SIZES[i % len(_ODD_SIZES)]) for i, n in enumerate(sizes)}
    half = {n: -(-int(description.params[n]) // 2) for n in sizes}
    while sizes and max(half.values()) > 1 and elements(description, {**description.params, **half}) > _MOST_ELEMENTS:
        half = {n: -(-value // 2) for n, value in half.items()}
    multiple = {n: min(int(description.params[n]), 64 * (1 + i % 3)) for i, n in enumerate(sizes)}
    found: list[dict[str, int | float | str]] = []
    for other in (odd, multiple, half):
        changed: dict[str, int | float | str] = {n: v for n, v in other.items() if v != description.params[n]}
        fits = elements(description, {**description.params, **changed}) <= _MOST_ELEMENTS
        if changed and changed not in found and fits:
            found.append(changed)
    return found


def _names(expressions: Iterable[Expression | None]) -> set[str]:
    return {name for e in expressions if isinstance(e, str) for name in re.findall(r"[A-Za-z_]\w*", e)}


def _changes(params: Mapping[str, Any], given: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={value}" for name, value in params.items() if given.get(name) != value)


def _draw(*parts: int) -> int:
    """Return a seed below 2^31 derived from seeds."""
    digest = hashlib.sha256(repr(parts).encode()).digest()
    return int.from_bytes(digest[:4], "little") >> 1
