"""Facts in prompts: those of the target, and those of an evaluated source.

Facts are read from the documents of an evaluation, so that they are identical in a resumed run.
"""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Any

from rocm_perf_lab.core.errors import LabError
from rocm_perf_lab.device.instruction_counts import COUNTS_NAME, read_counts
from rocm_perf_lab.jobs.optimize.hardware_facts import hardware_facts
from rocm_perf_lab.jobs.optimize.hot_loop import hot_loop
from rocm_perf_lab.languages.arguments import BufferArgument
from rocm_perf_lab.optimize.proposers.prompt import PromptRules, guard_rules
from rocm_perf_lab.toolchain.kernel_file import choose_kernel, read_kernel_file
from rocm_perf_lab.toolchain.listing import list_kernel

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from rocm_perf_lab.jobs.lab import Lab
    from rocm_perf_lab.languages.description import KernelDescription

_LINES = 8
_LOSSES, _LEAST_LOSS = 5, 0.03
_OPCODES = 4
_OMITTED_SUFFIXES = ("flops", "bytes", "ops", "cycles")
"""Suffixes of metrics that are totals; prompts contain fractions and rates instead."""


def rules_of(lab: Lab, guards: Sequence[object]) -> PromptRules:
    """Return the rules for rewrites under the configuration."""
    kernel = lab.config.kernel
    return PromptRules(
        entry=kernel.entry,
        file_name=kernel.source.name,
        guards=guard_rules(guards),
        min_improvement=lab.config.optimizer.min_improvement,
        time_word=lab.device.identity.time_word,
        hardware=tuple(hardware_facts(lab.config.target)),
        launch_changes=bool(kernel.block) and not kernel.cooperative,
    )


def facts_of(directory: Path, kernel: KernelDescription | None, source: str) -> Mapping[str, Any]:
    """Return the facts of an evaluated source.

    Args:
        directory: Directory with profile.json and analysis.json.
        kernel: Description of the kernel; None for an application.
        source: Text of the source.
    """
    profile, analysis = (json.loads((directory / name).read_text(encoding="utf-8")) for name in ("profile.json", "analysis.json"))
    metrics = {n: v for n, v in analysis["metrics"].items() if v is not None and v != 0 and not n.endswith(_OMITTED_SUFFIXES)}
    return {
        "profile": profile,
        "analysis": analysis,
        "metrics": metrics,
        "losses": [loss for loss in analysis["ledger"]["losses"] if loss["share"] >= _LEAST_LOSS][:_LOSSES],
        "hot_spots": hot_spots(directory) + _waits(analysis),
        "hot_loop": hot_loop(directory, analysis, source),
        "arguments": _arguments(kernel) if kernel else [],
        "defines": [f"{name}={value}" for name, value in _defines(kernel).items()] if kernel else [],
        "tolerances": _tolerances(kernel) if kernel else [],
    }


def _tolerances(kernel: KernelDescription) -> list[str]:
    """Return a description of each output's tolerance."""
    outputs = [a.name for a in kernel.arguments if isinstance(a, BufferArgument) and a.access != "in"]
    declared = kernel.tolerance
    texts = [f"{n} within rtol {declared[n].rtol:g}, atol {declared[n].atol:g}" for n in outputs if n in declared]
    derived = [n for n in outputs if n not in declared or declared[n].note is None]
    if derived:
        texts.append(f"{', '.join(derived)} within the rounding errors of reordering the same operations")
    return texts


def hot_spots(directory: Path) -> list[str]:
    """Return source lines by executed instructions, with their most frequent opcodes; empty without instruction counts."""
    if not (directory / COUNTS_NAME).is_file():
        return []
    try:
        counts = read_counts(directory)
        code_object, kernel = choose_kernel(read_kernel_file(directory / "kernel.hsaco"), counts.symbol)
        listing = list_kernel(code_object, kernel, with_source=True)
    except LabError:  # no disassembler for this architecture
        return []
    executions = {row.address: row.executions for row in counts.instructions}
    opcodes: dict[str, Counter[str]] = {}
    for instruction in listing.instructions:
        place = f"{instruction.source.file}:{instruction.source.line}" if instruction.source else "no source line"
        mnemonic = instruction.text.split()[0]
        opcodes.setdefault(place, Counter())[mnemonic] += executions.get(instruction.address, 0)
    total = sum(executions.values()) or 1
    ranked = sorted(opcodes.items(), key=lambda item: (-item[1].total(), item[0]))[:_LINES]
    return [
        f"{place}: {count.total() / total:.0%} of the executed instructions: "
        + ", ".join(f"{name} {times / total:.1%}" for name, times in count.most_common(_OPCODES) if times)
        for place, count in ranked
        if count.total()
    ]


def _waits(analysis: Mapping[str, Any]) -> list[str]:
    """Return source lines by wave time; empty without a thread trace."""
    traced = analysis["thread_trace"]
    if traced is None:
        return []
    return [
        f"{line['source']}: {line['share']:.0%} of the wave time"
        + (f", waits for {line['waits_for_class']} of {line['waits_for']}" if line["waits_for"] else "")
        for line in traced["lines"][:_LINES]
    ]


def _arguments(kernel: KernelDescription) -> list[str]:
    texts = []
    for argument in kernel.arguments:
        if argument.kind == "buffer":
            shape = ", ".join(map(str, argument.shape))
            texts.append(f"{argument.name}: {argument.dtype}[{shape}], {argument.access}")
        elif argument.kind == "struct":
            members = ", ".join(f"{field.dtype} = {field.value}" for field in argument.fields)
            texts.append(f"{argument.name}: struct of {members}")
        else:
            texts.append(f"{argument.name}: {argument.dtype} = {argument.value}")
    params = ", ".join(f"{name}={value}" for name, value in kernel.params.items())
    return [*texts, f"with {params}"] if params else texts


def _defines(kernel: KernelDescription) -> Mapping[str, Any]:
    return kernel.compile_defines()
