"""Measures of micro-benchmarks: latency and bandwidth by level, vector and matrix rates, LDS strides.

The kernels are in `benchmarks/kernels/timing/micro.hip` and follow the structure that the sources describe. Rates that are
steady in the published runs are the difference of two launches, so that the start of a kernel does not count.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from benchmarks.timing.emulation import output, scalar, source_buffer
from benchmarks.timing.probes import Probe, run_probe, traced

if TYPE_CHECKING:
    from collections.abc import Callable

    from benchmarks.timing.emulation import Emulation
    from benchmarks.timing.published import Parameters
    from rocm_perf_lab.device.protocol import BufferValue, Launch, ScalarValue

SOURCE = "micro.hip"
LANES = 64
_ELEMENT_BYTES = 64
_CHASE_STEPS = 20_480
_TRAVERSED_BYTES = 1 << 28
"""Rings up to this size are traversed once before the measurement; larger ones do not fit in any cache."""
_CHUNK_BYTES = 1 << 19
_LONG_BYTES = 1 << 22


def pointer_chase(emulation: Emulation, parameters: Parameters) -> float:
    """Return the clocks per dependent load on a random cycle through every 64 bytes of a buffer."""
    elements = int(parameters["bytes"]) // _ELEMENT_BYTES
    ring = source_buffer("ring", _ring(elements))
    before = -(-elements // 32) * 32 if elements * _ELEMENT_BYTES <= _TRAVERSED_BYTES else 0

    def launch(steps: int) -> Launch:
        arguments = (ring, output("out", LANES, "u4"), scalar("steps", steps, "i4"))
        return emulation.launch(SOURCE, "pointer_chase", (1, 1, 1), (LANES, 1, 1), arguments)

    return emulation.cycles_per_step(launch, before + _CHASE_STEPS, before + 2 * _CHASE_STEPS)


def _ring(elements: int) -> np.ndarray[tuple[int], np.dtype[np.uint32]]:
    """Return byte offsets: the first dword of each element holds the offset of the next element, in random order."""
    order = np.random.default_rng(1).permutation(elements).astype(np.uint32)
    ring = np.zeros(elements * (_ELEMENT_BYTES // 4), np.uint32)
    ring[order * (_ELEMENT_BYTES // 4)] = np.roll(order, -1) * _ELEMENT_BYTES
    return ring


_LOAD, _WAIT = "  global_load_dword v2, v1, s[4:5]{flags}\n", "  s_waitcnt vmcnt(0)\n"
_STORE = "  global_store_dword v1, v3, s[4:5]\n"
_SINGLE = {
    "repeated load": (_LOAD.format(flags=""), True),
    "nt load": (_LOAD.format(flags=" nt"), True),
    "sc1 load": (_LOAD.format(flags=" sc1"), True),
    "load after invalidation": ("  buffer_inv sc1\n" + _WAIT + _LOAD.format(flags=""), True),
    "load after store": (_STORE + _WAIT + _LOAD.format(flags=""), True),
    "second load after store": (_STORE + _WAIT + 2 * (_LOAD.format(flags="") + _WAIT), True),
}


def single_access(_: Emulation, parameters: Parameters) -> float:
    """Return the clocks from the issue of a load to the end of its wait; the last load of the sequence counts."""
    pattern = str(parameters["pattern"])
    setup = "  v_mov_b32 v1, 0\n"
    if pattern == "first load of a line":
        body = setup + _LOAD.format(flags="") + _WAIT
        return run_probe(Probe(body, repeat=False, cache="cold")).latency("global_load")
    body, repeat = _SINGLE[pattern]
    (wave,) = run_probe(Probe(body + _WAIT, setup=setup, repeat=repeat)).waves
    load = wave.find("global_load")[-1]
    return float(next(event.done for event in wave.find("s_waitcnt") if event.attempt >= load.issue) - load.issue)


def shared_reads(emulation: Emulation, parameters: Parameters) -> float:
    """Return TB/s of one workgroup per CU, all of which read the same buffer again and again.

    A single pass through a large buffer lasts long enough: its first touch by one CU of many does not count.
    """
    nbytes = int(parameters["bytes"]) // 2048 * 2048
    units = emulation.target.compute_units
    data = source_buffer("in", np.zeros(nbytes // 8))
    once = max(1, (1 << 20) // nbytes)

    def nanoseconds(passes: int) -> float:
        arguments = (data, output("out", 256, "f8"), scalar("passes", passes, "i4"), scalar("zero", 0, "i4"))
        kernel = ("shared_reads.hip", "shared_reads", (units, 1, 1), (256, 1, 1), arguments)
        return emulation.nanoseconds(emulation.launch(*kernel, COUNT=nbytes // 8))

    if nbytes > _LONG_BYTES:
        return nbytes * units / nanoseconds(1) / 1000
    return nbytes * units * 3 * once / (nanoseconds(4 * once) - nanoseconds(once)) / 1000


def shared_chunks(emulation: Emulation, parameters: Parameters) -> float:
    """Return TB/s of workgroups that each read one of several chunks of 512 KiB; 24 for every CU, in 12 rounds."""
    sets, rounds = int(parameters["sets"]), 4 if emulation.quick else 12
    data = source_buffer("in", np.zeros(sets * _CHUNK_BYTES // 8))
    groups = 2 * emulation.target.compute_units * rounds
    arguments = (data, output("out", 1024, "f8"), scalar("sets", sets, "i4"))
    launch = emulation.launch(SOURCE, "shared_chunks", (groups, 1, 1), (1024, 1, 1), arguments)
    return groups * _CHUNK_BYTES / emulation.nanoseconds(launch) / 1000


def stream(emulation: Emulation, parameters: Parameters) -> float:
    """Return GB/s of a streaming kernel with one element per work-item and a limit of workgroups per CU by LDS."""
    kernel, block, per_unit = str(parameters["kernel"]), int(parameters["block"]), int(parameters["per_unit"])
    arrays = {"init": 1, "read": 1, "triad": 4}.get(kernel, 2)
    count = int(parameters["count"]) // 4 if emulation.quick else int(parameters["count"])
    used = {"init": "a", "read": "b", "triad": "abcd"}.get(kernel, "ab")
    buffers: tuple[BufferValue, ...] = tuple(
        output("a", count if "a" in used else 1, "f8")
        if name == "a"
        else source_buffer(name, np.zeros(count if name in used else 1))
        for name in "abcd"
    )
    launch = emulation.launch(
        SOURCE,
        f"stream_{kernel}",
        (-(-count // block), 1, 1),
        (block, 1, 1),
        (*buffers, scalar("n", count, "u8")),
        dynamic_lds_bytes=65536 // per_unit,
    )
    return arrays * 8 * count / emulation.nanoseconds(launch)


def babelstream(emulation: Emulation, parameters: Parameters) -> float:
    """Return GB/s of a kernel of BabelStream."""
    kernel, count = str(parameters["kernel"]), 1 << (23 if emulation.quick else 26)
    groups = 4 * emulation.target.compute_units if kernel == "dot" else count // 1024
    used = {"copy": "ac", "mul": "bc", "dot": "ab"}.get(kernel, "abc")
    arrays: tuple[BufferValue, ...] = tuple(output(name, count if name in used else 1, "f8") for name in "abc")
    arguments: tuple[BufferValue | ScalarValue, ...] = (*arrays, output("sums", groups, "f8"), scalar("n", count, "u8"))
    launch = emulation.launch("babelstream.hip", f"babel_{kernel}", (groups, 1, 1), (1024, 1, 1), arguments)
    return len(used) * 8 * count / emulation.nanoseconds(launch)


def vector_rate(emulation: Emulation, parameters: Parameters) -> float:
    """Return GFLOP/s of dependent vector instructions."""
    operation, waves, groups = str(parameters["operation"]), int(parameters["waves"]), int(parameters.get("workgroups", 1))
    dtype = "f8" if "f64" in operation else "f4"
    threads = groups * waves * LANES
    per_step = 2 if "fma" in operation else 1

    def launch(steps: int) -> Launch:
        arguments = (output("out", threads, dtype), scalar("steps", steps, "i4"), scalar("s", 0.5, dtype))
        return emulation.launch(SOURCE, f"valu_{operation}", (groups, 1, 1), (waves * LANES, 1, 1), arguments)

    cycles = emulation.cycles_per_step(launch, 2048, 8192)
    return threads * per_step / cycles * emulation.clock_ghz


def device_vector_rate(emulation: Emulation, parameters: Parameters) -> float:
    """Return TFLOP/s of dependent vector instructions on the whole GPU."""
    return vector_rate(emulation, parameters) / 1000


def _matrix_cycles(emulation: Emulation, parameters: Parameters) -> float:
    kind, waves, groups = str(parameters["type"]), int(parameters["waves"]), int(parameters["workgroups"])

    def launch(steps: int) -> Launch:
        arguments = (output("out", groups * waves * LANES, "f4"), scalar("steps", steps, "i4"))
        return emulation.launch(SOURCE, f"mfma_{kind}", (groups, 1, 1), (waves * LANES, 1, 1), arguments)

    return emulation.cycles_per_step(launch, 128, 512)


def matrix_cycles(emulation: Emulation, parameters: Parameters) -> float:
    """Return the clocks per instruction of a chain of matrix instructions in one wavefront."""
    return _matrix_cycles(emulation, {**parameters, "waves": 1, "workgroups": 1})


def matrix_rate(emulation: Emulation, parameters: Parameters) -> float:
    """Return TFLOP/s of chains of matrix instructions."""
    depth = {"f16": 16, "bf16": 16, "fp8": 32, "bf8": 32, "i8": 32, "tf32": 8, "f32": 4, "f64": 4}[str(parameters["type"])]
    waves = int(parameters["waves"]) * int(parameters["workgroups"])
    return 2 * 16 * 16 * depth * waves / _matrix_cycles(emulation, parameters) * emulation.clock_ghz / 1000


def lds_reads(emulation: Emulation, parameters: Parameters) -> float:
    """Return the mean clocks of 64 LDS reads in a wavefront, from the first attempt to the end of the wait."""
    groups = int(parameters["workgroups"])
    arguments = (output("out", groups * LANES, "u4"), scalar("stride", int(parameters["stride"]), "i4"))
    launch = emulation.launch(SOURCE, f"lds_reads_b{parameters['bits']}", (groups, 1, 1), (LANES, 1, 1), arguments)
    found = []
    for wave in traced(launch)[0]:
        reads = wave.find("ds_read")
        end = next(event.done for event in wave.find("s_waitcnt") if event.attempt >= reads[-1].issue)
        found.append(end - reads[0].attempt)
    return float(np.mean(found))


MICRO_MEASURES: dict[str, Callable[[Emulation, Parameters], float]] = {
    "pointer_chase": pointer_chase,
    "single_access": single_access,
    "shared_reads": shared_reads,
    "shared_chunks": shared_chunks,
    "stream": stream,
    "babelstream": babelstream,
    "vector_rate": vector_rate,
    "device_vector_rate": device_vector_rate,
    "matrix_cycles": matrix_cycles,
    "matrix_rate": matrix_rate,
    "lds_reads": lds_reads,
}
