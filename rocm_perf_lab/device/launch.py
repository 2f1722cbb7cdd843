"""From a kernel description to a launch: buffers filled, scalars encoded, geometry evaluated, the truth computed.

Takes a :class:`KernelDescription` and a compiled code object; gives a :class:`Launch` and the expected outputs.
"""

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


class LaunchError(LabError):
    """A kernel description that cannot be turned into a launch."""


def launch_geometry(description: KernelDescription, contract: LaunchContract | None = None) -> Geometry:
    """Evaluate the geometry alone: of a launch all that needs no memory.

    Raises:
        LaunchError: A dimension that is not positive.
        ExpressionError: An expression with an unknown name or forbidden syntax.
    """
    params = description.params
    lds_bytes = evaluate_integer(description.dynamic_lds_bytes, params, where="kernel.dynamic_lds_bytes")
    block = (contract.work_items, 1, 1) if contract else _dim3(description.block, params, "kernel.block")
    lds_bytes += contract.dynamic_lds_bytes if contract else 0
    if description.work_items:
        return Geometry.of_work_items(_dim3(description.work_items, params, "kernel.work_items"), block, lds_bytes)
    return Geometry(_dim3(description.grid, params, "kernel.grid"), block, lds_bytes)


def build_launch(
    description: KernelDescription, code_object: CodeObject, symbol: str, contract: LaunchContract | None = None
) -> Launch:
    """Evaluate geometry and arguments; equal descriptions give equal bytes.

    `contract` is the build's, where its compiler had a say in the launch.

    Raises:
        LaunchError: A shape or geometry that is not positive, an unreadable init file, a value that does not fit.
        ExpressionError: An expression with an unknown name or forbidden syntax.
    """
    arguments = tuple(_argument(argument, description, index) for index, argument in enumerate(description.arguments))
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


def _argument(argument: Argument, description: KernelDescription, index: int) -> BufferValue | ScalarValue:
    match argument:
        case BufferArgument():
            return _buffer(argument, description, index)
        case ScalarArgument():
            where = f"kernel.arguments.{argument.name}"
            return ScalarValue(argument.name, _encoded(argument.value, DTYPES[argument.dtype], description, where))
        case StructArgument():
            return ScalarValue(argument.name, _struct(argument, description))


def _by_contract(
    arguments: tuple[BufferValue | ScalarValue, ...], contract: LaunchContract, code_object: CodeObject, symbol: str
) -> tuple[BufferValue | ScalarValue, ...]:
    """The arguments that the compiler left, in its order, and null for the pointers that it added."""
    named = {argument.name: argument for argument in arguments}
    kernel = next(kernel for kernel in code_object.kernels if kernel.symbol == symbol)
    explicit = [a for a in kernel.arguments if not a.value_kind.startswith("hidden_")]
    added = range(len(explicit) - len(contract.arguments))
    return (
        *(named[name] for name in contract.arguments),
        *(ScalarValue(f"compiler's pointer {number}", NULL_POINTER) for number in added),
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
        word = next(word for word, known in DTYPES.items() if known == dtype)
        raise LaunchError(f"{value!r} does not fit in {word}", where=where)
    return np.array(value).astype(dtype).tobytes()


def _struct(argument: StructArgument, description: KernelDescription) -> bytes:
    """As C lays it out: each member at a multiple of its size, the end padded to the largest."""
    content = bytearray()
    for index, field in enumerate(argument.fields):
        where, dtype = f"kernel.arguments.{argument.name}.fields[{index}]", DTYPES[field.dtype]
        offset = field.offset if field.offset is not None else len(content) + -len(content) % dtype.itemsize
        if offset < len(content):
            raise LaunchError(f"offset {offset} lies in the member before it, which ends at {len(content)}", where=where)
        content += bytes(offset - len(content)) + _encoded(field.value, dtype, description, where)
    alignment = max(DTYPES[field.dtype].itemsize for field in argument.fields)
    return bytes(content) + bytes(-len(content) % alignment)


def _variable(variable: ModuleVariable, description: KernelDescription) -> VariableValue:
    where = f"kernel.variables.{variable.name}"
    shape = tuple(evaluate_integer(e, description.params, where=f"{where}.shape[{i}]") for i, e in enumerate(variable.shape))
    if any(n < 1 for n in shape):
        raise LaunchError(f"shape {shape} has an empty dimension", where=where)
    return VariableValue(variable.name, _initial(variable.init, shape, DTYPES[variable.dtype], description, where))


def _buffer(argument: BufferArgument, description: KernelDescription, index: int) -> BufferValue:
    where = f"kernel.arguments[{index}] ({argument.name})"
    shape = tuple(evaluate_integer(e, description.params, where=f"{where}.shape[{i}]") for i, e in enumerate(argument.shape))
    if any(n < 1 for n in shape):
        raise LaunchError(f"shape {shape} has an empty dimension", where=where)
    written = argument.access != "in"
    dtype = DTYPES[argument.dtype]
    if argument.init is None and not written:
        raise LaunchError(f"input {argument.name!r} has no init", where=where, hint="add init: {kind: normal, seed: 1}")
    data = _initial(argument.init, shape, dtype, description, where)
    is_unset = argument.init is None or isinstance(argument.init, PoisonInit)
    return BufferValue(argument.name, data, written, is_set=not is_unset)


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
    """Random values in pieces: the generator's float64 values of a large buffer would take many times its own size."""
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
        raise LaunchError(f"cannot read {path}: {error}", where=where, hint="give a .npy file") from error
    if values.shape != shape:
        raise LaunchError(f"{path} has shape {values.shape}, the argument {shape}", where=where)
    return np.ascontiguousarray(values.astype(dtype))
