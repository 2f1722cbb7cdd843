"""Triton kernels compiled without a GPU: cache, launch contract and errors with their source line."""

from __future__ import annotations

import importlib.util
import shutil
from typing import TYPE_CHECKING, Any

import pytest

from rocm_perf_lab.device.launch import build_launch
from rocm_perf_lab.device.protocol import ScalarValue
from rocm_perf_lab.languages import triton_build
from rocm_perf_lab.languages.triton_build import TritonArgument, TritonRequest, compile_triton
from rocm_perf_lab.toolchain.build import BuildResult, CompileError
from rocm_perf_lab.toolchain.code_object import LaunchContract
from rocm_perf_lab.toolchain.source_lines import line_table
from tests.builders.triton_kernels import build_triton

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

SCALE = """import triton
import triton.language as tl


@triton.jit
def scale(x_ptr, y_ptr, n, stride, factor, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i * stride, mask=i < n)
    tl.store(y_ptr + i, x * factor, mask=i < n)
"""

ARGUMENTS = (
    TritonArgument("x_ptr", "buffer", "fp32", bytes=4000),
    TritonArgument("y_ptr", "buffer", "fp32", bytes=4000),
    TritonArgument("n", "scalar", "i32", integer=1000),
    TritonArgument("stride", "scalar", "i32", integer=1),
    TritonArgument("factor", "scalar", "fp32"),
)


@pytest.fixture
def compile_scale(tmp_path: Path) -> Callable[..., BuildResult]:
    def compile_it(text: str = SCALE, directory: str = "kernel", **changes: Any) -> BuildResult:
        source = tmp_path / directory / "kernel.py"
        source.parent.mkdir(exist_ok=True)
        source.write_text(text)
        request: dict[str, Any] = {"entry": "scale", "arguments": ARGUMENTS, "constexprs": {"BLOCK": 256}} | changes
        return compile_triton(TritonRequest(source=source, **request), cache_dir=tmp_path / "cache")

    return compile_it


def failure(compile_it: Callable[..., BuildResult], *arguments: Any, **changes: Any) -> CompileError:
    with pytest.raises(CompileError) as caught:
        compile_it(*arguments, **changes)
    return caught.value


def test_a_kernel_compiles_once_wherever_its_directory_is(compile_scale: Callable[..., BuildResult], tmp_path: Path) -> None:
    first = compile_scale(options={"num_warps": 2})
    again = compile_scale(directory="elsewhere", options={"num_warps": 2})

    assert (first.cached, again.cached) == (False, True)
    assert again.code_object.data == first.code_object.data
    assert again.contract == first.contract == LaunchContract(("x_ptr", "y_ptr", "n", "factor"), 128, 0)
    assert (first.compiler_name, first.code_object.architecture, first.code_object.target_id) == ("triton", "gfx942", "gfx942")
    assert not list((tmp_path / "cache" / "triton").iterdir())


def test_values_that_do_not_change_the_code_share_a_build(compile_scale: Callable[..., BuildResult]) -> None:
    base = compile_scale()
    longer = tuple(TritonArgument("n", "scalar", "i32", integer=1001) if a.name == "n" else a for a in ARGUMENTS)
    aligned = tuple(TritonArgument("n", "scalar", "i32", integer=1024) if a.name == "n" else a for a in ARGUMENTS)

    assert compile_scale(arguments=longer).cached
    assert compile_scale(arguments=aligned).key != base.key
    assert compile_scale(constexprs={"BLOCK": 512}).key != base.key
    assert compile_scale(options={"num_warps": 8}).key != base.key


def test_a_changed_helper_module_is_another_build(compile_scale: Callable[..., BuildResult], tmp_path: Path) -> None:
    text = SCALE.replace("import triton\n", "import triton\nfrom helper import FACTOR\n", 1).replace(
        "* factor", "* FACTOR * factor"
    )
    helper = tmp_path / "kernel" / "helper.py"
    helper.parent.mkdir()
    helper.write_text("import triton.language as tl\nFACTOR = tl.constexpr(3)\n")
    first = compile_scale(text)

    assert compile_scale(text).cached
    helper.write_text("import triton.language as tl\nFACTOR = tl.constexpr(5)\n")
    second = compile_scale(text)
    assert not second.cached
    assert second.code_object.data != first.code_object.data


def test_instructions_know_their_line(compile_scale: Callable[..., BuildResult]) -> None:
    code_object = compile_scale().code_object
    kernel = code_object.kernels[0]
    lookup = line_table(code_object)
    lines = {lookup(address) for address in range(kernel.entry_address, kernel.entry_address + kernel.code_bytes, 4)}

    assert {("kernel.py", 8), ("kernel.py", 9)} <= {tuple(line) for line in lines if line is not None}


def test_an_error_in_the_kernel_names_file_and_line(compile_scale: Callable[..., BuildResult], tmp_path: Path) -> None:
    error = failure(compile_scale, SCALE.replace("x * factor", "x * missing"))

    assert error.where == str(tmp_path / "kernel" / "kernel.py:9")
    assert "missing is not defined" in error.what


def test_an_error_in_a_function_that_the_kernel_calls_names_that_line(compile_scale: Callable[..., BuildResult]) -> None:
    helper = "\n\n@triton.jit\ndef twice(x):\n    return x + tl.arange(0, 3)\n"
    error = failure(compile_scale, SCALE.replace("x * factor", "twice(x)") + helper)

    assert (error.where or "").endswith("kernel.py:14")
    assert "power of 2" in error.what


@pytest.mark.parametrize(
    ("text", "line", "what"),
    [
        (SCALE.replace("@triton.jit", "@triton.jit("), 5, "was never closed"),
        (SCALE.replace("import triton\n", "import triton\nimport torch_is_not_here\n", 1), 2, "torch_is_not_here"),
        (SCALE + "\n\nLIMIT = 1 // 0\n", 12, "ZeroDivisionError"),
    ],
)
def test_a_file_that_does_not_run_names_the_line(
    compile_scale: Callable[..., BuildResult], text: str, line: int, what: str
) -> None:
    error = failure(compile_scale, text)

    assert (error.where or "").endswith(f"kernel.py:{line}")
    assert what in error.what


HOST_CODE = """
import torch
import torch.nn.functional as F
from torch import Tensor, nn

FP8_MAX = torch.finfo(torch.float8_e4m3fn).max
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
WIDE = torch.__version__ >= "2.4"
if hasattr(torch, "compile") and torch.version.hip is not None:
    SMS = torch.cuda.get_device_properties(0).multi_processor_count * 2


class Scale(torch.autograd.Function):
    @staticmethod
    @torch.amp.custom_fwd(device_type="cuda")
    def forward(ctx, x: torch.Tensor, factor: float = 1.0) -> Tensor | None:
        y = torch.empty_like(x)
        scale[(1,)](x, y, x.numel(), 1, factor, BLOCK=256)
        return y


@torch.no_grad()
def reference(x: Tensor) -> "torch.Tensor":
    with torch.cuda.device(x.device):
        return F.relu(x) * 2
"""


@pytest.fixture
def without_torch(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    if importlib.util.find_spec("torch") is not None:
        pytest.skip("torch is installed here")


@pytest.mark.usefixtures("without_torch")
def test_host_code_that_uses_torch_does_not_need_it(compile_scale: Callable[..., BuildResult]) -> None:
    plain, with_host_code = compile_scale(), compile_scale(SCALE + HOST_CODE)

    assert with_host_code.code_object.kernels[0].code_bytes == plain.code_object.kernels[0].code_bytes


@pytest.mark.usefixtures("without_torch")
@pytest.mark.parametrize(
    ("text", "place", "what"),
    [
        (f"{SCALE}\n\nimport torch\nLIMIT = float(torch.finfo(torch.half).max)\n", "kernel.py:13", "is needed as a number"),
        ("import torch\n" + SCALE.replace("x * factor", "torch.relu(x)"), "kernel.py", "the kernel itself uses torch"),
    ],
)
def test_an_object_of_torch_in_a_kernel_is_an_error(
    compile_scale: Callable[..., BuildResult], text: str, place: str, what: str
) -> None:
    error = failure(compile_scale, text)

    assert (error.where or "").endswith(place)
    assert what in error.what
    assert "Install torch" in (error.hint or "")


def test_a_file_of_a_package_imports_its_neighbours(compile_scale: Callable[..., BuildResult], tmp_path: Path) -> None:
    text = SCALE.replace("import triton\n", "import triton\nfrom ..common import FACTOR\nfrom .near import LIMIT\n", 1)
    kernels = tmp_path / "project" / "kernels"
    kernels.mkdir(parents=True)
    for name, content in {"../__init__": "", "__init__": "", "../common": "FACTOR = 3\n", "near": "LIMIT = 4\n"}.items():
        (kernels / f"{name}.py").write_text(content)

    built = compile_scale(text, directory="project/kernels")

    assert built.code_object.kernels[0].name == "scale"


def test_a_failing_pass_of_the_compiler_names_the_line(compile_scale: Callable[..., BuildResult]) -> None:
    error = failure(compile_scale, SCALE.replace("x * factor", "x.to(tl.float64).to(tl.float8e5)"))

    assert (error.where or "").endswith("kernel.py:9")
    assert "Unsupported conversion" in error.what


def test_a_missing_entry_lists_the_kernels(compile_scale: Callable[..., BuildResult]) -> None:
    error = failure(compile_scale, entry="scales")

    assert "no @triton.jit function 'scales'" in error.what
    assert "scale" in (error.hint or "")


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"arguments": ARGUMENTS[:-1]}, "'factor' has no value"),
        ({"arguments": (*ARGUMENTS, TritonArgument("z", "scalar", "i32"))}, "no parameter 'z'"),
        ({"constexprs": {}}, "'BLOCK' has no value"),
        ({"constexprs": {"BLOCK": 256, "n": 5}}, "'n' is a constexpr"),
        ({"constexprs": {"BLOCK": "tl.float13"}}, "no 'float13'"),
        ({"options": {"warps": 4}}, "no option 'warps'"),
        ({"options": {"num_warps": 3}}, "power of 2"),
    ],
)
def test_names_and_options_that_do_not_exist_are_refused(
    compile_scale: Callable[..., BuildResult], changes: dict[str, Any], what: str
) -> None:
    assert what in failure(compile_scale, **changes).what


def test_a_tuned_kernel_is_taken_without_its_tuner(compile_scale: Callable[..., BuildResult]) -> None:
    tuner = "@triton.autotune([triton.Config({'BLOCK': 64})], key=['n'])\n@triton.jit"

    assert compile_scale(SCALE.replace("@triton.jit", tuner)).contract is not None


def test_without_triton_the_hint_is_to_install_it(
    compile_scale: Callable[..., BuildResult], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(triton_build, "_triton_version", lambda: None)

    error = failure(compile_scale)

    assert "Triton is not installed" in error.what
    assert "rocm-perf-lab[triton]" in (error.hint or "")


def test_a_damaged_cache_is_compiled_again(compile_scale: Callable[..., BuildResult], tmp_path: Path) -> None:
    first = compile_scale()
    shutil.rmtree(tmp_path / "cache" / "builds" / "objects")

    assert compile_scale().code_object.data == first.code_object.data


def test_a_launch_follows_what_triton_decided(tmp_path: Path) -> None:
    source = SCALE.partition("tl\n\n\n")[2]
    description, build = build_triton(
        source,
        tmp_path,
        entry="scale",
        params={"n": 1000, "block": 128, "stride": 1},
        constexprs={"BLOCK": "block * 2"},
        options={"num_warps": "block // 64"},
        arguments=[
            {"name": "factor", "kind": "scalar", "dtype": "f32", "value": 2.5},
            {"name": "stride", "kind": "scalar", "dtype": "i32", "value": "stride"},
            {"name": "n", "kind": "scalar", "dtype": "i32", "value": "n"},
            {"name": "y_ptr", "kind": "buffer", "dtype": "f32", "shape": ["n"], "access": "out"},
            {"name": "x_ptr", "kind": "buffer", "dtype": "f32", "shape": ["n"], "init": {"kind": "normal"}},
        ],
    )
    launch = build_launch(description, build.code_object, "scale", build.contract)

    assert [a.name for a in launch.arguments[:4]] == ["x_ptr", "y_ptr", "n", "factor"]
    assert all(isinstance(a, ScalarValue) and a.encoded == bytes(8) for a in launch.arguments[4:])
    assert len(launch.arguments) == len(build.code_object.kernels[0].arguments)
    assert launch.block == (128, 1, 1)
