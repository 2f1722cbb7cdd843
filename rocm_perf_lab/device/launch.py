"""Build a :class:`Launch` from a kernel description and its code object: buffers, encoded scalars and geometry."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from rocm_perf_lab.core.errors import LabError
from rocm_perf_lab.core.expressions import evaluate, evaluate_integer
from rocm_perf_lab.core.geometry import Dim3, Geometry
from rocm_perf_lab.device.protocol import BufferValue, Launch, ScalarValue, VariableValue
from rocm_perf_lab.languages.arguments import (
    ArangeInit,
    BufferArgument,
    ConstantInit,
    FileInit,
    IntegersInit,
    NormalInit,
    PoisonInit,
    ScalarArgument,
    StructArgument,
    UniformInit,
)
from rocm_perf_lab.languages.data_types import DTYPES

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

    from rocm_perf_lab.languages.arguments import Argument, Expression, Initialiser, ModuleVariable
    from rocm_perf_lab.languages.description import KernelDescription
    from rocm_perf_lab.toolchain.code_object import CodeObject, LaunchContract

_DRAWN_AT_ONCE = 1 << 20
NULL_POINTER = bytes(8)
_MOST_WORK_ITEMS = (1 << 32) - 1


class LaunchError(LabError):
    """Kernel description that does not describe a possible launch."""


def launch_geometry(description: KernelDescription, contract: LaunchContract | None = None) -> Geometry:
    """Return the geometry of a launch, without allocating its buffers.

    Raises:
        LaunchError: A dimension is not positive or too large.
        ExpressionError: An expression cannot be evaluated.
    """
    params = description.params
    lds_bytes = evaluate_integer(description.dynamic_lds_bytes, params, where="kernel.dynamic_lds_bytes")
    block = (contract.work_items, 1, 1) if contract else _dim3(description.block, params, "kernel.block")
    lds_bytes += contract.dynamic_lds_bytes if contract else 0
    if description.work_items:
        return Geometry.of_work_items(_dim3(description.work_items, params, "kernel.work_items"), block, lds_bytes)
    geometry = Geometry(_dim3(description.grid, params, "kernel.grid"), block, lds_bytes)
    if max(geometry.work_items) > _MOST_WORK_ITEMS:
        raise LaunchError(
            f"kernel.grid has {max(geometry.work_items):,} work-items along one axis, at most {_MOST_WORK_ITEMS:,} are possible",
            where="kernel.grid",
        )
    return geometry


def build_launch(
    description: KernelDescription,
    code_object: CodeObject,
    symbol: str,
    contract: LaunchContract | None = None,
    *,
    allow_empty: bool = False,
) -> Launch:
    """Build the launch of a kernel. Equal descriptions result in equal bytes.

    Args:
        description: Arguments and geometry.
        code_object: The compiled kernel.
        symbol: Symbol of the kernel.
        contract: Decisions of the compiler about the launch, if any (see :class:`BuildResult`).
        allow_empty: Buffers may have no elements.

    Raises:
        LaunchError: A dimension is not positive, an init file is unreadable, or a value does not fit its type.
        ExpressionError: An expression cannot be evaluated.
    """
    arguments = tuple(
        _argument(argument, description, index, 0 if allow_empty else 1) for index, argument in enumerate(description.arguments)
    )
    geometry = launch_geometry(description, contract)
    return Launch(
        code_object=code_object,
        symbol=symbol,
        grid=geometry.grid,
        block=geometry.block,
        dynamic_lds_bytes=geometry.dynamic_lds_bytes,
        remainder=geometry.remainder,
        cooperative=description.cooperative,
        arguments=_by_contract(arguments, contract, code_object, symbol) if contract else arguments,
        variables=tuple(_variable(variable, description) for variable in description.variables),
    )


def _argument(argument: Argument, description: KernelDescription, index: int, least: int) -> BufferValue | ScalarValue:
    match argument:
        case BufferArgument():
            return _buffer(argument, description, index, least)
        case ScalarArgument():
            where = f"kernel.arguments.{argument.name}"
            return ScalarValue(argument.name, _encoded(argument.value, DTYPES[argument.dtype], description, where))
        case StructArgument():
            return ScalarValue(argument.name, _struct(argument, description))


def _by_contract(
    arguments: tuple[BufferValue | ScalarValue, ...], contract: LaunchContract, code_object: CodeObject, symbol: str
) -> tuple[BufferValue | ScalarValue, ...]:
    """Return the arguments that the compiler kept, in its order, and null for pointers that it added."""
    named = {argument.name: argument for argument in arguments}
    kernel = next(kernel for kernel in code_object.kernels if kernel.symbol == symbol)
    explicit = [a for a in kernel.arguments if not a.value_kind.startswith("hidden_")]
    added = range(len(explicit) - len(contract.arguments))
    return (
        *(named[name] for name in contract.arguments),
        *(ScalarValue(f"pointer {number} of the compiler", NULL_POINTER) for number in added),
    )


def _dim3(expressions: tuple[Expression, ...], params: Mapping[str, Any], where: str) -> Dim3:
    sizes = [evaluate_integer(e, params, where=f"{where}[{i}]") for i, e in enumerate(expressions)]
    if min(sizes) < 1:
        raise LaunchError(f"{where} is {sizes}: every dimension must be at least 1", where=where)
    x, y, z = (*sizes, 1, 1)[:3]
    return x, y, z


def _encoded(expression: Expression, dtype: np.dtype[Any], description: KernelDescription, where: str) -> bytes:
    value = evaluate(expression, description.params, where=where)
    if dtype.kind in "iu" and not (np.iinfo(dtype).min <= value <= np.iinfo(dtype).max and value == int(value)):
        name = next(name for name, known in DTYPES.items() if known == dtype)
        raise LaunchError(f"{value!r} does not fit in {name}", where=where)
    return np.array(value).astype(dtype).tobytes()


def _struct(argument: StructArgument, description: KernelDescription) -> bytes:
    """Return a struct with the layout of C: members at multiples of their size, the end padded to the largest."""
    content = bytearray()
    for index, field in enumerate(argument.fields):
        where, dtype = f"kernel.arguments.{argument.name}.fields[{index}]", DTYPES[field.dtype]
        offset = field.offset if field.offset is not None else len(content) + -len(content) % dtype.itemsize
        if offset < len(content):
            raise LaunchError(f"offset {offset} overlaps the previous member, which ends at {len(content)}", where=where)
        content += bytes(offset - len(content)) + _encoded(field.value, dtype, description, where)
    alignment = max(DTYPES[field.dtype].itemsize for field in argument.fields)
    return bytes(content) + bytes(-len(content) % alignment)


def _variable(variable: ModuleVariable, description: KernelDescription) -> VariableValue:
    where = f"kernel.variables.{variable.name}"
    shape = tuple(evaluate_integer(e, description.params, where=f"{where}.shape[{i}]") for i, e in enumerate(variable.shape))
    if any(n < 1 for n in shape):
        raise LaunchError(f"shape {shape} has an empty dimension", where=where)
    return VariableValue(variable.name, _initial(variable.init, shape, DTYPES[variable.dtype], description, where))


def _buffer(argument: BufferArgument, description: KernelDescription, index: int, least: int) -> BufferValue:
    where = f"kernel.arguments[{index}] ({argument.name})"
    shape = tuple(evaluate_integer(e, description.params, where=f"{where}.shape[{i}]") for i, e in enumerate(argument.shape))
    if any(n < least for n in shape):
        raise LaunchError(f"shape {shape} has an empty dimension", where=where)
    written = argument.access != "in"
    dtype = DTYPES[argument.dtype]
    if argument.init is None and not written:
        raise LaunchError(f"input {argument.name!r} has no initial value", where=where, hint="add init: {kind: normal, seed: 1}")
    data = _initial(argument.init, shape, dtype, description, where)
    is_unset = argument.init is None or isinstance(argument.init, PoisonInit)
    alignment = dtype.itemsize if argument.alignment == "element" else argument.alignment
    return BufferValue(argument.name, data, written, is_set=not is_unset, alignment=alignment)


def _initial(
    init: Initialiser | None, shape: tuple[int, ...], dtype: np.dtype[Any], description: KernelDescription, where: str
) -> NDArray[Any]:
    match init:
        case NormalInit():
            normal = np.random.default_rng(init.seed).normal
            return _drawn(lambda count: normal(init.mean, init.std, count), shape, dtype)
        case UniformInit():
            uniform = np.random.default_rng(init.seed).uniform
            return _drawn(lambda count: uniform(init.low, init.high, count), shape, dtype)
        case IntegersInit():
            low = evaluate_integer(init.low, description.params, where=where)
            high = evaluate_integer(init.high, description.params, where=where)
            if low >= high:
                raise LaunchError(f"no integer is at least {low} and below {high}", where=where)
            return np.random.default_rng(init.seed).integers(low, high, shape).astype(dtype)
        case ConstantInit():
            return np.full(shape, init.value).astype(dtype)
        case ArangeInit():
            return np.arange(int(np.prod(shape))).reshape(shape).astype(dtype)
        case FileInit():
            return _from_file(description.directory / init.path, shape, dtype, where)
        case _:
            poison = 0x80 if dtype.name.endswith("fnuz") else 0xFF
            return np.full(int(np.prod(shape)) * dtype.itemsize, poison, np.uint8).view(dtype).reshape(shape)


def _drawn(draw: Callable[[int], NDArray[np.float64]], shape: tuple[int, ...], dtype: np.dtype[Any]) -> NDArray[Any]:
    """Draw random values in pieces: the generator returns float64, which is larger than most data types."""
    values = np.empty(shape, dtype)
    flat = values.reshape(-1)
    for start in range(0, flat.size, _DRAWN_AT_ONCE):
        piece = flat[start : start + _DRAWN_AT_ONCE]
        piece[:] = draw(piece.size).astype(dtype)
    return values


def _from_file(path: Any, shape: tuple[int, ...], dtype: np.dtype[Any], where: str) -> NDArray[Any]:
    try:
        values = np.load(path, allow_pickle=False)
    except (OSError, ValueError) as error:
        raise LaunchError(f"cannot read {path}: {error}", where=where, hint="use a .npy file") from error
    if values.shape != shape:
        raise LaunchError(f"{path} has shape {values.shape}, but the argument has {shape}", where=where)
    return np.ascontiguousarray(values.astype(dtype))
