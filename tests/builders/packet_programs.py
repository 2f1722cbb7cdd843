"""Programs that write packets to queues of the emulated driver themselves: `python -m tests.builders.packet_programs NAME CODE`.

`CODE` is a file with a code object of the kernels in `KERNELS`. Each program prints one JSON value.
"""

from __future__ import annotations

import ctypes
import json
import struct
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rocm_perf_lab.toolchain.elf import read_code_object
from tests.builders.packet_client import (
    BARRIER_AND,
    BARRIER_OR,
    Gpu,
    Queue,
    Signal,
    barrier,
    barrier_value,
    dispatch,
    instruction_cache_invalidation,
    peek,
    poke,
)

if TYPE_CHECKING:
    from collections.abc import Callable

KERNELS = r"""
#include <hip/hip_runtime.h>
extern "C" __global__ void axpy(float a, const float* x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] += a * x[i];
}
extern "C" __global__ void empty() {}
extern "C" __global__ void sleeps(volatile int* flag, int* out) {
  while (*flag == 0) __builtin_amdgcn_s_sleep(1);
  *out = *flag + 1;
}
extern "C" __global__ void spins(volatile int* flag, int* out) {
  while (*flag == 0) {}
  *out = *flag + 1;
}
extern "C" __global__ void set(int* flag, int value) { *flag = value; }
extern "C" __global__ void append(int* count, int* log, int value) { log[*count] = value; *count += 1; }
extern "C" __global__ void items(int* counts) { atomicAdd(&counts[(blockIdx.z * 16 + blockIdx.y) * 16 + blockIdx.x], 1); }
extern "C" __global__ void reverse(int* out) {
  extern __shared__ int s[];
  s[threadIdx.x] = threadIdx.x;
  __syncthreads();
  out[threadIdx.x] = s[blockDim.x - 1 - threadIdx.x];
}
extern "C" __global__ void iterate(float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  for (int k = 0; k < n; k++) y[i] = y[i] * 0.5f + 1;
}
extern "C" __global__ void trap() { __builtin_trap(); }
"""
_GPU_MEMORY_EVENT, _HARDWARE_EVENT = 8, 3
_VOID = 0x1234_5678_9000
_SECONDS = 120.0
Grid = tuple[int, int, int]


class Client:
    """A GPU with the kernels loaded, and a queue."""

    def __init__(self, code: Path) -> None:
        self.gpu = Gpu()
        self.queue = Queue(self.gpu)
        self.code = read_code_object(code.read_bytes())
        self.base = self.gpu.allocate(1 << 20)
        self.load()
        self.kernels = {kernel.symbol: self.base + kernel.descriptor_address for kernel in self.code.kernels}

    def load(self) -> None:
        """Copy the segments of the code object to device memory, as a loader does; these kernels have no relocations."""
        data = self.code.data
        (table,), (count,) = struct.unpack_from("<Q", data, 32), struct.unpack_from("<H", data, 56)
        for entry in range(table, table + 56 * count, 56):
            kind, _, offset, address, _, size = struct.unpack_from("<IIQQQQ", data, entry)
            if kind == 1:
                poke(self.base + address, data[offset : offset + size])

    def arguments(self, layout: str, values: tuple[float, ...], grid: Grid, block: Grid) -> int:
        """Return the address of a kernarg segment with the hidden sizes of the launch."""
        content = struct.pack(layout, *values)
        content += b"\0" * (-len(content) % 8)
        counts = [g // max(b, 1) for g, b in zip(grid, block, strict=True)]
        rests = [g % max(b, 1) for g, b in zip(grid, block, strict=True)]
        address = self.gpu.small(512)
        poke(address, (content + struct.pack("IIIHHHHHH", *counts, *block, *rests)).ljust(320, b"\0"))
        return address

    def launch(
        self, name: str, layout: str, values: tuple[float, ...], grid: Grid, block: Grid, *, queue: Queue | None = None,
        lds: int = 0, dimensions: int = 3, kernel: int = 0,
    ) -> Signal:  # fmt: skip
        """Write a dispatch packet and return its completion signal."""
        signal = self.gpu.signal(event=True)
        arguments = self.arguments(layout, values, grid, block)
        packet = dispatch(kernel or self.kernels[name], arguments, grid, block, lds=lds, signal=signal, dimensions=dimensions)
        (queue or self.queue).put(packet)
        return signal

    def integers(self, address: int, count: int) -> list[int]:
        """Return numbers in memory."""
        return list(struct.unpack(f"{count}i", ctypes.string_at(address, 4 * count)))


ONE: Grid = (1, 1, 1)
WAVE: Grid = (64, 1, 1)


def axpy(client: Client) -> Any:
    """1,000 work-items in workgroups of 256: the last one is partial."""
    n = 1000
    x, y = (client.gpu.memory(struct.pack(f"{n}f", *values)) for values in (range(n), [1.0] * n))
    signal = client.launch("axpy", "f4xQQi", (2.0, x, y, n), (n, 1, 1), (256, 1, 1))
    assert signal.wait(seconds=_SECONDS)
    return {"y": struct.unpack(f"{n}f", ctypes.string_at(y, 4 * n)), "ticks": signal.ticks, "read": client.queue.read_index}


def items(client: Client) -> Any:
    """Count the work-items of each workgroup of a grid that is partial along all axes."""
    counts = client.gpu.allocate(4 * 16**3)
    assert client.launch("items", "Q", (counts,), (70, 9, 5), (32, 4, 2)).wait(seconds=_SECONDS)
    found = client.integers(counts, 16**3)
    return [[x, y, z, n] for i, n in enumerate(found) if n for x, y, z in [(i % 16, i // 16 % 16, i // 256)]]


def lds(client: Client) -> Any:
    """Dynamic LDS."""
    out = client.gpu.allocate(4096)
    assert client.launch("reverse", "Q", (out,), (256, 1, 1), (256, 1, 1), lds=1024).wait(seconds=_SECONDS)
    return client.integers(out, 256)


def released(client: Client) -> Any:
    """Kernels that wait for a flag, which a kernel on another queue sets; and one that the host releases."""
    flag, out, other = client.gpu.allocate(4096), client.gpu.allocate(4096), Queue(client.gpu)
    results = []
    for name in ("sleeps", "spins"):
        poke(flag, bytes(4))
        waiting = client.launch(name, "QQ", (flag, out), WAVE, WAVE)
        time.sleep(0.05)
        results.append(waiting.value)
        client.launch("set", "Qi", (flag, 41), WAVE, WAVE, queue=other)
        results += [waiting.wait(seconds=_SECONDS), peek(out, "i")]
    poke(flag, bytes(4))
    waiting = client.launch("sleeps", "QQ", (flag, out), (6400, 1, 1), WAVE)
    time.sleep(0.05)
    poke(flag, struct.pack("i", 6))
    return [*results, waiting.wait(seconds=_SECONDS), peek(out, "i")]


def barriers(client: Client) -> Any:
    """Packets that wait for signals, each followed by a kernel that must not run before."""
    gpu, queue = client.gpu, client.queue
    flag = gpu.allocate(4096)
    results = []

    def blocked(packet: bytes, *releases: tuple[Signal, int]) -> None:
        poke(flag, bytes(4))
        queue.put(packet)
        after = client.launch("set", "Qi", (flag, 1), ONE, ONE)
        for signal, value in releases:
            time.sleep(0.03)
            results.append(peek(flag, "i"))
            signal.value = value
        results.append(10 + after.wait(seconds=_SECONDS))

    first, second = gpu.signal(2), gpu.signal(1)
    blocked(barrier(BARRIER_AND, [first, second]), (second, 0), (first, 1), (first, 0))
    first.value = second.value = 1
    blocked(barrier(BARRIER_OR, [first, second]), (second, 0))
    blocked(barrier(BARRIER_AND, []))
    first.value = 5
    blocked(barrier_value(first, 8, 12, 0), (first, 4), (first, 9))  # (value & 12) == 8
    blocked(barrier_value(first, 20, -1, 3), (first, 20))
    return results


def order(client: Client) -> Any:
    """100 packets in a ring of 16 run in order."""
    ring, count, log = Queue(client.gpu, 16), client.gpu.allocate(4096), client.gpu.allocate(4096)
    signals = [client.launch("append", "QQi", (count, log, k), ONE, ONE, queue=ring) for k in range(100)]
    assert all(signal.wait(seconds=_SECONDS) for signal in signals)
    ticks = [tick for signal in signals for tick in signal.ticks]
    return {"log": client.integers(log, 100), "ordered": ticks == sorted(ticks), "read": ring.read_index}


def many(client: Client) -> Any:
    """Return the seconds of 100,000 launches of a small kernel."""
    signal = client.gpu.signal()
    packet = dispatch(client.kernels["empty"], 0, WAVE, WAVE)
    assert client.launch("empty", "", (), WAVE, WAVE).wait(seconds=_SECONDS)
    begin = time.monotonic()
    for _ in range(99_999):
        client.queue.put(packet)
    client.queue.put(dispatch(client.kernels["empty"], 0, WAVE, WAVE, signal=signal))
    assert signal.wait(seconds=300)
    return time.monotonic() - begin


def large(client: Client) -> Any:
    """A grid that several threads share."""
    n = 1 << 16
    y = client.gpu.memory(struct.pack(f"{n}f", *range(n)))
    for _ in range(2):
        assert client.launch("iterate", "Qi", (y, 10), (n, 1, 1), (256, 1, 1)).wait(seconds=_SECONDS)
    return struct.unpack(f"{n}f", ctypes.string_at(y, 4 * n))


def paused(client: Client) -> Any:
    """A queue that is updated to 0% runs nothing until it is updated to 100%."""
    client.queue.update(0)
    signal = client.launch("empty", "", (), WAVE, WAVE)
    time.sleep(0.1)
    before = signal.value
    client.queue.update(100)
    return [before, signal.wait(seconds=_SECONDS)]


def destroyed(client: Client) -> Any:
    """Destroy a queue whose kernel never ends, then use another one."""
    flag, queue = client.gpu.allocate(4096), Queue(client.gpu)
    signal = client.launch("spins", "QQ", (flag, flag + 64), (6400, 1, 1), WAVE, queue=queue)
    time.sleep(0.1)
    queue.destroy()
    return [signal.value, client.launch("empty", "", (), WAVE, WAVE).wait(seconds=_SECONDS)]


def errors(client: Client) -> Any:
    """Return the codes in the inactive signal, and the read index, which does not pass the packet at fault."""
    found: dict[str, Any] = {}

    def failing(what: str, kernel: str, grid: Grid, block: Grid, *, address: int = 0, lds: int = 0) -> None:
        queue = Queue(client.gpu)
        client.launch(kernel, "", (), grid, block, queue=queue, kernel=address, lds=lds)
        after = client.launch("empty", "", (), WAVE, WAVE, queue=queue)
        assert queue.inactive.wait_until_set(_SECONDS)
        time.sleep(0.01)
        found[what] = [queue.inactive.value & 0xFFFF_FFFF, after.value, queue.read_index]
        queue.destroy()

    failing("trap", "trap", WAVE, WAVE)
    failing("no work-items", "empty", (0, 1, 1), WAVE)
    failing("empty workgroup", "empty", WAVE, (0, 1, 1))
    failing("large workgroup", "empty", (2048, 1, 1), (2048, 1, 1))
    failing("LDS", "empty", WAVE, WAVE, lds=200_000)
    failing("no kernel", "empty", WAVE, WAVE, address=_VOID)
    return found


def memory_fault(client: Client) -> Any:
    """Return the address and the reason in the memory event of a store outside of all memory."""
    event = client.gpu.create_event(_GPU_MEMORY_EVENT)
    client.launch("set", "Qi", (_VOID, 1), ONE, ONE)
    data = client.gpu.wait_event(event, 120_000)
    assert data is not None
    not_present, read_only, _, _, address, gpu, _ = struct.unpack_from("IIIIQII", data)
    return [not_present, read_only, address, gpu]


def endless(client: Client) -> Any:
    """Return whether a kernel beyond the limit raises the exception of a GPU that hangs."""
    event, flag = client.gpu.create_event(_HARDWARE_EVENT), client.gpu.allocate(4096)
    client.launch("spins", "QQ", (flag, flag + 64), WAVE, WAVE)
    return client.gpu.wait_event(event, 120_000) is not None


def replaced(client: Client) -> Any:
    """Load other code at the same place: the kernel `set` then is what its new code says."""
    flag = client.gpu.allocate(4096)
    assert client.launch("set", "Qi", (flag, 5), ONE, ONE).wait(seconds=_SECONDS)
    before = peek(flag, "i")
    names = {kernel.symbol: kernel for kernel in client.code.kernels}
    entry = client.base + names["set"].entry_address
    poke(entry, struct.pack("I", 0xBF81_0000))  # s_endpgm
    client.queue.put(instruction_cache_invalidation())
    assert client.launch("set", "Qi", (flag, 6), ONE, ONE).wait(seconds=_SECONDS)
    return [before, peek(flag, "i")]


def _words(address: int) -> tuple[int, int]:
    return address & 0xFFFF_FFFF, address >> 32


def copies(client: Client) -> Any:
    """Packets of a copy engine, in a ring of 4 KiB that they pass many times."""
    gpu, engine = client.gpu, Queue(client.gpu, sdma_bytes=4096)
    content = bytes(k * k % 251 for k in range(100_000))
    source, target, filled, marks = gpu.memory(content), gpu.allocate(100_000), gpu.allocate(4096), gpu.allocate(4096)
    done = gpu.signal(event=True)
    for start in range(0, 100_000, 1000):
        engine.put_sdma(1, 999, 0, *_words(source + start), *_words(target + start))
        engine.wait_for_room(64)
    engine.put_sdma(11 | 2 << 30, *_words(filled), 0x0102_0304, (16 - 1) * 4)
    # a window of 3 x 2 elements of 4 bytes, from (1, 1) of lines of 8 to (0, 0) of lines of 3
    window = [(3 - 1) | (2 - 1) << 16, 0]
    engine.put_sdma(
        1 | 4 << 8 | 2 << 29,
        *_words(source),
        1 | 1 << 16,
        (8 - 1) << 13,
        63,
        *_words(filled + 1024),
        0,
        (3 - 1) << 13,
        5,
        *window,
    )
    engine.put_sdma(5, *_words(marks), 77)
    engine.put_sdma(0 | 3 << 16, 0, 0, 0)
    engine.put_sdma(13 | 2 << 8, *_words(marks + 8))
    engine.put_sdma(8 | 3 << 28 | 1 << 31, *_words(marks + 64), 5, 0xFF, 0)
    engine.put_sdma(10 | 0x2F << 25, *_words(done.address + 8), *_words(2**64 - 1), 0, 0, 0)
    engine.put_sdma(6, done.event)
    time.sleep(0.05)
    waiting = done.value
    poke(marks + 64, struct.pack("I", 0xA05))
    finished = done.wait(seconds=_SECONDS)
    return {
        "copied": ctypes.string_at(target, 100_000) == content,
        "filled": client.integers(filled, 17),
        "window": client.integers(filled + 1024, 7),
        "expected_window": [*client.integers(source + 36, 3), *client.integers(source + 68, 3), 0],
        "fence": peek(marks, "I"),
        "has_time": peek(marks + 8) > 0,
        "waited": [waiting, finished],
        "event": gpu.wait_event(done.event, 60_000) is not None,
    }


PROGRAMS: dict[str, Callable[[Client], Any]] = {
    program.__name__: program
    for program in (
        axpy, items, lds, released, barriers, order, many, large, paused, destroyed, errors, memory_fault, endless, replaced,
        copies,
    )
}  # fmt: skip

if __name__ == "__main__":
    print(json.dumps(PROGRAMS[sys.argv[1]](Client(Path(sys.argv[2])))))
