"""Files of a recording that contain PC samples, each recording once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rocm_perf_lab.rocprof.pc_samples_reader import has_pc_samples, one_per_recording

if TYPE_CHECKING:
    from pathlib import Path

    from rocm_perf_lab.rocprof.discovery import Recording


def sampled_files(files: Recording) -> tuple[Path, ...]:
    """Return the files with PC samples, and the directories with samples in the form of the viewer.

    Of one recording in several formats the one that tells most is returned: JSON, else a database, else CSV.
    """
    results = [path for path in (*files.json_results, *files.databases) if has_pc_samples(path)]
    tables = [path for path in files.pc_samples if not path.is_dir()]
    views = [path for path in (*files.pc_samples, *files.thread_traces) if path.is_dir() and has_pc_samples(path)]
    return (*one_per_recording([*results, *tables]), *views)
