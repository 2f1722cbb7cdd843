"""Which instructions a wait waited for: wait counters are followed through a wavefront in program order.

`row_effects(text, gfxip)` says what one instruction does to the counters, `causes(effects)` walks over the instructions
that a wavefront executed. Counters are those of the shader ISA documents: vmcnt and lgkmcnt (GFX9), vscnt (GFX10, 11), and
those of GFX12 with names of their own. Scalar loads may return out of order, so waits for some of them are taken in order.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import Enum
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

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
"""An s_nop within so many instructions behind a matrix instruction stands there because of it."""


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


@dataclass(frozen=True)
class Cause:
    """The instruction at `victim` (a place in the given sequence) waited for those at `causes`, by `counter`."""

    victim: int
    causes: Mapping[int, Counter]


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


def causes(effects: Iterable[tuple[int, Effects, bool]]) -> Iterator[Cause]:
    """What each waiting instruction waited for.

    Args:
        effects: (place, effects, stalled) of what a wavefront executed, in order. Instructions without effects may be
            left out. Only those that stalled are asked for a matrix instruction that they waited for.
    """
    outstanding: dict[Counter, list[int]] = {counter: [] for counter in Counter}
    matrix: list[tuple[int, Effects]] = []
    for place, effect, stalled in effects:
        if effect.waits:
            drained: dict[int, Counter] = {}
            for counter, left in effect.waits.items():
                queue = outstanding[counter]
                over = len(queue) - left
                if over > 0:
                    drained |= dict.fromkeys(queue[:over], counter)
                    del queue[:over]
            if drained:
                yield Cause(place, drained)
            continue
        if stalled and matrix and (cause := _matrix_cause(place, effect, matrix)) is not None:
            yield Cause(place, {cause: Counter.MATRIX})
        for counter in effect.raises:
            outstanding[counter].append(place)
        if effect.is_matrix:
            matrix.append((place, effect))
            del matrix[:-_MATRIX_RESULTS_KEPT]


def _matrix_cause(place: int, effect: Effects, matrix: list[tuple[int, Effects]]) -> int | None:
    """The youngest matrix instruction whose result is touched; for another matrix instruction, the one before it."""
    if effect.is_pause:
        return matrix[-1][0] if place - matrix[-1][0] <= _HAZARD_DISTANCE else None
    for cause, earlier in reversed(matrix):
        if earlier.written & effect.touched:
            return cause
    return matrix[-1][0] if effect.is_matrix else None


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
