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
    from collections.abc import Collection, Iterator

REPOSITORY = Path(__file__).parent.parent
PACKAGE = REPOSITORY / "rocm_perf_lab"

LAYERS = (
    {"core", "statistics"},
    {"arch"},
    {"target"},
    {"emulator", "toolchain", "rocprof", "languages"},
    {"device", "runtime"},
    {"profiling"},
    {"analysis", "verify"},
    {"autotune", "optimize", "replay", "report", "tracking"},
    {"config"},
    {"jobs"},
    {"api"},
    {"mcp"},
    {"cli", "__main__"},
)
"""Lowest first. Packages of one layer may use each other as long as no circle arises."""
LEVEL = {package: level for level, packages in enumerate(LAYERS) for package in packages}
FOREIGN = {
    "rocm_perf_lab/languages/triton_worker.py": {"triton"},
    "rocm_perf_lab/device/hip_harness.py": {"amdsmi"},
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
        # `from rocm_perf_lab import core` names the module in its second half.
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
    directory = Path(file).parts[: -node.level]
    return ".".join([*directory, *([node.module] if node.module else [])])


def read_all() -> list[Import]:
    """The imports of the whole package."""
    files = sorted(PACKAGE.rglob("*.py"))
    return [i for path in files for i in imports_of(path.read_text(), str(path.relative_to(REPOSITORY)))]


ALL = read_all()


def test_the_package_root_holds_packages_only() -> None:
    packages = {path.name for path in PACKAGE.iterdir() if (path / "__init__.py").is_file()}
    modules = {path.name for path in PACKAGE.glob("*.py")}

    assert modules == {"__init__.py", "__main__.py"}
    assert packages <= LEVEL.keys()


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


@pytest.mark.parametrize("root", ["rocm_perf_lab", "hydra_plugins", "benchmarks"])
def test_modules_do_not_import_each_other_in_a_circle(root: str) -> None:
    """Imports inside functions and for type checkers count: a circle is one design decision in several files."""
    files = {_module_of(path): path for path in (REPOSITORY / root).rglob("*.py")}
    uses = {name: _imported(path, files.keys()) - {name} for name, path in files.items()}

    TopologicalSorter(uses).prepare()


def _module_of(path: Path) -> str:
    return ".".join(path.relative_to(REPOSITORY).with_suffix("").parts).removesuffix(".__init__")


def _imported(path: Path, modules: Collection[str]) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = _absolute(node, str(path.relative_to(REPOSITORY)))
            submodules = {f"{base}.{alias.name}" for alias in node.names} & set(modules)
            # `from package import submodule` uses the submodule; a name that a package defines itself uses the package.
            names |= submodules or {base}
    return names & set(modules)


def test_a_public_class_name_exists_once() -> None:
    places: dict[str, list[str]] = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places.setdefault(node.name, []).append(str(path.relative_to(PACKAGE)))

    assert {name: files for name, files in places.items() if len(files) > 1} == {}


def test_only_the_configuration_and_the_entry_know_hydra() -> None:
    wrong = [str(i) for i in ALL if i.library in ("hydra", "omegaconf") and i.importer not in {"config", "cli"}]

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
        ("from rocm_perf_lab import core", "rocm_perf_lab.core", False),
        ("from .store import x", "rocm_perf_lab.tracking.store", False),
        ("from ..jobs import lab", "rocm_perf_lab.jobs", False),
    ],
)
def test_imports_are_found_wherever_they_stand(source: str, module: str, late: bool) -> None:
    assert [(i.module, i.late) for i in imports_of(source, "rocm_perf_lab/tracking/module.py")] == [(module, late)]
