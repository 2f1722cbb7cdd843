"""Kernel arguments and geometry on the command line: `f32[512x4096]:normal:seed=1:inout`, `i32=7`, `64x64x1`.

`parse_argument` returns the same models as a `kernel.yaml`, and `format_argument` is its inverse. Error messages show
`GRAMMAR`.
"""

from __future__ import annotations

import difflib
import math
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np

from rocm_perf_lab.core.errors import LabError
from rocm_perf_lab.device.protocol import ScalarValue
from rocm_perf_lab.languages.arguments import (
    ArangeInit,
    BufferArgument,
    ConstantInit,
    FileInit,
    IntegersInit,
    NormalInit,
    PoisonInit,
    ScalarArgument,
    ScalarType,
    UniformInit,
    nearest_type,
)
from rocm_perf_lab.languages.data_types import DTYPES

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from rocm_perf_lab.core.geometry import Dim3
    from rocm_perf_lab.languages.arguments import Initialiser

GRAMMAR = """\
buffer  DTYPE[SHAPE]:INIT[:KEY=VALUE]...[:in|out|inout]   f32[512x4096]:normal:seed=1
scalar  DTYPE=NUMBER                                      i32=1048576
bytes   hex=DIGITS                                        hex=0000803f
INIT    normal (seed, mean, std), uniform (seed, low, high), integers (seed, low, high),
        constant (value), zeros, ones, arange, poison, file=PATH.npy
DTYPE   i8 u8 i16 u16 i32 u32 i64 u64 f16 bf16 f32 f64 f8e4m3fnuz f8e5m2fnuz f8e4m3fn f8e5m2 (fp8, bf8: the fnuz ones)"""

TextArgument = BufferArgument | ScalarArgument | ScalarValue

_ALIASES: Mapping[str, ScalarType] = {"fp8": "f8e4m3fnuz", "bf8": "f8e5m2fnuz"}
_ACCESSES = ("in", "out", "inout")
_LARGEST_SEED = 2**64 - 1
_MOST_DIMENSIONS = 8
_MOST_ELEMENTS = 2**40
_BUFFER = re.compile(r"(?P<dtype>[^\[\]:=]*)\[(?P<shape>[^\[\]]*)\](?P<rest>(?::.*)?)", re.DOTALL)
_COUNT = re.compile(r"[1-9][0-9]{0,17}", re.ASCII)


class ArgumentTextError(LabError):
    """Argument or geometry that does not match the grammar."""


@dataclass(frozen=True)
class _Key:
    """Parser of the value of one key."""

    read: Callable[[str], Any]
    expects: str


def parse_argument(text: str, name: str) -> TextArgument:
    """Parse one argument of a kernel.

    Args:
        text: Argument in the grammar of `GRAMMAR`.
        name: Name of the argument.

    Raises:
        ArgumentTextError: A part of the text does not match the grammar, or its value does not fit its type.
    """
    if "[" in text.partition("=")[0]:
        return _buffer(text, name)
    kind, equals, value = text.partition("=")
    if not equals:
        raise _wrong(text, text, "is neither a buffer nor a scalar nor bytes")
    if kind == "hex":
        return ScalarValue(name, _hex(text, value))
    dtype = _dtype(text, kind)
    return ScalarArgument(kind="scalar", name=name, dtype=dtype, value=_scalar_value(text, value, dtype))


def format_argument(argument: TextArgument) -> str:
    """Return the text of an argument: `parse_argument(format_argument(a), a.name) == a`."""
    if isinstance(argument, ScalarValue):
        return f"hex={argument.encoded.hex()}"
    if isinstance(argument, ScalarArgument):
        return f"{argument.dtype}={argument.value}"
    shape = "x".join(map(str, argument.shape))
    init = argument.init
    parts = [f"{argument.dtype}[{shape}]"]
    if isinstance(init, FileInit):
        parts.append(f"file={init.path}")
    elif init is not None:
        settings = init.model_dump(exclude={"kind"}, exclude_defaults=True)
        parts += [init.kind, *(f"{key}={value}" for key, value in settings.items())]
    return ":".join([*parts, argument.access])


def parse_dim3(text: str, what: str) -> Dim3:
    """Parse `64x16x1`, `64x16` or `4096` to three sizes of at least 1.

    Args:
        text: One to three sizes.
        what: Option of the command line, for errors: `--grid`.

    Raises:
        ArgumentTextError: The text is anything else.
    """
    parts = text.split("x")
    if len(parts) > 3 or not all(_COUNT.fullmatch(part) for part in parts):
        wrong = next((part for part in parts if not _COUNT.fullmatch(part)), text)
        problem = "every dimension must be at least 1" if re.fullmatch("0+", wrong) else "expected one to three whole numbers"
        raise ArgumentTextError(
            f"{what} is {text!r}: {problem}", where=f"{what} {text}", hint=f"for example {what} 4096 or {what} 64x64x1"
        )
    x, y, z = (int(part) for part in (*parts, "1", "1")[:3])
    return x, y, z


def format_dim3(sizes: Dim3) -> str:
    """Return the sizes as text, without trailing ones: `64 x 16`."""
    shown = list(sizes)
    while len(shown) > 1 and shown[-1] == 1:
        shown.pop()
    return " x ".join(f"{size:,}" for size in shown)


def _buffer(text: str, name: str) -> BufferArgument:
    match = _BUFFER.fullmatch(text)
    if match is None:
        raise _wrong(text, text, "is not a buffer: expected DTYPE[SHAPE]")
    dtype = _dtype(text, match["dtype"])
    shape = _shape(text, match["shape"])
    parts = match["rest"][1:].split(":") if match["rest"] else []
    access = parts.pop() if parts and parts[-1] in _ACCESSES else None
    init = _initialiser(text, parts, dtype) if parts else None
    if init is None and access != "out":
        raise _wrong(text, match["rest"] or text, "has no initialiser, which only :out may omit")
    chosen: Literal["in", "out", "inout"] = "out" if access == "out" else "inout" if access == "inout" else "in"
    return BufferArgument(name=name, dtype=dtype, shape=shape, access=chosen, init=init)


def _dtype(text: str, word: str) -> ScalarType:
    known: tuple[ScalarType, ...] = get_args(ScalarType)
    for dtype in known:
        if word == dtype:
            return dtype
    if word in _ALIASES:
        return _ALIASES[word]
    near = nearest_type(word)
    raise _wrong(text, word, f"is not a data type{f'; did you mean {near}?' if near else ''}")


def _shape(text: str, word: str) -> tuple[int, ...]:
    sizes = word.split("x")
    for size in sizes:
        if not _COUNT.fullmatch(size):
            raise _wrong(text, f"[{word}]", "is not a shape: expected positive whole numbers, for example [512x4096]")
    shape = tuple(map(int, sizes))
    if len(shape) > _MOST_DIMENSIONS or math.prod(shape) > _MOST_ELEMENTS:
        raise _wrong(text, f"[{word}]", f"has more than {_MOST_DIMENSIONS} dimensions or {_MOST_ELEMENTS:,} elements")
    return shape


def _initialiser(text: str, parts: list[str], dtype: ScalarType) -> Initialiser:
    word, *settings = parts
    if word.startswith("file="):
        return _file(text, ":".join(parts).removeprefix("file="))
    constants = {"zeros": 0.0, "ones": 1.0}
    if word in constants:
        _settings(text, word, settings, {})
        return ConstantInit(value=constants[word])
    if word not in _KEYS:
        near = difflib.get_close_matches(word, [*_KEYS, *constants, "file"], n=1)
        raise _wrong(text, word, f"is not an initialiser{f'; did you mean {near[0]}?' if near else ''}")
    values = _settings(text, word, settings, _KEYS[word])
    init = _KINDS[word](**values)
    _check(text, init, dtype)
    return init


def _file(text: str, path: str) -> FileInit:
    if not path or "\0" in path:
        raise _wrong(text, f"file={path}", "has no file name")
    return FileInit(path=Path(path))


def _settings(text: str, init: str, settings: list[str], keys: Mapping[str, _Key]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for setting in settings:
        key, equals, value = setting.partition("=")
        if key not in keys or not equals:
            known = f"expected {', '.join(f'{key}=...' for key in keys)}" if keys else "it has none"
            raise _wrong(text, setting, f"is not a setting of {init}; {known}")
        if key in values:
            raise _wrong(text, setting, f"sets {key} twice")
        try:
            values[key] = keys[key].read(value)
        except ValueError:
            raise _wrong(text, setting, f"is not {keys[key].expects}") from None
    return values


def _check(text: str, init: Initialiser, dtype: ScalarType) -> None:
    """Reject values that NumPy would reject or silently change."""
    match init:
        case NormalInit(std=std) if std < 0:
            raise _wrong(text, f"std={std}", "is negative")
        case UniformInit(low=low, high=high) if low > high:
            raise _wrong(text, f"low={low}:high={high}", "is an empty range")
        case IntegersInit(low=int(low), high=int(high)) if low >= high:
            raise _wrong(text, f"low={low}:high={high}", "is an empty range: high is exclusive")
        case ConstantInit(value=value) if not _holds(dtype, value):
            raise _wrong(text, f"value={value}", f"does not fit in {dtype}")
        case _:
            pass


def _scalar_value(text: str, word: str, dtype: ScalarType) -> int | float:
    is_integer = DTYPES[dtype].kind in "iu"
    try:
        value = _integer(word) if is_integer else _float(word)
    except ValueError:
        raise _wrong(text, word, f"is not a {'whole number' if is_integer else 'number'}") from None
    if not _holds(dtype, value):
        raise _wrong(text, word, f"does not fit in {dtype}")
    return value


def _holds(dtype: ScalarType, value: float) -> bool:
    """Return whether a data type can hold a value; rounding is allowed, overflow is not."""
    numpy_type = DTYPES[dtype]
    if numpy_type.kind in "iu":
        limits = np.iinfo(numpy_type)
        return math.isfinite(value) and value == int(value) and limits.min <= value <= limits.max
    if not math.isfinite(value):
        return True
    with np.errstate(over="ignore"):
        return bool(np.isfinite(np.array(value).astype(numpy_type).astype(np.float64)))


def _hex(text: str, digits: str) -> bytes:
    cleaned = digits.removeprefix("0x").replace("_", "")
    if not cleaned or len(cleaned) % 2 or not re.fullmatch("[0-9a-fA-F]*", cleaned):
        raise _wrong(text, digits, "is not a sequence of bytes: expected two hexadecimal digits per byte, in memory order")
    return bytes.fromhex(cleaned)


def _integer(word: str) -> int:
    if len(word) > 40:  # more digits than a 64-bit number has in hexadecimal or octal
        raise ValueError(word)
    return int(word, 0)


def _wide_integer(word: str) -> int:
    value = _integer(word)
    if not -(2**63) <= value < 2**63:
        raise ValueError(word)
    return value


def _seed(word: str) -> int:
    value = _integer(word)
    if not 0 <= value <= _LARGEST_SEED:
        raise ValueError(word)
    return value


def _float(word: str) -> float:
    if re.match(r"[-+]?0x", word, re.IGNORECASE):
        try:
            return float.fromhex(word)
        except OverflowError as error:
            raise ValueError(word) from error
    return float(word)


def _finite(word: str) -> float:
    value = _float(word)
    if not abs(value) < 1e300:  # rejects NaN; ranges of larger numbers overflow
        raise ValueError(word)
    return value


_NUMBER = _Key(_finite, "a finite number")
_WHOLE = _Key(_wide_integer, "a 64-bit integer")
_SEED = _Key(_seed, "a whole number of at least 0")
_KEYS: Mapping[str, Mapping[str, _Key]] = {
    "normal": {"seed": _SEED, "mean": _NUMBER, "std": _NUMBER},
    "uniform": {"seed": _SEED, "low": _NUMBER, "high": _NUMBER},
    "integers": {"seed": _SEED, "low": _WHOLE, "high": _WHOLE},
    "constant": {"value": _Key(_float, "a number")},
    "arange": {},
    "poison": {},
}
_KINDS: Mapping[str, Callable[..., Initialiser]] = {
    "normal": NormalInit,
    "uniform": UniformInit,
    "integers": IntegersInit,
    "constant": ConstantInit,
    "arange": ArangeInit,
    "poison": PoisonInit,
}


def _wrong(text: str, part: str, problem: str) -> ArgumentTextError:
    return ArgumentTextError(f"{part!r} {problem}", where=f"--arg {text}", hint=f"the grammar is\n{GRAMMAR}")
