"""Certificates of the counter catalogue against recordings of three GPUs that run the same copy kernel."""

from __future__ import annotations

import csv
import ctypes
import re
import struct
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from rocm_perf_lab.arch.registry import load_architecture
from rocm_perf_lab.device.emulated_time import estimate_launch
from rocm_perf_lab.device.emulator import EmulatorDevice
from rocm_perf_lab.emulator.build import load_runtime
from rocm_perf_lab.emulator.counter_rules import counters_of, execution_counters
from rocm_perf_lab.rocprof.counter_catalogue import counter_catalogue
from rocm_perf_lab.target.catalog import load_target
from tests.builders.kernels import VEC_COPY, build_hip
from tests.builders.targets import mi300x

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rocm_perf_lab.target.model import Target

WORKLOADS = Path(__file__).parents[1] / "data" / "recorded" / "workloads_vcopy"
WORK_ITEMS, WORKGROUP, LANES, DOUBLE = 1 << 20, 256, 64, 8
LINE_SHIFT = {"MI200": 6, "MI300X_A1": 7, "MI350": 7}
"""Logarithm of the line length of the vector L1."""
ARCHITECTURES = {"MI200": "gfx90a", "MI300X_A1": "gfx942", "MI300X_A1_rocpd": "gfx942", "MI350": "gfx950"}
COUNTER_SETS = {gpu: load_architecture(name).counter_set for gpu, name in ARCHITECTURES.items()}
_BLOCK = re.compile(r"(SQ|SQC|TA|TD|TCP|TCC|SPI|CPC|CPF|GRBM)_")


def wide_recording(gpu: str) -> dict[str, list[float]]:
    """Return the values of every dispatch by counter, from files with a column per counter; channels are left out."""
    values: dict[str, list[float]] = {}
    for path in sorted((WORKLOADS / gpu).glob("*.csv")):
        with path.open() as file:
            rows = list(csv.DictReader(file))
        for name in rows[0]:
            if _BLOCK.match(name) and "[" not in name and path.name == "pmc_perf.csv":
                values[name] = [float(row[name]) for row in rows]
    return values


def long_recording(gpu: str) -> dict[str, list[float]]:
    """Return the values of every dispatch by counter, from a file with a row per value."""
    values: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))
    with (WORKLOADS / gpu / "pmc_perf.csv").open() as file:
        for row in csv.DictReader(file):
            if "[" not in row["Counter_Name"]:
                values[row["Counter_Name"]][row["Dispatch_ID"]] += float(row["Counter_Value"])
    return {name: list(dispatches.values()) for name, dispatches in values.items()}


RECORDINGS = {
    **{gpu: wide_recording(gpu) for gpu in ("MI200", "MI300X_A1", "MI350")},
    "MI300X_A1_rocpd": long_recording("MI300X_A1_rocpd"),
}


def checked(gpu: str) -> list[str]:
    """Return the counters of a GPU that are certain."""
    catalogue = counter_catalogue(ARCHITECTURES[gpu])
    return sorted(name for name, row in catalogue.items() if row.certificate in ("exact", "bounded"))


def recorded_target(gpu: str) -> Target:
    """Return the GPU of a recording; that of MI350 had 128 compute units in 4 XCDs (its sysinfo.csv)."""
    if gpu == "MI350":
        return load_target("mi350x").model_copy(update={"compute_units": 128, "xcds": 4, "shader_engines": 16})
    return load_target("mi210") if gpu == "MI200" else mi300x()


@pytest.fixture(scope="module")
def copies(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Mapping[str, float]]:
    """Run the recorded kernel in the recorded size on all GPUs; return all its counters by architecture."""
    directory = tmp_path_factory.mktemp("copy")
    return {ARCHITECTURES[gpu]: emulated_copy(gpu, directory) for gpu in LINE_SHIFT}


@pytest.fixture(scope="module")
def emulated(copies: Mapping[str, Mapping[str, float]]) -> Mapping[str, float]:
    """Return the counters of the copy on an MI300X."""
    return copies["gfx942"]


def emulated_copy(gpu: str, directory: Path) -> Mapping[str, float]:
    code_object = build_hip(VEC_COPY, directory, architecture=ARCHITECTURES[gpu]).code_object
    target, kernel = recorded_target(gpu), code_object.kernels[0]
    with EmulatorDevice(target=target).machine() as machine:
        buffers = [machine.allocate(name, DOUBLE * WORK_ITEMS) for name in "abc"]
        machine.write(buffers[0], np.arange(WORK_ITEMS, dtype=np.float64))
        result = machine.launch(
            machine.load(code_object),
            kernel.symbol,
            (WORK_ITEMS // WORKGROUP, 1, 1),
            (WORKGROUP, 1, 1),
            [*buffers, struct.pack("<i", WORK_ITEMS), struct.pack("<i", 1)],
        )
        timing = estimate_launch(target, kernel, result, block=(WORKGROUP, 1, 1), dynamic_lds_bytes=0, buffers=buffers)
    return {**timing.counters, **result.counters}


@pytest.mark.parametrize(
    ("name", "gpu"), [(name, gpu) for gpu, recording in RECORDINGS.items() for name in checked(gpu) if name in recording]
)
def test_a_copy_has_the_counters_of_a_real_gpu(copies: Mapping[str, Mapping[str, float]], name: str, gpu: str) -> None:
    bound = counter_catalogue(ARCHITECTURES[gpu])[name].bound or 0.0

    for measured in RECORDINGS[gpu][name]:
        assert abs(copies[ARCHITECTURES[gpu]][name] - measured) <= bound * measured


@pytest.mark.parametrize("gpu", RECORDINGS)
def test_the_catalogue_has_every_recorded_counter(gpu: str) -> None:
    assert set(RECORDINGS[gpu]) <= set(counter_catalogue(ARCHITECTURES[gpu]))
    assert len(set(RECORDINGS[gpu]) & set(checked(gpu))) >= 130


@pytest.mark.parametrize("architecture", sorted(set(ARCHITECTURES.values())))
def test_a_counter_has_a_value_unless_it_is_unavailable(copies: Mapping[str, Mapping[str, float]], architecture: str) -> None:
    totals = {name for name in copies[architecture] if "[" not in name}

    assert totals == {name for name, row in counter_catalogue(architecture).items() if row.certificate != "unavailable"}


@pytest.mark.parametrize("name", ["TCC_BUBBLE", "TCC_EA0_WRREQ"])
def test_channels_of_l2_add_up_to_its_traffic(emulated: Mapping[str, float], name: str) -> None:
    channels = [emulated[f"{name}[{number}]"] for number in range(128)]

    assert sum(channels) == emulated[f"{name}_sum"]
    assert f"{name}[128]" not in emulated
    assert min(channels) > 0.5 * max(channels)  # a copy uses all of them


@pytest.mark.parametrize("name", ["TCC_REQ", "TCC_READ", "TCC_WRITE", "TCC_MISS", "TCC_HIT", "TCC_EA0_WRREQ"])
def test_channels_of_a_copy_are_loaded_evenly_as_on_a_real_mi300x(emulated: Mapping[str, float], name: str) -> None:
    with (WORKLOADS / "MI300X_A1" / "pmc_perf.csv").open() as file:
        warm = list(csv.DictReader(file))[1]
    measured = np.array([float(warm[f"{name}[{number}]"]) for number in range(128)])
    channels = np.array([emulated[f"{name}[{number}]"] for number in range(128)])

    assert measured.max() < 1.05 * measured.min()  # even
    assert channels.mean() == pytest.approx(measured.mean(), rel=0.01)
    assert np.std(channels / measured) < 0.3  # a sample of 32 lines per channel has a noise of 0.18


class Requests(ctypes.Structure):
    """struct rpl_requests."""

    _fields_ = tuple((name, ctypes.c_uint32) for name in ("accesses", "lookups", "is_coalesced"))


def requests_of(addresses: Sequence[int], width: int, *, lanes: int = (1 << LANES) - 1, line_shift: int = 7) -> Requests:
    function = load_runtime().library.rpl_requests_of
    function.restype = Requests
    array = (ctypes.c_uint64 * LANES)(*addresses)
    found = function(ctypes.c_uint64(lanes), array, ctypes.c_uint32(width), ctypes.c_uint32(line_shift))
    assert isinstance(found, Requests)
    return found


def segments_of(addresses: Sequence[int], width: int, lanes: int = (1 << LANES) - 1) -> int:
    array = (ctypes.c_uint64 * LANES)(*addresses)
    return int(load_runtime().library.rpl_segments_of(ctypes.c_uint64(lanes), array, ctypes.c_uint32(width)))


def copy_events(recording: Mapping[str, Sequence[float]], line_shift: int) -> dict[str, int]:
    """Return the events of the copy on a GPU: its recorded instructions by class, and the requests of its lanes' addresses."""
    lanes = range(0, LANES * DOUBLE, DOUBLE)
    requests, waves = requests_of(lanes, DOUBLE, line_shift=line_shift), WORK_ITEMS // LANES
    classes = {name: int(values[0]) for name, values in recording.items() if name.startswith(("SQ_INSTS", "SQC_DCACHE_REQ"))}
    events = dict.fromkeys(
        ("partial_waves", "waves_below_48", "waves_below_32", "waves_below_16", "flat_atomic_waves", "buffer_read_waves",
         "buffer_write_waves", "buffer_atomic_waves", "lds_active_cycles", "lds_conflict_cycles", "atomic_accesses",
         "returning_accesses", "coalesced_waves", "atomic_segments", "returning_segments", "scalar_cache_maintenance"), 0,
    )  # fmt: skip
    return {
        "SQ_INSTS_VMEM_RD": waves,
        "SQ_INSTS_VMEM_WR": waves,
        "SQ_INSTS_FLAT": 2 * waves,
        **classes,
        **events,
        "waves": waves,
        "full_waves": waves,
        "work_items": WORK_ITEMS,
        "workgroups": WORK_ITEMS // WORKGROUP,
        "vector_lanes": LANES * classes["SQ_INSTS_VALU"],
        "flat_read_waves": waves,
        "flat_write_waves": waves,
        "read_accesses": requests.accesses * waves,
        "write_accesses": requests.accesses * waves,
        "l1_lookups": 2 * requests.lookups * waves,
        "write_segments": segments_of(lanes, DOUBLE) * waves,
    }


@pytest.mark.parametrize("gpu", LINE_SHIFT)
def test_the_rules_of_execution_hold_on_three_gpus(gpu: str) -> None:
    recording, counter_set = wide_recording(gpu), COUNTER_SETS[gpu]
    counters = execution_counters(copy_events(recording, LINE_SHIFT[gpu]), counter_set)
    ruled = {*counters_of("execution", counter_set), *counters_of("zero_without", counter_set)} & set(recording)

    assert len(ruled) >= 60
    assert {name: [counters[name]] * 3 for name in ruled} == {name: recording[name] for name in ruled}


@pytest.mark.parametrize("gpu", LINE_SHIFT)
def test_a_read_of_l2_fetches_a_line(gpu: str) -> None:
    lines = WORK_ITEMS * DOUBLE >> LINE_SHIFT[gpu]

    assert wide_recording(gpu)["TCP_TCC_READ_REQ_sum"] == [lines] * 3


@pytest.mark.parametrize(
    ("gpu", "writes"), [("MI200", "TCC_EA_WRREQ_sum"), ("MI300X_A1", "TCC_EA0_WRREQ_sum"), ("MI350", "TCC_EA0_WRREQ_sum")]
)
def test_a_line_that_is_written_back_makes_two_writes_to_memory(gpu: str, writes: str) -> None:
    recording = wide_recording(gpu)

    for lines, requests in zip(recording["TCC_WRITEBACK_sum"], recording[writes], strict=True):
        assert lines == pytest.approx(requests / 2, rel=0.005)


@pytest.mark.parametrize(("gpu", "units", "engines"), [("MI200", 104, 8), ("MI300X_A1", 304, 32)])
def test_busy_clocks_of_compute_units_are_not_quad_cycles(gpu: str, units: int, engines: int) -> None:
    recording = wide_recording(gpu)

    for of_units, of_engines in zip(recording["SQ_BUSY_CU_CYCLES"], recording["SQ_BUSY_CYCLES"], strict=True):
        assert of_units / units == pytest.approx(of_engines / engines, rel=0.11)


@pytest.mark.parametrize(
    ("width", "loads", "accesses", "lookups", "coalescable", "reads"),
    [
        pytest.param(2, 4096, 65536, 16384, 4096, 8192, id="short"),
        pytest.param(4, 524288, 8388608, 2097152, 524288, 2097152, id="float"),
        pytest.param(8, 524288, 33554432, 8388608, 0, 4194304, id="double"),
    ],
)
def test_contiguous_loads_count_as_on_a_real_mi200(
    width: int, loads: int, accesses: int, lookups: int, coalescable: int, reads: int
) -> None:
    """Compare with counters of mixbench on MI200 in the tests of ROCm's omniperf (workloads/mixbench/mi200).

    No rule was derived from them.

    The columns are TA_FLAT_READ_WAVEFRONTS, TCP_TOTAL_ACCESSES, TCP_TOTAL_CACHE_ACCESSES (equal to TCP_UTCL1_REQUEST),
    TD_COALESCABLE_WAVEFRONT and TCP_TCC_READ_REQ.
    """
    addresses = range(0, LANES * width, width)
    found = requests_of(addresses, width, line_shift=LINE_SHIFT["MI200"])

    assert (loads * found.accesses, loads * found.lookups) == (accesses, lookups)
    assert loads * found.is_coalesced == coalescable
    assert loads * segments_of(addresses, width) == reads  # lines of 64 bytes


@pytest.mark.parametrize(
    ("addresses", "width", "accesses", "lookups", "is_coalesced"),
    [
        pytest.param(range(0, 256, 4), 4, 16, 4, True, id="contiguous dwords: 16 lanes a lookup"),
        pytest.param(range(0, 512, 8), 8, 64, 16, False, id="contiguous pairs of dwords: 4 lanes a lookup"),
        pytest.param(range(0, 1024, 16), 16, 64, 16, False, id="contiguous quads of dwords"),
        pytest.param(range(0, 64 * 1024, 1024), 16, 64, 64, False, id="a line for each lane"),
        pytest.param([1024 * (lane % 32) for lane in range(64)], 8, 64, 64, False, id="halves repeat 32 lines"),
        pytest.param([4096 * (lane // 32) + 2 * (lane % 32) for lane in range(64)], 2, 16, 4, True, id="two rows of shorts"),
        pytest.param([64] * 64, 4, 16, 4, True, id="one address"),
        pytest.param(range(0, 512, 8), 4, 64, 16, False, id="every other dword is not merged"),
        pytest.param([lane * 256 // 2 for lane in range(64)], 4, 64, 64, False, id="two lanes to a line of 256 bytes: two lines"),
    ],
)
def test_requests_by_hand(addresses: Sequence[int], width: int, accesses: int, lookups: int, is_coalesced: bool) -> None:
    found = requests_of(addresses, width)

    assert (found.accesses, found.lookups, bool(found.is_coalesced)) == (accesses, lookups, is_coalesced)


def test_inactive_lanes_make_no_requests() -> None:
    found = requests_of(range(0, 256, 4), 4, lanes=0b1111_0000_0001)

    assert (found.accesses, found.lookups, bool(found.is_coalesced)) == (2, 1, True)
    assert requests_of(range(0, 256, 4), 4, lanes=0).lookups == 0


def test_an_element_across_two_lines_is_looked_up_twice() -> None:
    found = requests_of(range(120, 120 + 64 * 16, 16), 16)

    assert found.lookups == 16 + 8  # every other group of four lanes (64 bytes) crosses a boundary of 128 bytes


def reference(addresses: Sequence[int], width: int, lanes: int, line_bytes: int) -> tuple[int, int]:
    """Return accesses and lookups by the rule in words."""
    accesses = lookups = 0
    for first in range(0, LANES, 16):
        merged: set[int] = set()
        for quad in range(first, first + 16, 4):
            active = [addresses[lane] for lane in range(quad, quad + 4) if lanes >> lane & 1]
            if not active:
                continue
            lines = {byte // line_bytes for address in active for byte in (address, address + width - 1)}
            if width <= 4 and max(active) + width - min(active) <= 16 and len(lines) == 1:
                accesses, merged = accesses + 1, merged | lines
            else:
                accesses, lookups = accesses + len(active), lookups + len(lines)
        lookups += len(merged)
    return accesses, lookups


@pytest.mark.parametrize("seed", range(200))
def test_requests_follow_the_rule(seed: int) -> None:
    generator = np.random.default_rng(seed)
    width = int(generator.choice([1, 2, 4, 8, 12, 16]))
    stride = int(generator.choice([0, 1, width, 2 * width, 40, 1024]))
    noise = generator.integers(0, int(generator.choice([1, 8, 300, 10_000])), LANES)
    addresses = (4096 + int(generator.integers(0, 256)) + stride * np.arange(LANES) + noise).tolist()
    lanes = (1 << LANES) - 1 if seed % 2 else int(generator.integers(0, 1 << 63))
    line_shift = 6 + seed % 3 // 2

    found = requests_of(addresses, width, lanes=lanes, line_shift=line_shift)

    assert (found.accesses, found.lookups) == reference(addresses, width, lanes, 1 << line_shift)
    touched = {(addresses[lane] + byte) // 64 for lane in range(LANES) if lanes >> lane & 1 for byte in range(width)}
    assert segments_of(addresses, width, lanes) == len(touched)
