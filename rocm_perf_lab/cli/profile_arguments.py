"""Arguments of `rocm-perf profile`, translated to overrides of the configuration.

Arguments like `kernel=softmax` alone select a described kernel; anything else is the command line of an application, which such
overrides may precede. `device=emulator` may also follow it.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import dropwhile, takewhile
from pathlib import Path

from rocm_perf_lab.config.overrides import application_setting, is_override, quoted
from rocm_perf_lab.core.errors import LabError

_OPTIONS = (
    "--json", "--quiet", "--runs", "--kernel", "--focus-critical", "--deep-analysis", "--roofline", "--no-roofline",
    "--roofline-csv", "--no-rocprof", "--timeout", "--root", "--output", "--debug", "--help",
)  # fmt: skip
_DEVICES = ("device=auto", "device=rocm", "device=emulator")


@dataclass(frozen=True)
class ProfileArguments:
    """Arguments and options of `rocm-perf profile`."""

    args: tuple[str, ...]
    as_json: bool = False
    quiet: bool = False
    runs: int | None = None
    kernel: str | None = None
    focus_critical: bool = False
    deep_analysis: bool = False
    roofline: bool | None = None
    roofline_csv: str | None = None
    no_rocprof: bool = False
    timeout: float | None = None
    root: str | None = None
    output: str | None = None

    @classmethod
    def parse(cls, args: tuple[str, ...], **options: object) -> ProfileArguments:
        """Check that the options are consistent.

        Raises:
            LabError: There is no argument, two options exclude each other, or an option applies to applications only.
        """
        found = cls(args, **options)  # type: ignore[arg-type]
        if found.as_json and found.quiet:
            raise LabError("--json and --quiet exclude each other", hint="use one of them")
        if not args:
            raise LabError("no command or kernel to profile", hint="rocm-perf profile ./app [arguments], or kernel=NAME")
        if args[0].startswith("-"):
            raise _unknown_option(args[0])
        only_application = {
            "--kernel": found.kernel,
            "--focus-critical": found.focus_critical,
            "--no-rocprof": found.no_rocprof,
            "--root": found.root,
        }
        given = [name for name, value in only_application.items() if value]
        if found.is_described and given:
            raise LabError(
                f"{given[0]} applies to applications only", where=args[0], hint="a kernel.yaml describes exactly one kernel"
            )
        return found

    @property
    def is_described(self) -> bool:
        """Return whether the arguments are only overrides, without a command line."""
        return is_override(self.args[0]) and not self.command

    @property
    def command(self) -> tuple[str, ...]:
        """Command line of the application; empty for a described kernel."""
        words = tuple(dropwhile(is_override, self.args))
        return () if words and words[0].startswith("-") else tuple(word for word in words if word not in _DEVICES)

    @property
    def _settings(self) -> tuple[str, ...]:
        """Configuration overrides for an application."""
        before = tuple(takewhile(is_override, self.args))
        words = (*before, *(word for word in self.args[len(before) :] if word in _DEVICES))
        return tuple(map(application_setting, words))

    @property
    def display(self) -> str | None:
        """Output format; None prints tables."""
        return "json" if self.as_json else "runtime" if self.quiet else None

    def overrides(self) -> list[str]:
        """Return the overrides of the configuration.

        An application's command, directory and display are not included, since they change from run to run.
        """
        common = [
            *(["passes=deep"] if self.deep_analysis else []),
            *(["passes.counters=[]"] if self.roofline is False else []),
            *([f"passes.roofline_csv={quoted(str(Path(self.roofline_csv).absolute()))}"] if self.roofline_csv else []),
        ]
        if self.is_described:
            runs = [f"passes.runs={self.runs}"] if self.runs else []
            timeout = [f"device.timeout_s={self.timeout}"] if self.timeout else []
            directory = [f"hydra.run.dir={quoted(self.output)}"] if self.output else []
            display = [f"display={self.display}"] if self.display else []
            return ["job=profile", *display, *common, *directory, *runs, *timeout, *self.args]
        return [
            "job=application",
            "job.command=[]",
            f"passes.plots={str(self.roofline is True).lower()}",
            *common,
            *([f"job.runs={self.runs}"] if self.runs else []),
            *([f"job.kernel={quoted(self.kernel)}"] if self.kernel else []),
            *([f"job.timeout_s={self.timeout}"] if self.timeout else []),
            *([f"job.root={quoted(str(Path(self.root).absolute()))}"] if self.root else []),
            f"job.focus_critical={str(self.focus_critical).lower()}",
            f"job.rocprof={str(not self.no_rocprof).lower()}",
            *self._settings,
        ]


def _unknown_option(option: str) -> LabError:
    from difflib import get_close_matches

    near = get_close_matches(option.partition("=")[0], _OPTIONS, 1)
    hint = f"did you mean {near[0]}?" if near else "write the application before its options: profile ./app --size 4096"
    return LabError(f"there is no option {option}", where="rocm-perf profile", hint=hint)
