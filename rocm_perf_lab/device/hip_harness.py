"""The process that rocprofv3 profiles: loads a code object with HIP's module API and dispatches one kernel.

Run as `python -m rocm_perf_lab.device.hip_harness DIRECTORY`. The directory holds `launch.json`, `code_object.hsaco`, `NAME.in`
per buffer and `NAME.variable` per variable of the module, and receives `NAME.out`. It imports only the standard library, to
start quickly, and `amdsmi` of ROCm for `energy.json`, if `launch.json` asks for the energy of a dispatch.
"""

from __future__ import annotations

import ctypes
import json
import os
import struct
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

HOST_TO_DEVICE, DEVICE_TO_HOST = 1, 2
ENERGY_FILE = "energy.json"
_BATCH_S = 0.02
_MOST_IN_BATCH = 1000
_BUS_ID_BYTES = 64
LAUNCH_BUFFER_POINTER, LAUNCH_BUFFER_SIZE, LAUNCH_END = 1, 2, 3  # HIP_LAUNCH_PARAM_* of hip_runtime_api.h


class Hip:
    """HIP runtime library; a failing call ends the process with the name of the function and the error code."""

    def __init__(self, library: str = "libamdhip64.so") -> None:
        self._library = ctypes.CDLL(library)

    def call(self, name: str, *arguments: Any) -> None:
        """Call a function of HIP; exit unless it returns hipSuccess."""
        code = getattr(self._library, name)(*arguments)
        if code != 0:
            sys.exit(f"{name} failed with HIP error {code}")


def main(directory: Path) -> None:
    """Dispatch the launch in `launch.json` and write the outputs of the first run."""
    spec = json.loads((directory / "launch.json").read_text())
    hip = Hip()
    module, function = ctypes.c_void_p(), ctypes.c_void_p()
    image = (directory / "code_object.hsaco").read_bytes()
    hip.call("hipModuleLoadData", ctypes.byref(module), image)
    hip.call("hipModuleGetFunction", ctypes.byref(function), module, spec["symbol"].encode())
    for name in spec["variables"]:
        _fill_variable(hip, module, name, (directory / f"{name}.variable").read_bytes())
    buffers = {row["name"]: _allocate(hip, row["bytes"]) for row in spec["arguments"] if "bytes" in row}
    kernarg = _pack(spec["arguments"], buffers)
    for run in range(spec["runs"]):
        _fill(hip, directory, spec["arguments"], buffers)
        _dispatch(hip, function, spec, kernarg)
        hip.call("hipDeviceSynchronize")
        if run == 0:
            _save(hip, directory, spec["arguments"], buffers)
    if spec["energy_s"] is not None:
        found = _energy(hip, spec["energy_s"], lambda: _dispatch(hip, function, spec, kernarg))
        (directory / ENERGY_FILE).write_text(json.dumps(found))


def _allocate(hip: Hip, size: int) -> ctypes.c_void_p:
    pointer = ctypes.c_void_p()
    hip.call("hipMalloc", ctypes.byref(pointer), ctypes.c_size_t(size))
    return pointer


def _fill_variable(hip: Hip, module: ctypes.c_void_p, name: str, content: bytes) -> None:
    pointer, size = ctypes.c_void_p(), ctypes.c_size_t()
    hip.call("hipModuleGetGlobal", ctypes.byref(pointer), ctypes.byref(size), module, name.encode())
    if size.value != len(content):
        sys.exit(f"variable {name} has {size.value} bytes, but its content has {len(content)}")
    hip.call("hipMemcpy", pointer, content, size, HOST_TO_DEVICE)


def _pack(arguments: list[dict[str, Any]], buffers: dict[str, ctypes.c_void_p]) -> bytes:
    block = bytearray()
    for row in arguments:
        is_buffer = "bytes" in row
        value = struct.pack("<Q", buffers[row["name"]].value or 0) if is_buffer else bytes.fromhex(row["encoded"])
        block.extend(b"\0" * (row["offset"] - len(block)))
        block += value
    return bytes(block)


def _fill(hip: Hip, directory: Path, arguments: list[dict[str, Any]], buffers: dict[str, ctypes.c_void_p]) -> None:
    for row in arguments:
        if "bytes" in row:
            content = (directory / f"{row['name']}.in").read_bytes()
            hip.call("hipMemcpy", buffers[row["name"]], content, ctypes.c_size_t(row["bytes"]), HOST_TO_DEVICE)


def _dispatch(hip: Hip, function: ctypes.c_void_p, spec: dict[str, Any], kernarg: bytes) -> None:
    block = ctypes.create_string_buffer(kernarg, max(len(kernarg), 1))
    size = ctypes.c_size_t(len(kernarg))
    extra = (ctypes.c_void_p * 5)(
        LAUNCH_BUFFER_POINTER, ctypes.addressof(block), LAUNCH_BUFFER_SIZE, ctypes.addressof(size), LAUNCH_END
    )
    counted = spec["work_items"] or spec["grid"]
    geometry = [ctypes.c_uint(n) for n in (*counted, *spec["block"])]
    lds_bytes = spec["dynamic_lds_bytes"]
    if spec["cooperative"]:
        places = [ctypes.addressof(block) + row["offset"] for row in spec["arguments"]]
        parameters = (ctypes.c_void_p * max(len(places), 1))(*places)
        hip.call("hipModuleLaunchCooperativeKernel", function, *geometry, ctypes.c_uint(lds_bytes), None, parameters)
    elif spec["work_items"]:  # the only call that launches partial workgroups
        events_and_flags = (None, None, ctypes.c_uint(0))
        lds = ctypes.c_size_t(lds_bytes)
        hip.call("hipExtModuleLaunchKernel", function, *geometry, lds, None, None, extra, *events_and_flags)
    else:
        hip.call("hipModuleLaunchKernel", function, *geometry, ctypes.c_uint(lds_bytes), None, None, extra)


class EnergyCounter:
    """Counter of the energy that the first visible GPU has used, of the package `amdsmi`, which ROCm contains."""

    def __init__(self, hip: Hip) -> None:
        sys.path.append(os.path.join(os.environ.get("ROCM_PATH", "/opt/rocm"), "share", "amd_smi"))  # noqa: PTH118 - see above
        try:
            import amdsmi  # type: ignore[import-not-found, unused-ignore]
        except (ImportError, OSError) as error:
            sys.exit(f"energy needs the Python package amdsmi of ROCm (pip install amdsmi, of the same release): {error}")
        bus_id = ctypes.create_string_buffer(_BUS_ID_BYTES)
        hip.call("hipDeviceGetPCIBusId", bus_id, ctypes.c_int(_BUS_ID_BYTES), ctypes.c_int(0))
        self._amdsmi = amdsmi
        try:
            amdsmi.amdsmi_init()
            self._gpu = amdsmi.amdsmi_get_processor_handle_from_bdf(bus_id.value.decode())
            self.microjoules()
        except amdsmi.AmdSmiException as error:
            sys.exit(f"this GPU has no energy counter that amdsmi can read: {' '.join(str(error).split())}")

    def microjoules(self) -> float:
        """Return the energy since the counter was reset."""
        read = self._amdsmi.amdsmi_get_energy_count(self._gpu)
        return float(read["energy_accumulator"] * read["counter_resolution"])


def _energy(hip: Hip, seconds: float, dispatch: Callable[[], None]) -> dict[str, float]:
    """Dispatch for some seconds without pauses; return the number of dispatches and their energy.

    The batches between two synchronisations are long, so that the GPU does not wait for the host. The counter advances about
    every millisecond.
    """
    counter = EnergyCounter(hip)
    start = time.perf_counter()
    dispatch()
    hip.call("hipDeviceSynchronize")
    batch = max(1, min(_MOST_IN_BATCH, int(_BATCH_S / (time.perf_counter() - start))))
    dispatches, before, start = 0, counter.microjoules(), time.perf_counter()
    while time.perf_counter() - start < seconds:
        for _ in range(batch):
            dispatch()
        hip.call("hipDeviceSynchronize")
        dispatches += batch
    used = counter.microjoules() - before
    if used <= 0:
        sys.exit(f"the energy counter of this GPU did not advance in {seconds:g} s")
    return {"microjoules": used, "dispatches": dispatches, "seconds": time.perf_counter() - start}


def _save(hip: Hip, directory: Path, arguments: list[dict[str, Any]], buffers: dict[str, ctypes.c_void_p]) -> None:
    for row in arguments:
        if row.get("written"):
            content = ctypes.create_string_buffer(row["bytes"])
            hip.call("hipMemcpy", content, buffers[row["name"]], ctypes.c_size_t(row["bytes"]), DEVICE_TO_HOST)
            (directory / f"{row['name']}.out").write_bytes(content.raw)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
