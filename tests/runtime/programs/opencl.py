"""OpenCL through pyopencl: prints PASS or FAIL for each check. Runs inside the ROCm root."""

import sys
from typing import Any

import numpy as np
import pyopencl as cl
import pyopencl.array
import pyopencl.elementwise
import pyopencl.reduction
import pyopencl.scan

CONTEXT = cl.Context([cl.get_platforms()[0].get_devices()[0]])
QUEUE = cl.CommandQueue(CONTEXT, properties=cl.command_queue_properties.PROFILING_ENABLE)
VALUES = np.random.default_rng(3).integers(0, 1000, 10007).astype(np.int32)


def arithmetic() -> tuple[Any, Any]:
    x = cl.array.to_device(QUEUE, VALUES)
    return ((3 * x - 7) * x - x).get(), (3 * VALUES - 7) * VALUES - VALUES


def dot() -> tuple[Any, Any]:
    x = cl.array.to_device(QUEUE, VALUES.astype(np.float64))
    return cl.array.dot(x, x).get(), np.dot(VALUES.astype(np.float64), VALUES.astype(np.float64))


def minimum() -> tuple[Any, Any]:
    return cl.array.min(cl.array.to_device(QUEUE, VALUES)).get(), VALUES.min()


def inclusive_scan() -> tuple[Any, Any]:
    x = cl.array.to_device(QUEUE, VALUES)
    pyopencl.scan.InclusiveScanKernel(CONTEXT, np.int32, "a+b", "0")(x)
    return x.get(), np.cumsum(VALUES, dtype=np.int32)


def partial_workgroups() -> tuple[Any, Any]:
    source = "kernel void where(global int* x) { x[get_global_id(0)] = 100 * get_group_id(0) + get_local_id(0); }"
    program = cl.Program(CONTEXT, source)
    x = cl.array.zeros(QUEUE, 1000, np.int32)
    program.build("-cl-std=CL2.0").where(QUEUE, (1000,), (64,), x.data)
    return x.get(), np.array([100 * (i // 64) + i % 64 for i in range(1000)])


def local_memory() -> tuple[Any, Any]:
    source = """kernel void turn(global int* x) {
        local int part[128]; int i = get_local_id(0);
        part[i] = x[get_global_id(0)]; barrier(CLK_LOCAL_MEM_FENCE); x[get_global_id(0)] = part[127 - i]; }"""
    x = cl.array.to_device(QUEUE, VALUES[:1280].copy())
    cl.Program(CONTEXT, source).build().turn(QUEUE, (1280,), (128,), x.data)
    return x.get(), VALUES[:1280].reshape(10, 128)[:, ::-1].reshape(-1)


def rectangle() -> tuple[Any, Any]:
    source = np.arange(64 * 48, dtype=np.int32).reshape(48, 64)
    buffer, result = cl.Buffer(CONTEXT, cl.mem_flags.READ_WRITE, source.nbytes), np.zeros((10, 20), np.int32)
    cl.enqueue_copy(QUEUE, buffer, source)
    cl.enqueue_copy(
        QUEUE,
        result,
        buffer,
        buffer_origin=(16, 5),
        host_origin=(0, 0),
        region=(80, 10),
        buffer_pitches=(256,),
        host_pitches=(80,),
    )
    QUEUE.finish()
    return result, source[5:15, 4:24]


def fill() -> tuple[Any, Any]:
    buffer, result = cl.Buffer(CONTEXT, cl.mem_flags.READ_WRITE, 4000), np.zeros(1000, np.int32)
    cl.enqueue_fill_buffer(QUEUE, buffer, np.int32(77), 0, 4000)
    cl.enqueue_copy(QUEUE, result, buffer)
    return result, np.full(1000, 77)


def event_times() -> tuple[Any, Any]:
    x = cl.array.to_device(QUEUE, VALUES)
    program = cl.Program(CONTEXT, "kernel void twice(global int* x) { x[get_global_id(0)] *= 2; }").build()
    event = program.twice(QUEUE, (10007,), None, x.data)
    event.wait()
    times = event.profile
    return np.array([times.start < times.end, times.queued <= times.start]), np.array([True, True])


def main() -> int:
    failures = 0
    for check in (arithmetic, dot, minimum, inclusive_scan, partial_workgroups, local_memory, rectangle, fill, event_times):
        actual, expected = check()
        good = np.array_equal(actual, expected)
        failures += not good
        print("PASS" if good else "FAIL", check.__name__, "", flush=True)
    return failures


sys.exit(main())
