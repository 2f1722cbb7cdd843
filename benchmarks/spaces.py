"""Enumeration time of a search space of a million combinations with ten constraints: `python -m benchmarks.spaces`."""

from __future__ import annotations

import argparse
import time

from benchmarks.figures import Figure, Publisher
from rocm_perf_lab.autotune.enumeration import build_space
from rocm_perf_lab.autotune.space_description import describe

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


def main(arguments: list[str] | None = None) -> None:
    """Enumerate three times, print and write the fastest."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.spaces", description=__doc__)
    publisher = Publisher("spaces", parser, arguments)
    seconds = []
    for _ in range(3):
        start = time.perf_counter()
        space = build_space(describe(_SPACE, where="benchmark"))
        seconds.append(time.perf_counter() - start)
    data = {"combinations": space.combinations, "constraints": 10, "valid": len(space), "seconds": min(seconds)}
    name = f"enumeration of {space.combinations:,} combinations under 10 constraints, {len(space):,} valid"
    publisher.publish_figures("search space", [Figure("enumeration", name, f"{min(seconds):.2f} s")], data)


if __name__ == "__main__":
    main()
