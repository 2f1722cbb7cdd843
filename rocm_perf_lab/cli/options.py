"""Options shared by several commands."""

from __future__ import annotations

import click

DEBUG = click.option("--debug", is_flag=True, help="Print the traceback of an error.")
JSON = click.option("--json", "as_json", is_flag=True, help="Print only one JSON document.")
QUIET = click.option("--quiet", is_flag=True, help="Print only the runtime.")
KERNEL_REGEX = click.option(
    "--kernel", metavar="REGEX", help="Kernel to analyse (default: the one with the longest exclusive time)."
)
FOCUS_CRITICAL = click.option(
    "--focus-critical", is_flag=True, help="Analyse the kernel with the largest share of the critical path."
)
ROOFLINE_CSV = click.option(
    "--roofline-csv", type=click.Path(), metavar="FILE", help="Measured peaks: roofline.csv of rocprof-compute."
)
PASS_THROUGH = {"ignore_unknown_options": True, "allow_extra_args": True}
"""Context settings of commands that accept an application's options among their arguments."""
