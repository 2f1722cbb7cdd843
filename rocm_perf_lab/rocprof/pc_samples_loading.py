"""PC samples of a whole recording: every file that contains some, each run once, with the code of saved code objects."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rocm_perf_lab.rocprof.pc_samples_code import saved_code_objects, with_code
from rocm_perf_lab.rocprof.pc_samples_reader import has_pc_samples, one_per_recording, read_pc_samples

if TYPE_CHECKING:
    from rocm_perf_lab.rocprof.discovery import Recording
    from rocm_perf_lab.rocprof.pc_samples import PcSampling


def load_pc_samples(files: Recording) -> tuple[tuple[PcSampling, ...], tuple[str, ...]]:
    """Return the PC samples of a recording, largest first, and notes on code objects that were not readable.

    Raises:
        LabError: A file with samples is damaged.
    """
    others = [path for path in (*files.json_results, *files.databases) if has_pc_samples(path)]
    views = [path for path in (*files.pc_samples, *files.thread_traces) if path.is_dir() and has_pc_samples(path)]
    tables = [path for path in files.pc_samples if not path.is_dir()]
    found = [sampling for path in (*one_per_recording([*others, *tables]), *views) for sampling in read_pc_samples(path)]
    if not found:
        return (), ()
    code_objects, notes = saved_code_objects(files.code_objects)
    completed = [with_code(sampling, code_objects) for sampling in found]
    return tuple(sorted(completed, key=lambda sampling: (-sampling.samples, str(sampling.path)))), notes
