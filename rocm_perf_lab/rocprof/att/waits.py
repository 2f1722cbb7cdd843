"""Which instructions a wait waited for: wait counters are followed through a wavefront in program order.

`row_effects(text, gfxip)` says what one instruction does to the counters, `follow(lines, effects)` walks over the
instructions that a wavefront executed. Counters are those of the shader ISA documents: vmcnt and lgkmcnt (GFX9), vscnt
(GFX10, 11), and those of GFX12 with names of their own. Scalar loads may return out of order; they are taken in order.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import Enum
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

_FIRST_WITH_VSCNT, _FIRST_WITH_WIDE_FIELDS, _FIRST_WITH_MOVED_FIELDS, _FIRST_WITH_OWN_COUNTERS = 10, 10, 11, 12
_NAMED = re.compile(r"\b(vmcnt|lgkmcnt|expcnt)\((\d+)\)")
_NUMBER = re.compile(r"(0x[0-9a-fA-F]+|\d+)\s*$")
_REGISTER = re.compile(r"\b([va])(?:\[(\d+):(\d+)\]|(\d+))(?![\w\[])")
_MATRIX = ("v_mfma", "v_smfmac", "v_wmma", "v_swmmac")
_SCALAR_MEMORY = ("s_load", "s_buffer", "s_scratch", "s_store", "s_atomic", "s_dcache", "s_memtime", "s_memrealtime")
_VECTOR_MEMORY = ("global_", "buffer_", "tbuffer_", "scratch_", "image_")
_NOT_COUNTED = ("buffer_inv", "buffer_gl0_inv", "buffer_gl1_inv", "buffer_wbinvl1", "global_inv", "global_wb")
_RETURNING = re.compile(r"\b(glc|sc0|th:TH_ATOMIC_RETURN)\b")
_MATRIX_RESULTS_KEPT = 16
"""Results of that many matrix instructions are looked at: older ones are long done."""
_HAZARD_DISTANCE = 8
"""An s_nop within so many followed instructions behind a matrix instruction stands there because of it."""


class Counter(Enum):
    """What counts outstanding operations."""

    VECTOR = "vmcnt"
    SCALAR_AND_LDS = "lgkmcnt"
    STORE = "vscnt"
    EXPORT = "expcnt"
    LDS = "dscnt"
    SCALAR = "kmcnt"
    MATRIX = "matrix"
    """No counter of the hardware: results of matrix instructions, and the matrix core itself."""


@dataclass(frozen=True)
class Effects:
    """What one instruction does: counters that it raises, counters that it waits for (down to a value), registers."""

    raises: tuple[Counter, ...] = ()
    waits: Mapping[Counter, int] = field(default_factory=dict)
    is_matrix: bool = False
    is_pause: bool = False
    """s_nop: put there by the compiler where results take time."""
    written: frozenset[str] = frozenset()
    touched: frozenset[str] = frozenset()


_COUNTERS = tuple(Counter)
_MATRIX_NUMBER = _COUNTERS.index(Counter.MATRIX)


@dataclass(frozen=True, eq=False)
class Links:
    """The instruction at place `victims[i]` waited for the one at `causes[i]`; all arrays are (n_links).

    Links of one victim stand together, those of one counter too, in order of issue. Whether the victim did wait, and how
    long, is not said here.
    """

    victims: NDArray[np.int64]
    causes: NDArray[np.int64]
    counters: NDArray[np.int64]

    def counter(self, link: int) -> Counter:
        """By which counter."""
        return _COUNTERS[int(self.counters[link])]

    @property
    def is_matrix(self) -> NDArray[np.bool_]:
        """Whether a link is a guess about the matrix core, and not a wait for a counter."""
        mask: NDArray[np.bool_] = self.counters == _MATRIX_NUMBER
        return mask


_GFX12_WAITS: dict[str, tuple[Counter, ...]] = {
    "s_wait_loadcnt_dscnt": (Counter.VECTOR, Counter.LDS),
    "s_wait_storecnt_dscnt": (Counter.STORE, Counter.LDS),
    "s_wait_loadcnt": (Counter.VECTOR,),
    "s_wait_samplecnt": (Counter.VECTOR,),
    "s_wait_bvhcnt": (Counter.VECTOR,),
    "s_wait_storecnt": (Counter.STORE,),
    "s_wait_dscnt": (Counter.LDS,),
    "s_wait_kmcnt": (Counter.SCALAR,),
    "s_wait_expcnt": (Counter.EXPORT,),
}


@lru_cache(maxsize=65536)
def row_effects(text: str, gfxip: int | None) -> Effects:
    """What an instruction does; GFX9 (CDNA) where the generation is unknown."""
    generation = gfxip or 9
    mnemonic = text.split(maxsplit=1)[0].lower() if text.strip() else ""
    if mnemonic.startswith("s_wait"):
        return Effects(waits=_waits(mnemonic, text, generation))
    if mnemonic == "s_nop":
        return Effects(is_pause=True)
    if mnemonic.startswith("s_"):
        return Effects(raises=_scalar_counters(mnemonic, generation))
    operands = text[len(mnemonic) :]
    written, touched = _registers(operands.split(",", 1)[0]), _registers(operands)
    if mnemonic.startswith(_MATRIX):
        return Effects(is_matrix=True, written=written, touched=touched)
    return Effects(raises=_memory_counters(mnemonic, text, generation), touched=touched)


def follow(lines: Sequence[int], effects: Mapping[int, Effects]) -> Links:
    """What each waiting instruction waited for.

    Args:
        lines: Rows of the instructions that a wavefront executed, in order. Those without effects may be left out.
        effects: Of each row.
    """
    outstanding: dict[Counter, list[int]] = {counter: [] for counter in Counter}
    victims: list[int] = []
    found: list[int] = []
    counters: list[int] = []
    matrix = _MatrixCore(effects)
    for place, line in enumerate(lines):
        effect = effects[line]
        if effect.waits:
            for counter, left in effect.waits.items():
                queue = outstanding[counter]
                over = len(queue) - left
                if over > 0:
                    victims += [place] * over
                    found += queue[:over]
                    counters += [_COUNTERS.index(counter)] * over
                    del queue[:over]
            continue
        cause = matrix.step(place, line)
        if cause is not None:
            victims.append(place)
            found.append(cause)
            counters.append(_MATRIX_NUMBER)
        for counter in effect.raises:
            outstanding[counter].append(place)
    return Links(*(np.array(column, dtype=np.int64) for column in (victims, found, counters)))


def matters(effects: Mapping[int, Effects]) -> frozenset[int]:
    """The rows that `follow` has to see."""
    results = frozenset[str]().union(*(effect.written for effect in effects.values() if effect.is_matrix))
    return frozenset(
        line
        for line, effect in effects.items()
        if effect.raises or effect.waits or effect.is_matrix or (results and (effect.is_pause or effect.touched & results))
    )


class _MatrixCore:
    """Follows matrix instructions: the youngest whose result is touched, and for another of them the one before."""

    def __init__(self, effects: Mapping[int, Effects]) -> None:
        self._effects = effects
        self._recent: list[tuple[int, int]] = []
        self._overlaps: dict[tuple[int, int], bool] = {}

    def step(self, place: int, line: int) -> int | None:
        """Take in one instruction; the place of what it may have to wait for."""
        effect, recent = self._effects[line], self._recent
        cause = self._cause(place, line, effect) if recent else None
        if effect.is_matrix:
            recent.append((place, line))
            del recent[:-_MATRIX_RESULTS_KEPT]
        return cause

    def _cause(self, place: int, line: int, effect: Effects) -> int | None:
        youngest = self._recent[-1][0]
        if effect.is_pause:
            return youngest if place - youngest <= _HAZARD_DISTANCE else None
        if effect.touched:
            for earlier, row in reversed(self._recent):
                if self._overlap(row, line):
                    return earlier
        return youngest if effect.is_matrix else None

    def _overlap(self, writer: int, reader: int) -> bool:
        key = (writer, reader)
        if key not in self._overlaps:
            self._overlaps[key] = bool(self._effects[writer].written & self._effects[reader].touched)
        return self._overlaps[key]


def _waits(mnemonic: str, text: str, generation: int) -> dict[Counter, int]:
    number = _NUMBER.search(text)
    word = int(number[1], 0) if number else 0
    if mnemonic in _GFX12_WAITS:
        counters = _GFX12_WAITS[mnemonic]
        return {counters[0]: word >> 8 & 0x3F, counters[1]: word & 0x3F} if len(counters) > 1 else {counters[0]: word}
    if mnemonic == "s_wait_idle":
        return {counter: 0 for counter in Counter if counter is not Counter.MATRIX}
    if mnemonic == "s_waitcnt_vscnt":
        return {Counter.STORE: word}
    separate = {
        "s_waitcnt_vmcnt": Counter.VECTOR,
        "s_waitcnt_lgkmcnt": Counter.SCALAR_AND_LDS,
        "s_waitcnt_expcnt": Counter.EXPORT,
    }
    if mnemonic in separate:
        return {separate[mnemonic]: word}
    if mnemonic != "s_waitcnt":
        return {}
    named = {Counter(name): int(left) for name, left in _NAMED.findall(text)}
    return named if named or number is None else _encoded(word, generation)


def _encoded(word: int, generation: int) -> dict[Counter, int]:
    """Fields of s_waitcnt; what has all bits set is not waited for."""
    if generation >= _FIRST_WITH_MOVED_FIELDS:
        fields = {Counter.VECTOR: (word >> 10 & 0x3F, 0x3F), Counter.SCALAR_AND_LDS: (word >> 4 & 0x3F, 0x3F)}
    else:
        widest = 0x3F if generation >= _FIRST_WITH_WIDE_FIELDS else 0xF
        vector = (word & 0xF) | (word >> 14 & 3) << 4
        fields = {Counter.VECTOR: (vector, 0x3F), Counter.SCALAR_AND_LDS: (word >> 8 & widest, widest)}
    return {counter: left for counter, (left, most) in fields.items() if left != most}


def _scalar_counters(mnemonic: str, generation: int) -> tuple[Counter, ...]:
    if mnemonic.startswith((*_SCALAR_MEMORY, "s_sendmsg")) and not mnemonic.endswith("_inv"):
        return (Counter.SCALAR,) if generation >= _FIRST_WITH_OWN_COUNTERS else (Counter.SCALAR_AND_LDS,)
    return ()


def _memory_counters(mnemonic: str, text: str, generation: int) -> tuple[Counter, ...]:
    lds = Counter.LDS if generation >= _FIRST_WITH_OWN_COUNTERS else Counter.SCALAR_AND_LDS
    if mnemonic.startswith("ds_"):
        return (lds,)
    if mnemonic.startswith("exp"):
        return (Counter.EXPORT,) if mnemonic in ("exp", "export") else ()
    is_flat = mnemonic.startswith("flat_")
    if not is_flat and (not mnemonic.startswith(_VECTOR_MEMORY) or mnemonic.startswith(_NOT_COUNTED)):
        return ()
    is_store = "_store" in mnemonic or ("_atomic" in mnemonic and not _RETURNING.search(text))
    vector = Counter.STORE if is_store and generation >= _FIRST_WITH_VSCNT else Counter.VECTOR
    return (vector, lds) if is_flat else (vector,)


def _registers(operands: str) -> frozenset[str]:
    found: set[str] = set()
    for kind, first, last, single in _REGISTER.findall(operands):
        numbers = range(int(first), min(int(last), int(first) + 63) + 1) if first else (int(single),)
        found.update(f"{kind}{number}" for number in numbers)
    return frozenset(found)
