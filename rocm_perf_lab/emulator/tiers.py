"""Native code of a kernel in two tiers: compiled quickly at first, optimised once its blocks have run often.

Both tiers stop and resume at the same points with all registers in memory, so a launch continues in other code.
"""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

import numpy as np

from rocm_perf_lab.core.resources import cache_dir
from rocm_perf_lab.emulator import hot_blocks
from rocm_perf_lab.emulator.jit import compile_program, program_key

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from numpy.typing import NDArray

    from rocm_perf_lab.emulator.jit import NativeKernel
    from rocm_perf_lab.emulator.program import Program
    from rocm_perf_lab.emulator.structures import LaunchRecord

_POLL_SECONDS = 0.1


class TieredCode:
    """Native code of one kernel.

    Args:
        program: Program of the kernel.
        helpers: Addresses of runtime functions by name.
        cache_directory: Directory of the object code; the user's cache by default.

    Raises:
        UnsupportedInstruction: The program contains an instruction that the emulator does not implement.
    """

    def __init__(self, program: Program, helpers: Mapping[str, int], cache_directory: Path | None = None) -> None:
        self._program = program
        self._helpers = helpers
        self._directory = cache_directory or cache_dir() / "jit"
        self._lengths = [len(block.instructions) for block in program.blocks]
        self._finished = np.zeros(len(program.blocks), dtype=np.uint64)
        self._running: list[tuple[LaunchRecord, NDArray[np.uint64]]] = []
        self._lock = threading.Lock()
        self._monitor: threading.Thread | None = None
        self._replaced: list[NativeKernel] = []
        self._optimised = first_choice(program, self._directory)
        self._native = self._compile(self._optimised)

    @property
    def address(self) -> int:
        """Address of the best code so far."""
        return self._native.address

    @property
    def optimised(self) -> frozenset[int]:
        """Indices of the blocks that are optimised."""
        return self._optimised

    @contextmanager
    def running(self, record: LaunchRecord, executions: NDArray[np.uint64]) -> Iterator[None]:
        """Let a launch use the best code, also if that is finished while the launch runs.

        Args:
            record: Launch, whose `kernel` changes.
            executions: Executions of each block by this launch, which the runtime increments.
        """
        record.kernel = self.address
        if len(self._optimised) == len(self._program.blocks):
            yield
            return
        entry = (record, executions)
        with self._lock:
            self._running.append(entry)
            if self._monitor is None:
                self._monitor = threading.Thread(target=self._watch, name="kernel optimiser")
                self._monitor.start()
        try:
            yield
        finally:
            with self._lock:
                self._running = [other for other in self._running if other is not entry]
                self._finished += executions

    def _watch(self) -> None:
        """Optimise blocks while they become hot; ends with the last launch."""
        pause = threading.Event()
        while True:
            with self._lock:
                counts = sum((executions for _, executions in self._running), self._finished)
                chosen = hot_blocks.blocks_to_optimise(counts, self._lengths, self._optimised)
                if chosen is None and not self._running:
                    self._monitor = None
                    return
            if chosen is None:
                pause.wait(_POLL_SECONDS)
                continue
            native = self._compile(chosen)
            hot_blocks.write_choice(choice_path(self._program, self._directory), chosen)
            with self._lock:
                self._replaced.append(self._native)  # wavefronts may still run it
                self._native, self._optimised = native, chosen
                for record, _ in self._running:
                    record.kernel = native.address

    def _compile(self, optimised: frozenset[int]) -> NativeKernel:
        return compile_program(self._program, self._helpers, optimised=optimised, cache_directory=self._directory)


def first_choice(program: Program, directory: Path, small: int | None = None) -> frozenset[int]:
    """Return the blocks to optimise before a kernel has run: all of a small one, else the choice of an earlier process.

    Args:
        program: Program of the kernel.
        directory: Directory with the choices of earlier processes.
        small: Instructions up to which a kernel is small; :data:`~rocm_perf_lab.emulator.hot_blocks.SMALL_PROGRAM` by default.
    """
    if len(program.instructions) <= (hot_blocks.SMALL_PROGRAM if small is None else small):
        return frozenset(range(len(program.blocks)))
    return hot_blocks.read_choice(choice_path(program, directory))


def choice_path(program: Program, directory: Path) -> Path:
    """Return the file with the choice of blocks for a large program."""
    return directory / f"{program_key(program, frozenset())}.optimised"
