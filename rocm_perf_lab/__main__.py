"""`python -m rocm_perf_lab`: compose -> validate -> run the job."""

from __future__ import annotations

import sys

from rocm_perf_lab.cli.entry import run_lab


def main() -> None:
    """Entry point; never returns."""
    sys.exit(run_lab(sys.argv[1:]))


if __name__ == "__main__":
    main()
