"""Pairs of kernels of two runs: by mangled name, by name, or by name without template arguments."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple

from rocm_perf_lab.toolchain.demangle import base_name

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Sequence

Match = Literal["symbol", "name", "template"]


class KernelNames(NamedTuple):
    """Symbol of a kernel, and its name in the source."""

    mangled_name: str
    name: str


class KernelPair(NamedTuple):
    """Positions of one kernel in both runs, or in one of them; `match` is the criterion that paired them."""

    base: int | None
    new: int | None
    match: Match | None = None


def pair_kernels(base: Sequence[KernelNames], new: Sequence[KernelNames]) -> tuple[KernelPair, ...]:
    """Pair the kernels of two runs: those of the new run in its order, then those missing in it.

    Kernels that share a name are paired in order. A kernel instantiated with other template arguments is paired only if both
    runs have a single such kernel: several would be ambiguous.
    """
    found: dict[int, KernelPair] = {}
    taken: set[int] = set()
    keys: tuple[tuple[Match, list[str], list[str]], ...] = (
        ("symbol", [one.mangled_name for one in base], [one.mangled_name for one in new]),
        ("name", [one.name for one in base], [one.name for one in new]),
        ("template", [base_name(one.name) for one in base], [base_name(one.name) for one in new]),
    )
    for match, base_keys, new_keys in keys:
        candidates = _places(base_keys, taken)
        for key, places in _places(new_keys, found).items():
            known = candidates.get(key, [])
            if match == "template" and not len(known) == len(places) == 1:
                continue
            for old, young in zip(known, places, strict=False):
                found[young] = KernelPair(old, young, match)
                taken.add(old)
    kept = (found.get(place, KernelPair(None, place)) for place in range(len(new)))
    return (*kept, *(KernelPair(place, None) for place in range(len(base)) if place not in taken))


def _places(keys: Iterable[str], without: Container[int]) -> dict[str, list[int]]:
    places: dict[str, list[int]] = {}
    for place, key in enumerate(keys):
        if place not in without:
            places.setdefault(key, []).append(place)
    return places
