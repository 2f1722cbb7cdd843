"""Outputs of the programs under AMD's runtime, which tests compare: `python -m benchmarks.applications.outputs [NAME...]`.

Needs the tree of `make rocm-root`; writes `outputs.json` next to this file.
"""

from __future__ import annotations

import argparse
import json
import sys

from benchmarks.applications.measures import Run
from benchmarks.applications.programs import SOURCES, all_programs
from rocm_perf_lab.core.files import write_text
from rocm_perf_lab.runtime.rocm_root import rocm_root_dir

_FILE = SOURCES / "outputs.json"


def recorded_outputs() -> dict[str, str]:
    """Return the standard output of each program under AMD's runtime, by program name."""
    outputs: dict[str, str] = json.loads(_FILE.read_text(encoding="utf-8"))
    return outputs


def main(arguments: list[str] | None = None) -> None:
    """Run programs under AMD's runtime, and record their outputs; exit code 1 if one failed, whose output stays as it was."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.applications.outputs")
    parser.add_argument("programs", nargs="*", metavar="NAME", help="programs to run; default: all")
    names = parser.parse_args(arguments).programs
    root = rocm_root_dir()
    outputs = recorded_outputs() if _FILE.exists() else {}
    failed = []
    for program in all_programs():
        if names and program.name not in names:
            continue
        run = Run.of(program.rocm_command(root, program.rocm_executable(root)))
        if run.exit_code == 0:
            outputs[program.name] = run.output
        else:
            failed.append(program.name)
            print(f"{program.name}: exit code {run.exit_code}\n{run.errors}", file=sys.stderr)
    write_text(_FILE, json.dumps(dict(sorted(outputs.items())), indent=1, ensure_ascii=False) + "\n")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
