"""Architecture names decide nothing outside `rocm_perf_lab/arch`: the package's syntax trees are searched for them."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from rocm_perf_lab.arch.registry import architectures

if TYPE_CHECKING:
    from collections.abc import Iterator

PACKAGE = Path(__file__).parent.parent.parent / "rocm_perf_lab"
ARCHITECTURE = re.compile(r"gfx[1-9][0-9a-f]*|(gfx)?[cr]dna-?[0-9]|mi[0-9]{3}[a-z]?")
VERSIONS = {one.gfx_target_version for one in architectures().values()}
"""Numbers that stand for an architecture."""
PREDICATES = {"startswith", "endswith", "removeprefix", "get", "index", "count"}


def conditions(source: str) -> Iterator[ast.Constant]:
    """Yield constants with names or version numbers of architectures that a program compares, looks up or matches."""
    for node in ast.walk(ast.parse(source)):
        for part in _deciding(node):
            if isinstance(part, ast.Constant) and _names_architecture(part.value):
                yield part


def _deciding(node: ast.AST) -> list[ast.AST]:
    """Return the parts of a node whose value decides something."""
    match node:
        case ast.Compare():
            return [node.left, *node.comparators]
        case ast.Dict():
            return [key for key in node.keys if key is not None]
        case ast.Set() | ast.Tuple() | ast.List():
            return list(node.elts)
        case ast.Call(func=ast.Attribute(attr=name)) if name in PREDICATES:
            return list(node.args)
        case ast.Subscript():
            return [node.slice]
        case ast.MatchValue():
            return [node.value]
        case _:
            return []


def _names_architecture(value: object) -> bool:
    if isinstance(value, int):
        return value in VERSIONS
    return isinstance(value, str) and ARCHITECTURE.fullmatch(value) is not None


@pytest.mark.parametrize(
    "source",
    [
        "if name == 'gfx942': pass",
        "name in ('gfx90a', 'gfx94')",
        "name.startswith('gfx9')",
        "SIZES = {'gfx950': 160}",
        "SIZES['cdna3']",
        "KINDS = ['rdna2']",
        "match name:\n    case 'gfx1030': pass",
        "if target.gfx_target_version == 90402: pass",
    ],
)
def test_a_condition_on_an_architecture_is_found(source: str) -> None:
    assert list(conditions(source))


@pytest.mark.parametrize("source", ["def f(name: str = 'gfx942') -> None: ...", "print('compile for gfx942')", "load('mi300x')"])
def test_defaults_and_messages_are_allowed(source: str) -> None:
    assert not list(conditions(source))


def test_no_condition_outside_arch_names_an_architecture() -> None:
    files = [path for path in sorted(PACKAGE.rglob("*.py")) if "arch" not in path.relative_to(PACKAGE).parts[:1]]
    found = [
        f"{path.relative_to(PACKAGE)}:{constant.lineno}: {constant.value!r}"
        for path in files
        for constant in conditions(path.read_text(encoding="utf-8"))
    ]

    assert files
    assert found == []


@pytest.mark.parametrize("suffix", [".c", ".h", ".hip", ".cpp", ".j2"])
def test_no_source_for_compilers_tests_for_an_architecture(suffix: str) -> None:
    found = [
        f"{path.relative_to(PACKAGE)}: {line}"
        for path in sorted(PACKAGE.rglob(f"*{suffix}"))
        for line in path.read_text(encoding="utf-8").splitlines()
        if re.search(r"__gfx\w+__|__GFX\w+__", line)
    ]

    assert found == []
