"""Worker process of a replay: `python -m rocm_perf_lab.replay.worker SETUP_FD RESULT_FD`, requests on standard input.

It reserves the captured addresses before it imports other modules, and restarts itself if one is in use. Then it reconstructs
the capture and answers every line of JSON with one line of JSON.
"""

from __future__ import annotations

import json
import os
import sys
from typing import TYPE_CHECKING, Any

from rocm_perf_lab.replay.address_space import claim, owner_of

if TYPE_CHECKING:
    from rocm_perf_lab.replay.capture import Capture
    from rocm_perf_lab.replay.messages import ReplaySetup
    from rocm_perf_lab.replay.replayer import Replayer


def main() -> int:
    """Execute requests until standard input ends."""
    setup_descriptor, result_descriptor = int(sys.argv[1]), int(sys.argv[2])
    os.lseek(setup_descriptor, 0, os.SEEK_SET)
    plain = json.loads(os.pread(setup_descriptor, os.fstat(setup_descriptor).st_size, 0))
    taken = claim([(address, nbytes) for address, nbytes in plain["ranges"]])
    with os.fdopen(result_descriptor, "w", encoding="utf-8") as results:
        if taken:
            _answer(results, {"error": _taken(taken)})
            return 1
        return _serve(plain, results)


def _serve(plain: dict[str, Any], results: Any) -> int:
    from rocm_perf_lab.core.errors import LabError
    from rocm_perf_lab.replay.execution import run_job
    from rocm_perf_lab.replay.messages import ReplayRequest, ReplaySetup
    from rocm_perf_lab.replay.reader import open_capture

    from pathlib import Path  # isort: skip  # not before the addresses are claimed

    try:
        setup = ReplaySetup.model_validate(plain)
        capture = open_capture(Path(setup.capture), verify=False)
        if setup.reserve_only:
            _try_addresses(setup, capture)
            _answer(results, {"ready": os.getpid()})
            return 0
        replayer = _replayer(setup, capture)
    except LabError as error:
        _answer(results, {"error": _failure(error, fatal=True)})
        return 1
    _answer(results, {"ready": os.getpid()})
    for line in sys.stdin:
        try:
            outcome = run_job(capture, replayer, ReplayRequest.model_validate_json(line))
        except LabError as error:
            fatal = setup.device == "rocm" and type(error).__name__ == "DeviceFault"  # The queue is unusable.
            _answer(results, {"error": _failure(error, fatal=fatal)})
            if fatal:
                results.flush()
                os._exit(1)  # Shutting down a runtime with a hanging queue would also hang.
            continue
        _answer(results, {"outcome": outcome.model_dump(mode="json")})
    replayer.close()
    return 0


def _try_addresses(setup: ReplaySetup, capture: Capture) -> None:
    """Reserve the addresses through the HSA runtime; on the emulator the reservation by this process is sufficient."""
    if setup.device == "rocm":
        from rocm_perf_lab.replay.hsa.reservation import try_addresses

        try_addresses(capture, agent=setup.agent, library=setup.library)


def _replayer(setup: ReplaySetup, capture: Capture) -> Replayer:
    if setup.device == "rocm":
        from rocm_perf_lab.replay.hsa.replayer import HsaReplayer

        return HsaReplayer(capture, timeout_s=setup.timeout_s, agent=setup.agent, library=setup.library)
    from rocm_perf_lab.emulator.sampling import DEFAULT_SEED, SamplePolicy
    from rocm_perf_lab.replay.emulated import EmulatedReplayer
    from rocm_perf_lab.target.model import Target

    return EmulatedReplayer(
        capture,
        Target.model_validate(setup.target),
        max_instructions=setup.max_instructions,
        threads=setup.threads,
        sample=SamplePolicy(setup.traced_workgroups, DEFAULT_SEED if setup.sample_seed is None else setup.sample_seed),
    )


def _taken(taken: list[tuple[int, int]]) -> dict[str, Any]:
    address, nbytes = taken[0]
    owner = owner_of(address, nbytes)
    if owner is None:
        return {
            "kind": "ReservationError",
            "what": "the operating system does not allow a process to map a captured address range",
            "where": f"{address:#x} to {address + nbytes:#x}, one of {len(taken)}",
            "hint": "It is below vm.mmap_min_addr, above the user address space, or there are more than vm.max_map_count ranges.",
            "fatal": True,
        }
    return {
        "kind": "ReservationError",
        "what": f"{len(taken)} captured address range{'s are' if len(taken) > 1 else ' is'} in use in every new process",
        "where": f"{address:#x} to {address + nbytes:#x}: {owner}",
        "hint": "Capture with --low-addresses, which places device memory away from libraries.",
        "fatal": True,
    }


def _failure(error: Any, *, fatal: bool) -> dict[str, Any]:
    kind = next(cls.__name__ for cls in type(error).__mro__ if cls.__name__ in _REPORTED)
    return {"kind": kind, "what": error.what, "where": error.where, "hint": error.hint, "fatal": fatal}


_REPORTED = frozenset(
    {"CaptureError", "ReservationError", "RelocatedReservation", "DeviceFault", "OverrideError", "ReplayError"}
    | {"EmulationError", "LabError"}
)


def _answer(results: Any, message: dict[str, Any]) -> None:
    results.write(json.dumps(message) + "\n")
    results.flush()


if __name__ == "__main__":
    sys.exit(main())
