"""`rocm-perf disassemble`: the listing is the file's bytes, labels are where branches lead, counts are those of the run."""

from __future__ import annotations

import json
import re
import struct
from pathlib import Path

import pytest
from click.testing import CliRunner

from rocm_perf_lab.cli import main
from rocm_perf_lab.rocprof.att.model import AttProvenance, AttTrace, InstructionRow, KernelLabel, PcSamples
from rocm_perf_lab.rocprof.att.writer import write_trace
from rocm_perf_lab.toolchain.elf_file import parse_elf
from tests.builders.command import Answer, rocm_perf
from tests.builders.kernels import build_hip
from tests.toolchain.test_elf import bundle, host_executable

SOURCE = r"""#include <hip/hip_runtime.h>
extern "C" __global__ void powers(const int* x, int* y, int n) {
  int value = 1;
  for (int i = 0; i < n; i++)
    value = value * x[i] + y[threadIdx.x];
  if (threadIdx.x < 8) y[threadIdx.x] = value;
}
__device__ __attribute__((noinline)) float helper(float v) { return v * v + 1.0f; }
extern "C" __global__ void calls(float* y) { y[threadIdx.x] = helper(y[threadIdx.x]); }
template <typename T> __global__ void fill(T* y) { y[threadIdx.x] = 1; }
template __global__ void fill<float>(float*);
"""
POWERS = ("--kernel", "powers")


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("disassemble")
    (directory / "kernels.hsaco").write_bytes(build_hip(SOURCE, directory).code_object.data)
    return directory


@pytest.fixture
def hsaco(built: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """In the working directory, without its source."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "kernels.hsaco").write_bytes((built / "kernels.hsaco").read_bytes())
    return "kernels.hsaco"


@pytest.fixture
def counted(hsaco: str) -> str:
    """A directory with the counts of `powers` with n = 5 and two wavefronts."""
    arguments = [word for text in ("i32[8]:ones", "i32[128]:zeros:inout", "i32=5") for word in ("--arg", text)]
    answer = rocm_perf("emulate", hsaco, *POWERS, "--grid", "1", "--block", "128", *arguments, "--output", "run")
    assert answer.code == 0, answer.err
    return "run"


def disassemble(*words: str | Path) -> Answer:
    return rocm_perf("disassemble", *words)


def refused(answer: Answer, *, says: str, where: str = "", hint: str = "") -> None:
    assert answer.code == 2, answer.err
    assert answer.out == ""
    assert answer.err.startswith("error: ")
    for part in (says, where, hint):
        assert part in answer.err


def test_every_kernel_of_the_file_is_listed_with_its_resources(hsaco: str) -> None:
    answer = disassemble(hsaco)

    assert answer.code == 0, answer.err
    assert "; powers\n" in answer.out
    assert "; void fill<float>(float*)\n; symbol     _Z4fillIfEvPT_\n" in answer.out
    for line in ("; registers ", "; memory ", "; processor  gfx942"):
        assert answer.out.count(line) == 3
    assert re.search(r"; occupancy  \d+ of 8 waves per SIMD, limited by .* \(mi300x\)", answer.out)


def test_addresses_and_encodings_are_those_of_the_file(hsaco: str, tmp_path: Path) -> None:
    (kernel,) = disassemble(hsaco, *POWERS, "--json").document["kernels"]

    code = parse_elf((tmp_path / hsaco).read_bytes()).read(kernel["entry_address"], kernel["code_bytes"])
    words = [struct.pack("<I", int(word, 16)) for row in kernel["instructions"] for word in row["encoding"]]
    assert b"".join(words) == code
    ends = [row["address"] + 4 * len(row["encoding"]) for row in kernel["instructions"]]
    assert [row["address"] for row in kernel["instructions"]] == [kernel["entry_address"], *ends[:-1]]


def test_branches_name_the_labels_of_their_targets(hsaco: str) -> None:
    (kernel,) = disassemble(hsaco, *POWERS, "--json").document["kernels"]
    label_at = {row["address"]: row["label"] for row in kernel["instructions"] if row["label"]}
    branches = [row for row in kernel["instructions"] if row["text"].startswith(("s_branch", "s_cbranch"))]

    assert branches
    assert set(label_at.values()) == {f"L{number}" for number in range(len(label_at))}
    assert {row["target"] for row in branches} == label_at.keys()
    assert all(row["text"].split()[-1] == label_at[row["target"]] for row in branches)
    assert any(row["target"] < row["address"] for row in branches), "the loop jumps back"


def test_the_listing_shows_labels_on_separate_lines(hsaco: str) -> None:
    answer = disassemble(hsaco, *POWERS)

    labels = re.findall(r"^(L\d+):$", answer.out, flags=re.MULTILINE)
    assert labels == [f"L{number}" for number in range(len(labels))]
    assert set(re.findall(r"s_c?branch\w* (L\d+)", answer.out)) == set(labels)


def test_padding_takes_two_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    source = (
        'extern "C" __attribute__((global)) void pad() { asm volatile("s_nop 3\\ns_nop 3\\ns_nop 3\\ns_nop 3\\ns_nop 3"); }\n'
    )
    (tmp_path / "pad.hsaco").write_bytes(build_hip(source, tmp_path).code_object.data)

    listing = disassemble("pad.hsaco").out

    assert listing.count("s_nop 3") == 1
    assert "; 4 more of the same\n" in listing
    (kernel,) = disassemble("pad.hsaco", "--json").document["kernels"]
    assert [row["text"] for row in kernel["instructions"]].count("s_nop 3") == 5


def test_source_lines_precede_their_instructions(built: Path) -> None:
    answer = disassemble(str(built / "kernels.hsaco"), *POWERS, "--source")

    assert "\n; kernel.hip:5  value = value * x[i] + y[threadIdx.x];\n" in answer.out
    assert "kernel.hip" not in disassemble(str(built / "kernels.hsaco"), *POWERS).out


def test_without_the_source_file_its_lines_are_still_named(hsaco: str) -> None:
    assert re.search(r"^; kernel\.hip:5$", disassemble(hsaco, *POWERS, "--source").out, flags=re.MULTILINE)
    (kernel,) = disassemble(hsaco, *POWERS, "--source", "--json").document["kernels"]
    assert {"file": "kernel.hip", "line": 5} in [row["source"] for row in kernel["instructions"]]


def test_counts_of_a_run_are_shown_with_the_instructions(hsaco: str, counted: str) -> None:
    (kernel,) = disassemble(hsaco, "--counts", counted, "--json").document["kernels"]

    rows = kernel["instructions"]
    in_loop = [row for row in rows if row["executions"] == 2 * 5]
    store = next(row for row in rows if row["text"].startswith("global_store"))
    end = next(row for row in rows if row["text"].startswith("s_endpgm"))
    assert kernel["symbol"] == "powers"
    assert any("v_" in row["text"] or "s_mul" in row["text"] for row in in_loop)
    assert store["executions"] <= 2
    assert end["executions"] == 2
    document = json.loads((Path(counted) / "emulation.json").read_text())
    assert sum(row["executions"] or 0 for row in rows) == document["counters"]["SQ_INSTS"]


@pytest.mark.parametrize("name", ["", "/run_results.db", "/instruction_counts.json"])
def test_counts_are_found_by_directory_database_or_file(hsaco: str, counted: str, name: str) -> None:
    answer = disassemble(hsaco, "--counts", counted + name)

    assert answer.code == 0, answer.err
    assert ";    runs  lanes  address  instruction" in answer.out
    assert re.search(r"^ +2 +- +[0-9a-f]+  s_endpgm", answer.out, flags=re.MULTILINE)


def test_executions_in_called_functions_are_reported(hsaco: str) -> None:
    answer = rocm_perf(
        "emulate", hsaco, "--kernel", "calls", "--grid", "1", "--block", "64", "--arg", "f32[64]:ones:inout", "--output", "run"
    )
    assert answer.code == 0, answer.err
    document = json.loads((Path("run") / "emulation.json").read_text())

    answer = disassemble(hsaco, "--counts", "run")
    (kernel,) = disassemble(hsaco, "--counts", "run", "--json").document["kernels"]

    listed = sum(row["executions"] or 0 for row in kernel["instructions"])
    assert kernel["executions_elsewhere"] > 0
    assert listed + kernel["executions_elsewhere"] == document["counters"]["SQ_INSTS"]
    assert f"; {kernel['executions_elsewhere']} executions were in functions that the kernel calls" in answer.out


@pytest.mark.parametrize("pack", ["bundle", "object"])
def test_bundles_and_object_files_have_the_same_listing(hsaco: str, tmp_path: Path, pack: str) -> None:
    data = bundle(("hipv4-amdgcn-amd-amdhsa--gfx942:sramecc+:xnack-", (tmp_path / hsaco).read_bytes()))
    (tmp_path / "packed.o").write_bytes(data if pack == "bundle" else host_executable(data))

    assert disassemble("packed.o").out == disassemble(hsaco).out


def test_two_code_objects_of_one_bundle_are_both_listed(hsaco: str, tmp_path: Path) -> None:
    other = build_hip('extern "C" __attribute__((global)) void other(int* y) { *y = 1; }\n', tmp_path).code_object.data
    target = "hipv4-amdgcn-amd-amdhsa--gfx942"
    (tmp_path / "two.hipfb").write_bytes(bundle((target, (tmp_path / hsaco).read_bytes())) + bundle((target, other)))

    assert [kernel["name"] for kernel in disassemble("two.hipfb", "--json").document["kernels"]][-1] == "other"
    assert [kernel["name"] for kernel in disassemble("two.hipfb", "--kernel", "other", "--json").document["kernels"]] == ["other"]


def test_another_processor_is_listed_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "other.hsaco").write_bytes(build_hip(SOURCE, tmp_path, architecture="gfx90a").code_object.data)

    answer = disassemble("other.hsaco", *POWERS)

    assert answer.code == 0, answer.err
    assert "; processor  gfx90a" in answer.out
    assert "(mi250x)" in answer.out


@pytest.mark.parametrize("length", [0, 5, 63, 500, 3000])
def test_a_truncated_file(hsaco: str, tmp_path: Path, length: int) -> None:
    (tmp_path / hsaco).write_bytes((tmp_path / hsaco).read_bytes()[:length])

    refused(disassemble(hsaco, "--source"), says="", where=hsaco)


def test_a_missing_file_or_kernel(hsaco: str) -> None:
    refused(disassemble("nothing.hsaco"), says="No such file", where="nothing.hsaco", hint="did you mean kernels.hsaco?")
    refused(disassemble(hsaco, "--kernel", "power"), says="no kernel 'power'", hint="Did you mean 'powers'?")


def test_a_bundle_without_this_gpu(hsaco: str, tmp_path: Path) -> None:
    data = bundle(("hip-amdgcn-amd-amdhsa--gfx1100", (tmp_path / hsaco).read_bytes()))
    (tmp_path / "other.o").write_bytes(data)

    answer = disassemble("other.o", "--architecture", "gfx942")

    refused(answer, says="no code object for gfx942, only for: gfx1100", where="other.o", hint="one of these")


def test_a_library_for_several_gpus(hsaco: str, tmp_path: Path) -> None:
    """Without `--architecture`, code for an emulated GPU is taken; every translation unit is searched for a kernel."""
    code = (tmp_path / hsaco).read_bytes()
    targets = ("gfx1100", "gfx90a")
    unit = bundle(*((f"hipv4-amdgcn-amd-amdhsa--{name}", code + name.encode()) for name in targets))
    other = build_hip('extern "C" __global__ void alone(float* y) { y[0] = 2; }', tmp_path).code_object.data
    (tmp_path / "lib.so").write_bytes(host_executable(unit + bundle(("hipv4-amdgcn-amd-amdhsa--gfx90a", other))))

    listed = disassemble("lib.so", "--list")
    chosen = disassemble("lib.so", "--list", "--architecture", "gfx1100")

    assert [line.split()[-1] for line in listed.out.splitlines()] == ["[_Z4fillIfEvPT_]", "calls", "powers", "alone"]
    assert len(chosen.out.splitlines()) == 3
    assert disassemble("lib.so", "--kernel", "alone").out.startswith("; alone\n")
    assert disassemble("lib.so", "--kernel", "fill").code == 0


def test_missing_or_damaged_counts(hsaco: str, tmp_path: Path) -> None:
    refused(disassemble(hsaco, "--counts", "nowhere"), says="cannot read instruction counts", hint="emulate")
    (tmp_path / "empty").mkdir()
    refused(disassemble(hsaco, "--counts", "empty"), says="cannot read instruction counts", where="instruction_counts.json")
    for content in (
        "",
        "[]",
        "{",
        '{"schema_version": "2.0"}',
        '{"symbol": "powers", "code_object_sha256": "", "instructions": [1]}',
    ):
        (tmp_path / "empty" / "instruction_counts.json").write_text(content)
        refused(disassemble(hsaco, "--counts", "empty"), says="this is not a valid instruction_counts.json", hint="emulate")


def test_counts_of_another_kernel_or_file(hsaco: str, counted: str, tmp_path: Path) -> None:
    refused(disassemble(hsaco, "--kernel", "calls", "--counts", counted), says="of kernel powers", hint="--kernel powers")
    (tmp_path / "new.hsaco").write_bytes(build_hip(SOURCE.replace("value = 1", "value = 3"), tmp_path).code_object.data)
    refused(disassemble("new.hsaco", "--counts", counted), says="another code object", where=counted)


def test_debug_prints_the_traceback() -> None:
    result = CliRunner().invoke(main, ["disassemble", "nothing.hsaco", "--debug"])

    assert result.exit_code == 2
    assert "Traceback" in result.stderr
    assert "error: cannot read" in result.stderr


def _traced(hsaco: str, directory: Path, *, sampled: bool = False, mnemonic: str | None = None) -> list[dict[str, object]]:
    """Write a thread trace, or PC samples, of `powers` whose numbers grow with the row; return the instructions."""
    (kernel,) = disassemble(hsaco, *POWERS, "--json").document["kernels"]
    rows = tuple(
        InstructionRow(
            line,
            mnemonic or row["text"],
            "kernel.hip:5",
            1,
            row["address"],
            *((0, 0, 0, 0) if sampled else (2, 10 * line, line, 3)),
            PcSamples("", line, 2, (0, 0, 0, 2)) if sampled else None,
        )
        for line, row in enumerate(kernel["instructions"], start=1)
    )
    label = KernelLabel(0, "powers", "powers", 1, kernel["entry_address"])
    provenance = AttProvenance("", 1, 1, "3.0.0", 9, "rocprofv3", emulated=False)
    write_trace(AttTrace(provenance, rows, (label,), ()), directory)
    instructions: list[dict[str, object]] = kernel["instructions"]
    return instructions


@pytest.mark.parametrize("below", ["", "ui_output_agent_1_dispatch_1"])
def test_cycles_of_a_thread_trace_are_shown_with_the_instructions(hsaco: str, tmp_path: Path, below: str) -> None:
    instructions = _traced(hsaco, tmp_path / "att")

    answer = disassemble(hsaco, "--source", "--counts", tmp_path / "att" / below)
    (kernel,) = disassemble(hsaco, "--counts", tmp_path / "att" / below, "--json").document["kernels"]

    assert ";    hits     latency       stall        idle  address  instruction" in answer.out
    last = len(instructions)
    assert re.search(rf"^ +2 +{10 * last} +{last} +3 +{instructions[-1]['address']:x}  ", answer.out, flags=re.MULTILINE)
    assert [row["latency"] for row in kernel["instructions"]] == [10 * line for line in range(1, last + 1)]
    assert {(row["hits"], row["idle"], row["executions"]) for row in kernel["instructions"]} == {(2, 3, None)}


def test_pc_samples_are_shown_with_the_instructions(hsaco: str, tmp_path: Path) -> None:
    instructions = _traced(hsaco, tmp_path / "view", sampled=True)

    answer = disassemble(hsaco, "--counts", tmp_path / "view")
    (kernel,) = disassemble(hsaco, "--counts", tmp_path / "view", "--json").document["kernels"]

    assert re.search(rf"^ +3 +1 +2  waitcnt +{instructions[0]['address']:x}  ", answer.out, flags=re.MULTILINE)
    assert kernel["instructions"][4]["samples"] == 5 + 2
    assert kernel["instructions"][4]["stall_reasons"] == {"waitcnt": 2}


def test_a_trace_of_other_code_is_refused(hsaco: str, tmp_path: Path) -> None:
    _traced(hsaco, tmp_path / "att", mnemonic="v_mov_b32 v0, 0")

    refused(disassemble(hsaco, "--counts", tmp_path / "att"), says="another version of powers", hint="traced")
    refused(disassemble(hsaco, "--counts", tmp_path / "att", "--kernel", "calls"), says="the thread trace is of powers")
