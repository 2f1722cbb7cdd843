"""Large shape of a kernel, recorded with the unmodified kernel."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rocm_perf_lab.verify.large_shapes import LargeShape
    from rocm_perf_lab.verify.sparse_pages import ChangedBytes, FinalPages, PageContents, Place
    from rocm_perf_lab.verify.sparse_run import SparseLaunch
    from rocm_perf_lab.verify.workgroup_map import WorkgroupMap


@dataclass
class RecordedShape:
    """Shape with the workgroups of the unmodified kernel, their changes, and the final content of changed pages.

    `owed` are the changes of the selected workgroups; `written` and `final` may also contain those of other workgroups.
    """

    shape: LargeShape
    name: str
    launch: SparseLaunch
    contents: PageContents
    workgroups: tuple[int, ...]
    written: dict[Place, ChangedBytes]
    final: FinalPages
    owed: Mapping[Place, ChangedBytes]
    writes: Mapping[int, Mapping[Place, ChangedBytes]]
    map: WorkgroupMap
    budget: int

    def is_reducing(self, name: str) -> bool:
        """Return whether an input has an axis that the output lacks, so that the output's elements may be sums over it."""
        output = {str(axis) for axis in self.launch.buffers[name].argument.shape}
        inputs = [b.argument for b in self.launch.buffers.values() if b.argument.access != "out"]
        return any(str(axis) not in output for argument in inputs for axis in argument.shape)
