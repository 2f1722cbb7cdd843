"""Trials: inputs, shapes and initial memory content unknown to the author of a rewrite.

A trial changes the inputs or the shape of a kernel description. The author of a rewrite may know the description, but not the
seed. The same seed produces the same bytes.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from rocm_perf_lab.core.expressions import evaluate
from rocm_perf_lab.device.launch import build_launch
from rocm_perf_lab.device.protocol import BufferValue
from rocm_perf_lab.languages.arguments import (
    BufferArgument,
    IntegersInit,
    NormalInit,
    ScalarArgument,
    StructArgument,
    UniformInit,
)
from rocm_perf_lab.languages.data_types import DTYPES
from rocm_perf_lab.verify.inputs import FLOATS, INPUT_NAMES, InputKind, changed_values
from rocm_perf_lab.verify.sizes import compiled_names, size_names

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from rocm_perf_lab.device.protocol import Launch
    from rocm_perf_lab.languages.arguments import Argument, Initialiser
    from rocm_perf_lab.languages.description import KernelDescription
    from rocm_perf_lab.toolchain.build import BuildResult
    from rocm_perf_lab.verify.inputs import Inputs
    from rocm_perf_lab.verify.shapes import ShapeKind

_LARGE_SCALAR = 1024.0
_TINY_SCALAR = 2.0**-24
_DENORMAL = {"f16": 2.0**-20, "bf16": 1e-39, "f32": 1e-39, "f64": 1e-310}
_MUCH_LARGER = 2
_INTEGER_SCALARS = (0, 1, -1, 2, 1000)
_SHAPE_NAMES: dict[ShapeKind, str] = {
    "described": "described shape",
    "declared": "shapes of the description",
    "residues": "shapes with all residues",
    "long": "shapes with a long size",
    "limits": "sizes next to limits",
    "tiles": "several sizes next to multiples of tiles",
    "large": "larger shapes",
    "one": "sizes of 1",
    "zero": "sizes of 0",
    "searched": "found by a search for branches",
}


@dataclass(frozen=True)
class Trial:
    """One execution of a kernel with specified inputs and shape.

    Args:
        name: Name in messages: the differences from the description.
        params: Params of the description.
        rounds: Seeds of inputs; one dispatch per seed on the same memory, and the last one is compared.
        inputs: Distribution of the inputs; `described` means those of the description.
        in_place: Outputs share the memory of an input of the same shape.
        factor: Factor of floating-point inputs.
        scalars: Values of scalar arguments, by name; for a member of a struct `name.index`.
        shape: Reason for the selection of the shape.
        values: Values that elements of inputs have in turn, for the inputs `planted`.
    """

    name: str
    params: Mapping[str, int | float | str]
    rounds: tuple[int, ...]
    inputs: Inputs = "random"
    in_place: bool = False
    factor: float = 1.0
    scalars: Mapping[str, int | float] = field(default_factory=dict)
    shape: ShapeKind = "described"
    values: tuple[float | None, ...] = ()

    @property
    def kind(self) -> InputKind:
        """Distribution of the inputs."""
        return InputKind(self.inputs, self.factor, self.values)


@dataclass(frozen=True)
class ScalarChoice:
    """Changed values of scalars: params, and arguments with separate values."""

    params: Mapping[str, int | float]
    arguments: Mapping[str, int | float]

    @property
    def values(self) -> tuple[int | float, ...]:
        """Values of the scalars."""
        return (*self.params.values(), *self.arguments.values())

    def __str__(self) -> str:
        return ", ".join(f"{name}={value:g}" for name, value in {**self.params, **self.arguments}.items())


def trial_of(
    description: KernelDescription,
    params: Mapping[str, int | float | str],
    seed: int,
    kind: InputKind = InputKind("random"),  # noqa: B008
    *,
    shape: ShapeKind = "described",
    rounds: int = 1,
    in_place: bool = False,
    scalars: ScalarChoice | None = None,
) -> Trial:
    """Return a trial, named after its params, inputs and the seed of the inputs.

    Args:
        description: Kernel.
        params: Params of the trial.
        seed: Seed of the run; the seed of the inputs is derived from it.
        kind: Distribution of the inputs.
        shape: Reason for the choice of the shape.
        rounds: Number of dispatches.
        in_place: Outputs share the memory of an input of the same shape.
        scalars: Changed values of scalars.
    """
    changed = {**params, **(scalars.params if scalars is not None else {})}
    key = repr((sorted(changed.items()), kind, shape, rounds, in_place, str(scalars)))
    seeds = tuple(_draw(seed, key, n) for n in range(rounds))
    parts = [_changes(changed, description.params) or "described shape", str(kind)]
    parts += [f"{rounds} dispatches in a row"] if rounds > 1 else []
    parts += ["output in the place of an input"] if in_place else []
    parts += [str(scalars)] if scalars is not None and scalars.arguments else []
    name = "; ".join([*parts, f"seed {seeds[-1]}"])
    return Trial(
        name,
        changed,
        seeds,
        kind.inputs,
        in_place,
        kind.factor,
        dict(scalars.arguments) if scalars is not None else {},
        shape,
        kind.values,
    )


def summary_of(trials: Iterable[Trial]) -> str:
    """Return the number of trials by type of shape and of inputs, in one line."""
    trials = tuple(trials)
    shapes = Counter(trial.shape for trial in trials)
    inputs = Counter(trial.inputs for trial in trials)
    by_shape = ", ".join(f"{_SHAPE_NAMES[shape]} {shapes[shape]}" for shape in _SHAPE_NAMES if shapes[shape])
    by_inputs = ", ".join(f"{INPUT_NAMES[kind]} {inputs[kind]}" for kind in INPUT_NAMES if inputs[kind])
    return f"{len(trials)} trials ({by_shape}; {by_inputs})"


def scalar_choices(description: KernelDescription) -> tuple[ScalarChoice, ...]:
    """Return values to try for scalars that are not sizes: zero, one, negative, large, and for floats, tiny and subnormal.

    With several floats, each value is also tried with all others zero, because they could hide its effect.
    """
    fixed = compiled_names(description) | set(size_names(description))
    found: list[ScalarChoice] = []
    for name, dtype, value in _scalars(description):
        if isinstance(value, str) and value in description.params and value not in fixed:
            given = description.params[value]
            if isinstance(given, int | float):
                found += [ScalarChoice({value: other}, {}) for other in _others(dtype, given)]
        elif dtype in _DENORMAL or isinstance(value, int):
            number = value if isinstance(value, int | float) else 1.0
            found += [ScalarChoice({}, {name: other}) for other in _others(dtype, number)]
    return (*found, *_alone(description, [choice for choice in found if any(choice.values)]))


def next_scalars(description: KernelDescription, values: Sequence[float]) -> tuple[ScalarChoice, ...]:
    """Return choices in which one float is just below or above a value, and all other floats are zero.

    A rewrite may compare it with this value.
    """
    names = _float_params(description)
    near = [ScalarChoice({name: factor * value}, {}) for name in names for value in values for factor in (0.5, 2.0)]
    return tuple(_alone(description, near)) if len(names) > 1 else tuple(near)


def _float_params(description: KernelDescription) -> list[str]:
    """Return the params that are floating-point scalar arguments."""
    fixed = compiled_names(description) | set(size_names(description))
    names = [str(v) for _, dtype, v in _scalars(description) if dtype in _DENORMAL and v in description.params and v not in fixed]
    return list(dict.fromkeys(names))


def _alone(description: KernelDescription, choices: Sequence[ScalarChoice]) -> list[ScalarChoice]:
    """Return choices of one floating-point param with all others zero; empty if there are no others."""
    names = _float_params(description)
    chosen = [c for c in choices if len(c.params) == 1 and set(c.params) <= set(names)] if len(names) > 1 else []
    return [ScalarChoice({**dict.fromkeys(names, 0.0), **choice.params}, {}) for choice in chosen]


def scalar_values(description: KernelDescription) -> tuple[float, ...]:
    """Return the values of floating-point scalar arguments, with which inputs are often compared."""
    found = [
        evaluate(value, description.params, where=f"kernel.arguments.{name}")
        for name, dtype, value in _scalars(description)
        if dtype in FLOATS
    ]
    return tuple(dict.fromkeys(float(value) for value in found))


def _scalars(description: KernelDescription) -> list[tuple[str, str, int | float | str]]:
    """Return name, data type and value of scalar arguments and of members of structs."""
    found: list[tuple[str, str, int | float | str]] = []
    for argument in description.arguments:
        match argument:
            case ScalarArgument():
                found.append((argument.name, argument.dtype, argument.value))
            case StructArgument():
                found += [(f"{argument.name}.{n}", m.dtype, m.value) for n, m in enumerate(argument.fields)]
            case _:
                continue
    return found


def _others(dtype: str, given: float) -> list[int | float]:
    if dtype in _DENORMAL:
        size = max(abs(float(given)), 1.0)
        values = [0.0, 1.0, -float(given) or -1.0, float(given) * 1.5, _LARGE_SCALAR * size, _TINY_SCALAR, _DENORMAL[dtype]]
        return [value for value in dict.fromkeys(values) if value != given]
    if DTYPES[dtype].kind not in "iu":
        return []
    limits = np.iinfo(DTYPES[dtype])
    return [value for value in _INTEGER_SCALARS if limits.min <= value <= limits.max and value != given]


def described(description: KernelDescription, trial: Trial, round_number: int = -1) -> KernelDescription:
    """Return the description with the params and scalars of a trial, and with new random inputs unless `described`."""

    def changed(argument: Argument) -> Argument:
        match argument:
            case ScalarArgument() if argument.name in trial.scalars:
                return argument.model_copy(update={"value": trial.scalars[argument.name]})
            case StructArgument():
                fields = tuple(
                    member.model_copy(update={"value": trial.scalars.get(f"{argument.name}.{n}", member.value)})
                    for n, member in enumerate(argument.fields)
                )
                return argument.model_copy(update={"fields": fields})
            case _:
                return argument

    arguments = tuple(changed(a) for a in description.arguments) if trial.scalars else description.arguments
    shaped = description.model_copy(update={"params": dict(trial.params), "arguments": arguments})
    return shaped if trial.inputs == "described" else reseeded(shaped, trial.rounds[round_number])


def reseeded(description: KernelDescription, seed: int) -> KernelDescription:
    """Return the description with different seeds of random inputs."""

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
    """Return one launch per round. All buffers are read back; uninitialised ones contain random bytes from the seed `poison`.

    Raises:
        LabError: The description cannot be launched with these params.
    """
    launches = []
    for number in range(len(trial.rounds)):
        shaped = described(description, trial, number)
        launch = build_launch(shaped, build.code_object, symbol, build.contract, allow_empty=True)
        rng = np.random.default_rng([trial.rounds[number] & 0xFFFFFFFF, 1])
        kinds = {a.name: a for a in description.arguments if isinstance(a, BufferArgument)}
        largest = max((a.data.size for a in launch.arguments if isinstance(a, BufferValue) and a.is_set), default=0)
        arguments = tuple(
            replace(a, data=_content(a, kinds.get(a.name), trial, rng, poison, index, largest), written=True)
            if isinstance(a, BufferValue)
            else a
            for index, a in enumerate(launch.arguments)
        )
        launches.append(replace(launch, arguments=arguments))
    return launches


def in_place_pairs(description: KernelDescription, trial: Trial) -> dict[str, str]:
    """Return the outputs of an in-place trial, each with the input of equal type and shape whose memory it shares."""
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


def _content(
    buffer: BufferValue,
    argument: BufferArgument | None,
    trial: Trial,
    rng: np.random.Generator,
    poison: int,
    index: int,
    largest: int,
) -> NDArray[Any]:
    data = buffer.data
    if not buffer.is_set:
        noise = np.random.default_rng([poison, index]).integers(0, 256, data.nbytes, np.uint8)
        return noise.view(data.dtype).reshape(data.shape)
    if argument is None:
        return data
    return changed_values(data, argument, trial.kind, rng, trial.params, is_minor=data.size * _MUCH_LARGER < largest)


def _changes(params: Mapping[str, Any], given: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={value}" for name, value in params.items() if given.get(name) != value)


def _draw(*parts: int | str) -> int:
    """Return a seed below 2^31, derived from numbers and texts."""
    digest = hashlib.sha256(repr(parts).encode()).digest()
    return int.from_bytes(digest[:4], "little") >> 1
