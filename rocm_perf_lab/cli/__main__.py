"""`python -m rocm_perf_lab.cli`: the command `rocm-perf`."""

from rocm_perf_lab.cli import main
from rocm_perf_lab.core.own_command import PROGRAM

main(prog_name=PROGRAM)
