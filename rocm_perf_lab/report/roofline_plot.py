"""Roofline plots of one kernel: roofline.png for documents, roofline.html for interactive use.

Input is roofline.json. The plots show every memory and arithmetic roof, the kernel at each memory level, and its share of
every roof. Emulated times are labelled. Both files are self-contained.
"""

from __future__ import annotations

import io
import json
import math
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from rocm_perf_lab.analysis.roofline import INTEGERS
from rocm_perf_lab.core.files import write_bytes, write_text
from rocm_perf_lab.core.resources import resource_dir

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from matplotlib.axes import Axes

TEMPLATE = "roofline.html.j2"
_LEVEL_NAMES = {"lds": "LDS", "vector_l1": "vector L1", "l2": "L2", "mall": "Infinity Cache", "dram": "DRAM"}
_COLOURS = {"lds": "#8c564b", "vector_l1": "#e08214", "l2": "#2b8a3e", "mall": "#7b5ea7", "dram": "#1f6fb4"}
_MARKERS = {"lds": "v", "vector_l1": "^", "l2": "s", "mall": "D", "dram": "o"}
_MARKER_SIZES = (16, 11, 8.5, 7, 6)
_WARNING = "#c92a2a"
_GREY = "#868e96"
_TEXT_HEIGHT = 0.035
_LEAST_INTENSITY, _MOST_INTENSITY = 0.01, 1000.0


@dataclass(frozen=True)
class MemoryLine:
    """Bandwidth roof."""

    level: str
    name: str
    gb_per_s: float
    colour: str
    peak_kind: str


@dataclass(frozen=True)
class ComputeLine:
    """Arithmetic roof; data types with the same peak share one. `used`: the kernel uses it."""

    name: str
    gflop_per_s: float
    used: bool
    peak_kind: str


@dataclass(frozen=True)
class RoofLabel:
    """Label of an arithmetic roof, or of several that are too close for separate lines."""

    text: str
    gflop_per_s: float
    """Rate of the highest roof."""
    used: bool


@dataclass(frozen=True)
class Point:
    """The kernel at one memory level; `doubtful` if above the roof of that level or of its arithmetic."""

    level: str
    name: str
    intensity: float
    gflop_per_s: float
    colour: str
    doubtful: bool


@dataclass(frozen=True)
class Share:
    """Fraction of one roof that the kernel reaches; None with a reason if unknown."""

    name: str
    rate: str
    share: float | None
    colour: str
    reason: str | None

    @property
    def doubtful(self) -> bool:
        """True above the roof, which indicates an error."""
        return self.share is not None and self.share > 1


@dataclass(frozen=True)
class RooflinePlot:
    """Content of both plots."""

    title: str
    subtitle: str
    time_word: str
    memory: tuple[MemoryLine, ...]
    compute: tuple[ComputeLine, ...]
    labels: tuple[RoofLabel, ...]
    points: tuple[Point, ...]
    shares: tuple[Share, ...]
    remark: str | None
    """Reason for missing or unreliable points."""
    x_range: tuple[float, float]
    y_range: tuple[float, float]


def write_roofline_plots(directory: Path, *, gpu: str) -> tuple[Path, ...]:
    """Draw `roofline.png` and `roofline.html` next to roofline.json; return () if it has no roofline."""
    document = json.loads((directory / "roofline.json").read_text(encoding="utf-8"))
    if document["roofline"] is None:
        return ()
    plot = plot_of(document, gpu=gpu)
    html, png = directory / "roofline.html", directory / "roofline.png"
    write_text(html, render_html(plot))
    try:
        write_bytes(png, render_png(plot))
    except ImportError:  # Without matplotlib, the HTML page still shows the plot.
        return (html,)
    return (png, html)


def plot_of(document: Mapping[str, Any], *, gpu: str) -> RooflinePlot:
    """Convert roofline.json, which must have a roofline, to the content of the plots."""
    roof, word = document["roofline"], document["time_kind"]
    memory = tuple(
        MemoryLine(row["level"], _LEVEL_NAMES[row["level"]], row["peak_gb_per_s"], _COLOURS[row["level"]], row["peak_kind"])
        for row in roof["memory"]
    )
    compute = _compute_lines(roof["compute"], roof["peak_gflop_per_s"])
    points = _points(roof)
    ranges = _ranges(memory, compute, points)
    return RooflinePlot(
        title=_shortened(document["kernel"]),
        subtitle=f"{gpu}, {1000 * roof['duration_ms']:.4g} us {word}, {_peaks_text(roof['peaks'])}",
        time_word=word,
        memory=memory,
        compute=compute,
        labels=_labels(compute, ranges["y_range"]),
        points=points,
        shares=_shares(roof),
        remark=_remark(roof),
        **ranges,
    )


def render_html(plot: RooflinePlot) -> str:
    """Return the page: a script that draws the plot, and the same data as a table."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(resource_dir("templates")),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template(TEMPLATE).render(plot=plot, data=asdict(plot))


def render_png(plot: RooflinePlot) -> bytes:
    """Return the PNG; equal plots yield equal bytes with one version of matplotlib."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(13, 6.8), dpi=110, layout="constrained")
    FigureCanvasAgg(figure)
    roofs, bars = figure.subplots(1, 2, width_ratios=[2.1, 1])
    figure.suptitle(f"{plot.title}\n{plot.subtitle}", fontsize=12, x=0.01, ha="left", parse_math=False)
    _draw_roofs(roofs, plot)
    _draw_shares(bars, plot)
    content = io.BytesIO()
    figure.savefig(content, format="png", metadata={"Software": None})
    return content.getvalue()


def _compute_lines(rows: Sequence[Mapping[str, Any]], mixed_peak: float) -> tuple[ComputeLine, ...]:
    groups: dict[float, list[Mapping[str, Any]]] = {}
    for row in rows:
        if row["data_type"] in INTEGERS:
            continue
        groups.setdefault(round(row["peak_gflop_per_s"], 3), []).append(row)
    if not groups:
        return (ComputeLine("vector f32", mixed_peak, False, "theoretical"),)
    lines = []
    for peak, members in sorted(groups.items()):
        units: dict[str, list[str]] = {}
        for row in members:
            units.setdefault(row["unit"], []).append(row["data_type"])
        name = "; ".join(f"{unit} {', '.join(types)}" for unit, types in units.items())
        lines.append(ComputeLine(name, peak, any(row["flops"] for row in members), members[0]["peak_kind"]))
    return tuple(lines)


def _peaks_text(peaks: str) -> str:
    kind, _, source = peaks.partition(": ")
    return f"{kind} peaks of {source}" if source else f"{kind} peaks"


def _labels(lines: Sequence[ComputeLine], y_range: tuple[float, float]) -> tuple[RoofLabel, ...]:
    """Return the labels of the roofs. Roofs closer than `_TEXT_HEIGHT` of the axis share a label."""
    least = (math.log10(y_range[1]) - math.log10(y_range[0])) * _TEXT_HEIGHT
    groups: list[list[ComputeLine]] = []
    for line in sorted(lines, key=lambda line: line.gflop_per_s):
        if groups and math.log10(line.gflop_per_s / groups[-1][-1].gflop_per_s) < least:
            groups[-1].append(line)
        else:
            groups.append([line])
    mixed = len({line.peak_kind for line in lines}) > 1
    return tuple(RoofLabel(_label_text(g, mixed=mixed), g[-1].gflop_per_s, any(line.used for line in g)) for g in groups)


def _label_text(lines: Sequence[ComputeLine], *, mixed: bool) -> str:
    marked = "; ".join(line.name + (" (theoretical)" if mixed and line.peak_kind == "theoretical" else "") for line in lines)
    lowest, highest = _flops(lines[0].gflop_per_s), _flops(lines[-1].gflop_per_s)
    return f"{marked}: {highest}" if lowest == highest else f"{marked}: {lowest.removesuffix(' TFLOP/s')} to {highest}"


def _points(roof: Mapping[str, Any]) -> tuple[Point, ...]:
    rate = roof["gflop_per_s"]
    if not rate:
        return ()
    doubted = any((row["utilisation"] or 0) > 1 for row in roof["compute"])
    return tuple(
        Point(
            level=row["level"],
            name=_LEVEL_NAMES[row["level"]],
            intensity=row["intensity"],
            gflop_per_s=rate,
            colour=_COLOURS[row["level"]],
            doubtful=doubted or (row["utilisation"] or 0) > 1,
        )
        for row in roof["memory"]
        if row["intensity"]
    )


def _shares(roof: Mapping[str, Any]) -> tuple[Share, ...]:
    shares = [
        Share(
            name=_LEVEL_NAMES[row["level"]],
            rate=f"{_rate(row['gb_per_s'])} of {row['peak_gb_per_s']:,.0f} GB/s",
            share=row["utilisation"],
            colour=_COLOURS[row["level"]],
            reason=row["reason"],
        )
        for row in roof["memory"]
    ]
    shares += [
        Share(
            name=f"{row['unit']} {row['data_type']}",
            rate=f"{_rate(row['gflop_per_s'])} of {row['peak_gflop_per_s']:,.0f} {_rate_unit(row['data_type'])}",
            share=row["utilisation"],
            colour="#495057",
            reason=row["reason"],
        )
        for row in roof["compute"]
        if row["flops"] is None or row["flops"] > 0
    ]
    return tuple(shares)


def _remark(roof: Mapping[str, Any]) -> str | None:
    if roof["implausible"]:
        return f"unreliable: {', '.join(roof['implausible'])}"
    if roof["flops"] is None:
        return f"work unknown: {roof['flops_reason']}"
    return None if roof["flops"] else "no floating-point work: only bandwidths are shown"


def _ranges(memory: Sequence[MemoryLine], compute: Sequence[ComputeLine], points: Sequence[Point]) -> dict[str, Any]:
    """Return axis ranges of whole decades around all ridge points and all kernel points."""
    top = max(line.gflop_per_s for line in compute)
    slowest = min(line.gb_per_s for line in memory)
    left = min([_LEAST_INTENSITY, *(point.intensity / 2 for point in points)])
    right = max([_MOST_INTENSITY, 3 * top / slowest, *(2 * point.intensity for point in points)])
    bottom = min([slowest * left, *(point.gflop_per_s / 3 for point in points)])
    return {"x_range": (_decade(left, math.floor), _decade(right, math.ceil)), "y_range": (_decade(bottom, math.floor), 3 * top)}


def _decade(value: float, towards: Any) -> float:
    return float(10 ** towards(math.log10(value)))


def _draw_roofs(axes: Axes, plot: RooflinePlot) -> None:
    (left, right), (bottom, top) = plot.x_range, plot.y_range
    highest = max(line.gflop_per_s for line in plot.compute)
    fastest = max(line.gb_per_s for line in plot.memory)
    for line in plot.memory:
        style = "-" if line.level == "dram" else "--"
        axes.plot([left, highest / line.gb_per_s], [left * line.gb_per_s, highest], style, color=line.colour, lw=1.6)
    for roof in plot.compute:
        colour = "#212529" if roof.used else _GREY
        axes.plot([roof.gflop_per_s / fastest, right], [roof.gflop_per_s] * 2, color=colour, lw=2 if roof.used else 1)
    for label in plot.labels:
        colour = "#212529" if label.used else _GREY
        axes.text(right / 1.15, label.gflop_per_s * 1.06, label.text, color=colour, fontsize=8, ha="right", va="bottom", zorder=5)
    # Outer levels are drawn first and larger, so levels of equal traffic stay visible.
    for size, point in zip(_MARKER_SIZES, reversed(plot.points), strict=False):
        colour = _WARNING if point.doubtful else point.colour
        axes.plot([point.intensity] * 2, [bottom, point.gflop_per_s], ":", color=colour, lw=0.9)
        axes.plot(
            [point.intensity], [point.gflop_per_s], _MARKERS[point.level], color=colour, ms=size, mec="white", mew=1, zorder=6
        )
    if plot.points:
        last = max(plot.points, key=lambda point: point.intensity)
        axes.annotate(
            f"kernel ({plot.time_word})",
            (last.intensity, last.gflop_per_s),
            xytext=(12, -14),
            textcoords="offset points",
            fontsize=9,
            color=_WARNING if last.doubtful else "#212529",
            bbox={"boxstyle": "square,pad=0.15", "facecolor": "white", "edgecolor": "none", "alpha": 0.85},
            zorder=7,
        )
    handles = [
        axes.plot([], [], color=line.colour, ls="-" if line.level == "dram" else "--", marker=_MARKERS[line.level], ms=7,
                  label=f"{line.name}: {line.gb_per_s:,.0f} GB/s" + _point_text(plot, line.level))[0]
        for line in plot.memory
    ]  # fmt: skip
    axes.legend(
        handles=handles,
        loc="upper center",
        bbox_to_anchor=(0.5, -0.11),
        ncols=2,
        fontsize=8,
        frameon=False,
        title=f"memory (points: {plot.time_word} time)",
        title_fontsize=8,
    )
    if plot.remark:
        axes.text(
            0.02, 0.97, plot.remark, transform=axes.transAxes, color=_WARNING, fontsize=9, va="top", wrap=True, parse_math=False
        )
    axes.set(xscale="log", yscale="log", xlim=(left, right), ylim=(bottom, top))
    axes.set_xlabel("arithmetic intensity (FLOP per byte of the level)")
    axes.set_ylabel(f"GFLOP/s ({plot.time_word})")
    axes.grid(visible=True, which="major", color="#dee2e6", lw=0.7)


def _point_text(plot: RooflinePlot, level: str) -> str:
    point = next((point for point in plot.points if point.level == level), None)
    if point is None:
        return ""
    doubt = ", unreliable" if point.doubtful else ""
    return f"; kernel at {point.intensity:.3g} FLOP/B{doubt}"


def _draw_shares(axes: Axes, plot: RooflinePlot) -> None:
    for position, share in enumerate(plot.shares):
        if share.share is None:
            text, length = f"{share.name}  {_short_reason(share.reason)}", 0.0
        elif share.doubtful:
            text, length = f"{share.name}  above its roof: unreliable", 1.0
        else:
            text, length = f"{share.name}  {share.share:.1%}, {share.rate}", share.share
        axes.barh(position, 1, color="#f1f3f5", height=0.38)
        axes.barh(position, length, color=_WARNING if share.doubtful else share.colour, height=0.38)
        axes.text(0, position - 0.27, text, va="bottom", fontsize=8.5, color=_GREY if share.share is None else "#212529")
    axes.set_yticks([])
    axes.set_ylim(len(plot.shares) - 0.5, -0.8)
    axes.set_xlim(0, 1)
    axes.set_xticks([0, 0.25, 0.5, 0.75, 1], ["0", "25 %", "50 %", "75 %", "100 %"])
    axes.set_xlabel(f"share of the roof ({plot.time_word})")
    axes.grid(visible=True, axis="x", color="#dee2e6", lw=0.7)
    axes.set_axisbelow(True)
    for side in ("left", "right", "top"):
        axes.spines[side].set_visible(False)


def _short_reason(reason: str | None) -> str:
    text = reason or "unknown"
    return text if len(text) <= 52 else f"{text[:49]}..."


def _rate_unit(data_type: str) -> str:
    return "GOP/s" if data_type in INTEGERS else "GFLOP/s"


def _rate(value: float | None) -> str:
    return "?" if value is None else f"{value:,.0f}" if value >= 10 else f"{value:.3g}"


def _flops(gflop_per_s: float) -> str:
    if gflop_per_s >= 1e6:
        return f"{gflop_per_s / 1e6:.3g} PFLOP/s"
    return f"{gflop_per_s / 1e3:.4g} TFLOP/s" if gflop_per_s >= 1e3 else f"{gflop_per_s:.3g} GFLOP/s"


def _shortened(name: str) -> str:
    return name if len(name) <= 100 else f"{name[:97]}..."
