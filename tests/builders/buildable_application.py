"""A "compiler" for tests: SOURCE and BINARY in, an application out that runs its softmax kernel on the emulator.

The application prints a checksum of its output, and a line that differs in every run; under the stand-in profiler it
reports one dispatch of this source. SOURCE has to compile, as for a real build.
"""

from __future__ import annotations

import sys
from pathlib import Path

REPOSITORY = Path(__file__).parents[2]
APPLICATION = """#!{python}
import os, sys, time
sys.path.insert(0, {repository!r})
from tests.builders.rocprof_stand_in import DISPATCHES, launch
from tests.builders.buildable_application import computed
print("started", time.time_ns())
if DISPATCHES in os.environ:
    launch("softmax", source={source!r}, rows=8)
else:
    print("result", computed({source!r}))
    open("result.bin", "wb").write(bytes(range(200, 256)))
"""


def computed(source: str) -> str:
    """Return a checksum of the first two rows, to five digits."""
    import tempfile

    from rocm_perf_lab.device.emulator import EmulatorDevice
    from rocm_perf_lab.target.catalog import load_target
    from tests.builders.rocprof_stand_in import described

    prepared, _ = described("softmax", {"rows": 2}, source)
    with tempfile.TemporaryDirectory() as directory:
        device = EmulatorDevice(target=load_target("mi300x"))
        run = device.run(prepared, database=Path(directory) / "run.db", runs=1, counters=())
    values = run.outputs["output"]
    return " ".join(f"{float(v):.5g}" for v in (values.sum(), values.max(), values[1, ::512].sum()))


if __name__ == "__main__":
    made, binary = sys.argv[1:]
    if "void softmax_kernel" not in Path(made).read_text():
        sys.exit("no kernel to compile")
    Path(binary).write_text(APPLICATION.format(python=sys.executable, repository=str(REPOSITORY), source=made))
    Path(binary).chmod(0o755)
