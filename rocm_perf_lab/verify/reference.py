"""Expected outputs of a kernel: NumPy expressions, a NumPy function, or the output of the baseline.

Floating-point inputs are converted to float64 before a reference is evaluated, to keep its rounding errors small; the result is
converted to the output's type. Expressions promote 8-bit and 16-bit integers to 32 bits, like C++.
"""

from __future__ import annotations

import importlib.util
import inspect
import keyword
import re
from typing import TYPE_CHECKING, Any

import numpy as np

from rocm_perf_lab.core.errors import LabError
from rocm_perf_lab.core.expressions import evaluate, evaluate_array
from rocm_perf_lab.device.protocol import BufferValue
from rocm_perf_lab.languages.arguments import ScalarArgument
from rocm_perf_lab.languages.data_types import DTYPES
from rocm_perf_lab.verify.rounding import PerturbedArray

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path
    from types import ModuleType

    from numpy.typing import NDArray

    from rocm_perf_lab.device.protocol import Launch
    from rocm_perf_lab.languages.description import KernelDescription

BASELINE = "baseline output"
_FUNCTION = re.compile(r"[\w./-]+\.py:\w+")


class KernelReferenceError(LabError):
    """Reference that cannot be evaluated, or whose result has a wrong name or shape."""


def expected_outputs(description: KernelDescription, launch: Launch) -> dict[str, NDArray[Any]] | None:
    """Return the expected content of each output of the reference, or None if the baseline's output is the reference.

    Raises:
        KernelReferenceError: An output name is unknown, a function is missing or fails, or a result has a wrong shape.
    """
    exact = reference_values(description, launch)
    if exact is None:
        return None
    buffers = {a.name: a for a in launch.arguments if isinstance(a, BufferValue)}
    with np.errstate(over="ignore", invalid="ignore"):
        return {name: array.astype(buffers[name].data.dtype) for name, array in exact.items()}


def reference_values(
    description: KernelDescription,
    launch: Launch,
    changed: Callable[[str, Any], Any] | None = None,
    adapt: Callable[[ModuleType], None] | None = None,
) -> dict[str, NDArray[Any]] | None:
    """Return the values of the reference before they are rounded to the data types of the outputs.

    Args:
        description: Kernel, with the params of the launch.
        launch: Inputs.
        changed: Maps name and value of an input or scalar to the value to use. Default: the value itself.
        adapt: Called with the module of a reference function before the function is called.

    Returns:
        One array per output, in the shape of the output; None if the baseline's output is the reference.

    Raises:
        KernelReferenceError: An output name is unknown, a function is missing or fails, or a result has a wrong shape.
    """
    reference = description.reference
    if reference == BASELINE:
        return None
    buffers = {a.name: a for a in launch.arguments if isinstance(a, BufferValue)}
    names: dict[str, Any] = {value.name: _widen(value.data) for value in buffers.values()}
    names |= {value.name: _widen(value.data) for value in launch.variables} | _scalars(description) | description.params
    if changed is not None:
        names = {name: changed(name, value) for name, value in names.items()}
    if isinstance(reference, str):
        results = _by_output(reference, _call(description.directory, reference, names, adapt), buffers)
    else:
        results = {n: _evaluate(n, e, description.directory, names, adapt) for n, e in reference.items()}
    return {name: _shaped(name, value, buffers) for name, value in results.items()}


def _scalars(description: KernelDescription) -> dict[str, int | float]:
    """Return the values of scalar arguments, rounded to their data types."""
    values: dict[str, int | float] = {}
    for argument in description.arguments:
        if isinstance(argument, ScalarArgument):
            dtype = DTYPES[argument.dtype]
            value = evaluate(argument.value, description.params, where=f"kernel.arguments.{argument.name}")
            values[argument.name] = int(value) if dtype.kind in "iu" else float(np.array(value).astype(dtype))
    return values


def _evaluate(
    output: str, expression: str, directory: Path, names: Mapping[str, Any], adapt: Callable[[ModuleType], None] | None
) -> Any:
    if _FUNCTION.fullmatch(expression):
        return _call(directory, expression, names, adapt)
    return evaluate_array(
        expression, {name: _promoted(value) for name, value in names.items()}, where=f"kernel.reference.{output}"
    )


def _promoted(value: Any) -> Any:
    """Promote integers narrower than `int` to `int`, like C++."""
    is_narrow = isinstance(value, np.ndarray) and value.dtype.kind in "iu" and value.dtype.itemsize < np.dtype(np.int32).itemsize
    return value.astype(np.int32) if is_narrow else value


def _by_output(reference: str, result: Any, buffers: Mapping[str, BufferValue]) -> dict[str, Any]:
    if isinstance(result, dict):
        return result
    outputs = [b.name for b in buffers.values() if b.written]
    if len(outputs) != 1:
        raise KernelReferenceError(f"{reference} must return a mapping of {', '.join(outputs)}", where="kernel.reference")
    return {outputs[0]: result}


def _widen(data: NDArray[Any]) -> NDArray[Any]:
    is_float = data.dtype.kind == "f" or data.dtype.name.startswith(("bfloat", "float"))
    with np.errstate(invalid="ignore"):  # Uninitialised memory may contain a signalling NaN.
        return data.astype(np.float64) if is_float else data


def _shaped(name: str, value: Any, buffers: Mapping[str, BufferValue]) -> NDArray[Any]:
    where = f"kernel.reference.{name}"
    outputs = [b.name for b in buffers.values() if b.written]
    if name not in outputs:
        raise KernelReferenceError(f"{name!r} is not an output", where=where, hint=f"outputs: {', '.join(outputs)}")
    expected = buffers[name].data
    array = value if isinstance(value, PerturbedArray) else np.asarray(value)
    if array.shape != expected.shape:
        raise KernelReferenceError(
            f"the reference of {name!r} has shape {array.shape}, the output {expected.shape}",
            where=where,
            hint="return one value per element of the output (keepdims=True, reshape)",
        )
    return array


def _call(directory: Path, reference: str, names: Mapping[str, Any], adapt: Callable[[ModuleType], None] | None) -> Any:
    where = f"kernel.reference: {reference}"
    file_name, separator, function_name = reference.rpartition(":")
    path = directory / file_name
    if not separator or not path.is_file():
        raise KernelReferenceError(
            f"no reference named {reference!r}",
            where=str(path),
            hint=f"set it to file.py:function, an expression per output, or {BASELINE!r}",
        )
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise KernelReferenceError(f"{path.name} cannot be imported: {type(error).__name__}: {error}", where=str(path)) from error
    if adapt is not None:
        adapt(module)
    function = getattr(module, function_name, None)
    if not callable(function):
        raise KernelReferenceError(f"{path.name} has no function {function_name!r}", where=where)
    try:
        return function(**_accepted(function, names))
    except Exception as error:
        raise KernelReferenceError(
            f"{function_name} failed: {type(error).__name__}: {error}",
            where=where,
            hint=f"supported parameters: {', '.join(names)}",
        ) from error


def _accepted(function: Callable[..., Any], names: Mapping[str, Any]) -> dict[str, Any]:
    """Return the keyword arguments that a function accepts; `in` is passed as `in_`."""
    parameters = inspect.signature(function).parameters
    renamed = {f"{name}_" if keyword.iskeyword(name) else name: value for name, value in names.items()}
    if any(parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in parameters.values()):
        return renamed
    return {name: value for name, value in renamed.items() if name in parameters}
