"""Discovery of PC samples and choice of the reader: `find_pc_samples(directory)`, `read_pc_samples(path)`.

Files are recognised by content, tables in CSV also by name.
"""

from __future__ import annotations

import re
from contextlib import closing
from typing import TYPE_CHECKING

from rocm_perf_lab.rocprof.dialects import UNREADABLE, DatabaseError, names_in, open_read_only
from rocm_perf_lab.rocprof.finding import begins_as_sqlite
from rocm_perf_lab.rocprof.json_files import is_results
from rocm_perf_lab.rocprof.pc_samples import PcSamplesError, no_samples
from rocm_perf_lab.rocprof.pc_samples_csv import is_samples_csv, read_csv
from rocm_perf_lab.rocprof.pc_samples_json import has_samples, read_json
from rocm_perf_lab.rocprof.pc_samples_rocpd import has_sample_tables, read_rocpd
from rocm_perf_lab.rocprof.pc_samples_view import read_view

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from rocm_perf_lab.rocprof.pc_samples import PcSampling

_VIEW_FLAG = re.compile(rb'"pc_sampling"\s*:\s*true')
_VIEW_COLUMN = re.compile(rb'"(?:PC_)?Issued"|\bIssued\b')


def has_pc_samples(path: Path) -> bool:
    """Return True if a file, or a directory with code.json, contains PC samples; unreadable ones do not."""
    try:
        if path.is_dir():
            return _is_sampled_view(path)
        if path.name.endswith((".csv", ".csv.gz")):
            return is_samples_csv(path)
        if begins_as_sqlite(path):
            with closing(open_read_only(path)) as connection:
                tables = has_sample_tables(names_in(connection))
            return tables and bool(read_rocpd(path))
        return is_results(path) and has_samples(path)
    except (OSError, DatabaseError, *UNREADABLE):
        return False


def find_pc_samples(path: Path) -> tuple[Path, ...]:
    """Return the files and view directories with PC samples at or below a path.

    One recording in several formats counts once: JSON before databases before CSV, because they tell more about each sample.
    """
    if not path.is_dir():
        return (path,) if has_pc_samples(path) else ()
    views = sorted({code.parent for code in path.rglob("code.json") if _is_sampled_view(code.parent)})
    skipped = {file for directory in views for file in directory.iterdir()}
    files = [file for file in sorted(path.rglob("*")) if file.is_file() and file not in skipped and has_pc_samples(file)]
    return (*one_per_recording(files), *views)


def one_per_recording(files: Iterable[Path]) -> tuple[Path, ...]:
    """Return the most detailed file of each recording."""
    chosen: dict[Path, Path] = {}
    for file in sorted(files, key=lambda file: (_rank(file), file)):
        chosen.setdefault(_recording(file), file)
    return tuple(sorted(chosen.values()))


def read_pc_samples(path: Path) -> tuple[PcSampling, ...]:
    """Return the PC samples of one file, or of one directory with code.json; one value per process and method.

    Raises:
        LabError: The file is unreadable, damaged or of another format.
        PcSamplesError: It contains no samples.
    """
    if path.is_dir():
        return (read_view(path),)
    if not path.exists():
        raise PcSamplesError("no such file", where=str(path), hint="check the path")
    if begins_as_sqlite(path):
        found = read_rocpd(path)
    elif path.name.endswith((".csv", ".csv.gz")):
        found = [read_csv(path)]
    elif path.name == "code.json":
        return (read_view(path.parent),)
    else:
        found = read_json(path)
    if not any(sampling.samples or sampling.undecoded for sampling in found):
        raise no_samples(path)
    return tuple(found)


def _is_sampled_view(directory: Path) -> bool:
    """Return True if code.json has columns of samples; filenames.json may be missing or say so."""
    names, code = directory / "filenames.json", directory / "code.json"
    try:
        if names.is_file() and _VIEW_FLAG.search(names.read_bytes()):
            return code.is_file()
        return code.is_file() and _VIEW_COLUMN.search(code.read_bytes()) is not None
    except OSError:
        return False


def _rank(file: Path) -> int:
    if file.suffix == ".csv" or file.name.endswith(".csv.gz"):
        return 2
    return 1 if begins_as_sqlite(file) else 0


def _recording(file: Path) -> Path:
    """Return the common prefix of the files of one process: `out` of `out_results.json` and `out_pc_sampling_host_trap.csv`."""
    name = file.name.removesuffix(".gz").rpartition(".")[0]
    for ending in ("_results", "_pc_sampling_host_trap", "_pc_sampling_stochastic"):
        name = name.removesuffix(ending)
    return file.with_name(name)
