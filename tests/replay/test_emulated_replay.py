"""Replays on the emulator, each in a separate process: equal bytes at equal addresses."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import struct
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from rocm_perf_lab.replay.errors import DeviceFault, OverrideError, ReplayError
from rocm_perf_lab.replay.kernarg import ReplayGeometry, replay_kernarg
from rocm_perf_lab.replay.messages import CheckRequest, GeometryRequest, ReplayRequest
from rocm_perf_lab.replay.reader import open_capture
from rocm_perf_lab.replay.session import ReplaySession
from rocm_perf_lab.toolchain.elf import read_code_object
from tests.builders.captures import Scene, code_object, list_capture, scale_capture, tree_capture
from tests.builders.kernels import build_hip
from tests.builders.targets import mi300x

if TYPE_CHECKING:
    from rocm_perf_lab.replay.capture import Capture
    from rocm_perf_lab.replay.messages import ReplayOutcome

EXACTLY = CheckRequest()


def session(capture: Capture, **options: float) -> ReplaySession:
    return ReplaySession(capture, device="emulator", target=mi300x(), threads=1, **options)  # type: ignore[arg-type]


def replay(directory: Path, job: ReplayRequest) -> ReplayOutcome:
    with session(open_capture(directory)) as running:
        return running.run(job)


def hsaco(directory: Path, **defines: str | int) -> str:
    path = directory / "override.hsaco"
    path.write_bytes(code_object(**defines).data)
    return str(path)


def compiled(directory: Path, source: str) -> str:
    path = directory / "other.hsaco"
    path.write_bytes(build_hip("#include <hip/hip_runtime.h>\n" + source, directory).code_object.data)
    return str(path)


@pytest.mark.parametrize("make", [scale_capture, list_capture, tree_capture], ids=["buffers", "linked list", "tree"])
def test_a_replay_in_another_process_reproduces_the_captured_bytes(make: type, tmp_path: Path) -> None:
    outcome = replay(make(tmp_path / "c"), ReplayRequest(iterations=3, check=EXACTLY))

    assert outcome.pid != os.getpid()
    assert outcome.verification is not None
    assert outcome.verification.passed
    assert outcome.verification.baseline_reproduces
    assert outcome.verification.checked_replays == 3
    assert outcome.verification.indeterminate_bytes == 0
    assert outcome.emulated


def test_a_struct_by_value_reaches_the_replay(tmp_path: Path) -> None:
    source = (
        "#include <hip/hip_runtime.h>\nstruct Line { double slope, offset; int n; };\n"
        'extern "C" __global__ void line(double* y, Line l) '
        "{ if (threadIdx.x < l.n) y[threadIdx.x] = l.slope * threadIdx.x + l.offset; }"
    )
    scene = Scene(build_hip(source, tmp_path).code_object)
    y = scene.buffer(np.zeros(4))
    directory = scene.capture(tmp_path / "c", "line", [y, struct.pack("<ddi4x", 0.5, -3.0, 3)])

    outcome = replay(directory, ReplayRequest(iterations=2, check=EXACTLY, read=((y.address, 32),)))

    assert outcome.verification is not None
    assert outcome.verification.passed
    assert np.frombuffer(base64.b64decode(outcome.read[0])).tolist() == [-3.0, -2.5, -2.0, 0.0]


def test_memory_is_restored_between_iterations_only_if_requested(tmp_path: Path) -> None:
    scene = Scene()
    x = scene.buffer(np.ones(64, dtype=np.float32))
    directory = scene.capture(tmp_path / "c", "in_place", [x])
    capture = open_capture(directory)

    with session(capture) as running:
        restored = running.run(ReplayRequest(iterations=4, read=((capture.regions[0].base, 4),)))
        stateful = running.run(ReplayRequest(iterations=4, recopy=False, read=((capture.regions[0].base, 4),)))

    assert [read(restored), read(stateful)] == [2.0, 16.0]
    assert restored.restored_bytes == 3 * 4096
    assert stateful.restored_bytes == 0


def read(outcome: ReplayOutcome) -> float:
    return float(struct.unpack("<f", base64.b64decode(outcome.read[0]))[0])


def test_module_variables_start_from_their_captured_values(tmp_path: Path) -> None:
    scene = Scene()
    scene.loaded.device_global("calls").view(np.int32)[0] = 40
    out = scene.buffer(np.zeros(1, dtype=np.int32), "out")
    directory = scene.capture(tmp_path / "c", "count", [out])

    outcome = replay(directory, ReplayRequest(iterations=3, check=EXACTLY))

    assert outcome.verification is not None
    assert outcome.verification.passed, outcome.verification.mismatches
    capture = open_capture(directory)
    assert capture.expected(capture.regions[0]).view(np.int32)[0] == 41


def test_dynamic_lds_is_that_of_the_packet(tmp_path: Path) -> None:
    scene = Scene()
    x, out = scene.buffer(np.arange(128, dtype=np.int32)), scene.buffer(np.zeros(128, dtype=np.int32), "out")
    directory = scene.capture(tmp_path / "c", "turn", [x, out], block=128, lds=512)

    outcome = replay(directory, ReplayRequest(check=EXACTLY))

    assert outcome.verification is not None
    assert outcome.verification.passed


def test_an_equivalent_code_object_is_accepted_and_a_wrong_one_is_detected(tmp_path: Path) -> None:
    scene = Scene()
    directory = scene.capture(tmp_path / "c", "in_place", [scene.buffer(np.ones(64, dtype=np.float32))], types={"@0": "f32"})
    near, far = hsaco(tmp_path, FACTOR="2.00001f"), compiled(tmp_path, IN_PLACE.replace("FACTOR", "2.5f"))

    with session(open_capture(directory)) as running:
        exact = running.run(ReplayRequest(hsaco=near, check=EXACTLY)).verification
        typed = running.run(ReplayRequest(hsaco=near, check=CheckRequest(rtol=1e-4, nan="equal"))).verification
        wrong = running.run(ReplayRequest(hsaco=far, check=CheckRequest(rtol=1e-4, nan="equal"))).verification

    assert exact is not None and not exact.passed
    assert typed is not None and typed.passed
    assert wrong is not None and not wrong.passed
    assert "64 elements (f32) differ" in wrong.mismatches[0]
    assert "2.5 instead of 2, largest error 0.5" in wrong.mismatches[0]


IN_PLACE = 'extern "C" __global__ void in_place(float* x) { x[threadIdx.x] = x[threadIdx.x] * FACTOR; }'


@pytest.mark.parametrize(
    ("source", "rule"),
    [
        ('extern "C" __global__ void other(float* x) { *x = 1; }', "kernel name: no kernel 'in_place'; available: other"),
        (
            'extern "C" __global__ void in_place(float* x, int n) { *x = n; }',
            "kernarg layout: 2 arguments, but the captured kernel has 1",
        ),
        ('extern "C" __global__ void in_place(int x) { if (x > 5) __builtin_trap(); }', "argument 0 is by_value of 4 bytes at 0"),
        (
            'extern "C" __global__ void __launch_bounds__(32) in_place(float* x) { *x = 1; }',
            "workgroup size: compiled for at most 32 work-items, but the dispatch has 64",
        ),
        (
            'extern "C" __global__ void in_place(float* x) { printf("%f", x[0]); }',
            "hidden arguments: hidden_hostcall_buffer is required",
        ),
        (
            "__device__ long calls = 5;" + IN_PLACE.replace("FACTOR", "calls"),
            "module variables: calls has 8 bytes, but 4 in the captured code object",
        ),
    ],
    ids=["name", "arguments", "kind", "workgroup", "hidden", "variables"],
)
def test_an_override_that_breaks_a_rule_is_rejected_with_the_rule(source: str, rule: str, tmp_path: Path) -> None:
    scene = Scene()
    directory = scene.capture(tmp_path / "c", "in_place", [scene.buffer(np.ones(64, dtype=np.float32))])

    with pytest.raises(OverrideError, match="cannot replace") as error:
        replay(directory, ReplayRequest(hsaco=compiled(tmp_path, source)))

    assert rule in str(error.value)


def test_an_override_for_another_architecture_is_rejected(tmp_path: Path) -> None:
    directory = scale_capture(tmp_path / "c")
    path = tmp_path / "other.hsaco"
    path.write_bytes(
        build_hip(
            "#include <hip/hip_runtime.h>\n" + IN_PLACE, tmp_path, architecture="gfx90a", defines={"FACTOR": 2}
        ).code_object.data
    )

    with pytest.raises(OverrideError, match="target id: gfx90a, but the capture is of gfx942"):
        replay(directory, ReplayRequest(hsaco=str(path)))


def test_hidden_arguments_of_an_override_are_rearranged(tmp_path: Path) -> None:
    """`in_place` needs no hidden arguments; an override that reads the grid gets it."""
    scene = Scene()
    directory = scene.capture(tmp_path / "c", "in_place", [scene.buffer(np.ones(256, dtype=np.float32))], grid=4)
    source = (
        'extern "C" __global__ void in_place(float* x) { if (threadIdx.x == 0) x[blockIdx.x] = gridDim.x * 100 + blockDim.x; }'
    )
    capture = open_capture(directory)

    with session(capture) as running:
        outcome = running.run(ReplayRequest(hsaco=compiled(tmp_path, source), force=True, read=((capture.regions[0].base, 4),)))

    assert read(outcome) == 464.0


PRINTING = """extern "C" __global__ void in_place(float* x) {
  if (x[threadIdx.x] == LIMIT) printf("%d", int(threadIdx.x));
  x[threadIdx.x] += 1;
}"""


def printing_capture(directory: Path) -> Path:
    """Capture a kernel that contains a printf call but does not print."""
    code = read_code_object(Path(compiled(directory, PRINTING.replace("LIMIT", "5"))).read_bytes())
    scene = Scene(code)
    return scene.capture(directory / "c", "in_place", [scene.buffer(np.ones(64, dtype=np.float32))])


def test_a_kernel_with_an_unused_printf_has_no_note(tmp_path: Path) -> None:
    outcome = replay(printing_capture(tmp_path), ReplayRequest(check=EXACTLY))

    assert outcome.verification is not None and outcome.verification.passed
    assert outcome.notes == ()


def test_a_missing_host_service_is_noted(tmp_path: Path) -> None:
    directory = printing_capture(tmp_path)
    capture = open_capture(directory)
    (place,) = [a.offset for a in capture.kernel.arguments if a.value_kind == "hidden_hostcall_buffer"]
    served = bytearray(capture.kernarg)
    served[place : place + 8] = (0x7F00_1234_5000).to_bytes(8, "little")

    kernarg = replay_kernarg(replace(capture, kernarg=bytes(served)), capture.kernel, {}, ReplayGeometry.captured(capture))

    assert kernarg.content[place : place + 8] == bytes(8)
    assert kernarg.notes == (
        "hidden_hostcall_buffer was set in the captured process; "
        "replays do not provide this service, and a kernel that uses it fails",
    )


def test_a_replayed_kernel_that_prints_completes(tmp_path: Path) -> None:
    directory = printing_capture(tmp_path)
    override = compiled(tmp_path, PRINTING.replace("LIMIT", "1"))

    outcome = replay(directory, ReplayRequest(hsaco=override, check=EXACTLY))

    assert outcome.verification is not None and outcome.verification.passed


def test_another_geometry_and_other_scalars_use_the_captured_memory(tmp_path: Path) -> None:
    capture = open_capture(scale_capture(tmp_path / "c", n=256))
    order = GeometryRequest(
        grid=(256, 1, 1), workgroup=(128, 1, 1), dynamic_lds_bytes=0, scalars={16: struct.pack("<f", 10.0).hex()}
    )

    with session(capture) as running:
        outcome = running.run(ReplayRequest(geometry=order, read=((capture.regions[1].base + 4 * 255, 4),)))

    assert read(outcome) == 2550.0


@pytest.mark.slow
def test_a_dispatch_with_more_work_items_than_the_metadata_states_is_replayed(tmp_path: Path) -> None:
    """HIP does this with its own kernels."""
    source = 'extern "C" __global__ void __launch_bounds__(32) in_place(float* x) { x[threadIdx.x] += 1; }'
    path = compiled(tmp_path, source)
    scene = Scene(read_code_object(Path(path).read_bytes()))
    x = scene.buffer(np.zeros(64, dtype=np.float32))
    directory = scene.capture(tmp_path / "c", "in_place", [x], block=32)
    document = json.loads((directory / "dispatch.json").read_text())
    document["packet"] |= {"workgroup_size": [64, 1, 1], "grid_size": [64, 1, 1]}
    (directory / "dispatch.json").write_text(json.dumps(document))
    manifest = json.loads((directory / "manifest.json").read_text())
    content = (directory / "dispatch.json").read_bytes()
    manifest["files"]["dispatch.json"] = {"size": len(content), "sha256": hashlib.sha256(content).hexdigest()}
    (directory / "manifest.json").write_text(json.dumps(manifest))

    outcome = replay(directory, ReplayRequest(hsaco=path, read=((x.address, 256),)))

    assert np.frombuffer(base64.b64decode(outcome.read[0]), np.float32).tolist() == [1] * 64


def test_a_kernel_that_does_not_end_is_stopped(tmp_path: Path) -> None:
    scene = Scene()
    directory = scene.capture(tmp_path / "c", "hang", [scene.buffer(np.zeros(1, dtype=np.int32), "flag")])
    endless = hsaco(tmp_path, FLAG=0)

    with session(open_capture(directory), timeout_s=5, max_instructions=10**12) as running:
        with pytest.raises(DeviceFault, match="did not end within 5 s"):
            running.run(ReplayRequest(hsaco=endless))
        assert running.run(ReplayRequest()).samples_us[0] > 0  # the next request starts a new worker

    with session(open_capture(directory), max_instructions=10**5) as running, pytest.raises(DeviceFault, match="budget exceeded"):
        running.run(ReplayRequest(hsaco=endless))


def test_a_fault_names_the_allocation(tmp_path: Path) -> None:
    scene = Scene()
    x = scene.buffer(np.zeros(4, dtype=np.int32))
    directory = scene.capture(tmp_path / "c", "at", [x, struct.pack("<q", 1)])

    with pytest.raises(DeviceFault, match=r"past the end of buffer 'captured allocation 0x10"):
        replay(directory, ReplayRequest(hsaco=hsaco(tmp_path, OFFSET=1000)))


def test_a_capture_of_another_architecture_is_rejected(tmp_path: Path) -> None:
    directory = scale_capture(tmp_path / "c")
    capture = open_capture(directory)
    path = tmp_path / "gfx1100"
    path.mkdir()
    source = 'extern "C" __global__ void scale(const float* x, float* y, float factor, int n) { y[0] = x[0]; }'
    other = build_hip("#include <hip/hip_runtime.h>\n" + source, path, architecture="gfx1100").code_object

    import hashlib
    import json

    (directory / "kernel.hsaco").write_bytes(other.data)
    digest = hashlib.sha256(other.data).hexdigest()
    dispatch = json.loads((directory / "dispatch.json").read_text())
    dispatch["code_object"]["sha256"] = digest
    (directory / "dispatch.json").write_text(json.dumps(dispatch))
    manifest = json.loads((directory / "manifest.json").read_text())
    for name in ("kernel.hsaco", "dispatch.json"):
        content = (directory / name).read_bytes()
        manifest["files"][name] = {"size": len(content), "sha256": hashlib.sha256(content).hexdigest()}
    (directory / "manifest.json").write_text(json.dumps(manifest))

    with session(open_capture(directory)) as running, pytest.raises(ReplayError, match="the capture is of gfx1100"):
        running.start()
    assert capture.code_object.architecture == "gfx942"


def test_addresses_that_the_operating_system_reserves_are_rejected(tmp_path: Path) -> None:
    """Address 4096 may be below vm.mmap_min_addr; the last pages of the address space are never available."""
    capture = open_capture(scale_capture(tmp_path / "c"))
    region = capture.regions[0].model_copy(update={"base": 0x7FFF_FFFF_F000, "requested": (), "size": 4096})
    moved = capture.memory.model_copy(update={"regions": (*capture.memory.regions[1:], region)})

    with (
        session(replace(capture, memory=moved)) as running,
        pytest.raises(ReplayError, match="does not allow a process to map a captured address range"),
    ):
        running.start()


def test_a_process_whose_addresses_are_in_use_restarts_without_randomisation(tmp_path: Path) -> None:
    """A range that the executable or its libraries use in most layouts is claimed in the end or rejected, never relocated."""
    import subprocess
    import sys

    program = (
        "import os, sys\n"
        "from rocm_perf_lab.replay import address_space as a\n"
        "here = int(os.environ.get(a.ATTEMPT_VARIABLE, '0'))\n"
        "blocked = int(sys.argv[1])\n"
        "if here < blocked: a.reserve(0x200000000000, 4096)\n"
        "print(here, a.claim([(0x200000000000, 8192)]))\n"
    )
    script = tmp_path / "claims.py"
    script.write_text(program)

    runs = [
        subprocess.run([sys.executable, str(script), str(blocked)], capture_output=True, text=True, check=True).stdout.strip()
        for blocked in (0, 3, 100)
    ]

    assert runs == ["0 []", "3 []", "9 [(35184372088832, 8192)]"]


def test_more_regions_than_a_process_can_map_are_rejected_before_it_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    capture = open_capture(scale_capture(tmp_path / "c"))
    limit = tmp_path / "max_map_count"
    limit.write_text("5000\n")
    monkeypatch.setattr("rocm_perf_lab.replay.session._MAP_LIMIT", limit)

    with session(capture) as running, pytest.raises(ReplayError, match="3 regions, too many for the limit of 5,000 mappings"):
        running.start()
