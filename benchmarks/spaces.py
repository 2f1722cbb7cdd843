"""Search spaces with many combinations: `python -m benchmarks.spaces`.

One with a million combinations, which is enumerated, and one with 10^12, which is searched without enumeration.
"""

from __future__ import annotations

import argparse
import resource
import statistics
import time

import numpy as np

from benchmarks.figures import Figure, Publisher
from rocm_perf_lab.autotune.blas import one_thread
from rocm_perf_lab.autotune.lazy_search import LazySearch
from rocm_perf_lab.autotune.spaces.enumeration import build_space
from rocm_perf_lab.autotune.spaces.lazy_space import LazySpace
from rocm_perf_lab.autotune.spaces.space_description import describe
from rocm_perf_lab.autotune.strategy import Observations

_POWERS = [2**i for i in range(10)]
_SPACE = {
    "parameters": {
        "tile_m": _POWERS,
        "tile_n": _POWERS,
        "tile_k": _POWERS,
        "threads_m": _POWERS,
        "threads_n": _POWERS,
        "vector": [1, 2, 4, 8, 16],
        "stages": [1, 2],
    },
    "derived": {
        "threads": "threads_m * threads_n",
        "lds_bytes": "2 * (tile_m + tile_n) * tile_k * stages",
        "accumulators": "tile_m * tile_n // threads",
    },
    "constraints": [
        "threads <= 1024",
        "threads % 64 == 0",
        "lds_bytes <= 65536",
        "1 <= accumulators <= 256",
        "tile_m % threads_m == 0",
        "tile_n % threads_n == 0",
        "tile_k % vector == 0",
        "tile_m >= 16 and tile_n >= 16",
        "vector * 2 <= 16",
        "stages == 1 or tile_k >= 16",
    ],
}


_CODES = [2**i for i in range(10)]
_HUGE = {
    "parameters": dict.fromkeys(("tm", "tn", "tk", "bm", "bn", "wm", "wn", "vm", "vn", "vk", "unroll", "stages"), _CODES),
    "derived": {
        "threads": "wm * wn",
        "lds_bytes": "2 * (tm + tn) * tk * min(stages, 4)",
        "accumulators": "tm * tn // threads",
    },
    "constraints": [
        "threads <= 1024",
        "threads % 64 == 0",
        "lds_bytes <= 65536",
        "accumulators >= 1",
        "accumulators <= 256",
        "tm % wm == 0",
        "tn % wn == 0",
        "tk % vk == 0",
        "vm <= 8",
        "vn <= 8",
        "vk <= 16",
        "tm >= 16",
        "tn >= 16",
        "stages <= 8",
        "unroll <= tk",
        "bm >= tm",
        "bn >= tn",
        "bm * bn <= 65536",
        "vm <= tm",
        "vn * vk <= 64",
    ],
}
_STEPS = 200


def main(arguments: list[str] | None = None) -> None:
    """Enumerate one space three times, search the other, print and write the times."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.spaces", description=__doc__)
    publisher = Publisher("spaces", parser, arguments)
    seconds = []
    for _ in range(3):
        start = time.perf_counter()
        space = build_space(describe(_SPACE, where="benchmark"))
        seconds.append(time.perf_counter() - start)
    huge = _search()
    data = {"combinations": space.combinations, "constraints": 10, "valid": len(space), "seconds": min(seconds), "huge": huge}
    name = f"enumeration of {space.combinations:,} combinations under 10 constraints, {len(space):,} valid"
    of = f"{huge['combinations']:.0e} combinations under 20 constraints, about {huge['valid']:.0e} valid"
    figures = [
        Figure("enumeration", name, f"{min(seconds):.2f} s"),
        Figure("start", f"{of}: processor time until the first step", f"{huge['start_s']:.2f} s", "2 s"),
        Figure("memory", "its memory, with Python and all libraries", f"{huge['memory_mib']:.0f} MiB", "500 MiB"),
        Figure("step", f"processor time of its steps, median of {_STEPS}", f"{huge['step_ms']:.0f} ms", "50 ms"),
        Figure("slowest", "processor time of its slowest step", f"{huge['slowest_step_ms']:.0f} ms", "50 ms"),
    ]
    publisher.publish_figures("search space", figures, data)


def _search() -> dict[str, float]:
    """Search the space that is not enumerated for a smooth function, and return times and memory."""
    start = time.process_time()
    space = build_space(describe(_HUGE, where="benchmark"))
    assert isinstance(space, LazySpace)
    strategy = LazySearch(space)
    begun = time.process_time() - start
    rows: list[int] = []
    times: list[float] = []
    steps: list[float] = []
    for _ in range(_STEPS):
        before = time.process_time()
        with one_thread():
            choice = strategy.choose(Observations(np.array(rows, np.int64), np.array(times)))
        steps.append(1e3 * (time.process_time() - before))
        assert choice is not None
        rows.append(choice.row)
        times.append(float(np.exp(0.01 * ((np.array(space.code_of(choice.row)) - 4.3) ** 2).sum())))
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {
        "combinations": space.combinations,
        "valid": len(space),
        "start_s": begun,
        "memory_mib": memory,
        "step_ms": statistics.median(steps),
        "slowest_step_ms": max(steps),
    }


if __name__ == "__main__":
    main()
