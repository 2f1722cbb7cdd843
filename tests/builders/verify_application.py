"""Stand-in for a compiler: SOURCE and BINARY in, an application out that runs its `scale` kernel on the emulator.

`./app N` prints the sum of N results; `./app N --quiet` prints a line that does not depend on the kernel.
"""

from __future__ import annotations

import sys
from pathlib import Path

REPOSITORY = Path(__file__).parents[2]
APPLICATION = """#!{python}
import sys
sys.path.insert(0, {repository!r})
from tests.builders.verify_application import computed
n = int(sys.argv[1])
if "--quiet" in sys.argv:
    print("done")
elif "--fail" in sys.argv:
    sys.exit("no input file")
else:
    print("sum", computed({source!r}, n))
"""


def computed(source: str, n: int) -> float:
    """Return the sum of `n` results of the kernel in a source."""
    import numpy as np

    from rocm_perf_lab.emulator.machine import EmulatedGpu
    from rocm_perf_lab.target.catalog import load_target
    from rocm_perf_lab.toolchain.build import CompileRequest, compile_source

    code = compile_source(CompileRequest(source=Path(source), architecture="gfx942")).code_object
    with EmulatedGpu(load_target("mi300x"), max_instructions=10_000_000) as machine:
        x, y = (machine.allocate(name, 4 * n) for name in "xy")
        machine.write(x, np.arange(n, dtype=np.float32))
        machine.write(y, np.zeros(n, dtype=np.float32))
        machine.launch(machine.load(code), "scale", (-(-n // 64), 1, 1), (64, 1, 1), [x, y, n.to_bytes(4, "little")])
        return float(np.frombuffer(machine.read(y), np.float32).sum())


if __name__ == "__main__":
    made, binary = sys.argv[1:]
    if "REFUSE_TO_BUILD" in Path(made).read_text():
        sys.exit("this compiler does not like it")
    Path(binary).write_text(APPLICATION.format(python=sys.executable, repository=str(REPOSITORY), source=made))
    Path(binary).chmod(0o755)
