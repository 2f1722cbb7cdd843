"""Memory and LDS instructions of RDNA2 in wavefronts of 32 and 64 lanes, form by form and opcode by opcode, against NumPy."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from rocm_perf_lab.arch.registry import emulated_architectures
from rocm_perf_lab.emulator.structures import LANES, M0, FaultKind, WaveStatus
from tests.builders.opcodes import JUNK, Snippets
from tests.builders.rdna2 import ARCHITECTURE
from tests.builders.waves import WaveBench

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from rocm_perf_lab.emulator.memory import Allocation

U8, U32, U64 = np.uint8, np.uint32, np.uint64
ACTIVE = 0x7A5A_0FF0_C33C_9669
LANE = np.arange(LANES)
START, RESULT, DATA = 512, 20, 12
"""First byte that the accesses may touch, row of results, row of data."""
BYTES, SCRATCH_BYTES = 4096, 2048


LOADS: dict[str, tuple[Any, int]] = {
    "ubyte": (np.uint8, 1), "sbyte": (np.int8, 1), "ushort": (np.uint16, 1), "sshort": (np.int16, 1), "dword": (U32, 1),
    "dwordx2": (U32, 2), "dwordx3": (U32, 3), "dwordx4": (U32, 4),
    "ubyte_d16": (np.uint8, 1), "ubyte_d16_hi": (np.uint8, 1), "sbyte_d16": (np.int8, 1), "sbyte_d16_hi": (np.int8, 1),
    "short_d16": (np.uint16, 1), "short_d16_hi": (np.uint16, 1),
}  # fmt: skip
LDS_LOADS = {"u8": "ubyte", "i8": "sbyte", "u16": "ushort", "i16": "sshort", "b32": "dword", "b64": "dwordx2", "b96": "dwordx3",
             "b128": "dwordx4", "u8_d16": "ubyte_d16", "u8_d16_hi": "ubyte_d16_hi", "i8_d16": "sbyte_d16",
             "i8_d16_hi": "sbyte_d16_hi", "u16_d16": "short_d16", "u16_d16_hi": "short_d16_hi"}  # fmt: skip
STORES = {"byte": (1, 0), "byte_d16_hi": (1, 2), "short": (2, 0), "short_d16_hi": (2, 2), "dword": (4, 0), "dwordx2": (8, 0),
          "dwordx3": (12, 0), "dwordx4": (16, 0)}  # fmt: skip
"""Bytes, and the first one of the register."""
LDS_STORES = {"b8": "byte", "b8_d16_hi": "byte_d16_hi", "b16": "short", "b16_d16_hi": "short_d16_hi", "b32": "dword",
              "b64": "dwordx2", "b96": "dwordx3", "b128": "dwordx4"}  # fmt: skip
FORMS = {
    "global": ("global", "v[0:1]", "off offset:-2048"),
    "global_saddr": ("global", "v6", "s[2:3] offset:2047"),
    "flat": ("flat", "v[0:1]", "offset:2047"),
    "buffer": ("buffer", "v6", "s[8:11], s14 offen offset:4095"),
    "buffer_null": ("buffer", "v6", "s[8:11], null offen offset:24"),
    "scratch": ("scratch", "v6", "off offset:-2048"),
    "scratch_saddr": ("scratch", "off", "s14 offset:2047"),
    "scratch_off": ("scratch", "off", f"off offset:{START + 8}"),
    "ds": ("ds", "v6", "offset:65535"),
}
UNIFORM = ("scratch_saddr", "scratch_off")
CONSTANTS = {
    "global": -2048,
    "global_saddr": 2047,
    "flat": 2047,
    "buffer": 4095,
    "buffer_null": 24,
    "scratch": -2048,
    "ds": 65535,
}


def registers(first: int, dwords: int) -> str:
    return f"v{first}" if dwords == 1 else f"v[{first}:{first + dwords - 1}]"


def access(form: str, operation: str, data: str, *, stores: bool = False) -> str:
    """Return an instruction of a form."""
    prefix, address, rest = FORMS[form]
    gap = " " if rest.startswith("offset") else ", "
    if prefix == "buffer" or not stores:
        return f"{prefix}_{operation} {data}, {address}{gap}{rest}"
    return f"{prefix}_{operation} {address}, {data}{gap}{rest}"


def load_text(form: str, kind: str) -> str:
    name = next(n for n, k in LDS_LOADS.items() if k == kind) if form == "ds" else kind
    return access(form, f"{'read' if form == 'ds' else 'load'}_{name}", registers(RESULT, LOADS[kind][1]))


def store_text(form: str, kind: str) -> str:
    name = next(n for n, k in LDS_STORES.items() if k == kind) if form == "ds" else kind
    data = registers(DATA, max(1, STORES[kind][0] // 4))
    return access(form, f"{'write' if form == 'ds' else 'store'}_{name}", data, stores=True)


# ---- atomics ----

ATOMICS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "swap": lambda m, d, _: d, "cmpswap": lambda m, d, c: d if m == c else m, "add": lambda m, d, _: m + d,
    "sub": lambda m, d, _: m - d, "smin": lambda m, d, _: min(m, d), "umin": lambda m, d, _: min(m, d),
    "smax": lambda m, d, _: max(m, d), "umax": lambda m, d, _: max(m, d), "and": lambda m, d, _: m & d,
    "or": lambda m, d, _: m | d, "xor": lambda m, d, _: m ^ d, "inc": lambda m, d, _: m - m if m >= d else m + 1,
    "dec": lambda m, d, _: d if m == 0 or m > d else m - 1, "fcmpswap": lambda m, d, c: d if m == c else m,
    "fmin": lambda m, d, _: np.fmin(m, d), "fmax": lambda m, d, _: np.fmax(m, d),
    "csub": lambda m, d, _: m - d if m >= d else m - m,
}  # fmt: skip
LDS_ATOMICS: dict[str, tuple[str, Callable[[Any, Any, Any], Any]]] = {
    "add_u": ("u", ATOMICS["add"]), "sub_u": ("u", ATOMICS["sub"]), "rsub_u": ("u", lambda m, d, _: d - m),
    "inc_u": ("u", ATOMICS["inc"]), "dec_u": ("u", ATOMICS["dec"]), "min_i": ("i", ATOMICS["smin"]),
    "max_i": ("i", ATOMICS["smax"]),
    "min_u": ("u", ATOMICS["umin"]), "max_u": ("u", ATOMICS["umax"]), "and_b": ("u", ATOMICS["and"]),
    "or_b": ("u", ATOMICS["or"]),
    "xor_b": ("u", ATOMICS["xor"]), "mskor_b": ("u", lambda m, second, first: m & ~first | second),
    "wrxchg_b": ("u", ATOMICS["swap"]), "cmpst_b": ("u", ATOMICS["cmpswap"]), "cmpst_f": ("f", ATOMICS["fcmpswap"]),
    "min_f": ("f", ATOMICS["fmin"]), "max_f": ("f", ATOMICS["fmax"]), "add_f": ("f", ATOMICS["add"]),
    "wrap_b": ("u", lambda m, second, first: m - first if m >= first else m + second),
}  # fmt: skip
"""Kind of number and result for memory, the last data operand and the first one."""
TWO_OPERANDS = ("mskor_b", "cmpst_b", "cmpst_f", "wrap_b")
ALWAYS_RETURN, ONLY_32 = ("wrxchg_b", "wrap_b"), ("wrap_b", "add_f")
ATOMIC_FORMS = ("global", "global_saddr", "flat", "buffer")
PLACES = 12
"""Elements that the lanes share, so that they see each other's results."""


def kind_of(name: str) -> str:
    return "f" if name in ("fcmpswap", "fmin", "fmax") else "i" if name in ("smin", "smax") else "u"


def atomic_text(form: str, name: str, bits: int, *, returns: bool) -> str:
    operation = f"atomic_{name}{'_x2' if bits == 64 else ''}"
    data = registers(DATA, bits // 32 * (2 if "cmpswap" in name else 1))
    text = access(form, operation, data, stores=True) + (" glc" if returns else "")
    if returns and form != "buffer":  # buffers return to the row of the data
        text = text.replace(operation, f"{operation} {registers(RESULT, bits // 32)},", 1)
    return text


def lds_atomic_text(name: str, bits: int, *, returns: bool) -> str:
    operation, kind = name.split("_")
    data = [registers(DATA, bits // 32)] + ([registers(DATA + 2, bits // 32)] if name in TWO_OPERANDS else [])
    target = [registers(RESULT, bits // 32)] if returns else []
    return f"ds_{operation}{'_rtn' if returns else ''}_{kind}{bits} {', '.join([*target, 'v6', *data])} offset:65535"


def atomic_cases() -> list[tuple[str, str, int, bool]]:
    return [
        (form, name, bits, returns)
        for form in ATOMIC_FORMS
        for name in ATOMICS
        for bits in (32, 64)
        for returns in (False, True)
        if name != "csub" or (bits == 32 and returns and form != "flat")
    ]


def lds_atomic_cases() -> list[tuple[str, int, bool]]:
    return [
        (name, bits, returns)
        for name in LDS_ATOMICS
        for bits in (32, 64)
        for returns in (False, True)
        if (returns or name not in ALWAYS_RETURN) and (bits == 32 or name not in ONLY_32)
    ]


# ---- other forms ----

PAIRS = {
    f"ds_read2{stride}_b{bits} {registers(RESULT, bits // 16)}, v6 offset0:3 offset1:5": bits // 32
    for stride in ("", "st64")
    for bits in (32, 64)
}
SCALAR_LOADS = {
    "s_load_dword s20, s[2:3], 0x8": (1, 2), "s_load_dwordx2 s[20:21], s[2:3], -4": (2, -1),
    "s_load_dwordx4 s[20:23], s[2:3], s14": (4, 5), "s_load_dwordx8 s[20:27], s[2:3], s14 offset:-8": (8, 3),
    "s_load_dwordx16 s[20:35], s[2:3], null": (16, 0), "s_load_dwordx2 s[20:21], s[2:3], 0xffffc": (2, 0x3FFFF),
}  # fmt: skip
"""Dwords, and the first one; s14 is 20."""
SCALAR_BUFFERS = {
    "s_buffer_load_dword s20, s[8:11], 0x1c": (1, 7), "s_buffer_load_dwordx2 s[20:21], s[8:11], 0x1c": (2, 7),
    "s_buffer_load_dwordx4 s[20:23], s[8:11], s14 offset:0x4": (4, 6), "s_buffer_load_dwordx8 s[20:27], s[8:11], s14": (8, 5),
    "s_buffer_load_dwordx16 s[20:35], s[8:11], null": (16, 0),
}  # fmt: skip
RANGES = "buffer_load_dwordx2 v[20:21], v[6:7], s[8:11], s14 idxen offen offset:4"
SWIZZLES: dict[str, Callable[[int], int]] = {
    "swizzle(QUAD_PERM,2,3,1,0)": lambda i: i & ~3 | (2, 3, 1, 0)[i & 3],
    "swizzle(SWAP,16)": lambda i: i ^ 16, "swizzle(REVERSE,32)": lambda i: i ^ 31,
    "swizzle(BROADCAST,8,3)": lambda i: i & ~7 | 3, 'swizzle(BITMASK_PERM,"01pip")': lambda i: i & 32 | 8 | (i & 7 ^ 2),
}  # fmt: skip
LOAD_LDS = {"global_load_dword v[0:1], off offset:-2048 lds": -2048, "buffer_load_dword v6, s[8:11], s14 offen offset:16 lds": 16}
ADD_ID = {"ds_read_addtid_b32 v20 offset:512": True, "ds_write_addtid_b32 v12 offset:512": False}


def texts() -> list[str]:
    loads = [load_text(form, kind) for form in FORMS for kind in LOADS]
    stores = [store_text(form, kind) for form in FORMS for kind in STORES]
    atomics = [atomic_text(form, name, bits, returns=returns) for form, name, bits, returns in atomic_cases()]
    atomics += [lds_atomic_text(name, bits, returns=returns) for name, bits, returns in lds_atomic_cases()]
    swizzles = [f"ds_swizzle_b32 v20, v12 offset:{name}" for name in SWIZZLES]
    return [*loads, *stores, *atomics, *PAIRS, *SCALAR_LOADS, *SCALAR_BUFFERS, RANGES, *swizzles, *ADD_ID, *LOAD_LDS]


@cache
def snippets(wave_size: int) -> Snippets:
    made = Snippets(texts(), architecture=ARCHITECTURE, wave_size=wave_size)
    assert made.unsupported == {}
    return made


@dataclass
class Stage:
    """Wavefront of a size, with `memory` behind all forms of addressing."""

    bench: WaveBench
    lanes: int
    buffer: Allocation | None = None

    @property
    def active(self) -> list[int]:
        return [lane for lane in range(self.lanes) if ACTIVE >> lane & 1]

    def fill(self, form: str, memory: NDArray[np.uint8], place: NDArray[Any]) -> None:
        """Place a copy of memory and set the registers of a form, whose lanes access `START + place`."""
        bench, sgpr = self.bench, self.bench.wave.sgpr
        rest = (START + place - CONSTANTS.get(form, 0)).astype(np.int64)
        bench.row(6)[:] = rest.astype(U32)
        if FORMS[form][0] == "ds":
            bench.lds.view(U8)[:BYTES] = memory
        elif FORMS[form][0] == "scratch":
            scratch = np.ctypeslib.as_array(bench.scratch).reshape(LANES, SCRATCH_BYTES)
            scratch[:] = np.resize(memory, SCRATCH_BYTES) ^ LANE.astype(U8)[:, None]
            sgpr[14] = (START + 8 - 2047) & 0xFFFFFFFF
        else:
            self.buffer = bench.buffer(memory)
            address = self.buffer.address
            bench.set_addresses(0, (address + rest).astype(U64))
            scalar = 100 if form == "buffer" else 0
            # The offsets in registers that are not signed are positive, and the bases are before the memory.
            ahead = 8192 if form.startswith("buffer") or form == "global_saddr" else 0
            base = address - scalar - ahead
            bench.row(6)[:] = (rest + ahead).astype(U32)
            sgpr[2], sgpr[3], sgpr[14] = base & 0xFFFFFFFF, base >> 32, scalar
            sgpr[8], sgpr[9], sgpr[10], sgpr[11] = base & 0xFFFFFFFF, base >> 32, 1 << 30, 3 << 28

    def content(self, form: str) -> NDArray[np.uint8]:
        if FORMS[form][0] == "ds":
            return self.bench.lds.view(U8)[:BYTES].copy()
        if FORMS[form][0] == "scratch":
            return np.ctypeslib.as_array(self.bench.scratch).reshape(LANES, SCRATCH_BYTES).copy()
        assert self.buffer is not None
        return np.asarray(self.bench.content(self.buffer, U8)).view(U8)

    def run(self, text: str, rows: dict[int, NDArray[Any]] | None = None) -> None:
        for row in range(DATA, 32):
            self.bench.row(row)[:] = JUNK
        for row, words in (rows or {}).items():
            self.bench.row(row)[:] = words
        assert self.bench.execute(snippets(self.lanes), text) == WaveStatus.BARRIER, text

    def check_rows(self, text: str, expected: dict[int, NDArray[Any]]) -> None:
        """Compare the active lanes; the others are unchanged."""
        on = np.isin(LANE, self.active)
        for row, words in expected.items():
            wanted = np.where(on, words, JUNK).astype(U32)
            assert np.array_equal(self.bench.row(row), wanted), f"{text}: row {row}"


@pytest.fixture(params=[32, 64])
def stage(request: pytest.FixtureRequest) -> Iterator[Stage]:
    with WaveBench(lds_bytes=BYTES, scratch_bytes=SCRATCH_BYTES) as bench:
        lanes: int = request.param
        bench.wave.lane_count = lanes
        bench.set_exec(ACTIVE & (1 << lanes) - 1)
        yield Stage(bench, lanes)


def bytes_of(seed: int) -> NDArray[np.uint8]:
    return np.random.default_rng(seed).integers(0, 256, BYTES).astype(U8)


def seen(stage: Stage, form: str, memory: NDArray[np.uint8], place: NDArray[Any], width: int) -> NDArray[np.uint8]:
    """Return the bytes that each lane accesses, (64, width)."""
    if FORMS[form][0] == "scratch":
        memory = np.resize(memory, SCRATCH_BYTES)
    own = [memory[START + p : START + p + width] for p in place]
    return np.array(own) ^ (LANE.astype(U8)[:, None] if FORMS[form][0] == "scratch" else U8(0))


@pytest.mark.parametrize("form", FORMS)
def test_loads_and_the_halves_that_they_keep(stage: Stage, form: str) -> None:
    place = np.full(LANES, 8) if form in UNIFORM else LANE * 37 % 64 * 16
    memory = bytes_of(1)
    for kind, (dtype, count) in LOADS.items():
        stage.fill(form, memory, place)
        text = load_text(form, kind)
        stage.run(text)
        raw = seen(stage, form, memory, place, np.dtype(dtype).itemsize * count)
        values = np.ascontiguousarray(raw).view(dtype).astype(np.int64).astype(U32)
        if "_d16" in kind:
            shift, kept = (16, JUNK & 0xFFFF) if kind.endswith("hi") else (0, JUNK & 0xFFFF0000)
            values = (values & 0xFFFF) << U32(shift) | U32(kept)
        stage.check_rows(text, {RESULT + k: values[:, k] for k in range(count)} | {RESULT + count: np.full(LANES, JUNK, U32)})


@pytest.mark.parametrize("form", FORMS)
def test_stores_change_their_bytes_only(stage: Stage, form: str) -> None:
    place = np.full(LANES, 8) if form in UNIFORM else LANE * 37 % 64 * 16
    memory, private = bytes_of(2), FORMS[form][0] == "scratch"
    words = np.random.default_rng(3).integers(0, 1 << 32, (4, LANES)).astype(U32)
    for kind, (width, first) in STORES.items():
        stage.fill(form, memory, place)
        expected = stage.content(form)
        stage.run(store_text(form, kind), {DATA + k: words[k] for k in range(4)})
        for lane in stage.active:
            target = expected[lane] if private else expected
            target[START + place[lane] : START + place[lane] + width] = np.ascontiguousarray(words[:, lane]).view(U8)[
                first : first + width
            ]
        assert np.array_equal(stage.content(form), expected), store_text(form, kind)


def numbers(kind: str, bits: int, count: int, seed: int) -> NDArray[Any]:
    """Return values that are often equal; floats include both zeros and NaN."""
    rng = np.random.default_rng(seed)
    if kind == "f":
        return rng.choice(np.array([0.0, -0.0, 1.5, -2.25, 1e9, -1e-9, np.inf, np.nan]), count).astype(f"f{bits // 8}")
    top = 1 << bits - 1
    values = [int(v) for v in rng.choice(np.array([0, 1, 2, 5, 7, 40]), count)]
    return np.array([v + (top if rng.random() < 0.3 else 0) for v in values], f"u{bits // 8}").view(f"{kind}{bits // 8}")


def words_of(values: NDArray[Any]) -> NDArray[np.uint32]:
    """Return the dwords of values, (dwords, 64)."""
    return np.ascontiguousarray(values).view(U32).reshape(LANES, -1).T


def check_atomic(
    stage: Stage, form: str, text: str, oracle: Callable[[Any, Any, Any], Any], kind: str, *,
    bits: int, places: tuple[int, int], target: int | None,
) -> None:  # fmt: skip
    """Compare memory and returned values; `places` are the rows of the data and of the other operand."""
    size, element = bits // 8, LANE * 5 % PLACES
    before = numbers(kind, bits, PLACES, 4)
    memory = bytes_of(5)
    memory[START : START + PLACES * size] = before.view(U8)
    data, other = numbers(kind, bits, LANES, 6), numbers(kind, bits, LANES, 7)
    other[::2] = before[element[::2]]
    stage.fill(form, memory, element * size)
    rows = {places[1] + k: w for k, w in enumerate(words_of(other))} | {places[0] + k: w for k, w in enumerate(words_of(data))}
    stage.run(text, rows)
    after, returned = before.copy(), np.zeros(LANES, before.dtype)
    with np.errstate(all="ignore"):
        for lane in stage.active:
            returned[lane] = after[element[lane]]
            after[element[lane]] = oracle(after[element[lane]], data[lane], other[lane])
    written = stage.content(form)
    end = START + PLACES * size
    assert same_numbers(written[START:end].view(after.dtype), after), text
    assert np.array_equal(np.delete(written, slice(START, end)), np.delete(memory, slice(START, end))), text
    if target is None:
        stage.check_rows(text, {RESULT: np.full(LANES, JUNK, U32)})
        return
    actual = np.stack([stage.bench.row(target + k) for k in range(bits // 32)], axis=1).view(before.dtype).ravel()
    assert same_numbers(actual[stage.active], returned[stage.active]), text


def same_numbers(actual: NDArray[Any], expected: NDArray[Any]) -> bool:
    """Return whether all are equal; the sign of a minimum of zeros and the bits of a NaN are not specified."""
    return np.array_equal(actual, expected, equal_nan=actual.dtype.kind == "f")


@pytest.mark.parametrize("form", ATOMIC_FORMS)
def test_atomics_in_memory(stage: Stage, form: str) -> None:
    for own, name, bits, returns in atomic_cases():
        if own == form:
            text = atomic_text(form, name, bits, returns=returns)
            target = (DATA if form == "buffer" else RESULT) if returns else None
            places = (DATA, DATA + bits // 32)
            check_atomic(stage, form, text, ATOMICS[name], kind_of(name), bits=bits, places=places, target=target)


def test_atomics_in_lds(stage: Stage) -> None:
    for name, bits, returns in lds_atomic_cases():
        kind, oracle = LDS_ATOMICS[name]
        text = lds_atomic_text(name, bits, returns=returns)
        places = (DATA + 2, DATA) if name in TWO_OPERANDS else (DATA, DATA + 2)
        check_atomic(stage, "ds", text, oracle, kind, bits=bits, places=places, target=RESULT if returns else None)


@pytest.mark.parametrize("bits", [32, 64])
@pytest.mark.parametrize("architecture", emulated_architectures())
def test_compare_and_store_of_floats_compares_numbers(architecture: str, bits: int) -> None:
    pair = bits // 32
    text = f"ds_cmpst_f{bits} v0, {registers(2, pair)}, {registers(4, pair)}"
    memory = np.array([0.0, -0.0, 1.5, np.nan, 2.0, np.inf], f"f{bits // 8}")
    comparand = np.array([-0.0, 0.0, 1.5, np.nan, 3.0, np.inf], memory.dtype)
    stored = np.array([7, 7, 7, 3, 2.0, 7], memory.dtype)
    with WaveBench() as bench:
        made = Snippets([text], architecture=architecture)
        bench.wave.lane_count = made.lanes
        bench.set_exec(0x3F)
        bench.lds.view(memory.dtype)[:6] = memory
        bench.row(0)[:] = LANE * (bits // 8)
        for k in range(pair):
            bench.row(2 + k)[:6] = comparand.view(U32).reshape(6, pair)[:, k]
            bench.row(4 + k)[:6] = np.full(6, 7, memory.dtype).view(U32).reshape(6, pair)[:, k]

        assert bench.execute(made, text) == WaveStatus.BARRIER

        result = bench.lds.view(memory.dtype)[:6]
        assert np.array_equal(result[[0, 1, 2, 4, 5]], stored[[0, 1, 2, 4, 5]])
        assert np.isnan(result[3])


@pytest.mark.parametrize("text", PAIRS)
def test_pairs_of_lds_reads(stage: Stage, text: str) -> None:
    dwords = PAIRS[text]
    unit = 4 * dwords * (64 if "st64" in text else 1)
    memory = bytes_of(8)
    stage.bench.lds.view(U8)[:] = memory
    stage.bench.row(6)[:] = LANE % 16 * 8
    stage.run(text)
    words = memory.view(U32)
    stage.check_rows(text, {
        RESULT + half * dwords + k: words[(LANE % 16 * 8 + offset * unit) // 4 + k]
        for half, offset in enumerate((3, 5)) for k in range(dwords)
    })  # fmt: skip


@pytest.mark.parametrize("text", SCALAR_LOADS)
def test_scalar_loads_add_both_offsets(stage: Stage, text: str) -> None:
    count, first = SCALAR_LOADS[text]
    words = np.arange((1 << 18) + 32, dtype=U32) * U32(2654435761)
    address = stage.bench.buffer(words).address + 16
    sgpr = stage.bench.wave.sgpr
    sgpr[2], sgpr[3], sgpr[14], sgpr[20 + count] = address & 0xFFFFFFFF, address >> 32, 20, JUNK
    stage.run(text)

    assert list(sgpr[20 : 20 + count]) == list(words[4 + first : 4 + first + count])
    assert sgpr[20 + count] == JUNK


@pytest.mark.parametrize("stride", [0, 4])
@pytest.mark.parametrize("text", SCALAR_BUFFERS)
def test_scalar_loads_of_buffers_end_with_zeros(stage: Stage, text: str, stride: int) -> None:
    count, first = SCALAR_BUFFERS[text]
    words = np.arange(100, 132, dtype=U32)
    address, sgpr = stage.bench.buffer(words).address, stage.bench.wave.sgpr
    sgpr[8], sgpr[9], sgpr[10], sgpr[11] = address & 0xFFFFFFFF, address >> 32 | stride << 16, 8 if stride else 32, 3 << 28
    sgpr[14] = 20
    stage.run(text)

    assert list(sgpr[20 : 20 + count]) == [100 + n if n < 8 else 0 for n in range(first, first + count)]


@pytest.mark.parametrize("stride", [0, 16])
@pytest.mark.parametrize("select", range(4))
def test_resources_select_their_range_check(stage: Stage, select: int, stride: int) -> None:
    words = np.arange(1, 2049, dtype=U32)
    address, sgpr = stage.bench.buffer(words).address, stage.bench.wave.sgpr
    index, offset = LANE // 4, LANE % 4 * 4
    for records in (0, 9, 40):
        sgpr[8], sgpr[9] = address & 0xFFFFFFFF, address >> 32 | stride << 16
        sgpr[10], sgpr[11], sgpr[14] = records, select << 28, 8
        stage.bench.row(6)[:], stage.bench.row(7)[:] = index, offset
        stage.run(RANGES)
        for k in range(2):
            end = offset + 4 + 4 * (k + 1)
            inside = {0: (index < records) & (end <= stride), 1: index < records, 2: np.full(LANES, records != 0),
                      3: end + 8 <= records}[select]  # fmt: skip
            stage.check_rows(
                f"{RANGES} {records}", {RESULT + k: np.where(inside, words[(index * stride + offset + 12) // 4 + k], 0)}
            )


@pytest.mark.parametrize("name", SWIZZLES)
def test_swizzles_stay_within_32_lanes(stage: Stage, name: str) -> None:
    x = (LANE + 1000).astype(U32)
    source = np.array([SWIZZLES[name](lane) for lane in range(LANES)])
    text = f"ds_swizzle_b32 v20, v12 offset:{name}"
    stage.run(text, {DATA: x})

    stage.check_rows(text, {RESULT: np.where(np.isin(source, stage.active), x[source], 0)})


@pytest.mark.parametrize("text", ADD_ID)
def test_the_number_of_the_lane_is_an_address(stage: Stage, text: str) -> None:
    memory, words = bytes_of(9), (LANE * 3 + 7).astype(U32)
    stage.bench.lds.view(U8)[:] = memory
    stage.bench.wave.sgpr[M0] = 256
    stage.run(text, {DATA: words})
    expected = memory.view(U32).copy()
    if ADD_ID[text]:
        stage.check_rows(text, {RESULT: expected[192 : 192 + LANES]})
    else:
        expected[192 : 192 + stage.lanes][stage.active] = words[stage.active]
    assert np.array_equal(stage.bench.lds, expected)


@pytest.mark.parametrize("text", LOAD_LDS)
def test_a_load_into_lds(stage: Stage, text: str) -> None:
    memory, place, offset = bytes_of(10), LANE * 37 % 64 * 4, LOAD_LDS[text]
    stage.fill("global" if offset < 0 else "buffer", memory, place)
    if offset > 0:
        stage.bench.row(6)[:] += U32(CONSTANTS["buffer"] - offset)
    stage.bench.lds[:] = 77
    stage.bench.wave.sgpr[M0] = 2560
    stage.run(text)
    expected = np.full_like(stage.bench.lds, 77)
    first = (2560 + offset) // 4
    expected[first : first + LANES][stage.active] = memory.view(U32)[(START + place[stage.active]) // 4]

    assert np.array_equal(stage.bench.lds, expected)


@pytest.mark.parametrize(("form", "kind"), [("global", FaultKind.MEMORY), ("ds", FaultKind.LDS), ("scratch", FaultKind.SCRATCH)])
def test_accesses_beyond_the_end_are_faults_of_active_lanes(stage: Stage, form: str, kind: FaultKind) -> None:
    place = np.where(LANE >= 24, 1 << 20, LANE * 8)
    stage.fill(form, bytes_of(11), place)

    assert stage.bench.execute(snippets(stage.lanes), load_text(form, "dword")) == WaveStatus.FAULT
    assert stage.bench.fault.lanes == sum(1 << lane for lane in stage.active if lane >= 24)
    assert stage.bench.fault.kind == kind
