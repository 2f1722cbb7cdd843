"""Kernels of a session and their translations: in memory, on disk, and in progress."""

from __future__ import annotations

import hashlib
import threading
from contextlib import contextmanager
from dataclasses import dataclass, replace
from importlib.metadata import version
from typing import TYPE_CHECKING

from rocm_perf_lab.core.errors import LabError
from rocm_perf_lab.core.pruning import CacheLimits, note_use, prune
from rocm_perf_lab.runtime.kernel_facts import read_facts, write_facts
from rocm_perf_lab.runtime.native_library import is_intact
from rocm_perf_lab.runtime.translation_jobs import TranslateJob

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from rocm_perf_lab.runtime.code_image import CodeImage
    from rocm_perf_lab.runtime.job_processes import JobProcesses
    from rocm_perf_lab.runtime.kernel_facts import KernelFacts
    from rocm_perf_lab.toolchain.elf_file import ElfFile


@dataclass(frozen=True)
class ServedKernel:
    """Kernel that the service translated; `number` identifies it in messages and records."""

    number: int
    key: str
    image: CodeImage
    architecture: str
    facts: KernelFacts


class KernelStore:
    """Translated kernels by number and by content; thread-safe.

    Args:
        directory: Directory of the libraries and of the facts about kernels. Files that were not used for long are removed.
        processes: Processes that translate.
    """

    def __init__(self, directory: Path, processes: JobProcesses) -> None:
        prune(directory, CacheLimits())
        self._directory = directory
        self._processes = processes
        self._lock = threading.Lock()
        self._kernels: list[ServedKernel] = []
        self._numbers: dict[str, int] = {}
        self._files: dict[bytes, ElfFile] = {}
        self._making: dict[str, threading.Lock] = {}
        self._fingerprint = ""
        self._translations = 0

    @property
    def translations(self) -> int:
        """Number of kernels translated in this session; others were on disk."""
        with self._lock:
            return self._translations

    @property
    def kernels(self) -> tuple[ServedKernel, ...]:
        """All kernels so far; the number of the first one is 1."""
        with self._lock:
            return tuple(self._kernels)

    def kernel(self, number: int) -> ServedKernel:
        """Return a kernel.

        Raises:
            LabError: There is no kernel with this number.
        """
        with self._lock:
            if not 1 <= number <= len(self._kernels):
                raise LabError(f"a driver names kernel {number}, but the session has {len(self._kernels)} kernels")
            return self._kernels[number - 1]

    def library(self, kernel: ServedKernel) -> Path:
        """Return the best available native code of a kernel."""
        return self._directory / self.kernel(kernel.number).facts.library

    def translated(self, image: CodeImage, architecture: str) -> ServedKernel:
        """Return a kernel; translate it unless this or an earlier session did.

        Args:
            image: Code of the kernel.
            architecture: Processor that executes it.

        Raises:
            LabError: It cannot be translated.
        """
        key = self._key(image, architecture)
        with self._alone(key):
            with self._lock:
                number = self._numbers.get(key)
            if number is not None:
                return self.kernel(number)
            facts = self._stored(key)
            if facts is None:
                facts = self._made(key, TranslateJob(image, architecture, self._directory))
            return self._add(key, image, architecture, facts)

    def optimised(self, kernel: ServedKernel, chosen: frozenset[int]) -> ServedKernel:
        """Return a kernel with optimised blocks.

        Args:
            kernel: The kernel.
            chosen: Indices of the blocks to optimise.

        Raises:
            LabError: It cannot be translated.
        """
        with self._alone(kernel.key):
            known = self.kernel(kernel.number)
            if chosen <= set(known.facts.optimised):
                return known
            facts = self._made(kernel.key, TranslateJob(known.image, known.architecture, self._directory, chosen))
            better = replace(known, facts=facts)
            with self._lock:
                self._kernels[kernel.number - 1] = better
            return better

    def _made(self, key: str, job: TranslateJob) -> KernelFacts:
        facts = self._processes.run(job)
        write_facts(self._path(key), facts)
        with self._lock:
            self._translations += 1
        return facts

    def _add(self, key: str, image: CodeImage, architecture: str, facts: KernelFacts) -> ServedKernel:
        with self._lock:
            elf = self._files.setdefault(hashlib.sha256(image.elf.data).digest(), image.elf)
            number = len(self._kernels) + 1
            kernel = ServedKernel(number, key, replace(image, elf=elf), architecture, facts)
            self._kernels.append(kernel)
            self._numbers[key] = number
            return kernel

    def _stored(self, key: str) -> KernelFacts | None:
        facts = read_facts(self._path(key))
        if facts is None or not is_intact(self._directory / facts.library):
            return None
        for used in (self._path(key), self._directory / facts.library):
            note_use(used)
        return facts

    def _path(self, key: str) -> Path:
        return self._directory / f"{key}.kernel"

    def _key(self, image: CodeImage, architecture: str) -> str:
        """Return a hash of the kernel, the translator and this CPU."""
        from rocm_perf_lab.emulator.c_library import host_cpu
        from rocm_perf_lab.emulator.fingerprint import translator_fingerprint
        from rocm_perf_lab.emulator.isa.instruction_set import instruction_set

        with self._lock:
            if not self._fingerprint:
                self._fingerprint = f"{translator_fingerprint()} {version('llvmlite')} {host_cpu()}"
        place = f"{image.key(architecture)} {instruction_set(architecture)} {self._fingerprint}"
        return hashlib.sha256(place.encode()).hexdigest()

    @contextmanager
    def _alone(self, key: str) -> Iterator[None]:
        """Serialise the work of several threads on one kernel."""
        with self._lock:
            lock = self._making.setdefault(key, threading.Lock())
        with lock:
            yield
