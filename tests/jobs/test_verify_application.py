"""`rocm-perf verify ./app`: guards, the user's build, and the outputs with several sets of arguments."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path
from typing import Any

import pytest

from rocm_perf_lab.jobs.optimize.application_source import ApplicationBuilder, ApplicationSource
from rocm_perf_lab.jobs.verify.application_kernels import changed_kernels, kernels_of, without_effect
from rocm_perf_lab.optimize.proposal import Proposal
from rocm_perf_lab.toolchain.build import CompileRequest, compile_source
from rocm_perf_lab.verify.application_outputs import ApplicationError
from tests.builders.command import Answer, rocm_perf
from tests.builders.verify_place import BODIES, BODY, BUILD, SCALE, VerifyPlace


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> VerifyPlace:
    monkeypatch.chdir(tmp_path)
    made = VerifyPlace.made(tmp_path)
    made.application()
    return made


def verify(*words: str, command: tuple[str, ...] = ("./app", "128"), build: str = BUILD) -> Answer:
    return rocm_perf("verify", *command, "--build", build, "--output", "run", *words)


def lines(answer: Answer) -> list[Any]:
    return [json.loads(line) for line in answer.out.splitlines()]


@pytest.mark.slow
def test_candidates_are_compared_with_the_unmodified_application(place: VerifyPlace) -> None:
    names = [place.candidate(name) for name in ("right", "wrong", "printf", "syntax")]
    Path("unbuildable.hip").write_text(SCALE.replace(BODY, f"// REFUSE_TO_BUILD\n  {BODY}"))
    options = [word for name in (*names, "unbuildable.hip") for word in ("--candidate", name)]

    answer = verify(*options, "--json")

    assert answer.code == 1, answer.err
    documents = lines(answer)
    assert [(d["candidate"], d["verdict"], d["stage"]) for d in documents] == [
        ("right.hip", "correct", "verification"),
        ("wrong.hip", "wrong", "verification"),
        ("printf.hip", "refused", "guard"),
        ("syntax.hip", "refused", "compile"),
        ("unbuildable.hip", "refused", "build"),
    ]
    # 2 * (0 + ... + 127) = 16256, 2.5 * (0 + ... + 127) = 20320
    assert "sum 20320.0" in documents[1]["reason"]
    assert "sum 16256.0" in documents[1]["reason"]
    assert documents[1]["evidence"]["command"] == ["./app", "128"]
    assert documents[3]["evidence"]["source_line"] == 5
    assert documents[0]["command"] == ["./app", "128"]
    assert any("arguments and inputs other than" in text for text in documents[0]["not_checked"])
    assert Path("app.hip").read_text() == SCALE


@pytest.mark.slow
def test_further_arguments_find_what_the_first_ones_do_not(place: VerifyPlace) -> None:
    candidate = place.candidate("tail")

    alone = verify("--candidate", candidate)
    more = verify("--candidate", candidate, "--args", "100", "--args", "64", "--json")

    assert alone.code == 0, alone.err
    assert more.code == 1
    (document,) = lines(more)
    assert document["tried"] == ["./app 128", "./app 100", "./app 64"]
    assert document["evidence"]["command"] == ["./app", "100"]


@pytest.mark.slow
def test_outputs_that_do_not_depend_on_the_kernel_are_bad_input(place: VerifyPlace) -> None:
    candidate = place.candidate("wrong")

    quiet = verify("--candidate", candidate, command=("./app", "128", "--quiet"))
    both = verify("--candidate", place.candidate("right"), "--args", "128 --quiet", "--json")

    assert quiet.code == 2
    assert "do not depend on the kernel: they do not change if it returns immediately" in " ".join(quiet.err.split())
    assert both.code == 0, both.err
    assert lines(both)[0]["warnings"] == ["the outputs of ./app 128 --quiet do not depend on the kernel"]


@pytest.mark.slow
def test_a_candidate_for_an_unused_kernel_is_refused_and_the_next_one_is_checked(place: VerifyPlace) -> None:
    unused = 'extern "C" __global__ void unused(float* y) { y[threadIdx.x] = 1.0f; }\n'
    Path("app.hip").write_text(SCALE + unused)
    Path("other.hip").write_text(SCALE + unused.replace("1.0f", "2.0f"))
    Path("right.hip").write_text(SCALE.replace(BODY, BODIES["right"]) + unused)

    answer = verify("--candidate", "other.hip", "--candidate", "right.hip", "--json")

    assert answer.code == 1, answer.err
    refused, right = lines(answer)
    assert (refused["verdict"], refused["stage"]) == ("refused", "coverage")
    assert refused["reason"] == "the outputs of the application do not depend on unused"
    assert right["verdict"] == "correct"


def test_build_output_about_a_candidate_shows_only_the_candidate(tmp_path: Path) -> None:
    compiler = tmp_path / "cc.py"
    compiler.write_text(
        "import sys\n"
        "sys.stderr.write(f'{sys.argv[1]}:3:1: error: oops\\n/home/someone/key.h:1:1: error: unknown type name SECRET\\n')\n"
        "sys.exit(1)\n"
    )
    source = tmp_path / "app.hip"
    source.write_text(SCALE)
    build = f"{shlex.quote(sys.executable)} {shlex.quote(str(compiler))} {{source}} {{binary}}"
    builder = ApplicationBuilder(ApplicationSource(source, build, ("./app",)), tmp_path / "run", 60.0)
    own = Proposal.of(SCALE, transform="none", description="", parent=None)
    version = Proposal.of(SCALE + "// new\n", transform="candidate", description="", parent=own)

    said = {}
    for proposal in (own, version):
        builder.place(proposal)
        with pytest.raises(ApplicationError) as raised:
            builder.build(proposal)
        said[proposal.id] = raised.value.what

    assert "SECRET" in said[own.id]  # the user's own source
    assert "app.hip:3:1: error: oops" in said[version.id]
    assert "SECRET" not in said[version.id]
    assert str(tmp_path) not in said[version.id]


@pytest.mark.parametrize(
    ("words", "command", "build", "message"),
    [
        ((), ("./app", "128"), "false {source} {binary}", "the build command failed"),
        ((), ("./app", "128"), "make", "the build command has no {source} and no {binary}"),
        ((), ("./app", "128", "--fail"), BUILD, "the application failed with exit code 1: no input file"),
        ((), ("./absent",), BUILD, "program ./absent does not exist"),
        (("--kernel", "other"), ("./app", "128"), BUILD, "no kernel of the source matches 'other'"),
        (("--kernel", "("), ("./app", "128"), BUILD, "invalid regular expression"),
        (("--args", "'128"), ("./app", "128"), BUILD, "invalid arguments: No closing quotation"),
        (("--source", "none.hip"), ("./app", "128"), BUILD, "the source file cannot be read"),
    ],
)
def test_applications_that_cannot_be_compared_are_bad_input(
    place: VerifyPlace, words: tuple[str, ...], command: tuple[str, ...], build: str, message: str
) -> None:
    answer = verify("--candidate", place.candidate("right"), *words, command=command, build=build)

    assert answer.code == 2
    assert message in " ".join(answer.err.split())
    assert "Traceback" not in answer.err
    assert not Path("run/verify.json").exists()


TWO = """#include <hip/hip_runtime.h>
__device__ float twice(float x) { return 2.0f * x; }
extern "C" __global__ void first(float* x) { x[threadIdx.x] = twice(x[threadIdx.x]); }
extern "C" __global__ void second(float* x) {
  x[threadIdx.x] = 1.0f;
}
extern "C" __global__ void third(float* x) { x[0] = twice(twice(x[0])); }
"""


def test_the_kernels_that_a_candidate_changes_include_callers_of_a_changed_function(tmp_path: Path) -> None:
    source = tmp_path / "two.hip"
    source.write_text(TWO)
    kernels = kernels_of(TWO.encode(), compile_source(CompileRequest(source=source)).code_object)

    def changed(old: str, new: str) -> set[str]:
        assert old in TWO
        return {kernel.symbol for kernel in changed_kernels(kernels, TWO.replace(old, new).encode())}

    assert changed("return 2.0f * x;", "return x + x;") == {"first", "third"}
    assert changed("= 1.0f;", "= 1.5f;") == {"second"}
    assert changed("float* x) {\n", "float*x) {  ") == {"first", "second", "third"}  # only spaces changed
    assert without_effect([k for k in kernels if k.symbol == "second"], TWO.encode()) == TWO.replace(
        "second(float* x) {", "second(float* x) { return;"
    )
