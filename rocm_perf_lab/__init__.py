"""rocm-perf-lab: a declarative experiment lab for AMD GPU kernels.

    import rocm_perf_lab as lab

    run = lab.profile("softmax", cols=2048)
    best = lab.optimize("softmax", budget=10)

The functions are those of :mod:`rocm_perf_lab.api`, which is imported at their first use. `optimize`, `autotune` and `replay` are
also packages: each is a module that can be called.
"""

import sys as _sys
from types import ModuleType as _ModuleType

__version__ = "0.1.0"

_API = "rocm_perf_lab.api"
_FUNCTIONS = ("analyze", "autotune", "compare", "optimize", "profile", "replay", "report", "run", "runs")
_CALLABLE_PACKAGES = ("autotune", "optimize", "replay", "report")
_TYPES = ("Comparison", "EndedApplication", "LabError", "LabRun", "NegativeResult", "Optimization", "ReplayedCapture", "Tuning")

__all__ = ["__version__", *_FUNCTIONS, *_TYPES]  # noqa: PLE0604  # the stub lists them one by one


class _CallablePackage(_ModuleType):
    """Package with the name of a function of the API, which calling it calls."""

    def __call__(self, *args, **settings):  # type: ignore[no-untyped-def]
        return _from_api(self.__name__.rpartition(".")[2])(*args, **settings)

    @property
    def __signature__(self):  # type: ignore[no-untyped-def]
        from inspect import signature

        return signature(_from_api(self.__name__.rpartition(".")[2]))


class _LabPackage(_ModuleType):
    """This package: imports the API on demand, and makes packages callable when the import system attaches them."""

    def __setattr__(self, name: str, value: object) -> None:
        if name in _CALLABLE_PACKAGES and isinstance(value, _ModuleType):
            value.__class__ = _CallablePackage
        super().__setattr__(name, value)

    def __getattr__(self, name: str) -> object:
        from importlib import import_module

        if name in _CALLABLE_PACKAGES:
            return import_module(f"{self.__name__}.{name}")
        if name in __all__:
            return _from_api(name)
        raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}", name=name, obj=self)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *__all__})


def _from_api(name: str):  # type: ignore[no-untyped-def]
    from importlib import import_module

    return getattr(import_module(_API), name)


_sys.modules[__name__].__class__ = _LabPackage
