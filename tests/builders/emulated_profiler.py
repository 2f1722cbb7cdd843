"""A rocprofv3 for tests, which runs its application inside a ROCm root and records it on an emulated GPU.

It accepts the options of `rocm_perf_lab.device.rocm` and writes the databases of `rocm-perf profile`.
"""

from __future__ import annotations

import shlex
import stat
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from rocm_perf_lab.runtime.application import ApplicationRun, DriverOptions, run_application
from rocm_perf_lab.runtime.emulated_gpus import emulated_gpus
from rocm_perf_lab.runtime.recorder import DispatchRecorder
from rocm_perf_lab.target.catalog import load_target

if TYPE_CHECKING:
    from collections.abc import Sequence

REPOSITORY = Path(__file__).parents[2]
_PROGRAM = """#!{python}
import sys
sys.path.insert(0, {repository!r})
from tests.builders.emulated_profiler import main
sys.exit(main(sys.argv[1:], {root!r}))
"""


def write_profiler(directory: Path, root: Path) -> Path:
    """Write the program `rocprofv3` for a ROCm root, and return it."""
    program = directory / "rocprofv3"
    program.write_text(_PROGRAM.format(python=sys.executable, repository=str(REPOSITORY), root=str(root)))
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return program


def main(words: Sequence[str], root: str) -> int:
    """Run the application after `--`; return its exit code."""
    if list(words) == ["--version"]:
        print("version: 1.1.0")
        return 0
    split = words.index("--")
    options, command = list(words[:split]), tuple(words[split + 1 :])
    directory = Path(options[options.index("-d") + 1])
    directory.mkdir()
    target = load_target("mi300x")
    recorder = DispatchRecorder(target, 1, directory, _counters(options), shlex.join(command))
    run = ApplicationRun(command, emulated_gpus(target, 1), DriverOptions(2), Path(root), recorder=recorder)
    return run_application(run).end.exit_code


def _counters(options: list[str]) -> list[str]:
    if "--pmc" not in options:
        assert "--kernel-trace" in options, options
        return []
    following = options[options.index("--pmc") + 1 :]
    return following[: next(index for index, word in enumerate(following) if word.startswith("-"))]
