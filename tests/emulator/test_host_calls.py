"""Kernels with host calls: printf, assert and malloc of real code objects, and their errors."""

from __future__ import annotations

import struct
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import numpy as np
import pytest

from rocm_perf_lab.emulator.build import load_runtime
from rocm_perf_lab.emulator.checks import CheckKind
from rocm_perf_lab.emulator.device_printf import PrintfFormatter, buffered_messages
from rocm_perf_lab.emulator.errors import EmulationError
from rocm_perf_lab.emulator.faults import KernelAssertion, KernelTrap, MemoryFault
from rocm_perf_lab.emulator.host_calls import HostCallMessages
from rocm_perf_lab.emulator.host_services import UnknownHostCall
from rocm_perf_lab.emulator.machine import EmulatedGpu
from tests.builders.emulation import EmulatorBench, int32, int64
from tests.builders.kernels import build_hip
from tests.builders.targets import mi300x
from tests.builders.triton_kernels import emulate, unary_launch

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rocm_perf_lab.emulator.launching import LaunchResult
    from rocm_perf_lab.emulator.memory import Allocation
    from rocm_perf_lab.toolchain.code_object import CodeObject

PRINTS = r"""
#include <hip/hip_runtime.h>
#include <cassert>
#include <cstdio>
extern "C" __device__ unsigned long __ockl_call_host_function(unsigned long, unsigned long, unsigned long, unsigned long,
                                                              unsigned long, unsigned long, unsigned long, unsigned long);
extern "C" __global__ void formats(int* n, float f, long l) {
  n[0] = printf("%d %5.2f %lld %s %c %%\n", n[0], f, l, "a string that is longer than one packet of fifty-six bytes", 'x');
  n[1] = printf("%x\n", -9);
}
extern "C" __global__ void who(int* n) {
  if (threadIdx.x % 32 == 0) printf("%d.%d\n", blockIdx.x, threadIdx.x);
}
extern "C" __global__ void steps(int* n) {
  if (threadIdx.x % 64 == 0) printf("before %d\n", threadIdx.x / 64);
  __syncthreads();
  if (threadIdx.x % 64 == 0) printf("after %d\n", threadIdx.x / 64);
}
extern "C" __global__ void different(int* n) {
  if (threadIdx.x < 2) printf("low %s\n", threadIdx.x ? "one" : "zero");
  else if (threadIdx.x == 5) printf("five %f\n", n[5] / 2.0);
}
extern "C" __global__ void to_stderr(int* n) {
  printf("out 1\n");
  __ockl_fprintf_append_string_n(__ockl_fprintf_stderr_begin(), "err\n", 5, 1);
  printf("out 2\n");
}
extern "C" __global__ void checked(int* n, int limit) {
  int i = threadIdx.x + blockDim.x * threadIdx.y;
  assert(n[i] < limit && "too large");
  n[i] = -1;
}
extern "C" __global__ void prints_then_falls(int* n, long far) {
  for (int i = 0; i < 12; i++) printf("line %d\n", i);
  n[far] = 1;
}
extern "C" __global__ void aborts(int* n) { if (n[threadIdx.x] == 3) abort(); n[threadIdx.x] = 0; }
extern "C" __global__ void breaks(int* n) { __builtin_debugtrap(); n[threadIdx.x] = 8; }
extern "C" __global__ void ends(int* n) { if (blockIdx.x == 1) __builtin_amdgcn_endpgm(); n[blockIdx.x] = 8; }
extern "C" __global__ void calls_host_function(int* n) { n[0] = __ockl_call_host_function(0x1000, 0, 0, 0, 0, 0, 0, 0); }
"""
ALLOCATES = r"""
#include <hip/hip_runtime.h>
struct Shape {
  int a;
  __device__ Shape(int v) : a(v) {}
  __device__ virtual int area() { return a; }
  __device__ virtual ~Shape() {}
};
struct Square : Shape {
  __device__ Square(int v) : Shape(v) {}
  __device__ int area() override { return a * a; }
};
struct Node { int value; Node* next; };
enum { OBJECTS, LISTS, BLOCK, AFTER_FREE, TWICE, KEEP, USE, EXHAUST };
__device__ __noinline__ void* get(long bytes) { return malloc(bytes); }
__device__ __noinline__ void release(void* block) { free(block); }
__device__ int* kept;
extern "C" __global__ void heap(int* n, int what, long bytes, long index) {  // one kernel: the allocator is slow to translate
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (what == OBJECTS) {
    void* place = get(sizeof(Square));
    Shape* s = n[i] % 2 ? new (place) Shape(n[i]) : (Shape*)new (place) Square(n[i]);
    n[i] = s->area();
    release(place);
  } else if (what == LISTS) {
    Node* head = nullptr;
    for (int k = 0; k < 5; k++) {
      Node* node = (Node*)get(sizeof(Node));
      *node = Node{k + (int)threadIdx.x, head};
      head = node;
    }
    int sum = 0;
    while (head) {
      Node* next = head->next;
      sum += head->value;
      release(head);
      head = next;
    }
    n[i] = sum;
  } else if (what == EXHAUST) {
    int got = 0;
    while (get(bytes)) got++;
    n[i] = got;
  } else if (what == USE) {
    n[i] = *kept + 1;
    release(kept);
  } else {
    int* block = (int*)get(bytes);
    if (what == KEEP) kept = block;
    if (what >= AFTER_FREE && what <= TWICE) release(block);
    if (what == TWICE) release(block);
    if (block) block[index] = 7;
    n[i] = block ? block[index] : -1;
    if (what == BLOCK) release(block);
  }
}
"""
OBJECTS, LISTS, BLOCK, AFTER_FREE, TWICE, KEEP, USE, EXHAUST = range(8)


OUTLINED = ("-mllvm", "-inline-threshold=0")
"""Keeps functions of the device libraries out of line, so that kernels are small and quick to translate."""


@cache
def code_object(source: str, version: int = 5) -> CodeObject:
    """Compile for a version of code objects; those other than 5 have inlined device libraries, as by default."""
    flags = (f"-mcode-object-version={version}", *(OUTLINED if version == 5 else ()))
    with TemporaryDirectory() as directory:
        return build_hip(source, Path(directory), flags=flags).code_object


def text(result: LaunchResult) -> str:
    return "".join(piece.text for piece in result.printed)


@pytest.mark.parametrize("version", [5, *(pytest.param(other, marks=pytest.mark.slow) for other in (4, 6))])
def test_a_kernel_prints_like_c_and_receives_the_length(version: int) -> None:
    first = "42  1.50 -7 a string that is longer than one packet of fifty-six bytes x %\n"
    second = "fffffff7\n"
    with EmulatorBench(code_object(PRINTS, version)) as bench:
        n = bench.buffer(np.array([42, 0], np.int32))
        result = bench.launch("formats", 1, 1, n, np.float32(1.5).tobytes(), int64(-7))

        assert text(result) == first + second
        assert list(bench.read(n)) == [len(first), len(second)]
    # A printf sends a first packet, its text in pieces of 56 bytes, then a packet per number and two for the long string.
    assert result.host_calls == (1 + 1 + 3 + 2 + 1) + (1 + 1 + 1)


@pytest.mark.parametrize("threads", [1, 4])
def test_workgroups_wavefronts_and_lanes_print_in_order(threads: int) -> None:
    with EmulatorBench(code_object(PRINTS), threads=threads) as bench:
        result = bench.launch("who", 3, 128, bench.buffer(np.zeros(1, np.int32)))

    assert text(result).split() == [f"{group}.{item}" for group in range(3) for item in (0, 32, 64, 96)]


def test_output_before_a_barrier_precedes_output_after_it() -> None:
    with EmulatorBench(code_object(PRINTS)) as bench:
        result = bench.launch("steps", 1, 192, bench.buffer(np.zeros(1, np.int32)))

    assert text(result).splitlines() == ["before 0", "before 1", "before 2", "after 0", "after 1", "after 2"]


def test_lanes_of_one_wavefront_may_print_different_things() -> None:
    with EmulatorBench(code_object(PRINTS)) as bench:
        result = bench.launch("different", 1, 64, bench.buffer(np.arange(64, dtype=np.int32)))

    assert sorted(text(result).splitlines()) == ["five 2.500000", "low one", "low zero"]


def test_streams_are_kept_apart_and_in_order() -> None:
    with EmulatorBench(code_object(PRINTS)) as bench:
        result = bench.launch("to_stderr", 1, 1, bench.buffer(np.zeros(1, np.int32)))

    assert [(piece.text, piece.to_stderr) for piece in result.printed] == [
        ("out 1\n", False),
        ("err\n", True),
        ("out 2\n", False),
    ]


def test_a_repeated_run_prints_the_same_again() -> None:
    with EmulatorBench(code_object(PRINTS)) as bench:
        n = bench.buffer(np.zeros(1, np.int32))
        first, second = (bench.launch("who", 2, 64, n) for _ in range(2))

    assert first.printed == second.printed
    assert first.counters == second.counters


def test_a_failed_assertion_is_one_error_with_file_line_function_condition_block_and_threads() -> None:
    with EmulatorBench(code_object(PRINTS)) as bench:
        n = bench.buffer(np.array([*range(64), *range(64)], np.int32))
        with pytest.raises(KernelAssertion) as caught:
            bench.launch("checked", 1, (16, 8, 1), n, int32(62))

    line = PRINTS.splitlines().index('  assert(n[i] < limit && "too large");') + 1
    assert 'kernel checked: assertion `n[i] < limit && "too large"` failed' in str(caught.value)
    assert f"kernel.hip:{line}, in " in str(caught.value)
    assert "checked" in str(caught.value)
    assert "block (0, 0, 0), threads (14, 3, 0), (15, 3, 0)" in str(caught.value)


def test_an_assertion_that_holds_makes_no_host_call() -> None:
    with EmulatorBench(code_object(PRINTS)) as bench:
        n = bench.buffer(np.arange(64, dtype=np.int32))
        result = bench.launch("checked", 1, (16, 4, 1), n, int32(64))

        assert np.array_equal(bench.read(n), np.full(64, -1))
    assert (result.printed, result.host_calls) == ((), 0)


def test_output_before_a_fault_is_part_of_the_error() -> None:
    with EmulatorBench(code_object(PRINTS)) as bench:
        n = bench.buffer(np.zeros(4, np.int32))
        with pytest.raises(MemoryFault) as caught:
            bench.launch("prints_then_falls", 1, 1, n, int64(1000))

    assert "".join(piece.text for piece in caught.value.printed) == "".join(f"line {i}\n" for i in range(12))
    assert caught.value.lines()[-12:] == [
        "  the kernel printed:",
        "    (2 lines before)",
        *(f"    line {i}" for i in range(2, 12)),
    ]


def test_abort_is_a_trap_with_its_lanes() -> None:
    with EmulatorBench(code_object(PRINTS)) as bench, pytest.raises(KernelTrap, match="kernel aborts: trap 2") as caught:
        bench.launch("aborts", 1, 64, bench.buffer(np.arange(64, dtype=np.int32)))

    assert "workgroup (0, 0, 0), wavefront 0; lanes 3" in str(caught.value)


def test_a_breakpoint_does_nothing_without_a_debugger() -> None:
    with EmulatorBench(code_object(PRINTS)) as bench:
        n = bench.buffer(np.zeros(64, np.int32))
        bench.launch("breaks", 1, 64, n)

        assert np.array_equal(bench.read(n), np.full(64, 8))


def test_a_wavefront_may_end_in_the_middle() -> None:
    with EmulatorBench(code_object(PRINTS)) as bench:
        n = bench.buffer(np.zeros(3, np.int32))
        bench.launch("ends", 3, 64, n)

        assert list(bench.read(n)) == [8, 0, 8]


@pytest.mark.slow
def test_functions_of_the_host_cannot_be_called() -> None:
    with EmulatorBench(code_object(PRINTS)) as bench, pytest.raises(UnknownHostCall) as caught:
        bench.launch("calls_host_function", 1, 1, bench.buffer(np.zeros(1, np.int32)))

    assert "kernel calls_host_function: host call for service 1" in str(caught.value)
    assert "workgroup (0, 0, 0), wavefront 0" in str(caught.value)


def heap(bench: EmulatorBench, what: int, n: Allocation, *, groups: int = 1, items: int = 64, size: int = 0, at: int = 0) -> None:
    bench.launch("heap", groups, items, n, int32(what), int64(size), int64(at))


@pytest.fixture
def bench() -> Iterator[EmulatorBench]:
    with EmulatorBench(code_object(ALLOCATES)) as made:
        yield made


@pytest.mark.slow
@pytest.mark.parametrize("version", [4, 5])
def test_objects_are_made_and_deleted_on_the_device(version: int) -> None:
    values = np.arange(64, dtype=np.int32)
    with EmulatorBench(code_object(ALLOCATES, version)) as bench:
        n = bench.buffer(values)
        heap(bench, OBJECTS, n)

        assert np.array_equal(bench.read(n), np.where(values % 2, values, values * values))


@pytest.mark.slow
def test_every_work_item_may_build_a_list(bench: EmulatorBench) -> None:
    n = bench.buffer(np.zeros(512, np.int32))
    heap(bench, LISTS, n, groups=4, items=128)

    assert np.array_equal(bench.read(n), np.tile(10 + 5 * np.arange(128), 4))


@pytest.mark.slow
@pytest.mark.parametrize("nbytes", [16, 3072, 3073, 1 << 20])
def test_blocks_of_all_sizes_are_allocated(bench: EmulatorBench, nbytes: int) -> None:
    n = bench.buffer(np.zeros(64, np.int32))
    heap(bench, BLOCK, n, size=nbytes, at=nbytes // 4 - 1)

    assert np.array_equal(bench.read(n), np.full(64, 7))


@pytest.mark.slow
@pytest.mark.parametrize("nbytes", [0, 1 << 40, -1])
def test_malloc_returns_null_for_an_impossible_size(bench: EmulatorBench, nbytes: int) -> None:
    n = bench.buffer(np.zeros(64, np.int32))
    heap(bench, BLOCK, n, size=nbytes)

    assert np.array_equal(bench.read(n), np.full(64, -1))


@pytest.mark.slow
def test_malloc_returns_null_once_a_gibibyte_is_in_use(bench: EmulatorBench) -> None:
    n = bench.buffer(np.zeros(1, np.int32))
    heap(bench, EXHAUST, n, items=1, size=128 << 20)

    assert list(bench.read(n)) == [8]


@pytest.mark.slow
def test_a_store_past_the_end_of_a_large_block_is_found(bench: EmulatorBench) -> None:
    with pytest.raises(MemoryFault) as caught:
        heap(bench, BLOCK, bench.buffer(np.zeros(1, np.int32)), items=1, size=4000, at=1000)

    assert "store of 4 bytes" in str(caught.value)
    assert "right at the end of buffer 'device malloc' (4,000 bytes)" in str(caught.value)


@pytest.mark.slow
def test_a_use_after_free_is_found(bench: EmulatorBench) -> None:
    with pytest.raises(MemoryFault) as caught:
        heap(bench, AFTER_FREE, bench.buffer(np.zeros(1, np.int32)), items=1, size=4096)

    assert "inside buffer 'device malloc' (4,096 bytes), which was freed" in str(caught.value)


@pytest.mark.slow
def test_a_block_that_is_freed_twice_is_an_error(bench: EmulatorBench) -> None:
    with pytest.raises(EmulationError, match="kernel heap: free of 0x") as caught:
        heap(bench, TWICE, bench.buffer(np.zeros(1, np.int32)), items=1, size=8192)

    assert "workgroup (0, 0, 0), wavefront 0, lane 0" in str(caught.value)


@pytest.mark.slow
def test_memory_allocated_by_one_launch_can_be_used_and_freed_by_another(bench: EmulatorBench) -> None:
    n = bench.buffer(np.zeros(1, np.int32))
    heap(bench, KEEP, n, items=1, size=64)
    heap(bench, USE, n, items=1)

    assert list(bench.read(n)) == [8]


BUFFERED = r"""
#include <hip/hip_runtime.h>
#include <cassert>
#include <cstdio>
extern "C" __global__ void says(int* n, const char* dynamic) {
  if (threadIdx.x % 64 == 0) printf("%d: %s %5.2f %lld\n", threadIdx.x, "a string", n[threadIdx.x] / 4.0, 1ll << 40);
  if (threadIdx.x == 1) printf(dynamic, 7);
}
extern "C" __global__ void checked(int* n) { assert(n[threadIdx.x] < 62); }
extern "C" __global__ void floods(int* n) { for (int i = 0; i < 3000; i++) n[threadIdx.x] = printf("%s%d\n", LONG, i); }
"""
LONG = "x" * 100


@cache
def buffered() -> CodeObject:
    with TemporaryDirectory() as directory:
        flags = ("-mprintf-kind=buffered",)
        return build_hip(BUFFERED.replace("LONG", f'"{LONG}"'), Path(directory), flags=flags).code_object


def test_buffered_output_is_read_after_the_launch() -> None:
    with EmulatorBench(buffered()) as bench:
        dynamic = bench.buffer(np.frombuffer(b"not %d constant\n\0", np.uint8))
        first, second = (bench.launch("says", 1, 128, bench.buffer(np.arange(128, dtype=np.int32)), dynamic) for _ in range(2))

    lines = ["0: a string  0.00 1099511627776", "64: a string 16.00 1099511627776", "not 7 constant"]
    assert sorted(text(first).splitlines()) == lines
    assert first.printed == second.printed
    assert first.host_calls == 0


def test_an_assertion_is_found_in_the_buffer() -> None:
    with EmulatorBench(buffered()) as bench, pytest.raises(KernelAssertion) as caught:
        bench.launch("checked", 1, 64, bench.buffer(np.arange(64, dtype=np.int32)))

    assert "kernel checked: assertion `n[threadIdx.x] < 62` failed" in str(caught.value)
    assert "block (0, 0, 0), threads (62, 0, 0), (63, 0, 0)" in str(caught.value)


def test_a_full_buffer_drops_messages_and_the_kernel_can_tell() -> None:
    with EmulatorBench(buffered()) as bench:
        n = bench.buffer(np.zeros(64, np.int32))
        result = bench.launch("floods", 1, 64, n)

        assert np.array_equal(bench.read(n), np.full(64, -1))
    lines = text(result).splitlines()
    record = 4 + 8 + (-(-(len(LONG) + 1) // 8)) * 8 + 8  # control, hash, string, number
    assert len(lines) == ((16 << 20) - 8) // record
    assert lines[:65:64] == [f"{LONG}0", f"{LONG}1"]


def test_damaged_records_end_the_reading() -> None:
    content = np.zeros(64, np.uint8)
    content[:16] = np.frombuffer(struct.pack("<IIII", 56, 64, 1 << 20 << 2, 0), np.uint8)

    assert list(buffered_messages(content, {}, PrintfFormatter(load_runtime()))) == []


TRITON = """
@triton.jit
def prints(x_ptr, y_ptr):
    x = tl.load(x_ptr + tl.arange(0, 64))
    tl.device_print("x: ", x)
    tl.device_assert(x < 62, "too large")
    tl.store(y_ptr + tl.arange(0, 64), x)
"""


def test_triton_prints_and_asserts() -> None:
    x, y = ({"dtype": "i32", "init": {"kind": "arange"}}, {"dtype": "i32", "shape": [64]})
    launch = unary_launch(TRITON, "prints", x, y, num_warps=1, debug=True)

    with pytest.raises(KernelAssertion, match="assertion `too large` failed") as caught:
        emulate(launch)

    lines = "".join(piece.text for piece in caught.value.printed).splitlines()
    assert lines[:2] == ["pid (0, 0, 0) idx ( 0) x: 0", "pid (0, 0, 0) idx ( 1) x: 1"]
    assert "block (0, 0, 0), threads (62, 0, 0), (63, 0, 0)" in str(caught.value)


PHASED = r"""
#include <hip/hip_runtime.h>
typedef unsigned long u64;
struct Header { u64 active; unsigned service; };
struct Queue { unsigned *device, *host, *claimed; Header* headers; u64 (*slots)[64][8]; u64 doorbell; unsigned count; };
__device__ u64 last_signal_time;  // the device libraries that talk like this have it
__device__ u64 ask(Queue* q, unsigned service, u64 a, u64 b, u64 c) {
  u64 active = __builtin_amdgcn_read_exec();
  unsigned lane = __lane_id(), first = __builtin_amdgcn_readfirstlane(lane), n = 0;
  if (lane == first) {
    while (__hip_atomic_fetch_or(&q->claimed[n / 32], 1u << n % 32, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT) >> n % 32 & 1) {
      n = (n + 1) % q->count;
      __builtin_amdgcn_s_sleep(1);
    }
    last_signal_time = n;
  }
  n = __builtin_amdgcn_readfirstlane(n);
  if (lane == first) q->headers[n] = Header{active, service};
  u64* slot = q->slots[n][lane];
  slot[0] = a;
  slot[1] = b;
  slot[2] = c;
  if (lane == first) {
    __hip_atomic_fetch_xor(&q->device[n], 1u, __ATOMIC_RELEASE, __HIP_MEMORY_SCOPE_SYSTEM);
    while (__hip_atomic_load(&q->device[n], __ATOMIC_ACQUIRE, __HIP_MEMORY_SCOPE_SYSTEM) !=
           __hip_atomic_load(&q->host[n], __ATOMIC_ACQUIRE, __HIP_MEMORY_SCOPE_SYSTEM))
      __builtin_amdgcn_s_sleep(1);
  }
  u64 answer = ((volatile u64*)slot)[0];
  if (lane == first) __hip_atomic_fetch_and(&q->claimed[n / 32], ~(1u << n % 32), __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
  return answer;
}
extern "C" __global__ void asks(int* n) {
  Queue* q = *(Queue**)((char*)__builtin_amdgcn_implicitarg_ptr() + 80);
  enum { BEGIN = 1, END = 2, TWO_WORDS = 2 << 5, PRINTF = 2 };
  u64 text = threadIdx.x & 1 ? 0x0a64646f : 0x0a6e657665;  // "odd\n", "even\n"
  n[threadIdx.x] = ask(q, PRINTF, BEGIN | END | TWO_WORDS, 0, text);
}
"""


def test_the_checks_report_no_findings_in_the_device_libraries() -> None:
    with EmulatedGpu(mi300x(), max_instructions=10**7, checks=frozenset(CheckKind)) as machine:
        loaded, n = machine.load(code_object(PRINTS)), machine.allocate("n", 512)
        result = machine.launch(loaded, "steps", (2, 1, 1), (128, 1, 1), [n])

    assert (result.findings, result.remarks) == ((), ())
    assert text(result).splitlines() == ["before 0", "before 1", "after 0", "after 1"] * 2


@pytest.mark.slow
@pytest.mark.parametrize("what", [OBJECTS, LISTS, BLOCK])
def test_the_checks_report_no_findings_in_the_allocator(what: int) -> None:
    with EmulatedGpu(mi300x(), max_instructions=10**7, checks=frozenset(CheckKind)) as machine:
        loaded, n = machine.load(code_object(ALLOCATES)), machine.allocate("n", 4 * 256)
        result = machine.launch(loaded, "heap", (2, 1, 1), (128, 1, 1), [n, int32(what), int64(8192), int64(5)])

    assert (result.findings, result.remarks) == ((), ())


def test_packets_with_phases_are_answered_too() -> None:
    with EmulatorBench(code_object(PHASED)) as bench:
        n = bench.buffer(np.zeros(192, np.int32))
        result = bench.launch("asks", 1, 192, n)

        assert np.array_equal(bench.read(n), np.tile([5, 4], 96))
    assert text(result) == "even\nodd\n" * 96
    assert result.host_calls == 3


def test_pieces_of_messages_are_put_together_by_their_number() -> None:
    begin, end = 1, 2
    messages = HostCallMessages()

    first, nothing = messages.add([begin | 1 << 5, 10, 99, 99, 99, 99, 99, 99])
    second, _ = messages.add([begin | 2 << 5, 20, 21, 0, 0, 0, 0, 0])
    _, whole = messages.add([first | end | 3 << 5, 11, 12, 13, 0, 0, 0, 0])
    _, other = messages.add([second | end, 99, 99, 0, 0, 0, 0, 0])

    assert first != second
    assert (nothing, whole, other) == (None, [10, 11, 12, 13], [20, 21])
