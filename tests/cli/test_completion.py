"""Shell completion, through click's completion API and as a shell calls it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from click.shell_completion import ShellComplete

from rocm_perf_lab.cli import main


def completed(*args: str) -> list[str]:
    """Return the suggestions for the last argument, file names excluded."""
    *before, incomplete = args
    shell = ShellComplete(main, {}, "rocm-perf", "_ROCM_PERF_COMPLETE")
    return [item.value for item in shell.get_completions(before, incomplete) if item.type != "file"]


@pytest.mark.parametrize(
    ("args", "expected"),
    [
        (("profile", "kernel=soft"), ["kernel=softmax", "kernel=softmax_atomics", "kernel=softmax_triton"]),
        (("profile", "kernel", "=", "soft"), ["softmax", "softmax_atomics", "softmax_triton"]),
        (("profile", "kernel=softmax", "target=mi30"), ["target=mi300a", "target=mi300x", "target=mi308x"]),
        (("optimize", "+experiment=gemm"), ["+experiment=gemm_llm", "+experiment=gemm_naive_optimize"]),
        (("optimize", "+experiment", "=", "gemm_n"), ["gemm_naive_optimize"]),
        (("autotune", "kernel=gemm_h"), ["kernel=gemm_hip"]),
        (("llm-prompt", "kernel=trans"), ["kernel=transpose"]),
        (("verify", "kernel=trans"), ["kernel=transpose"]),
        (("analyze", "results.db", "--target", "mi30"), ["mi300a", "mi300x", "mi308x"]),
        (("emulate", "a.hsaco", "--target", "mi2"), ["mi210", "mi250x"]),
        (("autotune", "--space", "conf/"), ["conf/space/gemm.yaml"]),
        (("ana",), ["analyze"]),
    ],
)
def test_names_are_completed(args: tuple[str, ...], expected: list[str]) -> None:
    assert completed(*args) == expected


def test_all_options_of_a_group_follow_a_lone_equals_sign() -> None:
    assert {"mi250x", "mi300x"} <= set(completed("profile", "target", "="))


def test_kernels_of_the_working_directory_are_completed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "experiments" / "stencil").mkdir(parents=True)
    (tmp_path / "experiments" / "stencil" / "kernel.yaml").touch()
    monkeypatch.chdir(tmp_path)

    assert completed("profile", "kernel=sten") == ["kernel=stencil"]


def test_completion_imports_neither_hydra_nor_numpy() -> None:
    program = (
        "import sys; from click.shell_completion import ShellComplete; from rocm_perf_lab.cli import main\n"
        "shell = ShellComplete(main, {}, 'rocm-perf', '_ROCM_PERF_COMPLETE')\n"
        "assert shell.get_completions(['profile'], 'kernel=soft')\n"
        "print([name for name in ('hydra', 'omegaconf', 'yaml', 'pydantic', 'numpy', 'rich') if name in sys.modules])"
    )

    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert run.stdout == "[]\n"


def test_bash_gets_its_completion_script_from_the_command() -> None:
    command = Path(sys.executable).with_name("rocm-perf")

    run = subprocess.run(
        [command], env={"_ROCM_PERF_COMPLETE": "bash_source", "PATH": "/usr/bin:/bin"}, capture_output=True, text=True, check=True
    )

    assert "complete -o nosort -F _rocm_perf_completion rocm-perf" in run.stdout
