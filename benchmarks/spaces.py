"""How long a space takes to enumerate: a million combinations under ten constraints, `python -m benchmarks.spaces`."""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

from rocm_perf_lab.autotune.enumeration import build_space
from rocm_perf_lab.autotune.space_description import describe
from rocm_perf_lab.core.files import write_text

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
    """Time it, the best of three, and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.spaces", description=__doc__)
    parser.add_argument("--json", type=Path, help="write the figures here")
    options = parser.parse_args(arguments)
    seconds = []
    for _ in range(3):
        start = time.perf_counter()
        space = build_space(describe(_SPACE, where="benchmark"))
        seconds.append(time.perf_counter() - start)
    figures = {"combinations": space.combinations, "constraints": 10, "valid": len(space), "seconds": min(seconds)}
    print(
        ", ".join(f"{name} {value:,.3g}" if isinstance(value, float) else f"{name} {value:,}" for name, value in figures.items())
    )
    if options.json:
        write_text(options.json, json.dumps(figures, indent=2) + "\n")


if __name__ == "__main__":
    main()
