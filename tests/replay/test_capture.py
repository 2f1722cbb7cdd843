"""End-to-end captures: the capture tool in an application on the stand-in runtime, and the resulting directory."""

from __future__ import annotations

import hashlib
import json
import stat
import struct
import subprocess
import threading
import time
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from rocm_perf_lab.replay.application_capture import CaptureOutcome, capture
from rocm_perf_lab.replay.application_run import tool_environment
from rocm_perf_lab.replay.capture_request import ApplicationCaptureError, CaptureRequest
from rocm_perf_lab.replay.dispatch_list import DispatchList, list_dispatches
from rocm_perf_lab.replay.packs import ZERO_PAGE
from rocm_perf_lab.replay.reader import open_capture
from rocm_perf_lab.replay.tool_build import build_tool
from tests.builders.hsa_stand_in import build

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    Capturing = Callable[..., CaptureOutcome]

PAGE = 4096
COUNT = 4096
LENGTH = 10
NODE = struct.Struct("<Qfi")


@pytest.fixture(scope="module")
def environment() -> Iterator[dict[str, str]]:
    with build.emulator() as variables:
        yield variables


@pytest.fixture
def capturing(environment: dict[str, str], tmp_path: Path) -> Capturing:
    """Return `capturing(kernel, dispatch, scenario, ...)`, which captures to tmp_path / "capture"."""

    def run(kernel: str, dispatch: int = 0, scenario: str = "normal", **options: Any) -> CaptureOutcome:
        variables: dict[str, str] = options.pop("variables", {})
        arguments = scenario.split()
        command = (str(build.application("application")), str(build.kernels()), *arguments)
        options = {"timeout_s": 120.0, "application_timeout_s": 300.0} | options
        request = CaptureRequest(command, kernel, tmp_path / "capture", dispatch, **options)
        return capture(request, environment=environment | variables, stdout=subprocess.DEVNULL)

    return run


def document(directory: Path, name: str) -> Any:
    return json.loads((directory / name).read_text())


def regions(directory: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = document(directory, "memory_regions.json")["regions"]
    return found


def holding(directory: Path, address: int) -> dict[str, Any]:
    (region,) = [r for r in regions(directory) if int(r["base"], 16) <= address < int(r["base"], 16) + r["size"]]
    return region


def content(directory: Path, address: int, size: int, *, after: bool = False) -> bytes:
    """Return captured bytes at an address, before or after the dispatch."""
    capture = open_capture(directory)
    region = capture.memory.region_at(address)
    assert region is not None
    memory = capture.expected(region) if after else capture.image(region)
    offset = address - region.base
    return memory[offset : offset + size].tobytes()


def floats(raw: bytes) -> np.ndarray[Any, np.dtype[np.float32]]:
    return np.frombuffer(raw, np.float32)


def scaled(rounds: int) -> np.ndarray[Any, np.dtype[np.float32]]:
    """Return the buffer of `scale` after some rounds, each of which adds 1, 2, 3 or 4."""
    index = np.arange(COUNT)
    return (index % 97 + rounds * (1 + index % 4)).astype(np.float32)


def test_an_in_place_kernel_is_captured_with_its_memory_before_and_after(capturing: Capturing) -> None:
    outcome = capturing("scale", 2)

    (x,) = struct.unpack_from("<Q", (outcome.directory / "kernarg.bin").read_bytes())
    assert outcome.exit_code == 0
    np.testing.assert_array_equal(floats(content(outcome.directory, x, COUNT * 4)), scaled(2))
    np.testing.assert_array_equal(floats(content(outcome.directory, x, COUNT * 4, after=True)), scaled(3))


def test_only_pages_that_changed_are_stored_afterwards(capturing: Capturing) -> None:
    directory = capturing("scale", 1).directory

    (x,) = struct.unpack_from("<Q", (directory / "kernarg.bin").read_bytes())
    region = holding(directory, x)

    assert region["size"] == 2 * COUNT * 4  # the other half of the allocation is not written
    assert region["after"]["runs"] == [[0, COUNT * 4 // PAGE]]
    assert document(directory, "manifest.json")["packed"][region["after"]["file"]]["size"] == COUNT * 4


def test_memory_reached_through_pointers_is_captured(capturing: Capturing) -> None:
    directory = capturing("walk", 1).directory

    head, total = struct.unpack_from("<QQ", (directory / "kernarg.bin").read_bytes())
    values = []
    node = head
    while node:
        node, value, visits = NODE.unpack(content(directory, node, NODE.size))
        values.append((value, visits))

    assert values == [(float(i), 1) for i in range(LENGTH)]
    assert {r["kind"] for r in regions(directory)} == {"pool", "vmem"}
    assert floats(content(directory, total, 4, after=True)) == sum(range(LENGTH))
    assert NODE.unpack(content(directory, head, NODE.size, after=True))[2] == 2


def test_pinned_host_memory_is_captured(capturing: Capturing) -> None:
    directory = capturing("walk", 0, "pinned").directory

    (head,) = struct.unpack_from("<Q", (directory / "kernarg.bin").read_bytes())
    region = holding(directory, head)

    assert (region["kind"], region["location"], region["size"]) == ("locked", "cpu", PAGE)
    assert region["requested"] == [{"base": hex(head), "size": 2 * NODE.size}]
    assert NODE.unpack(content(directory, head, NODE.size, after=True)) == (head + NODE.size, 1.0, 1)
    assert content(directory, int(region["base"], 16), 8) == bytes([7] * 8)  # the rest of the page


def test_host_memory_is_captured_in_a_sandbox(capturing: Capturing) -> None:
    variables = {"LD_PRELOAD": str(build.shared_object("no_reading"))}

    directory = capturing("walk", 0, "pinned", variables=variables).directory

    (head,) = struct.unpack_from("<Q", (directory / "kernarg.bin").read_bytes())
    assert NODE.unpack(content(directory, head, NODE.size)) == (head + NODE.size, 1.0, 0)


@pytest.mark.parametrize("dispatch", [0, 100, 299])
def test_many_packets_with_one_doorbell_and_a_wrapping_ring_are_counted(capturing: Capturing, dispatch: int) -> None:
    directory = capturing("count_up", dispatch, "burst 300").directory

    (cell,) = struct.unpack_from("<Q", (directory / "kernarg.bin").read_bytes())
    counted = [struct.unpack("<i", content(directory, cell, 4, after=after))[0] for after in (False, True)]
    assert counted == [1000 * dispatch, 1000 * (dispatch + 1)]


def test_the_later_of_two_code_objects_at_one_address_is_captured(capturing: Capturing) -> None:
    directory = capturing("add_to", 0, "reload").directory

    assert document(directory, "dispatch.json")["kernel"]["mangled_name"] == "_Z6add_toIfEvPT_PKS0_i"


def test_ipc_interop_svm_and_locked_memory_is_captured(capturing: Capturing) -> None:
    directory = capturing("walk", 0, "shared").directory

    (head,) = struct.unpack_from("<Q", (directory / "kernarg.bin").read_bytes())
    nodes, node = [], head
    while node:
        region = holding(directory, node)
        following, value, _ = NODE.unpack(content(directory, node, NODE.size))
        nodes.append((region["kind"], region["location"], region["access_agents"], value))
        assert NODE.unpack(content(directory, node, NODE.size, after=True))[2] == 1
        node = following

    gpu = 1
    assert nodes == [
        ("pool", "gpu", [gpu], 16.0),  # SVM attributes do not change it
        ("ipc", "gpu", [gpu], 1.0),
        ("interop", "gpu", [gpu], 2.0),
        ("svm", "cpu", [gpu], 4.0),
        ("locked", "cpu", [gpu], 8.0),
    ]


def test_released_memory_is_not_captured(capturing: Capturing) -> None:
    directory = capturing("walk", 1, "shared", mode="full").directory

    assert {"ipc", "interop", "locked"}.isdisjoint({region["kind"] for region in regions(directory)})


@pytest.mark.parametrize("dispatch", [0, 1, 2])
def test_counted_queues_are_watched(capturing: Capturing, dispatch: int) -> None:
    directory = capturing("add_to", dispatch, "counted").directory

    (x,) = struct.unpack_from("<Q", (directory / "kernarg.bin").read_bytes())
    assert floats(content(directory, x, COUNT * 4)).tolist() == [1.0 + dispatch] * COUNT


def test_a_restarted_runtime_is_watched_and_counts_continue(capturing: Capturing) -> None:
    directory = capturing("scale", 4, "restart").directory  # the second dispatch after the restart

    (x,) = struct.unpack_from("<Q", (directory / "kernarg.bin").read_bytes())
    assert document(directory, "dispatch.json")["index"]["kernel"] == 4
    np.testing.assert_array_equal(floats(content(directory, x, COUNT * 4)), scaled(1))


def test_pointers_into_code_are_reported(capturing: Capturing) -> None:
    dispatch = document(capturing("walk", 0, "pinned").directory, "dispatch.json")

    (place,) = dispatch["code_pointers"]["places"]

    assert dispatch["code_pointers"]["count"] == 1
    assert place["value"] == dispatch["kernel"]["kernel_object"]
    assert int(place["address"], 16) % PAGE == 512


def test_modes_capture_different_memory(environment: dict[str, str], tmp_path: Path) -> None:
    sizes = {}
    for mode in ("arguments", "reachable", "full"):
        command = (str(build.application("application")), str(build.kernels()), "normal")
        request = CaptureRequest(command, "walk", tmp_path / mode, mode=mode)
        capture(request, environment=environment, stdout=subprocess.DEVNULL)
        sizes[mode] = len(regions(tmp_path / mode))

    assert sizes["arguments"] == 2  # head and total
    assert sizes["reachable"] == 3  # plus the other half of the list
    assert sizes["full"] > 3
    assert any(r["contains_kernarg"] for r in regions(tmp_path / "full"))


def test_zero_pages_take_no_space(capturing: Capturing) -> None:
    directory = capturing("walk").directory

    (mapped,) = [r for r in regions(directory) if r["kind"] == "vmem"]
    packed = document(directory, "manifest.json")["packed"][mapped["file"]]
    places = np.frombuffer((directory / packed["pages"]).read_bytes(), dtype="<u8")

    assert mapped["zero_pages"] == 15
    assert packed["size"] == mapped["size"] == 16 * PAGE
    assert np.count_nonzero(places == ZERO_PAGE) == 15


def test_the_manifest_lists_every_file_with_its_hash(capturing: Capturing) -> None:
    directory = capturing("scale").directory

    files = document(directory, "manifest.json")["files"]
    present = {str(p.relative_to(directory)) for p in directory.rglob("*") if p.is_file()} - {"manifest.json"}

    assert set(files) == present
    for name, entry in files.items():
        raw = (directory / name).read_bytes()
        assert (len(raw), hashlib.sha256(raw).hexdigest()) == (entry["size"], entry["sha256"])


def test_only_the_owner_may_read_a_capture(capturing: Capturing) -> None:
    directory = capturing("scale").directory

    for path in [directory, *directory.rglob("*")]:
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600)


def test_packet_and_code_object_are_those_of_the_dispatch(capturing: Capturing) -> None:
    directory = capturing("reverse_tile", 1).directory

    dispatch = document(directory, "dispatch.json")

    assert dispatch["kernel"]["symbol"] == "reverse_tile.kd"
    assert dispatch["index"]["kernel"] == 1
    assert dispatch["packet"]["grid_size"] == [COUNT, 1, 1]
    assert dispatch["packet"]["workgroup_size"] == [256, 1, 1]
    assert dispatch["packet"]["group_segment_size"] == 1024  # dynamic LDS only
    assert dispatch["kernel"]["group_segment_size"] == 0
    assert (directory / "kernel.hsaco").read_bytes() == build.kernels().read_bytes()
    assert dispatch["agents"][dispatch["agent"]]["isa"] == "amdgcn-amd-amdhsa--gfx942:sramecc+:xnack-"
    assert dispatch["timing"]["end"] > dispatch["timing"]["start"]


def test_module_variables_are_captured_before_and_after(capturing: Capturing) -> None:
    directory = capturing("scale", 2).directory

    variables = {v["name"]: v for v in document(directory, "dispatch.json")["variables"]}

    def value(name: str, form: str, file: str) -> tuple[Any, ...]:
        return struct.unpack_from(form, (directory / file).read_bytes(), variables[name]["offset"])

    assert value("gain", "<f", "variables.bin") == (2.0,)  # set by the application
    assert value("offsets", "<4f", "variables.bin") == (1.0, 2.0, 3.0, 4.0)
    assert value("launches", "<i", "variables.bin") == (2,)
    assert value("launches", "<i", "after/variables.bin") == (3,)


@pytest.mark.parametrize(
    "name", ["_Z6add_toIfEvPT_PKS0_i", "add_to", "add_to<float>", "void add_to<float>(float*, float const*, int)", "/^_Z6add/"]
)
def test_a_kernel_is_found_by_each_of_its_names(capturing: Capturing, name: str) -> None:
    assert document(capturing(name).directory, "dispatch.json")["kernel"]["mangled_name"] == "_Z6add_toIfEvPT_PKS0_i"


def test_the_tool_can_be_preloaded(capturing: Capturing) -> None:
    assert (capturing("scale", preload=True).directory / "manifest.json").exists()


@pytest.mark.parametrize("older", [{}, {"HSA_TOOLS_LIB": "the tool"}])
def test_the_tool_can_be_loaded_through_rocprofiler_sdk(capturing: Capturing, older: dict[str, str]) -> None:
    variables = {name: str(build_tool()) for name in older}  # loaded in two ways, it acts once

    outcome = capturing("scale", 2, rocprofiler_sdk=True, variables=variables)

    assert document(outcome.directory, "dispatch.json")["index"]["kernel"] == 2
    assert outcome.kernels["scale"] == 3


def test_the_runtime_loads_the_tool_if_rocprofiler_sdk_is_active(capturing: Capturing) -> None:
    variables = {"LD_PRELOAD": str(build.shared_object("profiler"))}

    assert (capturing("scale", variables=variables).directory / "manifest.json").exists()


@pytest.mark.parametrize("preload", [False, True])
def test_a_tool_in_a_directory_with_a_space_is_found(environment: dict[str, str], tmp_path: Path, preload: bool) -> None:
    tool = tmp_path / "a directory" / "tool.so"
    tool.parent.mkdir()
    tool.write_bytes(build_tool().read_bytes())
    command = (str(build.application("application")), str(build.kernels()), "normal")
    request = CaptureRequest(command, "scale", tmp_path / "the capture", preload=preload)

    assert (capture(request, tool=tool, environment=environment, stdout=subprocess.DEVNULL).directory / "manifest.json").exists()


def test_a_second_gpu_changes_nothing(capturing: Capturing) -> None:
    directory = capturing("scale", variables={"STAND_IN_HSA_FAULT": "two_agents"}).directory

    dispatch = document(directory, "dispatch.json")

    assert [a["type"] for a in dispatch["agents"]] == ["cpu", "gpu", "gpu"]
    assert dispatch["agent"] == 1


def test_processes_capture_concurrently(environment: dict[str, str], tmp_path: Path) -> None:
    outcomes = []

    def one(number: int) -> None:
        command = (str(build.application("application")), str(build.kernels()), "normal")
        request = CaptureRequest(command, "scale", tmp_path / str(number))
        outcomes.append(capture(request, environment=environment, stdout=subprocess.DEVNULL))

    threads = [threading.Thread(target=one, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert [outcome.exit_code for outcome in outcomes] == [0, 0]


def test_earlier_work_of_other_queues_finishes_before_memory_is_saved(capturing: Capturing) -> None:
    directory = capturing("walk", 0, "backlog 20", mode="full").directory

    cells = [r for r in regions(directory) if r["requested"][0]["size"] == 4 and r["location"] == "gpu"]
    values = {struct.unpack("<i", content(directory, int(r["base"], 16), 4))[0] for r in cells}

    assert 20_000 in values
    assert all(r["after"] is None for r in cells if not r["zero_pages"])


def test_work_that_depends_on_a_waiting_thread_is_finished_first(capturing: Capturing) -> None:
    outcome = capturing("walk", 0, "opened-by-third", timeout_s=20.0)  # the first of four attempts fails

    assert outcome.exit_code == 0


def test_unfinished_work_ends_in_an_error_instead_of_a_deadlock(capturing: Capturing) -> None:
    with pytest.raises(ApplicationCaptureError, match=r"other work on the GPU did not finish within 1 s"):
        capturing("walk", 0, "opened-afterwards", timeout_s=1.0)


@pytest.mark.parametrize("is_first", [True, False])
@pytest.mark.parametrize("busy", [{}, {"OTHER_TOOL_IS_BUSY": "1"}], ids=["quiet", "busy"])
def test_another_tool_sees_the_same_dispatches(
    environment: dict[str, str], tmp_path: Path, busy: dict[str, str], is_first: bool
) -> None:
    tool, other = str(build_tool()), str(build.shared_object("other_tool"))
    command = (str(build.application("application")), str(build.kernels()), "normal", "3")
    request = CaptureRequest(command, "scale", tmp_path / "capture")
    variables = tool_environment(request, build_tool(), tmp_path, environment | busy)
    variables["HSA_TOOLS_LIB"] = f"{other} {tool}" if is_first else f"{tool} {other}"

    done = subprocess.run(command, env=variables, capture_output=True, text=True, check=True, timeout=300)

    (directory,) = tmp_path.glob("capture-*")
    assert (directory / "manifest.json").exists()
    assert "the other tool saw 12 dispatches" in done.stdout


def test_the_tool_is_built_once(tmp_path: Path) -> None:
    first = build_tool()
    stamp = first.stat().st_mtime_ns

    assert build_tool() == first
    assert first.stat().st_mtime_ns == stamp


# ---- failures ----


def test_a_kernel_without_dispatches_is_reported_with_the_dispatched_kernels(capturing: Capturing) -> None:
    with pytest.raises(ApplicationCaptureError, match=r"'scal' was never dispatched") as error:
        capturing("scal")

    assert "scale (3 times)" in str(error.value)
    assert "void add_to<float>(float*, float const*, int) (3 times)" in str(error.value)


def test_too_few_dispatches_are_reported(capturing: Capturing, tmp_path: Path) -> None:
    with pytest.raises(ApplicationCaptureError, match="dispatched 3 times; dispatch 3 does not exist"):
        capturing("scale", 3)

    assert list(tmp_path.iterdir()) == []


def test_an_invalid_regular_expression_is_reported(capturing: Capturing) -> None:
    with pytest.raises(ApplicationCaptureError, match=r"/scale\(/ is not a regular expression: Unmatched \("):
        capturing("/scale(/")


@pytest.mark.parametrize(("version", "reason"), [(1, "older than ROCm 6.0, the oldest"), (3, "newer than the")])
def test_an_unsupported_runtime_is_refused(capturing: Capturing, version: int, reason: str) -> None:
    message = rf"did not start: the HSA runtime .*/libhsa-runtime64\.so\.1 is {reason} supported version.* 2 and {version}, not 2"
    with pytest.raises(ApplicationCaptureError, match=message):
        capturing("scale", variables={"STAND_IN_HSA_FAULT": f"amd_table={version}"})


def test_a_machine_without_a_gpu_is_reported(capturing: Capturing) -> None:
    with pytest.raises(ApplicationCaptureError, match="which ended with exit code 70, did not load the capture tool"):
        capturing("scale", variables={"STAND_IN_HSA_FAULT": "no_gpu"})


def test_a_program_that_does_not_use_the_gpu_is_reported(tmp_path: Path) -> None:
    with pytest.raises(ApplicationCaptureError, match="did not load the capture tool"):
        capture(CaptureRequest(("true",), "scale", tmp_path / "capture"))


def test_a_missing_program_is_reported(tmp_path: Path) -> None:
    with pytest.raises(ApplicationCaptureError, match=r"'\./nowhere' is not an executable program"):
        capture(CaptureRequest(("./nowhere",), "scale", tmp_path / "capture"))


def test_an_existing_directory_is_not_touched(capturing: Capturing, tmp_path: Path) -> None:
    (tmp_path / "capture").mkdir()

    with pytest.raises(ApplicationCaptureError, match="already exists"):
        capturing("scale")


def test_a_capture_before_a_crash_is_kept(capturing: Capturing) -> None:
    outcome = capturing("scale", 0, "crash")

    assert outcome.exit_code == -6
    assert (outcome.directory / "manifest.json").exists()


def test_a_crash_before_the_dispatch_is_reported(capturing: Capturing) -> None:
    with pytest.raises(ApplicationCaptureError, match=r"dispatched once; .*; the application ended on SIGABRT"):
        capturing("scale", 1, "crash")


def test_a_list_reports_a_crash_and_an_error_of_the_application(environment: dict[str, str], tmp_path: Path) -> None:
    def listed(script: str) -> DispatchList:
        application = f"{build.application('application')} {build.kernels()}"
        request = CaptureRequest(("sh", "-c", script.format(application=application)), "", tmp_path / "unused")
        return list_dispatches(request, environment=environment, stdout=subprocess.DEVNULL)

    crashed = listed("{application} normal; kill -SEGV $$")
    failed = listed("{application} normal; exit 3")

    assert (crashed.application_exit_code, failed.application_exit_code) == (-11, 3)
    assert crashed.warnings == ("the application ended on SIGSEGV; dispatches of its last second may be missing",)
    assert failed.warnings == ("the application ended with exit code 3",)
    assert not crashed.is_complete
    assert {kernel.name for kernel in crashed.kernels} == {kernel.name for kernel in failed.kernels}
    assert list(tmp_path.iterdir()) == []


def test_an_application_that_forks_continues(capturing: Capturing) -> None:
    outcome = capturing("scale", 4, "fork")  # the second run of the parent, after the child

    assert outcome.exit_code == 0
    assert document(outcome.directory, "dispatch.json")["index"]["kernel"] == 4


def test_a_child_is_captured_if_only_it_uses_the_gpu(capturing: Capturing) -> None:
    outcome = capturing("scale", 1, "fork-first")

    assert outcome.exit_code == 0
    assert document(outcome.directory, "dispatch.json")["index"]["kernel"] == 1


def test_a_detached_application_writes_to_a_file(
    environment: dict[str, str], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    application = f"echo before; {build.application('application')} {build.kernels()} normal; sleep 2; echo after"
    request = CaptureRequest(("sh", "-c", application), "scale", tmp_path / "capture", when_captured="detach")

    outcome = capture(request, environment=environment)

    log = tmp_path / "capture.log"
    assert outcome.exit_code is None
    assert f"the application continues; its output is in {log}" in outcome.warnings
    assert capfd.readouterr().out.startswith("before\n")
    assert "after\n" not in log.read_text()
    deadline = time.monotonic() + 60
    while "after\n" not in log.read_text() and time.monotonic() < deadline:
        time.sleep(0.1)
    assert "after\n" in log.read_text()
    assert capfd.readouterr().out == ""


def test_an_exit_during_the_dispatch_leaves_nothing(capturing: Capturing, tmp_path: Path) -> None:
    with pytest.raises(ApplicationCaptureError, match=r"the application ended with exit code 5 during the capture"):
        capturing("spin", 0, "exit-inside 1")

    assert list(tmp_path.iterdir()) == []


def test_a_hanging_dispatch_is_abandoned(capturing: Capturing) -> None:
    with pytest.raises(ApplicationCaptureError, match=r"no capture was made: the dispatch did not finish within 0.5 s"):
        capturing("spin", 0, "exit-inside 5", timeout_s=0.5)


def test_a_fault_in_the_dispatch_ends_the_application(capturing: Capturing) -> None:
    with pytest.raises(ApplicationCaptureError, match=r"the application ended on SIGABRT during the capture"):
        capturing("touch", 0, "out-of-bounds")


def test_an_application_that_does_not_end_is_killed(capturing: Capturing) -> None:
    with pytest.raises(ApplicationCaptureError, match=r"did not end within 1 s and was killed"):
        capturing("scale", 0, variables={"STAND_IN_HSA_FAULT": "hang"}, application_timeout_s=1.0)


def test_the_size_limit_is_respected_and_the_application_continues(capturing: Capturing) -> None:
    with pytest.raises(ApplicationCaptureError, match=r"needs at least 32768 bytes, more than the limit of 1000"):
        capturing("scale", limit_bytes=1000)


def test_a_full_disk_leaves_nothing_and_a_working_application(capturing: Capturing, tmp_path: Path) -> None:
    room = build.kernels().stat().st_size + 2 * PAGE  # for the copy of the code object and part of the memory
    variables = {"LD_PRELOAD": str(build.shared_object("full_disk")), "FULL_DISK_AFTER": str(room)}

    with pytest.raises(ApplicationCaptureError, match=r"no capture was made: .*No space left on device"):
        capturing("scale", variables=variables)

    assert list(tmp_path.iterdir()) == []
