"""Results of the API: the documents of a run as attributes and pandas tables."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rocm_perf_lab.api import rich_display
from rocm_perf_lab.core.errors import LabError

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pandas as pd

    from rocm_perf_lab.analysis.comparison_document import CompareDocument
    from rocm_perf_lab.replay.report import ReplayDocument

_US_PER_MS = 1000.0
_LOSSES = ("cause", "amount_us", "share", "gain_us", "gain_share", "confidence", "location", "suggestion")


@dataclass(frozen=True)
class LabRun:
    """Run of `profile` or `analyze`, or any other directory with their documents.

    Args:
        directory: Directory of the run.
    """

    directory: Path

    @classmethod
    def open(cls, directory: str | Path) -> LabRun:
        """Return the run in a directory as an instance of the class for its documents.

        Raises:
            LabError: The directory contains no document of a run.
        """
        path = Path(directory)
        for name, kind in (
            ("optimize.json", Optimization),
            ("autotune.json", Tuning),
            ("profile.json", LabRun),
            ("report.json", LabRun),
        ):
            if (path / name).is_file():
                return kind(path)
        raise LabError("there is no run", where=str(path), hint="pass the directory of a run, with its profile.json")

    def document(self, name: str) -> Mapping[str, Any]:
        """Return a JSON document, for example `dag.json`.

        Raises:
            LabError: The document does not exist, or is not valid JSON.
        """
        path = self.directory / name
        try:
            found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise LabError(f"the document cannot be read: {error}", where=str(path), hint="run the job again") from error
        return found

    def _optional(self, name: str) -> Mapping[str, Any]:
        return self.document(name) if (self.directory / name).is_file() else {}

    @cached_property
    def profile(self) -> Mapping[str, Any]:
        """Content of profile.json; empty without dispatches."""
        return self._optional("profile.json")

    @cached_property
    def analysis(self) -> Mapping[str, Any]:
        """Content of analysis.json, or of the ledger and the thread trace of a recording without dispatches."""
        return self._optional("analysis.json") or self._optional("report.json")

    @property
    def time_kind(self) -> str:
        """`measured` or `emulated`."""
        provenance = self.profile.get("provenance", {})
        return str(provenance.get("time_kind") or self.analysis.get("time_kind") or "measured")

    @property
    def runtime_us(self) -> float | None:
        """Median time of a dispatch in microseconds; None if unknown."""
        time_ms = self.profile.get("runtime_ms")
        return None if time_ms is None else float(time_ms) * _US_PER_MS

    @property
    def metrics(self) -> dict[str, float]:
        """Time, resources, occupancy and all metrics of counters, by name."""
        found = {} if self.runtime_us is None else {"runtime_us": self.runtime_us}
        resources, occupancy = self.profile.get("resources", {}), self.profile.get("occupancy", {})
        found |= {name: float(value) for name, value in resources.items() if isinstance(value, int | float)}
        found |= {name: float(occupancy[name]) for name in ("waves_per_simd",) if name in occupancy}
        return found | {name: float(value) for name, value in self.analysis.get("metrics", {}).items() if value is not None}

    @property
    def ledger(self) -> pd.DataFrame:
        """Ledger of lost time: the roof, each loss, the unexplained rest. Times in microseconds, shares of the total time."""
        import pandas as pd

        ledger = self.analysis.get("ledger") or {}
        roof = ledger.get("roof")
        rows: list[dict[str, Any]] = []
        if roof:
            rows.append({"cause": f"{roof['name']}_roof", "amount_us": roof["time_us"], "share": roof["utilisation"],
                         "suggestion": roof["suggestion"]})  # fmt: skip
        rows += [{name: loss.get(name) for name in _LOSSES} for loss in ledger.get("losses", ())]
        if ledger:
            rows.append({"cause": "unexplained", "amount_us": ledger["unexplained_us"], "share": ledger["unexplained_share"]})
        return pd.DataFrame(rows, columns=list(_LOSSES))

    @property
    def counters(self) -> pd.DataFrame:
        """Hardware counters: one row per dispatch, one column per counter."""
        import pandas as pd

        return pd.DataFrame(list(self.profile.get("counters", ())))

    @property
    def kernels(self) -> pd.DataFrame:
        """Kernels of the run, with calls and times in milliseconds."""
        import pandas as pd

        rows = [
            {name: value for name, value in row.items() if name not in ("launches", "durations_ms")}
            for row in self.profile.get("kernels", ())
        ]
        return pd.DataFrame(rows)

    def to_pandas(self) -> pd.DataFrame:
        """Return one row with kernel, GPU, kind of time and all metrics; concatenate the rows of several runs to compare them."""
        import pandas as pd

        return pd.DataFrame([self._facts() | self.metrics])

    def _facts(self) -> dict[str, Any]:
        kernel, gpu = self.profile.get("kernel", {}), self.profile.get("gpu", {})
        return {
            "kernel": kernel.get("name"),
            "gpu": gpu.get("name"),
            "architecture": gpu.get("architecture"),
            "time_kind": self.time_kind,
            "bottleneck": self.analysis.get("bottleneck"),
        }

    @property
    def report(self) -> Path:
        """HTML report of the run."""
        return self.directory / "report.html"

    @property
    def summary(self) -> dict[str, str]:
        """Main results by name, formatted, in display order."""
        facts = self._facts()
        time = "unknown" if self.runtime_us is None else f"{self.runtime_us:.2f} us {self.time_kind}"
        shown = {"kernel": facts["kernel"], "GPU": facts["gpu"], "time": time, "bottleneck": facts["bottleneck"]}
        shown |= {"result": self.profile.get("result"), "files": str(self.directory)}
        return {
            name: str(value).replace("_", " ") if name == "bottleneck" else str(value) for name, value in shown.items() if value
        }

    def _repr_html_(self) -> str:
        ledger = self.ledger
        losses = rich_display.table(ledger, ("cause", "amount_us", "share", "gain_us", "suggestion"))
        return rich_display.facts(self.summary) + rich_display.ledger_bar(ledger) + losses

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {', '.join(f'{name}: {text}' for name, text in self.summary.items())}>"


class Optimization(LabRun):
    """Run of `optimize`; the profile is that of the unmodified kernel."""

    def _optional(self, name: str) -> Mapping[str, Any]:
        baseline = self.directory / "baseline" / name
        return self.document(f"baseline/{name}") if baseline.is_file() else super()._optional(name)

    @cached_property
    def result(self) -> Mapping[str, Any]:
        """Content of optimize.json."""
        return self.document("optimize.json")

    @property
    def speedup(self) -> float:
        """Time of the unmodified kernel divided by that of the best source; 1 if no rewrite was accepted."""
        return float(self.result["speedup"])

    @property
    def proposals(self) -> pd.DataFrame:
        """Evaluated rewrites in order: description, verdict, stage and reason, resources, time in milliseconds."""
        import pandas as pd

        shown = ("proposal", "parent", "transform", "description", "accepted", "stage", "reason", "correct", "runtime_ms",
                 "improvement", "vgpr", "sgpr", "waves_per_simd", "indistinguishable")  # fmt: skip
        return pd.DataFrame([{name: row.get(name) for name in shown} for row in self.result["verdicts"]], columns=list(shown))

    @property
    def best_source(self) -> Path:
        """Source file of the best version."""
        return self.directory / str(self.result["best"]["source"])

    @property
    def best_diff(self) -> str:
        """Unified diff from the unmodified source to the best one."""
        return self.best_source.with_name(f"{self.best_source.name}.diff").read_text(encoding="utf-8")

    @property
    def summary(self) -> dict[str, str]:
        """Main results as texts."""
        accepted = int(self.proposals["accepted"].sum()) if len(self.proposals) else 0
        tied = self.result.get("indistinguishable")
        outcome = "indistinguishable" if tied else f"{self.speedup:.2f}x ({self.result['time_kind']})"
        verdicts = f"{accepted} of {len(self.proposals)} proposals accepted; {self.result['stop_reason']}"
        unmodified = {"time before" if name == "time" else name: text for name, text in super().summary.items()}
        return {"speed-up": outcome, "proposals": verdicts} | unmodified

    def _repr_html_(self) -> str:
        shown = self.proposals.assign(runtime_us=self.proposals["runtime_ms"].astype(float) * _US_PER_MS)
        columns = ("description", "accepted", "stage", "runtime_us", "improvement", "reason")
        return rich_display.facts(self.summary) + rich_display.table(shown, columns, "Rewrites")


class Tuning(LabRun):
    """Run of `autotune`."""

    @cached_property
    def result(self) -> Mapping[str, Any]:
        """Content of autotune.json."""
        return self.document("autotune.json")

    @property
    def time_kind(self) -> str:
        """`measured` or `emulated`."""
        return str(self.result["time_kind"])

    @property
    def runtime_us(self) -> float | None:
        """Time of the best configuration in microseconds."""
        best = self.result["best_config"]
        return None if best is None else float(best["runtime_ms"]) * _US_PER_MS

    @property
    def best(self) -> dict[str, Any]:
        """Parameters of the fastest configuration."""
        best = self.result["best_config"]
        return {} if best is None else dict(best["parameters"])

    @property
    def trials(self) -> pd.DataFrame:
        """Evaluated configurations: one column per parameter, `runtime_us`, `predicted_us`, and `failed` with the reason."""
        import pandas as pd

        failed = {row["trial"]: row["reason"] for row in self.result["failures"]}
        rows = [
            {
                "trial": row["trial"],
                "phase": row["phase"],
                **row["parameters"],
                "runtime_us": _us(row["runtime_ms"]),
                "predicted_us": _us(row["predicted_ms"]),
                "failed": failed.get(row["trial"]),
            }
            for row in self.result["trials"]
        ]
        return pd.DataFrame(rows)

    @property
    def importances(self) -> pd.Series[float]:
        """Fraction of the variance of the times that each parameter explains."""
        import pandas as pd

        return pd.Series(self.result["parameter_importances"], dtype=float).sort_values(ascending=False)

    def _facts(self) -> dict[str, Any]:
        gpu = self.result["gpu"]
        return {"kernel": self.result["kernel"]["name"], "gpu": gpu["name"], "architecture": gpu["architecture"],
                "time_kind": self.time_kind, "bottleneck": None}  # fmt: skip

    @property
    def summary(self) -> dict[str, str]:
        """Main results as texts."""
        best = ", ".join(f"{name}={value}" for name, value in self.best.items())
        count = f"{self.result['evaluated_configs']} of {self.result['search_space_size']} configurations"
        return {"best": best, "evaluated": count} | super().summary

    def _repr_html_(self) -> str:
        columns = ("trial", *self.best, "runtime_us", "predicted_us", "failed")
        fastest = rich_display.table(self.trials.sort_values("runtime_us"), columns, "Fastest trials")
        return rich_display.facts(self.summary) + fastest


@dataclass(frozen=True)
class Comparison:
    """Comparison of two runs, kernel by kernel."""

    document: CompareDocument

    @property
    def kernels(self) -> pd.DataFrame:
        """One row per kernel and launch shape: times in milliseconds, relative change with its interval, verdict, reason."""
        import pandas as pd

        return pd.DataFrame([row.model_dump(mode="json") for row in self.document.kernels])

    @property
    def is_regression(self) -> bool:
        """Return whether a kernel is significantly slower by more than the threshold."""
        return bool(self.document.regressions)

    def __repr__(self) -> str:
        counts = ", ".join(f"{verdict}: {count}" for verdict, count in self.document.verdicts.items() if count)
        return f"<Comparison of {self.document.base.path} and {self.document.new.path}, {counts or 'no kernels'}>"

    def _repr_html_(self) -> str:
        return rich_display.table(self.kernels, ("name", "base_ms", "new_ms", "change", "verdict", "reason"))


@dataclass(frozen=True)
class ReplayedCapture:
    """Replays of a capture."""

    document: ReplayDocument

    @property
    def median_us(self) -> float:
        """Median time of a replay in microseconds."""
        return self.document.timing.median

    @property
    def time_kind(self) -> str:
        """`measured` or `emulated`."""
        return self.document.timing.kind

    @property
    def samples(self) -> pd.Series[float]:
        """Times of the replays in microseconds."""
        import pandas as pd

        return pd.Series(self.document.timing.samples, name="runtime_us", dtype=float)

    @property
    def is_correct(self) -> bool | None:
        """Return whether the memory after the replays is correct; None if it was not checked."""
        check = self.document.verification
        return None if check is None else check.passed

    @property
    def summary(self) -> dict[str, str]:
        """Main results as texts."""
        timing = self.document.timing
        result = {None: "not checked", True: "correct", False: "wrong"}[self.is_correct]
        return {
            "kernel": self.document.kernel.name,
            "GPU": self.document.environment.gpu_agent,
            "time": f"{timing.median:.2f} us {timing.kind}",
            "replays": f"{len(timing.samples)}, {timing.min:.2f} to {timing.max:.2f} us",
            "result": result,
            "capture": self.document.capture,
        }

    def __repr__(self) -> str:
        return f"<ReplayedCapture {', '.join(f'{name}: {text}' for name, text in self.summary.items())}>"

    def _repr_html_(self) -> str:
        return rich_display.facts(self.summary)


def _us(time_ms: float | None) -> float | None:
    return None if time_ms is None else time_ms * _US_PER_MS
