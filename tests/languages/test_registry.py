"""Languages by name, and a language that is added from outside the package."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from pydantic import ValidationError

from rocm_perf_lab.device.emulator import EmulatorDevice
from rocm_perf_lab.languages.description import KernelDescription
from rocm_perf_lab.languages.hip import HipLanguage
from rocm_perf_lab.languages.language import CompileSettings, Language
from rocm_perf_lab.languages.registry import UnknownLanguage, find_language, language_names
from tests.builders.targets import mi300x
from tests.builders.triton_kernels import launch_of

if TYPE_CHECKING:
    from pathlib import Path

    from rocm_perf_lab.languages.spec import KernelSpec
    from rocm_perf_lab.toolchain.build import BuildResult

BASE: dict[str, Any] = {"name": "k", "source": "k.hip", "entry": "k", "arguments": [], "grid": [1], "block": [64]}


class ElementwiseLanguage(Language):
    """One line per kernel, for example `scale: out = factor * x`; every name is an argument of the kernel."""

    name = "elementwise"
    fields = frozenset({"block"})

    def compile(self, kernel: KernelSpec, source: Path, settings: CompileSettings) -> BuildResult:
        """Translate the line to HIP and compile that."""
        entry, _, formula = source.read_text().strip().partition(": ")
        parameters, elements = [], formula
        for argument in kernel.arguments:
            is_buffer = argument.kind == "buffer"
            parameters.append(f"float{'*' if is_buffer else ''} {argument.name}")
            elements = elements.replace(argument.name, f"{argument.name}[i]") if is_buffer else elements
        generated = source.with_suffix(".hip")
        generated.write_text(
            f'#include <hip/hip_runtime.h>\nextern "C" __global__ void {entry}({", ".join(parameters)}) '
            f"{{ int i = blockIdx.x * blockDim.x + threadIdx.x; {elements}; }}\n"
        )
        return HipLanguage().compile(kernel, generated, settings)


def scale(directory: Path, language: str) -> KernelDescription:
    (directory / "scale.txt").write_text("scale: out = factor * x\n")
    buffers = [
        {"name": "x", "kind": "buffer", "dtype": "f32", "shape": [128], "init": {"kind": "normal", "seed": 1}},
        {"name": "out", "kind": "buffer", "dtype": "f32", "shape": [128], "access": "out"},
        {"name": "factor", "kind": "scalar", "dtype": "f32", "value": 3},
    ]
    values = {"source": "scale.txt", "entry": "scale", "arguments": buffers, "grid": [2], "language": language}
    return KernelDescription.model_validate({**BASE, **values, "directory": directory})


def test_a_language_of_a_user_compiles_and_runs(tmp_path: Path) -> None:
    launch = launch_of(scale(tmp_path, f"{__name__}.ElementwiseLanguage"))
    x = next(value.data for value in launch.arguments if value.name == "x" and hasattr(value, "data"))

    run = EmulatorDevice(target=mi300x()).run(launch, database=tmp_path / "run.db", runs=1, counters=())

    np.testing.assert_array_equal(run.outputs["out"], 3 * x)


def test_an_installed_language_is_found_by_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    information = tmp_path / "elementwise-1.0.dist-info"
    information.mkdir()
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: elementwise\nVersion: 1.0\n")
    entry = f"[rocm_perf_lab.languages]\nelementwise_installed = {__name__}:ElementwiseLanguage\n"
    (information / "entry_points.txt").write_text(entry)
    monkeypatch.syspath_prepend(str(tmp_path))

    assert scale(tmp_path, "elementwise_installed").language == "elementwise_installed"
    assert type(find_language("elementwise_installed")).__name__ == "ElementwiseLanguage"
    assert language_names() == ("hip", "hiprtc", "triton", "assembly", "elementwise_installed")


@pytest.mark.parametrize("name", ["hip", "hiprtc", "triton", "assembly"])
def test_a_built_in_language_is_found_by_its_name(name: str) -> None:
    assert find_language(name).name == name


@pytest.mark.parametrize(
    ("name", "message", "hint"),
    [
        ("hipp", "unknown language 'hipp'", "did you mean hip?"),
        ("fortran", "unknown language 'fortran'", "languages: hip, hiprtc, triton, assembly"),
        ("no_such_module.Language", "cannot import the language 'no_such_module.Language'", "PYTHONPATH"),
        (f"{__name__}.Missing", "cannot import the language", "PYTHONPATH"),
        (f"{__name__}.scale", "is not a language", "derived from"),
    ],
)
def test_a_wrong_name_is_an_error_with_a_hint(name: str, message: str, hint: str) -> None:
    with pytest.raises(UnknownLanguage, match=message) as caught:
        find_language(name)

    assert caught.value.hint is not None
    assert hint in caught.value.hint


def test_a_wrong_name_is_an_error_of_the_description() -> None:
    with pytest.raises(ValidationError, match="unknown language 'hipp'") as caught:
        KernelDescription.model_validate({**BASE, "language": "hipp"})

    assert caught.value.errors()[0]["loc"] == ("language",)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"language": "triton", "block": [], "defines": {"A": 1}}, "a kernel in triton cannot have defines"),
        ({"language": "triton"}, "a kernel in triton cannot have block"),
        ({"options": {"num_warps": 4}}, "a kernel in hip cannot have options"),
        ({"language": "hiprtc", "host_headers": ["a.h"]}, "a kernel in hiprtc cannot have host_headers"),
        ({"language": "assembly", "constexprs": {"A": 1}}, "a kernel in assembly cannot have constexprs"),
        ({"block": []}, "block is missing"),
        ({"language": f"{__name__}.ElementwiseLanguage", "flags": ["-g"]}, "a kernel in elementwise cannot have flags"),
    ],
)
def test_fields_of_another_language_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        KernelDescription.model_validate({**BASE, **changes})


def test_only_hip_has_a_syntax_tree_for_rewrites() -> None:
    names = ("hip", "hiprtc", "triton", "assembly")

    assert [name for name in names if find_language(name).rewritable] == ["hip", "hiprtc"]
