"""Comparison of emulated times, which repeat exactly, by the error band of the timing model."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rocm_perf_lab.analysis.comparison_model import Measured

if TYPE_CHECKING:
    from rocm_perf_lab.analysis.comparison_model import KernelTimes, RunTimes, Verdict


def compare_emulated(
    base: KernelTimes, new: KernelTimes, base_run: RunTimes, new_run: RunTimes, *, is_one_device: bool
) -> Measured:
    """Compare two times of which at least one is emulated; the interval is that of the error band.

    Args:
        base: Kernel of the base run.
        new: Kernel of the new run.
        base_run: The base run, for its error bands and versions.
        new_run: The new run.
        is_one_device: Whether the times are of equal devices and methods.
    """
    runs = (base.runs, new.runs)
    if not base.time_ms > 0 or not new.time_ms > 0:
        return Measured(None, "none", runs, why_not="a time of 0 has no ratio")
    ratio = new.time_ms / base.time_ms
    if base_run.emulated != new_run.emulated:
        return Measured(ratio - 1, "none", runs, why_not=_contradiction(base, new, base_run, new_run))
    if not is_one_device:
        return Measured(ratio - 1, "none", runs, why_not="no error band is known for emulated times of different devices")
    if base_run.bands is None or new_run.bands is None:
        if ratio == 1:
            return Measured(0.0, "band", runs)
        return Measured(ratio - 1, "none", runs, why_not="a profile does not contain its error band: profile again")
    band = max(base_run.bands.ratio, new_run.bands.ratio, key=lambda known: known.factor)
    low, high = band.around(ratio)
    same_code = base.code_sha256 is not None and (base.code_sha256, base.launch) == (new.code_sha256, new.launch)
    return Measured(
        ratio - 1,
        "band",
        runs,
        interval=(low - 1, high - 1),
        note=_same_code_note(base_run, new_run, ratio) if same_code else None,
        band=band,
        is_tie=same_code and base_run.versions != new_run.versions,
    )


def _same_code_note(base: RunTimes, new: RunTimes, ratio: float) -> str | None:
    """Return the reason why equal code has different emulated times; None if they are equal."""
    if ratio == 1:
        return None
    cause = "the versions differ" if base.versions != new.versions else "the inputs or settings differ"
    return f"both runs have the same code object and launch: {cause}"


def _contradiction(base: KernelTimes, new: KernelTimes, base_run: RunTimes, new_run: RunTimes) -> str:
    """Return whether a measured time is in the error band of an emulated one."""
    emulated, measured = (base, new) if base_run.emulated else (new, base)
    bands = base_run.bands if base_run.emulated else new_run.bands
    if bands is None:
        return "an emulated time without error band cannot be compared with a measured one"
    low, high = bands.time.around(emulated.time_ms * 1e3)
    band = f"the error band of the emulated one, {low:.3g} to {high:.3g} us ({bands.time.coverage:.0%})"
    if bands.time.contains(emulated.time_ms, measured.time_ms):
        return f"the measured time is inside {band}: no difference is shown"
    return f"the measured time is outside {band}: the kernels differ, or the timing model errs"


def verdict_of_emulated(found: Measured, base: KernelTimes, new: KernelTimes) -> tuple[Verdict, bool | None, str]:
    """Return the verdict on two emulated times, whether they differ by more than the error band, and the reason."""
    if base.time_ms == new.time_ms:
        return "same", False, "the emulated times are equal"
    if found.is_tie:
        return "indistinguishable", False, "the same code object and launch"
    band = found.band
    assert band is not None and found.interval is not None
    between = f"{found.interval[0]:+.1%} to {found.interval[1]:+.1%} expected on hardware ({band.coverage:.0%})"
    if band.distinguishes(base.time_ms, new.time_ms):
        return ("slower" if new.time_ms > base.time_ms else "faster"), True, f"beyond the error band: {between}"
    return "indistinguishable", False, f"inside the error band of the emulator, a factor of {band.factor:.2f}: {between}"
