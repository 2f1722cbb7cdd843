"""Device that measures candidates on captured memory: the dispatch is captured once, and every launch replays it.

Code object, geometry and scalars are those of the launch; buffers are those of the capture, at their addresses. A launch takes
milliseconds to set up, because the memory is reconstructed only once.
"""

from __future__ import annotations

import base64
import dataclasses
import os
import tempfile
from copy import copy
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np

from rocm_perf_lab import __version__
from rocm_perf_lab.core.errors import LabError
from rocm_perf_lab.device.choice import KFD
from rocm_perf_lab.device.emulator import EmulatorDevice
from rocm_perf_lab.device.launch_record import launch_record
from rocm_perf_lab.device.protocol import BufferValue, DeviceIdentity, DeviceRun
from rocm_perf_lab.emulator.sampling import SamplePolicy, sample_policy
from rocm_perf_lab.replay.emulated_capture import capture_described_launch
from rocm_perf_lab.replay.kernarg import explicit_arguments, service_blocks
from rocm_perf_lab.replay.messages import GeometryRequest, ReplayRequest
from rocm_perf_lab.replay.reader import open_capture
from rocm_perf_lab.replay.session import ReplaySession
from rocm_perf_lab.rocprof.writer import write_database

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from rocm_perf_lab.device.protocol import Device, Launch
    from rocm_perf_lab.languages.description import KernelDescription
    from rocm_perf_lab.replay.capture import Capture
    from rocm_perf_lab.replay.session import DeviceName
    from rocm_perf_lab.target.model import Target

_WARMUP_ON_A_GPU = 3


@runtime_checkable
class ProvidesExpectedOutputs(Protocol):
    """Device that provides the correct outputs of a launch."""

    def expected_outputs(self, launch: Launch) -> Mapping[str, NDArray[Any]] | None:
        """Return the correct outputs by name; None if the kernel description defines them."""
        ...


class CaptureSource(Protocol):
    """Function that creates a capture."""

    def __call__(self, launch: Launch) -> Path:
        """Capture the first launch and return the directory."""
        ...


@dataclass(frozen=True)
class _Result:
    """Memory that the kernel writes, with the type and shape of the buffer."""

    name: str
    address: int
    nbytes: int
    dtype: np.dtype[Any]
    shape: tuple[int, ...]

    def view(self, content: NDArray[np.uint8]) -> NDArray[Any]:
        """Return the content as an array of the buffer's type and shape."""
        return content.view(self.dtype).reshape(self.shape)


class ReplayDevice:
    """Device that runs launches on the memory of one capture.

    Args:
        target: GPU to emulate, or on which replays run.
        device: Device of the replays: emulator, rocm, or auto (rocm if there is a GPU, else the emulator).
        capture: Directory of the capture.
        timeout_s: Time limit in seconds of one launch with all its runs.
        source: Function that creates the capture from the first launch, if `capture` is None.
        max_instructions: Instruction limit of one emulated dispatch.
        threads: Threads of the emulator; 0 for one per core.
        sample, traced_workgroups, sample_seed: See :class:`~rocm_perf_lab.device.emulator.EmulatorDevice`.
        library: Path of the HSA runtime; None searches the usual directories.

    Raises:
        LabError: Neither `capture` nor `source` is set, or the sample is invalid.
    """

    def __init__(
        self,
        *,
        target: Target,
        device: str = "auto",
        capture: str | None = None,
        timeout_s: float = 600.0,
        source: CaptureSource | None = None,
        max_instructions: int = 20_000_000_000,
        threads: int = 0,
        sample: str | SamplePolicy = "strata",
        traced_workgroups: int = 16,
        sample_seed: int | None = None,
        library: str | None = None,
    ) -> None:
        if capture is None and source is None:
            raise LabError(
                "device=replay needs a capture",
                where="device.capture",
                hint="Create one with rocm-perf replay capture and set device.capture to its directory.",
            )
        self._target = target
        self._device: DeviceName = "rocm" if device == "rocm" or (device == "auto" and KFD.exists()) else "emulator"
        self._directory = Path(capture) if capture is not None else None
        self._is_given = capture is not None
        self._source = source
        self._timeout_s = timeout_s
        self._max_instructions = max_instructions
        self._threads = threads or os.cpu_count() or 1
        self._sample = sample if isinstance(sample, SamplePolicy) else sample_policy(sample, traced_workgroups, sample_seed)
        self._has_own_seed = sample_seed is not None or isinstance(sample, SamplePolicy)
        self._library = library
        self._capture: Capture | None = None
        self._session: ReplaySession | None = None
        self._emulated = self._device == "emulator"

    @property
    def identity(self) -> DeviceIdentity:
        """Identity of the device. With an HSA runtime, `emulated` is only known after the first run."""
        where = str(self._directory) if self._is_given else "the dispatch of the baseline"
        return DeviceIdentity(
            name=f"replay on {self._device}",
            emulated=self._emulated,
            reason=f"candidates run on captured memory: {where}",
            versions={"rocm-perf-lab": __version__},
        )

    @property
    def sample(self) -> SamplePolicy:
        """Number of traced workgroups, and the seed of their selection."""
        return self._sample

    def with_sample_seed(self, seed: int) -> ReplayDevice:
        """Return this device with another seed, unless its configuration sets one."""
        if self._has_own_seed:
            return self
        device = copy(self)
        device._sample = dataclasses.replace(self._sample, seed=seed)
        return device

    @property
    def deterministic(self) -> bool:
        """Return whether repeated runs have equal durations: on the emulator."""
        return self._device == "emulator"

    def run(self, launch: Launch, *, database: Path, runs: int, counters: Sequence[str], att: Path | None = None) -> DeviceRun:
        """Replay with the code object of the launch; memory is restored before every run.

        Raises:
            LabError: The launch has a different kernel, different arguments or larger buffers, or a thread trace is requested.
            DeviceFault: The kernel faulted or hung.
            OverrideError: The code object violates a rule of :mod:`~rocm_perf_lab.replay.override`.
            ReplayError: The capture cannot be replayed on this machine.
        """
        if att is not None:
            raise LabError(
                "a replay does not support thread traces",
                where="passes.thread_trace",
                hint="Use device=rocm or device=emulator for a thread trace.",
            )
        capture = self._opened(launch)
        results = self._results(capture, launch)
        with tempfile.NamedTemporaryFile(prefix="rocm-perf-lab-", suffix=".hsaco") as file:
            file.write(launch.code_object.data)
            file.flush()
            outcome = self._running(capture).run(
                ReplayRequest(
                    iterations=runs,
                    warmup=0 if self.deterministic else _WARMUP_ON_A_GPU,
                    hsaco=file.name,
                    geometry=_geometry(capture, launch),
                    read=tuple((one.address, one.nbytes) for one in results),
                )
            )
        self._emulated = outcome.emulated
        durations = [round(sample * 1e3) for sample in outcome.samples_us]
        wanted = {name: outcome.counters[name] for name in counters if name in outcome.counters}
        write_database(database, launch_record(self._target, self.identity, launch, durations, wanted, outcome.sample_seed))
        contents = zip(results, outcome.read, strict=True)
        outputs = {one.name: one.view(np.frombuffer(base64.b64decode(content), np.uint8)) for one, content in contents}
        return DeviceRun(outputs, database)

    def expected_outputs(self, launch: Launch) -> Mapping[str, NDArray[Any]] | None:
        """Return the outputs of the captured dispatch; None for a capture that was created from the first launch."""
        if not self._is_given:
            return None
        capture = self._opened(launch)
        if not capture.has_after:
            return None
        return {one.name: one.view(_captured_result(capture, one.address, one.nbytes)) for one in self._results(capture, launch)}

    def close(self) -> None:
        """End the worker process."""
        if self._session is not None:
            self._session.close()
            self._session = None

    def _results(self, capture: Capture, launch: Launch) -> list[_Result]:
        """Return the memory to compare: the launch's outputs.

        A kernel that finds its outputs through structures has none. In this case, all memory that the captured dispatch changed
        is compared.
        """
        places = _places(capture, launch)
        outputs = [a for a in launch.arguments if isinstance(a, BufferValue) and a.written]
        if outputs or not self._is_given or not capture.has_after:
            return [_Result(a.name, places[a.name], a.data.nbytes, a.data.dtype, a.data.shape) for a in outputs]
        services = list(service_blocks(capture))
        return [
            _Result(f"captured memory at {region.base:#x}", region.base, region.size, np.dtype(np.uint8), (region.size,))
            for region in capture.regions
            if region.after is not None
            and not region.contains_kernarg
            and not any(begin <= region.base < end for begin, end in services)
        ]

    def _opened(self, launch: Launch) -> Capture:
        if self._capture is None:
            if self._directory is None and self._source is not None:
                self._directory = self._source(launch)
            self._capture = open_capture(Path(str(self._directory)))
        return self._capture

    def _running(self, capture: Capture) -> ReplaySession:
        if self._session is None:
            self._session = ReplaySession(
                capture,
                device=self._device,
                target=self._target if self._device == "emulator" else None,
                timeout_s=self._timeout_s,
                max_instructions=self._max_instructions,
                threads=self._threads,
                sample=self._sample,
                library=self._library,
            )
        return self._session


def replaying_device(device: Device, directory: Path, *, kernel: KernelDescription, target: Target) -> Device:
    """Return a device that captures the first launch and replays every launch on the captured memory.

    Args:
        device: An emulator, or a :class:`ReplayDevice`, which is returned as it is.
        directory: Directory of the capture; created at the first launch.
        kernel: Description of the launched kernel.
        target: GPU that the device emulates.

    Raises:
        LabError: The device is a GPU. Capture an application first and use device=replay.
    """
    if isinstance(device, ReplayDevice):
        return device
    if not isinstance(device, EmulatorDevice):
        raise LabError(
            f"measure=replay captures described kernels on the emulator, but the device is {device.identity.name}",
            where="device.measure or optimizer.measure",
            hint="rocm-perf replay capture --kernel NAME -- ./app, then device=replay device.capture=DIR",
        )

    def source(launch: Launch) -> Path:
        capture_described_launch(device, launch, directory, kernel=kernel, target=target)
        return directory

    return ReplayDevice(
        target=target,
        device="emulator",
        source=source,
        max_instructions=device.max_instructions,
        threads=device.threads,
        sample=device.sample,
    )


def _places(capture: Capture, launch: Launch) -> dict[str, int]:
    """Return the captured address of every buffer of a launch.

    Raises:
        LabError: The launch has a different kernel, different arguments, or larger buffers than the capture.
    """
    expected = explicit_arguments(capture.kernel)
    if launch.symbol != capture.kernel.symbol or len(expected) != len(launch.arguments):
        raise LabError(
            f"the capture is of {capture.kernel.symbol} with {len(expected)} arguments, "
            f"but the launch is of {launch.symbol} with {len(launch.arguments)}",
            where=str(capture.directory),
            hint="Capture the dispatch of this kernel.",
        )
    places = {}
    for place, value in zip(expected, launch.arguments, strict=True):
        if not isinstance(value, BufferValue):
            continue
        address = int.from_bytes(capture.kernarg[place.offset : place.offset + place.size], "little")
        region = capture.memory.region_at(address)
        blocks = [b for b in region.requested if b.base <= address < b.base + b.size] if region is not None else []
        end = blocks[0].base + blocks[0].size if blocks else region.end if region is not None else address
        if address + value.data.nbytes > end:
            raise LabError(
                f"buffer {value.name!r} has {value.data.nbytes:,} bytes, but the captured buffer has {end - address:,}",
                where=str(capture.directory),
                hint="A replay uses the captured buffers: keep the problem size, or capture again.",
            )
        places[value.name] = address
    return places


def _geometry(capture: Capture, launch: Launch) -> GeometryRequest:
    pairs = zip(explicit_arguments(capture.kernel), launch.arguments, strict=True)
    scalars = {place.offset: value.encoded.hex() for place, value in pairs if not isinstance(value, BufferValue)}
    return GeometryRequest(
        grid=launch.geometry.work_items, workgroup=launch.block, dynamic_lds_bytes=launch.dynamic_lds_bytes, scalars=scalars
    )


def _captured_result(capture: Capture, address: int, nbytes: int) -> NDArray[np.uint8]:
    region = next(r for r in capture.regions if r.base <= address < r.end)
    after = capture.expected(region)
    return after[address - region.base :][:nbytes].copy()
