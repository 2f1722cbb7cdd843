"""Single instructions on the emulator: many snippets of assembly in one program, each run on its own registers.

Snippets end in S_BARRIER, at which a translated kernel returns and can be resumed: one translation serves all of them.
"""

from __future__ import annotations

import ctypes
import itertools
import math
import subprocess
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np

from rocm_perf_lab.arch.registry import load_architecture
from rocm_perf_lab.emulator.build import load_runtime
from rocm_perf_lab.emulator.errors import UnsupportedInstruction
from rocm_perf_lab.emulator.isa.instruction_set import instruction_set
from rocm_perf_lab.emulator.jit import NativeKernel, compile_program
from rocm_perf_lab.emulator.probes import PROBE_WORDS
from rocm_perf_lab.emulator.program import DEFAULT_MODE, Program, decode_program
from rocm_perf_lab.emulator.structures import EXEC, LANES, VCC, MachineState, WaveState
from rocm_perf_lab.emulator.translate.function import kernel_ir, resume_id
from rocm_perf_lab.toolchain.compilers import find_compiler
from rocm_perf_lab.toolchain.elf_file import parse_elf

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from rocm_perf_lab.emulator.isa.instruction_set import InstructionSet


ALL_LANES = (1 << LANES) - 1
JUNK = 0xDEADBEEF


def assemble(lines: Sequence[str], architecture: str = "gfx942", wave_size: int = LANES) -> bytes:
    """Assemble text for an architecture and wave size."""
    compiler = find_compiler(("clang", "pip"))
    with TemporaryDirectory() as directory:
        source, target = Path(directory, "code.s"), Path(directory, "code.o")
        source.write_text("\n".join([".text", *lines, ""]))
        command = (*compiler.command, "--target=amdgcn-amd-amdhsa", f"-mcpu={architecture}")
        if len(load_architecture(architecture).wave_sizes) > 1:
            command += ("-mwavefrontsize64" if wave_size == LANES else "-mno-wavefrontsize64",)
        command += ("-c", "-o", str(target), str(source))
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise AssertionError(done.stderr[:3000])
        elf = parse_elf(target.read_bytes())
        section = elf.section(".text")
        assert section is not None
        return elf.content(section)


@dataclass
class Outcome:
    """Registers after a snippet, one row per wavefront, which has `lanes` inputs."""

    vgprs: NDArray[np.uint32]
    sgprs: NDArray[np.uint32]
    scc: NDArray[np.uint32]
    lanes: int = LANES

    def row(self, register: int, dtype: Any = np.uint32) -> NDArray[Any]:
        """Return a VGPR (or pair, for 64-bit types; its low half, for 16-bit ones), flat over all lanes."""
        size = np.dtype(dtype).itemsize
        if size < 4:
            return self.row(register).astype(f"u{size}").view(dtype)
        words = [self.vgprs[:, register + i].ravel() for i in range(size // 4)]
        row: NDArray[Any] = np.ascontiguousarray(np.stack(words, axis=1)).view(dtype).ravel()
        return row

    def scalar(self, register: int, dtype: Any = np.uint32) -> NDArray[Any]:
        """Return an SGPR (or pair), one value per wavefront."""
        words = np.dtype(dtype).itemsize // 4
        values: NDArray[Any] = np.ascontiguousarray(self.sgprs[:, register : register + words]).view(dtype).ravel()
        return values

    def mask(self, register: int = VCC) -> NDArray[np.bool_]:
        """Return a lane mask as one bit per lane, flat."""
        masks = self.scalar(register, np.uint64 if self.lanes == LANES else np.uint32).astype(np.uint64)
        return (masks[:, None] >> np.arange(self.lanes, dtype=np.uint64) & np.uint64(1)).astype(bool).ravel()


class Snippets:
    """Snippets of assembly, translated on first use; `unsupported` has the reason of each refused snippet."""

    def __init__(
        self,
        texts: Iterable[str],
        *,
        mode: int = DEFAULT_MODE,
        architecture: str = "gfx942",
        wave_size: int | None = None,
    ) -> None:
        self.texts = list(dict.fromkeys(texts))
        self.mode = mode
        self.architecture = architecture
        self.isa = instruction_set(architecture, wave_size)
        self.lanes = self.isa.wave_size
        self.unsupported: dict[str, str] = {}

    @cached_property
    def _translated(self) -> tuple[Program, tuple[NativeKernel, NativeKernel], dict[str, int]]:
        assembled = dict(zip(self.texts, self._assembled(), strict=True))
        for text, code in assembled.items():
            try:
                kernel_ir(_program(code, self.mode, self.isa))
            except UnsupportedInstruction as error:
                self.unsupported[text] = str(error)
        supported = [text for text in self.texts if text not in self.unsupported]
        program = _program(b"".join(assembled[text] for text in supported), self.mode, self.isa)
        starts = list(itertools.accumulate((len(assembled[text]) for text in supported), initial=0))
        resumes = {t: resume_id(program.block_at[s]) if s else 0 for t, s in zip(supported, starts, strict=False)}
        helpers = load_runtime().helpers
        codes = compile_program(program, helpers), compile_program(program, helpers, optimised=frozenset())
        return program, codes, resumes

    def _assembled(self) -> list[bytes]:
        """Return the code of each snippet, which ends in a barrier."""
        marker = "s_nop 0x123"
        code = assemble([line for text in self.texts for line in (text, "s_barrier", marker)], self.architecture, self.lanes)
        parts = code.split(assemble([marker]))
        assert len(parts) == len(self.texts) + 1
        return parts[:-1]

    def run(
        self,
        text: str,
        vgprs: Mapping[int, NDArray[Any]] | None = None,
        sgprs: Mapping[int, int | NDArray[Any]] | None = None,
        *,
        execute: int = ALL_LANES,
        scc: int = 0,
    ) -> Outcome:
        """Run one snippet, once per wavefront of its inputs.

        Args:
            text: One of the texts given.
            vgprs: Register -> values (64-bit types fill two registers; 16-bit ones leave junk in the upper half).
            sgprs: Register -> 32-bit value, or an array with one value per wavefront (64-bit types fill two registers).
            execute: EXEC at the start.
            scc: SCC at the start.
        """
        words = {r + i: w for r, values in (vgprs or {}).items() for i, w in enumerate(_words(values))}
        scalar_words = {
            r + i: w
            for r, values in (sgprs or {}).items()
            for i, w in enumerate(
                _words(values) if isinstance(values, np.ndarray) else [np.array([values & 0xFFFFFFFF], np.uint32)]
            )
        }
        count = max((len(w) for w in words.values()), default=1)
        waves = max(-(-count // self.lanes), max((len(w) for w in scalar_words.values()), default=1))
        shape = (waves, 32, self.lanes)
        outcome = Outcome(np.zeros(shape, np.uint32), np.zeros((waves, 128), np.uint32), np.zeros(waves, np.uint32), self.lanes)
        padded = {r: np.resize(w, waves * self.lanes) for r, w in words.items()}
        storage, machine = (ctypes.c_uint8 * (ctypes.sizeof(WaveState) + 64))(), MachineState()
        wave = WaveState.from_buffer(storage, -ctypes.addressof(storage) % 64)
        wave.machine, wave.lane_count = ctypes.addressof(machine), self.lanes
        rows = np.ctypeslib.as_array(wave.vgpr)
        scalars = np.ctypeslib.as_array(wave.sgpr)
        for n in range(waves):
            rows[:32] = JUNK
            for register, values in padded.items():
                rows[register, : self.lanes] = values[n * self.lanes : (n + 1) * self.lanes]
            scalars[:] = 0
            scalars[EXEC], scalars[EXEC + 1] = execute & 0xFFFFFFFF, execute >> 32 if self.lanes == LANES else 0
            for register, values in scalar_words.items():
                scalars[register] = values[n % len(values)]
            wave.scc = scc
            self._run_both(wave, text)
            assert wave.status == 1, f"status {wave.status} after {text}"
            outcome.vgprs[n], outcome.sgprs[n], outcome.scc[n] = rows[:32, : self.lanes], scalars, wave.scc
        return outcome

    def _run_both(self, wave: WaveState, text: str) -> None:
        """Run one snippet as optimised code and as calls of shared operations, whose results have to be equal."""
        storage = (ctypes.c_uint8 * (ctypes.sizeof(WaveState) + 64))()
        other = WaveState.from_buffer(storage, -ctypes.addressof(storage) % 64)
        ctypes.memmove(ctypes.addressof(other), ctypes.addressof(wave), ctypes.sizeof(WaveState))
        self.run_on(wave, text)
        self.run_on(other, text, optimised=False)
        assert (wave.status, wave.scc, wave.mode) == (other.status, other.scc, other.mode)
        scalars = [np.ctypeslib.as_array(w.sgpr) for w in (other, wave)]
        assert np.array_equal(scalars[0], scalars[1]), f"{text}: scalar registers {np.flatnonzero(scalars[0] != scalars[1])}"
        results = [np.ctypeslib.as_array(w.vgpr) for w in (other, wave)]
        if np.array_equal(results[0], results[1]):
            return
        differs = results[0] != results[1]
        differs &= ~(_is_nan(results[0]) & _is_nan(results[1]))
        assert not differs.any(), f"{text}: rows {np.flatnonzero(differs.any(axis=1))}"

    def run_on(self, wave: WaveState, text: str, *, optimised: bool = True) -> None:
        """Run one snippet on a prepared wavefront; only MODE is set here."""
        program, codes, resumes = self._translated
        native = codes[0] if optimised else codes[1]
        if text in self.unsupported:
            raise AssertionError(self.unsupported[text])
        executions = (ctypes.c_uint64 * (len(program.blocks) + PROBE_WORDS * len(program.probes)))()
        active_lanes = (ctypes.c_uint64 * len(program.blocks))()
        wave.block_executions, wave.block_active_lanes = ctypes.addressof(executions), ctypes.addressof(active_lanes)
        wave.mode, wave.resume, wave.slice = self.mode, resumes[text], 1 << 40
        ctypes.CFUNCTYPE(None, ctypes.c_void_p)(native.address)(ctypes.addressof(wave))


def _program(code: bytes, mode: int, isa: InstructionSet) -> Program:
    return decode_program("snippets", code + assemble_end(), 0, (0,), isa, mode)


def _is_nan(rows: NDArray[np.uint32]) -> NDArray[np.bool_]:
    """Return which words are a NaN or part of one; sign and payload of the result are not specified for two NaNs."""
    halves = np.isnan(rows.view(np.float16)).reshape(*rows.shape, 2).any(axis=2)
    upper = rows & 0x7FF00000 == 0x7FF00000
    lower = np.vstack([upper[1:], np.zeros_like(upper[:1])])
    is_nan: NDArray[np.bool_] = np.isnan(rows.view(np.float32)) | halves | upper | lower
    return is_nan


def assemble_end() -> bytes:
    """Return S_ENDPGM."""
    return bytes.fromhex("000081bf")


def _words(values: NDArray[Any]) -> list[NDArray[np.uint32]]:
    if values.dtype.itemsize == 8:
        pairs = np.ascontiguousarray(values).view(np.uint32).reshape(-1, 2)
        return [pairs[:, 0], pairs[:, 1]]
    if values.dtype.itemsize < 4:
        bits = 8 * values.dtype.itemsize
        return [values.view(f"u{values.dtype.itemsize}").astype(np.uint32) | np.uint32(JUNK >> bits << bits)]
    return [values.view(np.uint32)]


# ---- values ----

_INTEGERS = (0, 1, 2, 3, 4, 5, 7, 8, 15, 16, 23, 24, 31, 32, 33, 63, 64, 127, 128, 255, 256, 0x7FFF, 0x8000, 0xFFFF,
             0x10000, 0x7FFFFF, 0x800000, 0xFFFFFF, 0x1000000, 0x7FFFFFFF, 0x80000000, 0x80000001, 0xFFFFFFFE, 0xFFFFFFFF,
             0x12345678, 0xDEADBEEF, 0x00FF00FF, 0xAAAAAAAA)  # fmt: skip
_FLOATS = {  # mantissa patterns of interest, without sign
    np.float16: (0, 1, 2, 0x3FF, 0x400, 0x401, 0x7BFF, 0x7C00, 0x7E00, 0x7D00, 0x3C00, 0x3C01, 0x3BFF, 0x3800, 0x4000, 0x4200,
                 0x2E66, 0x6400, 0x63FF, 0x4248, 0x0BFF, 0x1400),
    np.float32: (0, 1, 2, 0x7FFFFF, 0x800000, 0x800001, 0x7F7FFFFF, 0x7F800000, 0x7FC00000, 0x7F800001, 0x3F800000, 0x3F800001,
                 0x3F7FFFFF, 0x3F000000, 0x40000000, 0x40400000, 0x3DCCCCCD, 0x4B000000, 0x4AFFFFFF, 0x4F000000, 0x4EFFFFFF,
                 0x4F800000, 0x477FE000, 0x477FF000, 0x33000000, 0x33000001, 0x40490FDB, 0x3FC00000, 0x40200000, 0x00400000),
    np.float64: (0, 1, 0xFFFFFFFFFFFFF, 1 << 52, 0x7FEFFFFFFFFFFFFF, 0x7FF << 52, 0x7FF8 << 48, (0x7FF << 52) + 1, 0x3FF << 52,
                 (0x3FF << 52) + 1, 0x3FE << 52, 0x400 << 52, 0x4008 << 48, 0x41E << 52, 0x41DFFFFFFFC00000, 0x41EFFFFFFFE00000,
                 0x3FF8 << 48, 0x4004 << 48, 0x36A0 << 48, 0x47EFFFFFE0000000, 0x47EFFFFFF0000000, 0x3690 << 48,
                 0x400921FB54442D18),
}  # fmt: skip


def edge_integers(bits: int, random: int = 26, seed: int = 1) -> NDArray[Any]:
    """Return unsigned values: edges and random ones, 64 for 32 bits."""
    known = [v & (1 << bits) - 1 for v in _INTEGERS]
    known += [v << bits - 32 for v in _INTEGERS] + [(1 << bits) - 1 - v for v in _INTEGERS[:8]] if bits > 32 else []
    drawn = np.random.default_rng(seed).integers(0, 1 << bits, random, dtype=np.uint64, endpoint=False) if bits < 64 else (
        np.random.default_rng(seed).integers(0, (1 << 64) - 1, random, dtype=np.uint64))  # fmt: skip
    return np.array([*known, *(int(d) for d in drawn)], dtype=f"u{max(bits, 8) // 8}")


def edge_floats(dtype: Any, random: int = 22, *, nan: bool = True, seed: int = 2) -> NDArray[Any]:
    """Return both signs of the patterns above, and random numbers of ordinary and of any size."""
    bits = 8 * np.dtype(dtype).itemsize
    unsigned = f"u{bits // 8}"
    patterns = np.array([p | s << bits - 1 for p in _FLOATS[dtype] for s in (0, 1)], dtype=unsigned).view(dtype)
    generator = np.random.default_rng(seed)
    ordinary = generator.normal(0, 8, random).astype(dtype)
    anything = generator.integers(0, 1 << 63, random, dtype=np.uint64).astype(unsigned).view(dtype)
    values = np.concatenate([patterns, ordinary, anything])
    return values if nan else values[~np.isnan(values)]


def pairs(*columns: NDArray[Any], limit: int = 4096, seed: int = 3) -> list[NDArray[Any]]:
    """Return every combination of the values of the columns, or `limit` random ones if there are more."""
    total = int(np.prod([len(c) for c in columns]))
    if total <= limit:
        grids = np.meshgrid(*[np.arange(len(c)) for c in columns], indexing="ij")
        return [c[g.ravel()] for c, g in zip(columns, grids, strict=True)]
    generator = np.random.default_rng(seed)
    return [c[generator.integers(0, len(c), limit)] for c in columns]


def same(actual: NDArray[Any], expected: NDArray[Any], ulps: int = 0) -> NDArray[np.bool_]:
    """Return per lane: the same bits, or both NaN, or floats of one sign at most `ulps` apart."""
    bits = f"u{actual.dtype.itemsize}"
    equal: NDArray[np.bool_] = actual.view(bits) == expected.view(bits)
    if actual.dtype.kind == "f":
        equal |= np.isnan(actual) & np.isnan(expected)
        if ulps:
            signed = actual.view(bits).astype(np.int64) - expected.view(bits).astype(np.int64)
            equal |= (np.abs(signed) <= ulps) & ~np.isnan(actual) & ~np.isnan(expected)
    return equal


def assert_same(text: str, actual: NDArray[Any], expected: NDArray[Any], inputs: Sequence[NDArray[Any]], ulps: int = 0) -> None:
    """Fail with the first lanes that differ."""
    actual = actual[: len(expected)]
    wrong = np.flatnonzero(~same(actual, expected, ulps))
    if len(wrong):
        shown = [f"  {[_show(i[w]) for i in inputs]} is {_show(actual[w])}, expected {_show(expected[w])}" for w in wrong[:8]]
        raise AssertionError(f"{text}: {len(wrong)} of {len(expected)} lanes differ\n" + "\n".join(shown))


def _show(value: Any) -> str:
    bits = int(np.asarray(value).view(f"u{value.dtype.itemsize}"))
    return f"{value!s} ({bits:#x})" if value.dtype.kind == "f" else f"{bits:#x}"


# ---- rows of tables ----


@dataclass(frozen=True)
class Row:
    """One opcode: name, expected result, and types of its operands.

    Types are u8 to u64, i16 to i64, f16 to f64. Inputs are in v0, v2, v4, ...; the result is in v20 or, with `out` None, in VCC,
    or in both with `+m`. `operands` replaces those that follow from the types, `target` v20. `oracle` accepts Python ints
    (signed for `i`) or, in :func:`check_floats`, arrays; for `+m` it returns a pair.
    """

    name: str
    oracle: Callable[..., Any]
    inputs: str
    out: str | None = "u32"
    after: str = ""
    carry_in: bool = False
    operands: str = ""
    target: int = 20
    ulps: int = 0

    @property
    def text(self) -> str:
        """Return the instruction."""
        if self.operands:
            return f"{self.name} {self.operands}{self.after}"
        sources = [_registers("v", 2 * i, kind) for i, kind in enumerate(self.inputs.split())]
        targets = ["vcc"] if self.out is None else [_registers("v", self.target, self.out.removesuffix("+m"))]
        targets += ["vcc"] if self.out is not None and self.out.endswith("+m") else []
        carry = ["vcc"] if self.carry_in else []
        return f"{self.name} {', '.join(targets + sources + carry)}{self.after}"


def _registers(letter: str, first: int, kind: str) -> str:
    words = max(1, int(kind[1:]) // 32)
    return f"{letter}{first}" if words == 1 else f"{letter}[{first}:{first + words - 1}]"


def check_integers(snippets: Snippets, row: Row, *, limit: int = 1024) -> None:
    """Compare a row with its oracle on edge values; carry-in alternates by lane."""
    kinds = row.inputs.split()
    columns = pairs(
        *[edge_integers(int(kind[1:]), seed=i).astype(f"u{int(kind[1:]) // 8}") for i, kind in enumerate(kinds)], limit=limit
    )
    carry = 0x5A5A_0FF0_C33C_9669
    outcome = snippets.run(row.text, {2 * i: c for i, c in enumerate(columns)}, {VCC: carry, VCC + 1: carry >> 32})
    lanes = [[_signed(int(v), kind) for v in column] for kind, column in zip(kinds, columns, strict=True)]
    bits = [[carry >> n % snippets.lanes & 1 for n in range(len(columns[0]))]] if row.carry_in else []
    results = [row.oracle(*values) for values in zip(*lanes, *bits, strict=True)]
    if row.out is None or row.out.endswith("+m"):
        expected = np.array([bool(r[1] if row.out else r) for r in results])
        assert_same(row.text, outcome.mask()[: len(results)].view(np.uint8), expected.view(np.uint8), columns)
    if row.out is not None:
        width = int(row.out.removesuffix("+m")[1:])
        numbers = [r[0] if row.out.endswith("+m") else r for r in results]
        wanted = np.array([int(n) & (1 << width) - 1 for n in numbers], dtype=f"u{width // 8}")
        assert_same(row.text, outcome.row(20, f"u{width // 8}"), wanted, columns)


def _signed(value: int, kind: str) -> int:
    bits = int(kind[1:])
    return value - (1 << bits) if kind[0] == "i" and value >> bits - 1 else value


TYPES: dict[str, Any] = {f"{letter}{bits}": np.dtype(f"{letter}{bits // 8}").type
                         for letter in "iuf" for bits in (16, 32, 64)}  # fmt: skip


def edge_values(kind: str, seed: int = 1) -> NDArray[Any]:
    """Return values of a type."""
    if kind[0] == "f":
        return edge_floats(TYPES[kind], seed=seed + 10)
    return edge_integers(int(kind[1:]), seed=seed).view(TYPES[kind])


def check_floats(snippets: Snippets, row: Row, *, limit: int = 4096, columns: Sequence[NDArray[Any]] | None = None) -> None:
    """Compare a row with its oracle, which computes with arrays."""
    kinds = row.inputs.split()
    columns = columns or pairs(*[edge_values(kind, i) for i, kind in enumerate(kinds)], limit=limit)
    outcome = snippets.run(row.text, {2 * i: c for i, c in enumerate(columns)})
    with np.errstate(all="ignore"):
        expected = row.oracle(*columns)
    if row.out is None:
        assert_same(row.text, outcome.mask().view(np.uint8), np.asarray(expected).astype(np.uint8), columns)
        return
    dtype = TYPES[row.out]
    assert np.asarray(expected).dtype == dtype, f"the oracle of {row.name} returns {np.asarray(expected).dtype}"
    assert_same(row.text, outcome.row(row.target, dtype), np.asarray(expected), columns, row.ulps)


# ---- exact arithmetic ----

_FORMAT = {np.float16: (11, -14), np.float32: (24, -126), np.float64: (53, -1022)}


def rounded(exact: Fraction, dtype: Any, mode: str = "nearest", zero: float = 0.0) -> float:
    """Return a rational number in a float format, or `zero` for an exact 0. Modes: nearest, up, down, zero."""
    if exact == 0:
        return zero
    precision, smallest = _FORMAT[dtype]
    size = abs(exact)
    exponent = size.numerator.bit_length() - size.denominator.bit_length()
    exponent -= size < Fraction(2) ** exponent
    quantum = Fraction(2) ** (max(exponent, smallest) - precision + 1)
    units, rest = divmod(size, quantum)
    away = {"up": exact > 0, "down": exact < 0, "zero": False}.get(mode)
    if rest and (away or (away is None and (rest > quantum / 2 or (rest == quantum / 2 and units % 2)))):
        units += 1
    result = units * quantum
    largest = Fraction(float(np.finfo(dtype).max))
    number = float(result) if result <= largest else math.inf if away is not False else float(largest)
    return -number if exact < 0 else number


def exactly(
    function: Callable[..., Any], dtype: Any, mode: str = "nearest", *, sums: bool = False
) -> Callable[..., NDArray[Any]]:
    """Return an oracle that computes finite lanes with rational numbers; `function` also accepts floats, for other lanes.

    `sums`: the last operand is added, so that the result may be -0 when rounding down.
    """

    def lane(*values: float) -> float:
        plain = float(function(*values))
        if not all(map(math.isfinite, values)):
            return plain
        zero = _cancelled(values) if sums and mode == "down" and plain == 0 else plain if plain == 0 else 0.0
        return rounded(function(*map(Fraction, values)), dtype, mode, zero)

    return lambda *columns: np.array([lane(*map(float, v)) for v in zip(*columns, strict=True)]).astype(dtype)


def _cancelled(values: tuple[float, ...]) -> float:
    """Return a sum that is zero, rounded down: +0 only if both terms are."""
    terms = (math.prod(values[:-1]), values[-1])
    return 0.0 if all(t == 0 and math.copysign(1, t) > 0 for t in terms) else -0.0
