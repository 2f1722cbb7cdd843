"""Stand-ins for libraries that a Triton source imports for its host code alone, such as torch, where they are not installed.

`install(modules)` makes their import succeed. What comes out of such a module can be called, subclassed, annotated with and
used as a decorator, which leaves the decorated function as it is; it is false, and it is no number. Loaded by
`triton_worker.py`: the standard library only.
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
"""What kernels never need: Triton compiles without them."""


class NotInstalled(Exception):
    """A value of a library that is not there was needed."""


class _Absent(type):
    """Anything that such a library has: a class, so that it can be subclassed too."""

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
        """Triton copies what a kernel uses."""
        raise NotInstalled(f"the kernel itself uses {self.__name__}")


class _Finder(MetaPathFinder, Loader):
    """Last of all finders: only what nobody else has."""

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
    """Let the modules of these names be imported from now on, unless they are there."""
    sys.meta_path.append(_Finder([name for name in names if importlib.machinery.PathFinder.find_spec(name) is None]))


def absent() -> tuple[str, ...]:
    """The libraries that a stand-in was imported for."""
    return tuple(sorted(name for name, module in sys.modules.items() if isinstance(module, _Module) and "." not in name))
