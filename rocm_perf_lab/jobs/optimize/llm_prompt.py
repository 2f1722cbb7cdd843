"""`job=llm_prompt`: the prompt for a kernel without calling a model, and the facts in prompts.

Facts are read from the documents of an evaluation, so they are identical in a run that was interrupted and resumed.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from typing import TYPE_CHECKING, Any

from rocm_perf_lab.core.components import build
from rocm_perf_lab.core.errors import LabError
from rocm_perf_lab.core.files import write_text
from rocm_perf_lab.device.instruction_counts import COUNTS_NAME, read_counts
from rocm_perf_lab.jobs.optimize.bench import read_source
from rocm_perf_lab.jobs.profile.job import require_correct
from rocm_perf_lab.jobs.profile.workbench import Workbench
from rocm_perf_lab.languages.arguments import BufferArgument
from rocm_perf_lab.optimize.proposal import Proposal
from rocm_perf_lab.optimize.proposers.model import estimated_tokens
from rocm_perf_lab.optimize.proposers.prompt import PromptRules, PromptWriter, guard_rules
from rocm_perf_lab.optimize.source_tree import parse_source
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
"""Suffixes of metrics that are amounts; prompts have shares and rates."""


class LlmPromptJob:
    """Profiles a kernel and prints the first prompt of a run with `optimizer.proposer=llm`."""

    def run(self, lab: Lab) -> None:
        """Profile the kernel and print the prompt.

        Raises:
            LabError: The kernel cannot be compiled, run or verified.
        """
        kernel = lab.config.kernel
        text = read_source(kernel.source_path)
        parse_source(text.encode(), kernel.entry)
        bench = Workbench(lab.config, lab.device)
        profiled = bench.run(bench.compile(kernel.source_path), lab.output_dir / "baseline")
        require_correct(profiled, lab)
        guards = [
            build(
                row,
                where=f"optimizer.guards[{i}]",
                target=lab.config.target,
                inline_assembly=lab.config.optimizer.inline_assembly,
            )
            for i, row in enumerate(lab.config.optimizer.guards)
        ]
        facts = facts_of(lab.output_dir / "baseline", kernel)
        writer = PromptWriter(rules_of(lab, guards), lambda _: facts)
        source = Proposal.of(text, transform="none", description="the unmodified source", parent=None)
        messages = writer.question(source, ())
        document = {
            "schema_version": "1.0",
            "kernel": kernel.name,
            "messages": [message.model_dump() for message in messages],
            "tokens_estimated": estimated_tokens(*(message.content for message in messages)),
        }
        path = lab.output_dir / "llm_prompt.json"
        write_text(path, json.dumps(document, indent=2) + "\n")
        if lab.config.display == "table":
            for message in messages:
                sys.stdout.write(f"--- {message.role}\n{message.content}\n")
        lab.answer(path, f"{profiled.runtime_ns / 1e6:.6f} ms {lab.device.identity.time_word}")


def rules_of(lab: Lab, guards: Sequence[object]) -> PromptRules:
    """Return the rules for rewrites under the configuration."""
    kernel = lab.config.kernel
    return PromptRules(
        entry=kernel.entry,
        file_name=kernel.source.name,
        guards=guard_rules(guards),
        min_improvement=lab.config.optimizer.min_improvement,
        time_word=lab.device.identity.time_word,
    )


def facts_of(directory: Path, kernel: KernelDescription | None) -> Mapping[str, Any]:
    """Return the facts of an evaluated source.

    Args:
        directory: Directory with profile.json and analysis.json.
        kernel: Description of the kernel; None for an application.
    """
    profile, analysis = (json.loads((directory / name).read_text(encoding="utf-8")) for name in ("profile.json", "analysis.json"))
    metrics = {n: v for n, v in analysis["metrics"].items() if v is not None and v != 0 and not n.endswith(_OMITTED_SUFFIXES)}
    return {
        "profile": profile,
        "analysis": analysis,
        "metrics": metrics,
        "losses": [loss for loss in analysis["ledger"]["losses"] if loss["share"] >= _LEAST_LOSS][:_LOSSES],
        "hot_spots": hot_spots(directory) + _waits(analysis),
        "arguments": _arguments(kernel) if kernel else [],
        "defines": [f"{name}={value}" for name, value in _defines(kernel).items()] if kernel else [],
        "tolerances": _tolerances(kernel) if kernel else [],
    }


def _tolerances(kernel: KernelDescription) -> list[str]:
    """Return the allowed error of each output in words."""
    outputs = [a.name for a in kernel.arguments if isinstance(a, BufferArgument) and a.access != "in"]
    declared = kernel.tolerance
    texts = [f"{n} within rtol {declared[n].rtol:g}, atol {declared[n].atol:g}" for n in outputs if n in declared]
    derived = [n for n in outputs if n not in declared or declared[n].note is None]
    if derived:
        texts.append(f"{', '.join(derived)} within the rounding errors of another order of the same operations")
    return texts


def hot_spots(directory: Path) -> list[str]:
    """Return source lines by executed instructions with their most frequent opcodes; empty without instruction counts."""
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
