"""Which kernel of one run is which of another: by symbol, else by name, else by name without template arguments."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple

from rocm_perf_lab.toolchain.demangle import base_name

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Sequence

Match = Literal["symbol", "name", "template"]


class Names(NamedTuple):
    """What a kernel is called: its symbol, and the name as its author wrote it."""

    mangled_name: str
    name: str


class Pair(NamedTuple):
    """Positions of one kernel in both runs, or in one of them; `match` says by what the two were found to be one."""

    base: int | None
    new: int | None
    match: Match | None = None


def pair_kernels(base: Sequence[Names], new: Sequence[Names]) -> tuple[Pair, ...]:
    """Those of the new run in its order, then those that are gone.

    Kernels that share a name are paired in their order. One that was instantiated with other template arguments is paired
    where both runs have a single such kernel: of several nobody can tell which is which.
    """
    found: dict[int, Pair] = {}
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
                found[young] = Pair(old, young, match)
                taken.add(old)
    kept = (found.get(place, Pair(None, place)) for place in range(len(new)))
    return (*kept, *(Pair(place, None) for place in range(len(base)) if place not in taken))


def _places(keys: Iterable[str], without: Container[int]) -> dict[str, list[int]]:
    places: dict[str, list[int]] = {}
    for place, key in enumerate(keys):
        if place not in without:
            places.setdefault(key, []).append(place)
    return places
