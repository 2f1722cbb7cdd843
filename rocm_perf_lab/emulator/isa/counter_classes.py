"""Increments of SQ counters by one execution of an instruction by one wavefront."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rocm_perf_lab.emulator.isa.issue import vector_quads

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rocm_perf_lab.emulator.isa.instruction import Instruction

CLOCKS_PER_QUAD = 4
OPERATIONS_PER_MOP = 512
"""Unit of SQ_INSTS_VALU_MFMA_MOPS_*, in operations."""
_MATRIX_SHAPE = re.compile(r"_(\d+)X(\d+)X(\d+)(?:_(\d+)B)?")


def counter_increments(instruction: Instruction) -> Mapping[str, int]:
    """Return the increments by counter name for one wavefront, including SQ_INSTS."""
    increments = {"SQ_INSTS": 1}
    classes, counter_set = _classes(), instruction.isa.counter_set
    for rows in classes.lists:
        for encoding, mnemonic, names in rows:
            if encoding.fullmatch(instruction.encoding) and mnemonic.search(instruction.mnemonic):
                increments |= {name: 1 for name in names if classes.has(counter_set, name)}
                break
    if instruction.is_matrix:
        increments |= _matrix_operations(instruction, increments)
        increments["SQ_VALU_MFMA_BUSY_CYCLES"] = CLOCKS_PER_QUAD * vector_quads(instruction)
    if instruction.fields.get("nt"):
        increments["nontemporal_accesses"] = 1
    return increments


def counter_names(counter_set: str) -> frozenset[str]:
    """Return every counter that an instruction can increment; a kernel that does not increment one has zero there."""
    classes = _classes()
    listed = {name for rows in classes.lists for _, _, names in rows for name in names if classes.has(counter_set, name)}
    kinds = {name.rpartition("_")[2] for name in listed if name.startswith("SQ_INSTS_VALU_MFMA_")}
    others = {"SQ_INSTS", "SQ_VALU_MFMA_BUSY_CYCLES", "nontemporal_accesses"}
    return frozenset(others | listed | {f"SQ_INSTS_VALU_MFMA_MOPS_{kind}" for kind in kinds})


def _matrix_operations(instruction: Instruction, increments: Mapping[str, int]) -> dict[str, int]:
    shape = _MATRIX_SHAPE.search(instruction.mnemonic)
    kind = next((n.rpartition("_")[2] for n in increments if n.startswith("SQ_INSTS_VALU_MFMA_")), None)
    if shape is None or kind is None:
        return {}
    m, n, k, blocks = (int(size or 1) for size in shape.groups())
    return {f"SQ_INSTS_VALU_MFMA_MOPS_{kind}": 2 * m * n * k * blocks // OPERATIONS_PER_MOP}


@dataclass(frozen=True)
class _Classes:
    """Lists of rows (encoding, mnemonic, counters), and the counter sets of counters that others lack."""

    lists: tuple[tuple[tuple[re.Pattern[str], re.Pattern[str], list[str]], ...], ...]
    only: Mapping[str, tuple[str, ...]]

    def has(self, counter_set: str, name: str) -> bool:
        return name not in self.only or counter_set in self.only[name]


@cache
def _classes() -> _Classes:
    import yaml

    tables: dict[str, Any] = yaml.safe_load(Path(__file__).with_name("counter_classes.yaml").read_text())
    only = {name: tuple(sets.split()) for name, sets in tables.pop("only").items()}
    lists = (
        tuple((re.compile(encoding), re.compile(mnemonic), names) for encoding, mnemonic, names in rows)
        for rows in tables.values()
    )
    return _Classes(tuple(lists), only)
