"""`python -m rocm_perf_lab`: compose and validate the configuration, then run its job."""

from __future__ import annotations

import sys

from rocm_perf_lab.cli.entry import run_lab


def main() -> None:
    """Run the command line and exit."""
    sys.exit(run_lab(sys.argv[1:]))


if __name__ == "__main__":
    main()
