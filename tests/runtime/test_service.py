"""Translation service: its answers to drivers, with native code that the emulator then runs."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import threading
from typing import TYPE_CHECKING

import numpy as np
import pytest

from rocm_perf_lab.emulator.build import load_runtime
from rocm_perf_lab.emulator.machine import EmulatedGpu
from rocm_perf_lab.emulator.structures import AccessKind, FaultKind, FaultRecord
from rocm_perf_lab.runtime.code_image import DeviceBlock, find_code
from rocm_perf_lab.runtime.messages import NOT_IN_FILE, FaultReport, HotBlocks, KernelQuery, MessageKind, message
from rocm_perf_lab.runtime.service import TranslationService
from tests.builders.kernels import build_hip
from tests.builders.service_client import PAGE, Answered, LibraryTranslator, ServiceClient
from tests.builders.targets import mi300x

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from rocm_perf_lab.emulator.launching import LaunchResult
    from rocm_perf_lab.runtime.kernel_facts import KernelFacts
    from rocm_perf_lab.runtime.translation_jobs import TranslateJob
    from rocm_perf_lab.toolchain.code_object import CodeObject

SOURCE = r"""
#include <hip/hip_runtime.h>
__device__ __attribute__((noinline)) int twice(int x) { return 2 * x; }
__device__ __attribute__((noinline)) int more(int x) { return x + 100; }
typedef int (*function)(int);
__device__ function table[2] = {twice, more};
__device__ int variable = 7;
extern "C" __global__ void calls(int* y) {
  __shared__ int tile[64];
  int t = threadIdx.x;
  tile[t] = more(table[t & 1](t)) + variable;
  __syncthreads();
  y[blockIdx.x * 64 + t] = tile[63 - t];
}
"""
EXPECTED = [(t + 100 if t & 1 else 2 * t) + 107 for t in reversed(range(64))]


@pytest.fixture(scope="module")
def code_object(tmp_path_factory: pytest.TempPathFactory) -> CodeObject:
    return build_hip(SOURCE, tmp_path_factory.mktemp("service"), flags=("-g",)).code_object


@pytest.fixture
def service(tmp_path: Path) -> Iterator[TranslationService]:
    with TranslationService(tmp_path / "service.sock", [mi300x()], directory=tmp_path / "native") as running:
        yield running


def run(code_object: CodeObject, translator: LibraryTranslator | None) -> tuple[LaunchResult, list[int]]:
    with EmulatedGpu(mi300x(), max_instructions=10**6, translator=translator) as machine:  # type: ignore[arg-type]
        y = machine.allocate("y", 256 * 4)
        result = machine.launch(machine.load(code_object), "calls", (4, 1, 1), (64, 1, 1), [y])
        return result, np.frombuffer(machine.read(y), np.int32).tolist()


def place_image(client: ServiceClient, code_object: CodeObject, offset: int) -> tuple[int, int]:
    """Copy the segments of a code object to the memory file as ROCr does; return load address and size of the image."""
    with EmulatedGpu(mi300x(), max_instructions=1) as machine:
        loaded = machine.load(code_object)
        client.write(offset, machine.read(loaded.allocation))
        return loaded.load_address, -(-loaded.allocation.nbytes // PAGE) * PAGE


def ask(client: ServiceClient, code_object: CodeObject, *, file: bool = True, offset: int = 5 * PAGE) -> Answered:
    load_address, size = place_image(client, code_object, offset)
    os.ftruncate(client.memory, offset + size)
    kernel = code_object.kernels[0]
    descriptor = load_address + kernel.descriptor_address
    answered = client.kernel(descriptor, load_address, size, offset, code_object.data if file else b"")
    assert answered.fields.load_address == load_address
    return answered


@pytest.mark.parametrize("file", [True, False])
def test_libraries_compute_what_the_emulator_does(
    service: TranslationService, tmp_path: Path, code_object: CodeObject, file: bool
) -> None:
    with ServiceClient(tmp_path / "service.sock") as client:
        answered = ask(client, code_object, file=file)
        image = service.store.kernel(answered.fields.id).image
    program = image.describe("gfx942").decode()

    result, y = run(code_object, LibraryTranslator(program, answered.library))

    expected, same = run(code_object, None)
    assert y == same == EXPECTED * 4
    assert result.counters == expected.counters
    assert result.memory == expected.memory
    assert sum(result.block_executions) == sum(expected.block_executions)
    assert image.is_file == file
    assert answered.name == "calls"


def test_the_answer_has_the_facts_of_the_descriptor(service: TranslationService, tmp_path: Path, code_object: CodeObject) -> None:
    kernel = code_object.kernels[0]
    with ServiceClient(tmp_path / "service.sock") as client:
        fields = ask(client, code_object).fields

    assert fields.id == 1
    assert fields.wave_size == 64
    assert fields.static_lds_bytes == 256
    assert fields.kernarg_bytes == kernel.kernarg_bytes
    assert fields.properties == kernel.descriptor.kernel_code_properties
    assert fields.user_sgprs == kernel.descriptor.compute_pgm_rsrc2 >> 1 & 0x1F
    assert fields.static_scratch_bytes >= kernel.scratch_bytes
    assert fields.vgpr_rows == min(256, (kernel.vgpr_count + 7) // 8 * 8)
    assert fields.depends_on_order == 0
    assert fields.is_final == 1


def test_later_sessions_answer_without_the_compiler(tmp_path: Path, code_object: CodeObject) -> None:
    with (
        TranslationService(tmp_path / "a.sock", [mi300x()], directory=tmp_path / "native"),
        ServiceClient(tmp_path / "a.sock") as client,
    ):
        first = ask(client, code_object)
    script = f"""
import sys
from pathlib import Path
from tests.builders.service_client import ServiceClient
from tests.builders.targets import mi300x
from rocm_perf_lab.runtime.service import TranslationService
image = Path({str(tmp_path / "image")!r}).read_bytes()
with TranslationService(Path({str(tmp_path / "b.sock")!r}), [mi300x()], directory=Path({str(tmp_path / "native")!r})) as service:
    with ServiceClient(Path({str(tmp_path / "b.sock")!r})) as client:
        client.write(0, image)
        answered = client.kernel({{}}, 0x7000_0000_0000, len(image), 0, Path({str(tmp_path / "file")!r}).read_bytes())
    print(answered.library, answered.fields.load_address)
print([name for name in ("llvmlite", "tinygrad") if name in sys.modules], len(service._processes._all))
"""
    with EmulatedGpu(mi300x(), max_instructions=1) as machine:
        loaded = machine.load(code_object)
        image = machine.read(loaded.allocation)
    (tmp_path / "image").write_bytes(image.ljust(-(-len(image) // PAGE) * PAGE, b"\0"))
    (tmp_path / "file").write_bytes(code_object.data)
    descriptor = 0x7000_0000_0000 + code_object.kernels[0].descriptor_address

    done = subprocess.run(
        [sys.executable, "-c", script.replace("{}", str(descriptor))], capture_output=True, text=True, check=True
    )

    assert done.stdout.splitlines() == [f"{first.library} {0x7000_0000_0000}", "[] 0"]


def test_two_applications_are_answered_at_once(service: TranslationService, tmp_path: Path, code_object: CodeObject) -> None:
    answers: list[Answered] = []

    def application() -> None:
        with ServiceClient(tmp_path / "service.sock") as client:
            answers.append(ask(client, code_object))

    threads = [threading.Thread(target=application) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert [answer.fields.id for answer in answers] == [1, 1]
    assert answers[0].library == answers[1].library
    assert len(service.store.kernels) == 1


def test_answers_from_the_cache_do_not_wait_for_translations(
    monkeypatch: pytest.MonkeyPatch, service: TranslationService, tmp_path: Path, code_object: CodeObject
) -> None:
    other = build_hip('#include <hip/hip_runtime.h>\nextern "C" __global__ void other(int* y) { *y = 1; }', tmp_path).code_object
    started, may_end, run_job = threading.Event(), threading.Event(), service._processes.run
    names: list[str] = []

    def slow_run(job: TranslateJob) -> KernelFacts:
        started.set()
        assert may_end.wait(60)
        return run_job(job)

    def application() -> None:
        with ServiceClient(tmp_path / "service.sock") as client:
            names.append(ask(client, other).name)

    with ServiceClient(tmp_path / "service.sock") as client:
        ask(client, code_object)
        monkeypatch.setattr(service._processes, "run", slow_run)
        thread = threading.Thread(target=application)
        thread.start()
        assert started.wait(60)

        names.append(ask(client, code_object).name)
        may_end.set()
        thread.join()

    assert names == ["calls", "other"]


def test_memory_outside_of_the_file_is_read_from_the_process(
    service: TranslationService, tmp_path: Path, code_object: CodeObject
) -> None:
    with EmulatedGpu(mi300x(), max_instructions=1) as machine, ServiceClient(tmp_path / "service.sock") as client:
        loaded = machine.load(code_object)  # in the memory of this process
        descriptor = loaded.load_address + code_object.kernels[0].descriptor_address

        answered = client.kernel(descriptor, loaded.load_address, loaded.allocation.nbytes, NOT_IN_FILE)

    assert (answered.name, answered.fields.load_address) == ("calls", loaded.load_address)


def test_hot_blocks_of_large_kernels_are_optimised(
    monkeypatch: pytest.MonkeyPatch, service: TranslationService, tmp_path: Path, code_object: CodeObject
) -> None:
    text = "".join(f"if (y[{k}] == {k}) {{ y[{k}] = 3 * y[{k + 1}] + {k}; y[{k + 1}] ^= {k}; }}\n" for k in range(120))
    source = f'#include <hip/hip_runtime.h>\nextern "C" __global__ void large(volatile int* y) {{ {text} }}'
    large = build_hip(source, tmp_path).code_object

    with ServiceClient(tmp_path / "service.sock") as client:
        answered = ask(client, large)
        count = answered.fields.block_count
        rare = client.hot(answered.fields.id, [10] * count)
        better = client.hot(answered.fields.id, [0, 10**9, *[0] * (count - 2)])
        again = ask(client, large)

    assert answered.fields.is_final == 0
    assert rare == ""
    assert better not in ("", answered.library)
    assert again.library == better
    assert service.store.kernel(answered.fields.id).facts.optimised == (1,)


def test_faults_name_kernel_instruction_line_and_address(
    service: TranslationService, tmp_path: Path, code_object: CodeObject
) -> None:
    with ServiceClient(tmp_path / "service.sock") as client:
        answered = ask(client, code_object)
        image = service.store.kernel(answered.fields.id).image
        program = image.describe("gfx942").decode()
        store = next(i for i in program.instructions if i.mnemonic == "GLOBAL_STORE_DWORD")
        record = FaultRecord(kind=FaultKind.MEMORY, inst=store.index, access=AccessKind.STORE, width_bytes=4, lanes=0b100)
        record.addresses[2] = 0x5000_0104
        report = FaultReport(id=answered.fields.id, queue=3, dispatch=9, max_instructions=10**9)
        report.grid[:], report.block[:] = (4, 1, 1), (64, 1, 1)

        kind, content = client.ask(
            MessageKind.FAULT_TEXT,
            report,
            bytes(record),
            (0x5000_0000).to_bytes(8, "little"),
            (0x5000_0100).to_bytes(8, "little"),
        )

    text = content.rstrip(b"\0").decode()
    assert kind == MessageKind.TEXT_IS
    assert "kernel calls: store of 4 bytes at 0x50000104, 4 bytes past the end of 256 bytes of memory at 0x50000000" in text
    assert "global_store_dword" in text
    assert "kernel.hip:13" in text
    assert "lanes 2" in text
    assert "dispatch 9 of queue 3, grid 4 x 1 x 1, block 64 x 1 x 1" in text
    assert text.startswith("rocm-perf: ")
    assert text.endswith("\n")


def test_a_fault_at_a_pointer_of_the_host_names_ways_to_share_memory(
    service: TranslationService, tmp_path: Path, code_object: CodeObject
) -> None:
    with ServiceClient(tmp_path / "service.sock") as client:
        answered = ask(client, code_object)
        program = service.store.kernel(answered.fields.id).image.describe("gfx942").decode()
        store = next(i for i in program.instructions if i.mnemonic == "GLOBAL_STORE_DWORD")
        texts = []
        for address in (0x5080_0000, 0x5000_0104):  # a buffer of the host; host memory behind the end of a buffer of the GPU
            record = FaultRecord(kind=FaultKind.MEMORY, inst=store.index, access=AccessKind.STORE, width_bytes=4, lanes=1)
            record.addresses[0] = address
            report = FaultReport(id=answered.fields.id, max_instructions=10**9, is_in_host_memory=1)
            memory = b"".join(bound.to_bytes(8, "little") for bound in (0x5000_0000, 0x5000_0100))
            texts.append(client.ask(MessageKind.FAULT_TEXT, report, bytes(record), memory)[1].decode())

    assert "store of 4 bytes at 0x50800000, in host memory, which the GPU cannot access" in texts[0]
    assert "hipMallocManaged" in texts[0]
    assert "--xnack" in texts[0]
    assert "4 bytes past the end of 256 bytes" in texts[1]


def test_errors_end_neither_the_connection_nor_the_service(
    service: TranslationService, tmp_path: Path, code_object: CodeObject
) -> None:
    with ServiceClient(tmp_path / "service.sock") as client:
        for kind, content, text in (
            (MessageKind.KERNEL, b"short", "too short"),
            (MessageKind.KERNEL, bytes(KernelQuery(gpu=7)), "GPU 7"),
            (MessageKind.KERNEL, bytes(KernelQuery(object=64, image=0, image_bytes=PAGE)), "cannot be read"),
            (MessageKind.HOT, bytes(HotBlocks(id=99)), "kernel 99"),
            (MessageKind.FAULT_TEXT, bytes(FaultReport(id=1)), "kernel 1"),
            (MessageKind.RECORD, b"", "empty"),
            (77, b"", "unknown kind 77"),
        ):
            answer, refusal = client.ask(kind, content)
            assert answer == MessageKind.REFUSED
            assert refusal.startswith(b"rocm-perf: ") and refusal.endswith(b"\n\0")
            assert text in refusal.decode()

        assert ask(client, code_object).fields.id == 1


def test_zeros_are_no_kernel(service: TranslationService, tmp_path: Path) -> None:
    with ServiceClient(tmp_path / "service.sock") as client:
        os.ftruncate(client.memory, PAGE)
        query = KernelQuery(object=256, image=0, image_bytes=PAGE, image_offset=0)

        answer, refusal = client.ask(MessageKind.KERNEL, query)

    assert answer == MessageKind.REFUSED
    assert b"there is no kernel descriptor at 0x100" in refusal


def test_a_defect_of_the_service_is_one_error_of_the_application(
    service: TranslationService, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(number: int) -> None:
        raise ValueError(f"one\n{number}")

    monkeypatch.setattr(service.store, "kernel", fail)
    with ServiceClient(tmp_path / "service.sock") as client:
        answers = [client.ask(MessageKind.HOT, bytes(HotBlocks(id=number))) for number in (2, 3)]

    assert [kind for kind, _ in answers] == [MessageKind.REFUSED] * 2, "the connection stays"
    assert b"internal error in the translation service: ValueError: one 2\n" in answers[0][1]


def test_a_driver_of_another_version_is_refused(service: TranslationService, tmp_path: Path) -> None:
    with ServiceClient(tmp_path / "service.sock", protocol=99) as client:
        kind, content = client.greeting

    assert kind == MessageKind.REFUSED
    assert b"another version" in content


def test_an_incomplete_message_ends_only_its_connection(
    service: TranslationService, tmp_path: Path, code_object: CodeObject
) -> None:
    with ServiceClient(tmp_path / "service.sock") as broken:
        broken._socket.sendall(message(MessageKind.KERNEL, bytes(100))[:50])

    with ServiceClient(tmp_path / "service.sock") as client:
        assert ask(client, code_object).fields.id == 1


def test_damaged_files_on_disk_are_made_again(tmp_path: Path, code_object: CodeObject) -> None:
    libraries = []
    for damage in (".so", ".kernel", None):
        with (
            TranslationService(tmp_path / "service.sock", [mi300x()], directory=tmp_path / "native"),
            ServiceClient(tmp_path / "service.sock") as client,
        ):
            libraries.append(ask(client, code_object).library)
        for path in (tmp_path / "native").glob(f"*{damage}"):
            path.write_bytes(path.read_bytes()[:-1])

    ctypes.CDLL(str(load_runtime().path), mode=ctypes.RTLD_GLOBAL)  # has the functions that translated code calls

    assert len(set(libraries)) == 1
    assert ctypes.CDLL(libraries[0]).kernel


def test_closing_leaves_nothing_behind(tmp_path: Path, code_object: CodeObject) -> None:
    before = threading.active_count()
    service = TranslationService(tmp_path / "service.sock", [mi300x()], directory=tmp_path / "native")
    with service, ServiceClient(tmp_path / "service.sock") as client:
        ask(client, code_object)
        processes = [process._process for process in service._processes._all]

    assert len(processes) == 1
    assert all(process.poll() is not None for process in processes)
    assert threading.active_count() == before
    assert not (tmp_path / "service.sock").exists()


def test_a_dead_translator_is_replaced(service: TranslationService, tmp_path: Path, code_object: CodeObject) -> None:
    other = build_hip('#include <hip/hip_runtime.h>\nextern "C" __global__ void other(int* y) { *y = 1; }', tmp_path).code_object
    with ServiceClient(tmp_path / "service.sock") as client:
        ask(client, code_object)
        (process,) = service._processes._all
        process._process.kill()
        process._process.wait()

        assert ask(client, other).name == "other"


def test_blocks_are_read_at_their_place_only() -> None:
    block = DeviceBlock(PAGE, PAGE, lambda start, size: bytes(PAGE)[start : start + size])

    assert block.read(PAGE + 8, 8) == bytes(8)
    with pytest.raises(Exception, match="outside of the memory"):
        find_code(block, 3 * PAGE)
