"""Pairs of kernels of two runs: by mangled name, by name, or by name without template arguments; then by launch shape."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple

from rocm_perf_lab.toolchain.demangle import base_name

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Sequence

Match = Literal["symbol", "name", "template"]


class KernelNames(NamedTuple):
    """Symbol of a kernel, its name in the source, and its launch shape, if known."""

    mangled_name: str
    name: str
    launch: str | None = None


class KernelPair(NamedTuple):
    """Positions of one kernel in both runs, or in one of them; `match` is the criterion that paired them."""

    base: int | None
    new: int | None
    match: Match | None = None


def has_other_launch(base: str | None, new: str | None) -> bool:
    """Return whether both launch shapes are known and differ."""
    return base is not None and new is not None and base != new


def pair_kernels(base: Sequence[KernelNames], new: Sequence[KernelNames]) -> tuple[KernelPair, ...]:
    """Pair the kernels of two runs: those of the new run in its order, then those missing in it.

    Kernels that share a name are paired by launch shape, then in order. A kernel instantiated with other template arguments is
    paired only if both runs have a single such kernel: several would be ambiguous.
    """
    base_groups, new_groups = _by_name(base), _by_name(new)
    base_places, new_places = list(base_groups.values()), list(new_groups.values())
    found: dict[int, KernelPair] = {}
    taken: set[int] = set()
    for old, young, match in _pair_names(list(base_groups), list(new_groups)):
        for first, second in _pair_launches(base_places[old], new_places[young], base, new):
            found[second] = KernelPair(first, second, match)
            taken.add(first)
    kept = (found.get(place, KernelPair(None, place)) for place in range(len(new)))
    return (*kept, *(KernelPair(place, None) for place in range(len(base)) if place not in taken))


def _by_name(kernels: Sequence[KernelNames]) -> dict[tuple[str, str], list[int]]:
    places: dict[tuple[str, str], list[int]] = {}
    for place, kernel in enumerate(kernels):
        places.setdefault((kernel.mangled_name, kernel.name), []).append(place)
    return places


def _pair_launches(
    base: Sequence[int], new: Sequence[int], base_kernels: Sequence[KernelNames], new_kernels: Sequence[KernelNames]
) -> list[tuple[int, int]]:
    """Pair the launches of one kernel: equal shapes, then unknown ones, then the rest in order."""
    pairs: list[tuple[int, int]] = []
    old, young = list(base), list(new)
    for most_different in range(3):
        for second in list(young):
            launch = new_kernels[second].launch
            first = next((one for one in old if _shape_difference(base_kernels[one].launch, launch) <= most_different), None)
            if first is not None:
                pairs.append((first, second))
                old.remove(first)
                young.remove(second)
    return pairs


def _shape_difference(base: str | None, new: str | None) -> int:
    """Return 0 for equal launch shapes, 1 if one is unknown, 2 for different ones."""
    return 2 if has_other_launch(base, new) else int(base != new)


def _pair_names(base: Sequence[tuple[str, str]], new: Sequence[tuple[str, str]]) -> list[tuple[int, int, Match]]:
    """Return the positions of kernels with equal names, and the criterion that paired them."""
    found: dict[int, tuple[int, int, Match]] = {}
    taken: set[int] = set()
    keys: tuple[tuple[Match, list[str], list[str]], ...] = (
        ("symbol", [symbol for symbol, _ in base], [symbol for symbol, _ in new]),
        ("name", [name for _, name in base], [name for _, name in new]),
        ("template", [base_name(name) for _, name in base], [base_name(name) for _, name in new]),
    )
    for match, base_keys, new_keys in keys:
        candidates = _places(base_keys, taken)
        for key, places in _places(new_keys, found).items():
            known = candidates.get(key, [])
            if match == "template" and not len(known) == len(places) == 1:
                continue
            for old, young in zip(known, places, strict=False):
                found[young] = (old, young, match)
                taken.add(old)
    return list(found.values())


def _places(keys: Iterable[str], without: Container[int]) -> dict[str, list[int]]:
    places: dict[str, list[int]] = {}
    for place, key in enumerate(keys):
        if place not in without:
            places.setdefault(key, []).append(place)
    return places
