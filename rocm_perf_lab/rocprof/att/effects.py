"""Effects of an instruction on the counters of outstanding operations: `row_effects(text, gfxip) -> Effects`.

Counters are those of the shader ISA documents: vmcnt, lgkmcnt and expcnt (GFX9), additionally vscnt (GFX10, GFX11), and the
separate counters of GFX12. Operations of one :class:`Lane` return in order, those of different lanes in any order: LDS, GDS and
messages each form a lane; scalar loads and, on GFX9, flat operations are unordered (LLVM's SIInsertWaitcnts).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import Enum
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

_FIRST_WITH_VSCNT, _FIRST_WITH_WIDE_FIELDS, _FIRST_WITH_MOVED_FIELDS, _FIRST_WITH_OWN_COUNTERS = 10, 10, 11, 12
_NUMBER = re.compile(r"(0x[0-9a-fA-F]+|\d+)\s*$")
_NAMED = re.compile(r"\b([a-z]+cnt)\b\s*\(?\s*(0x[0-9a-fA-F]+|\d+)")
_REGISTER = re.compile(r"\b([va])(?:\[(\d+):(\d+)\]|(\d+))(?![\w\[])")
_WIDEST_OPERAND = 64
_MATRIX = ("v_mfma", "v_smfmac", "v_wmma", "v_swmmac")
_SCALAR_MEMORY = (
    "s_load", "s_buffer_load", "s_buffer_store", "s_buffer_atomic", "s_scratch", "s_store", "s_atomic", "s_dcache",
    "s_memtime", "s_memrealtime", "s_atc_probe", "s_get_barrier_state",
)  # fmt: skip
_VECTOR_MEMORY = ("global_", "buffer_", "tbuffer_", "scratch_", "image_")
_NOT_COUNTED = ("buffer_inv", "buffer_gl0_inv", "buffer_gl1_inv", "buffer_wbinvl1", "global_prefetch", "flat_prefetch")
_LDS_DIRECT = ("lds_direct", "lds_param", "ds_direct", "ds_param")
_SAMPLING = ("image_sample", "image_gather", "image_msaa_load", "image_get_lod")
_RETURNING = re.compile(r"\b(glc|sc0|th:TH_ATOMIC_RETURN)\b")


class Counter(Enum):
    """Counter of outstanding operations."""

    VECTOR = "vmcnt"
    SCALAR_AND_LDS = "lgkmcnt"
    STORE = "vscnt"
    EXPORT = "expcnt"
    LOAD_GFX12 = "loadcnt"
    STORE_GFX12 = "storecnt"
    SAMPLE = "samplecnt"
    RAY = "bvhcnt"
    LDS = "dscnt"
    SCALAR = "kmcnt"
    ASYNCHRONOUS = "asynccnt"
    TENSOR = "tensorcnt"
    MATRIX = "matrix"
    """Not a hardware counter: results of matrix instructions, and the matrix core itself."""


class Lane(NamedTuple):
    """Operations under one counter that return in order among themselves, or in any order if unordered."""

    counter: Counter
    kind: str
    is_ordered: bool = True


@dataclass(frozen=True)
class Effects:
    """Effects of one instruction: lanes that it joins, counters that it waits for (with the value), registers."""

    raises: tuple[Lane, ...] = ()
    """A lane that occurs twice counts twice."""
    waits: Mapping[Counter, int] = field(default_factory=dict)
    is_matrix: bool = False
    is_pause: bool = False
    """s_nop: inserted by the compiler because of the following instruction."""
    written: frozenset[str] = frozenset()
    touched: frozenset[str] = frozenset()


_COMBINED_WAITS: dict[str, tuple[Counter, Counter]] = {
    "s_wait_loadcnt_dscnt": (Counter.LOAD_GFX12, Counter.LDS),
    "s_wait_storecnt_dscnt": (Counter.STORE_GFX12, Counter.LDS),
}
_BY_NAME: dict[str, Counter] = {counter.value: counter for counter in Counter if counter is not Counter.MATRIX}


@lru_cache(maxsize=65536)
def row_effects(text: str, gfxip: int | None) -> Effects:
    """Return the effects of an instruction; GFX9 (CDNA) rules if the generation is unknown."""
    generation = gfxip or 9
    mnemonic = text.split(maxsplit=1)[0].lower() if text.strip() else ""
    if mnemonic.startswith("s_wait"):
        return Effects(waits=_waits(mnemonic, text.lower(), generation))
    if mnemonic == "s_nop":
        return Effects(is_pause=True)
    if mnemonic.startswith("s_"):
        return Effects(raises=_scalar_lanes(mnemonic, generation))
    operands = text[len(mnemonic) :]
    touched = _registers(operands)
    if mnemonic.startswith(_MATRIX):
        return Effects(is_matrix=True, written=_registers(operands.split(",", 1)[0]), touched=touched)
    return Effects(raises=_memory_lanes(mnemonic, text, generation), touched=touched)


def _waits(mnemonic: str, text: str, generation: int) -> dict[Counter, int]:
    number = _NUMBER.search(text)
    word = int(number[1], 0) if number else 0
    if mnemonic in _COMBINED_WAITS:
        first, second = _COMBINED_WAITS[mnemonic]
        return {first: word >> 8 & 0x3F, second: word & 0x3F}
    if mnemonic == "s_wait_idle":
        return dict.fromkeys(_BY_NAME.values(), 0)
    if mnemonic == "s_waitcnt":
        named = {_BY_NAME[name]: int(left, 0) for name, left in _NAMED.findall(text) if name in _BY_NAME}
        return named if named or number is None else _encoded(word, generation)
    # s_waitcnt_depctr, s_wait_alu, s_wait_event and s_wait_xcnt do not wait for counted memory operations.
    counter = _BY_NAME.get(mnemonic.removeprefix("s_waitcnt_").removeprefix("s_wait_"))
    return {counter: word} if counter is not None else {}


def _encoded(word: int, generation: int) -> dict[Counter, int]:
    """Decode the fields of s_waitcnt; a field with all bits set does not wait."""
    if generation >= _FIRST_WITH_MOVED_FIELDS:
        vector, lds, export = word >> 10 & 0x3F, word >> 4 & 0x3F, word & 7
    else:
        vector, lds, export = (word & 0xF) | (word >> 14 & 3) << 4, word >> 8 & 0x3F, word >> 4 & 7
    widest = 0x3F if generation >= _FIRST_WITH_WIDE_FIELDS else 0xF
    fields = ((Counter.VECTOR, vector, 0x3F), (Counter.SCALAR_AND_LDS, lds & widest, widest), (Counter.EXPORT, export, 7))
    return {counter: left for counter, left, most in fields if left != most}


def _scalar_lanes(mnemonic: str, generation: int) -> tuple[Lane, ...]:
    counter = Counter.SCALAR if generation >= _FIRST_WITH_OWN_COUNTERS else Counter.SCALAR_AND_LDS
    if mnemonic.startswith("s_sendmsg"):
        message = Lane(counter, "message")
        return (message, message) if mnemonic.startswith("s_sendmsg_rtn") else (message,)
    if mnemonic.startswith(_SCALAR_MEMORY) and not mnemonic.startswith("s_dcache_inv"):
        return (Lane(counter, "scalar", is_ordered=False),)
    return ()


def _memory_lanes(mnemonic: str, text: str, generation: int) -> tuple[Lane, ...]:
    has_own = generation >= _FIRST_WITH_OWN_COUNTERS
    lds = Lane(Counter.LDS if has_own else Counter.SCALAR_AND_LDS, "lds")
    if mnemonic.startswith(_LDS_DIRECT):
        return (Lane(Counter.EXPORT, "lds"),)
    if mnemonic.startswith("ds_"):
        if mnemonic.startswith("ds_gws_") or text.rstrip().endswith(" gds"):
            return Lane(lds.counter, "gds"), Lane(Counter.EXPORT, "gds")
        return (lds,)
    if mnemonic in ("exp", "export"):
        return (Lane(Counter.EXPORT, "export"),)
    if mnemonic.startswith("tensor_"):
        return (Lane(Counter.TENSOR, "tensor"),)
    is_flat = mnemonic.startswith("flat_")
    if mnemonic.startswith(_NOT_COUNTED) or not (is_flat or mnemonic.startswith(_VECTOR_MEMORY)):
        return ()
    if "_async_" in mnemonic:
        return (Lane(Counter.ASYNCHRONOUS, "asynchronous"),)
    vector = Lane(_vector_counter(mnemonic, text, generation), "vector")
    if not is_flat:
        return (vector,)
    if generation >= _FIRST_WITH_VSCNT:
        return vector, lds
    return Lane(vector.counter, "flat", is_ordered=False), Lane(lds.counter, "flat", is_ordered=False)


def _vector_counter(mnemonic: str, text: str, generation: int) -> Counter:
    is_store = "_store" in mnemonic or ("_atomic" in mnemonic and not _RETURNING.search(text))
    if generation < _FIRST_WITH_OWN_COUNTERS:
        return Counter.STORE if is_store and generation >= _FIRST_WITH_VSCNT else Counter.VECTOR
    if is_store or mnemonic.startswith("global_wb"):
        return Counter.STORE_GFX12
    if mnemonic.startswith(_SAMPLING):
        return Counter.SAMPLE
    return Counter.RAY if mnemonic.startswith("image_bvh") else Counter.LOAD_GFX12


def _registers(operands: str) -> frozenset[str]:
    found: set[str] = set()
    for kind, first, last, single in _REGISTER.findall(operands):
        numbers = range(int(first), min(int(last), int(first) + _WIDEST_OPERAND - 1) + 1) if first else (int(single),)
        found.update(f"{kind}{number}" for number in numbers)
    return frozenset(found)
