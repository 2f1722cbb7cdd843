"""Kernel languages by name: built-in, installed with an entry point, or a class named by its dotted path.

A package adds a language with an entry point in the group `rocm_perf_lab.languages`; a single kernel names the class in its
`kernel.yaml`: `language: my_module.MyLanguage`.
"""

from __future__ import annotations

import difflib
from functools import cache
from importlib.metadata import EntryPoint, entry_points

from rocm_perf_lab.core.errors import LabError
from rocm_perf_lab.languages.language import Language

GROUP = "rocm_perf_lab.languages"
_BUILT_IN = (
    EntryPoint("hip", "rocm_perf_lab.languages.hip:HipLanguage", GROUP),
    EntryPoint("hiprtc", "rocm_perf_lab.languages.hiprtc:HiprtcLanguage", GROUP),
    EntryPoint("triton", "rocm_perf_lab.languages.triton:TritonLanguage", GROUP),
    EntryPoint("assembly", "rocm_perf_lab.languages.assembly:AssemblyLanguage", GROUP),
)


class UnknownLanguage(LabError):
    """A language that is not registered, or a class that cannot be imported."""


@cache
def find_language(name: str) -> Language:
    """Return the language with this name or dotted path.

    Raises:
        UnknownLanguage: No language has this name, or the class cannot be imported or is not a :class:`Language`.
    """
    module, _, attribute = name.rpartition(".")
    if module:
        return _load(EntryPoint(name, f"{module}:{attribute}", GROUP))
    built_in = next((entry for entry in _BUILT_IN if entry.name == name), None)
    installed = built_in or next(iter(entry_points(group=GROUP, name=name)), None)
    if installed is None:
        known = language_names()
        near = difflib.get_close_matches(name, known, n=1)
        raise UnknownLanguage(
            f"unknown language {name!r}",
            where="kernel.language",
            hint=f"did you mean {near[0]}?" if near else f"languages: {', '.join(known)}, or the dotted path of a class",
        )
    return _load(installed)


def language_names() -> tuple[str, ...]:
    """Return the names of all registered languages, built-in ones first."""
    return tuple(dict.fromkeys([*(entry.name for entry in _BUILT_IN), *sorted(entry_points(group=GROUP).names)]))


def _load(entry: EntryPoint) -> Language:
    try:
        found = entry.load()
    except (ImportError, AttributeError) as error:
        raise UnknownLanguage(
            f"cannot import the language {entry.name!r}: {error}",
            where="kernel.language",
            hint="the module must be importable: run rocm-perf in its directory, or set PYTHONPATH",
        ) from error
    if not (isinstance(found, type) and issubclass(found, Language)):
        raise UnknownLanguage(
            f"{entry.name!r} is not a language",
            where="kernel.language",
            hint="name a class derived from rocm_perf_lab.languages.language.Language",
        )
    return found()
