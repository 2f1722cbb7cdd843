"""Stand-ins for libraries, such as torch, that a Triton source imports only for its host code and that are not installed.

`install(modules)` makes their import succeed. Objects of such a module can be called, subclassed, and used in annotations and
as decorators, which return the function unchanged. They are false and have no numeric value. `triton_worker.py` loads this
module, so it imports only the standard library.
"""

from __future__ import annotations

import importlib.machinery
import sys
import types
from importlib.abc import Loader, MetaPathFinder
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

NAMES = ("torch", "torchvision", "einops", "transformers")
"""Libraries of host code; Triton compiles without them."""


class NotInstalled(Exception):
    """A value of a library that is not installed is required."""


class _Absent(type):
    """Metaclass of the objects of such a library; they are classes, so that they can be subclassed."""

    def __call__(cls, *arguments: Any, **keywords: Any) -> Any:
        is_decorator = len(arguments) == 1 and not keywords and callable(arguments[0]) and not isinstance(arguments[0], _Absent)
        return arguments[0] if is_decorator else cls

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _absent(f"{cls.__name__}.{name}")

    def __getitem__(cls, key: Any) -> Any:
        return cls

    def __iter__(cls) -> Iterator[Any]:
        return iter(())

    def __bool__(cls) -> bool:
        return False

    def __or__(cls, other: Any) -> Any:
        return cls

    def __enter__(cls) -> Any:
        return cls

    def __exit__(cls, *_: object) -> None:
        return None

    def _arithmetic(cls, *_: Any) -> Any:
        return cls

    def _comparison(cls, _: Any) -> bool:
        return False

    def _number(cls) -> Any:
        raise NotInstalled(f"{cls.__name__} is needed as a number")

    __ror__ = __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __floordiv__ = _arithmetic
    __neg__ = __mod__ = _arithmetic
    __lt__ = __le__ = __gt__ = __ge__ = _comparison
    __int__ = __float__ = __index__ = _number


def _absent(name: str) -> Any:
    return _Absent(name, (), {})


class _Module(types.ModuleType):
    __version__ = "0"

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _absent(f"{self.__name__}.{name}")

    def __deepcopy__(self, _: object) -> Any:
        """Fail, because Triton copies the objects that a kernel uses."""
        raise NotInstalled(f"the kernel itself uses {self.__name__}")


class _Finder(MetaPathFinder, Loader):
    """Finder of last resort, for the libraries that are not installed."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = frozenset(names)

    def find_spec(self, fullname: str, path: object, target: object = None) -> importlib.machinery.ModuleSpec | None:
        if fullname.partition(".")[0] not in self._names:
            return None
        return importlib.machinery.ModuleSpec(fullname, self, is_package=True)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        return _Module(spec.name)

    def exec_module(self, module: types.ModuleType) -> None:
        return None


def install(names: Sequence[str] = NAMES) -> None:
    """Make the libraries with these names importable, unless they are installed."""
    sys.meta_path.append(_Finder([name for name in names if importlib.machinery.PathFinder.find_spec(name) is None]))


def absent() -> tuple[str, ...]:
    """Return the libraries of which a stand-in was imported."""
    return tuple(sorted(name for name, module in sys.modules.items() if isinstance(module, _Module) and "." not in name))
