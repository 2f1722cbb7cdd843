"""Imports point down only; heavy libraries load late; Hydra and MLflow each have one door."""

from __future__ import annotations

import ast
import sys
from dataclasses import dataclass
from graphlib import TopologicalSorter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

REPOSITORY = Path(__file__).parent.parent
PACKAGE = REPOSITORY / "rocm_perf_lab"

LAYERS = (
    {"target"},
    {"emulator", "toolchain", "rocprof"},
    {"device"},
    {"profiling"},
    {"analysis"},
    {"autotune", "optimize", "replay", "report", "tracking"},
    {"jobs"},
)
"""Lowest first. Packages of one layer may use each other as long as no circle arises."""
LEVEL = {package: level for level, packages in enumerate(LAYERS) for package in packages}
SHARED = {"components", "errors", "expressions", "files", "interrupts", "resources", "sealed_model"}
"""Modules beside the packages that every layer may use, and that use no package."""
CONFIG = {"config", "config_errors", "config_run", "config_schema"}
DOORS = {
    "__main__",
    "autotune_words",
    "cli",
    "cli_autotune",
    "cli_optimize",
    "cli_replay",
    "command_words",
    "composition",
    "entry",
}
"""Where the lab is entered: nothing imports them but each other."""
FOREIGN = {
    "rocm_perf_lab/languages/triton_worker.py": {"triton"},
    "rocm_perf_lab/device/hip_harness.py": set[str](),
    "rocm_perf_lab/toolchain/sandbox_child.py": set[str](),
}
"""Programs of their own, which run other people's code: what they may import beyond the standard library."""
HEAVY = {"llvmlite", "matplotlib", "mlflow", "pandas", "sklearn", "tinygrad", "triton"}


@dataclass(frozen=True)
class Import:
    """One imported module; `late`: inside a function, or for type checkers only."""

    file: str
    line: int
    module: str
    late: bool

    @property
    def library(self) -> str:
        """`mlflow` of `mlflow.entities`."""
        return self.module.partition(".")[0]

    @property
    def room(self) -> str:
        """The package or top module of the lab that is imported; empty for anything else."""
        lab, _, rest = self.module.partition(".")
        return rest.partition(".")[0] if lab == "rocm_perf_lab" else ""

    @property
    def importer(self) -> str:
        """The package or top module of the lab that imports."""
        return Path(self.file).parts[1].removesuffix(".py")

    def __str__(self) -> str:
        return f"{self.file}:{self.line} imports {self.module}"


def imports_of(source: str, file: str) -> list[Import]:
    """Every import of a module, those of nested blocks included."""
    return list(_walk(ast.parse(source), file, late=False))


def _walk(node: ast.AST, file: str, *, late: bool) -> Iterator[Import]:
    if isinstance(node, ast.Import):
        yield from (Import(file, node.lineno, alias.name, late) for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        base = _absolute(node, file)
        # `from rocm_perf_lab import errors` names the module in its second half.
        names = [f"{base}.{alias.name}" for alias in node.names] if base == "rocm_perf_lab" else [base]
        yield from (Import(file, node.lineno, name, late) for name in names)
    elif isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
        for child in node.body:
            yield from _walk(child, file, late=True)
        for child in node.orelse:
            yield from _walk(child, file, late=late)
    else:
        inside = late or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        for inner in ast.iter_child_nodes(node):
            yield from _walk(inner, file, late=inside)


def _absolute(node: ast.ImportFrom, file: str) -> str:
    if not node.level:
        return node.module or ""
    folder = Path(file).parts[: -node.level]
    return ".".join([*folder, *([node.module] if node.module else [])])


def read_all() -> list[Import]:
    """The imports of the whole package."""
    files = sorted(PACKAGE.rglob("*.py"))
    return [i for path in files for i in imports_of(path.read_text(), str(path.relative_to(REPOSITORY)))]


ALL = read_all()


def test_every_module_of_the_lab_has_a_place() -> None:
    rooms = {
        path.stem if path.is_file() else path.name for path in PACKAGE.iterdir() if path.suffix == ".py" or _is_package(path)
    }

    assert rooms - {"__init__"} <= LEVEL.keys() | SHARED | CONFIG | DOORS


def _is_package(path: Path) -> bool:
    return (path / "__init__.py").is_file()


def test_imports_point_down_only() -> None:
    between = [i for i in ALL if i.importer in LEVEL and i.room in LEVEL]
    upward = [str(i) for i in between if LEVEL[i.room] > LEVEL[i.importer]]

    assert between
    assert upward == []


def test_packages_of_one_layer_do_not_form_a_circle() -> None:
    uses: dict[str, set[str]] = {package: set() for package in LEVEL}
    for i in ALL:
        if i.importer in LEVEL and i.room in LEVEL and i.room != i.importer:
            uses[i.importer].add(i.room)

    TopologicalSorter(uses).prepare()  # raises CycleError, which names the circle


def test_what_every_layer_may_use_uses_no_layer() -> None:
    wrong = [str(i) for i in ALL if i.importer in SHARED and i.room and i.room not in SHARED]

    assert wrong == []


def test_only_jobs_know_the_whole_configuration_and_nothing_imports_the_doors() -> None:
    config = [str(i) for i in ALL if i.room in CONFIG and i.importer not in {"jobs"} | CONFIG | DOORS]
    doors = [str(i) for i in ALL if i.room in DOORS and i.importer not in DOORS]

    assert config == []
    assert doors == []


def test_only_the_entry_and_the_configuration_know_hydra() -> None:
    wrong = [str(i) for i in ALL if i.library in ("hydra", "omegaconf") and i.importer not in {"entry"} | CONFIG]

    assert wrong == []


def test_only_tracking_knows_mlflow() -> None:
    assert [str(i) for i in ALL if i.library == "mlflow" and i.importer != "tracking"] == []


def test_heavy_libraries_load_inside_the_function_that_needs_them() -> None:
    assert [str(i) for i in ALL if i.library in HEAVY and not i.late] == []


@pytest.mark.parametrize(("file", "allowed"), FOREIGN.items())
def test_programs_of_their_own_carry_nothing_of_the_lab(file: str, allowed: set[str]) -> None:
    libraries = {i.library for i in ALL if i.file == file}

    assert libraries
    assert libraries - set(sys.stdlib_module_names) <= allowed


@pytest.mark.parametrize(
    ("source", "module", "late"),
    [
        ("import mlflow.entities", "mlflow.entities", False),
        ("try:\n    from triton import jit\nexcept ImportError:\n    pass", "triton", False),
        ("class A:\n    import pandas", "pandas", False),
        ("def f():\n    import mlflow", "mlflow", True),
        ("if TYPE_CHECKING:\n    import mlflow", "mlflow", True),
        ("if TYPE_CHECKING:\n    pass\nelse:\n    import mlflow", "mlflow", False),
        ("from rocm_perf_lab import errors", "rocm_perf_lab.core.errors", False),
        ("from .store import x", "rocm_perf_lab.tracking.store", False),
        ("from ..jobs import lab", "rocm_perf_lab.jobs", False),
    ],
)
def test_imports_are_found_wherever_they_stand(source: str, module: str, late: bool) -> None:
    assert [(i.module, i.late) for i in imports_of(source, "rocm_perf_lab/tracking/module.py")] == [(module, late)]
