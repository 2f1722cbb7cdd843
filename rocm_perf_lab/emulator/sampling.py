"""Settings of the sample of traced workgroups: their number, and the seed of the random choice.

The seed is unpredictable for the author of a kernel, but equal launches on one computer have equal seeds: it is a keyed hash of
code object, kernel and geometry. Its random key is stored in the user's cache on first use. A configured seed replaces it.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rocm_perf_lab.core.errors import LabError
from rocm_perf_lab.core.resources import cache_dir

if TYPE_CHECKING:
    from pathlib import Path

_KEY_NAME = "sampling.key"
_KEY_BYTES = 32
_SEED_BYTES = 4
_STRATA, _ALL = "strata", "all"
_SAMPLES = (_STRATA, _ALL)


@dataclass(frozen=True)
class SamplePolicy:
    """Number of workgroups to trace, and the seed of their choice.

    Args:
        workgroups: Maximum number of traced workgroups per launch; None traces all of them.
        seed: Seed of the choice; None derives it from the launch and the key of this installation.
    """

    workgroups: int | None
    seed: int | None = None

    def seed_of(self, launch: bytes) -> int:
        """Return the seed for a launch, described by its code object, kernel and geometry."""
        if self.seed is not None:
            return self.seed
        digest = hmac.digest(installation_key(cache_dir()), launch, hashlib.sha256)
        return int.from_bytes(digest[:_SEED_BYTES], "little")


DEFAULT_SAMPLE = SamplePolicy(16)


def sample_policy(sample: str, traced_workgroups: int, seed: int | None) -> SamplePolicy:
    """Return the policy of a device configuration.

    Args:
        sample: `strata` traces at most `traced_workgroups` workgroups, `all` traces every one.
        traced_workgroups: Maximum number of traced workgroups, at least 1.
        seed: Seed of the choice; None derives it from the launch.

    Raises:
        LabError: A value is invalid.
    """
    if sample not in _SAMPLES:
        raise LabError(f"unknown sample {sample!r}", where="device.sample", hint=f"Use one of {', '.join(_SAMPLES)}.")
    if traced_workgroups < 1:
        raise LabError(
            f"{traced_workgroups} workgroups cannot be traced",
            where="device.traced_workgroups",
            hint="Use at least 1, or device.sample=all.",
        )
    if seed is not None and seed < 0:
        raise LabError(f"the seed is negative: {seed}", where="device.sample_seed", hint="Use an integer of at least 0.")
    return SamplePolicy(traced_workgroups if sample == _STRATA else None, seed)


def installation_key(directory: Path) -> bytes:
    """Return the secret key in `directory`; create it on first use, readable by its owner only.

    Raises:
        LabError: The key cannot be stored.
    """
    path = directory / _KEY_NAME
    try:
        if not path.exists():
            _create(path)
        key = path.read_bytes()
    except OSError as error:
        raise LabError(
            f"the key for sampling workgroups cannot be stored: {error.strerror or error}",
            where=str(path),
            hint="Make the directory writable, or set device.sample_seed.",
        ) from error
    if len(key) != _KEY_BYTES:
        raise LabError("the key for sampling workgroups is damaged", where=str(path), hint="Delete the file.")
    return key


def _create(path: Path) -> None:
    """Store a new key unless another process was faster: a hard link appears complete or not at all."""
    temporary = path.with_name(f".{path.name}.{os.urandom(8).hex()}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as sink:
            sink.write(os.urandom(_KEY_BYTES))
        if not path.exists():
            with contextlib.suppress(FileExistsError):
                os.link(temporary, path)
    finally:
        temporary.unlink()
