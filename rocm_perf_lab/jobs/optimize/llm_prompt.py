"""`job=llm_prompt`: the prompt for a kernel without calling a model."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

from rocm_perf_lab.core.files import write_text
from rocm_perf_lab.jobs.optimize.bench import read_source
from rocm_perf_lab.jobs.optimize.prompt_facts import facts_of, rules_of
from rocm_perf_lab.jobs.optimize.setup import build_guards, with_evidence
from rocm_perf_lab.jobs.profile.job import require_correct
from rocm_perf_lab.jobs.profile.workbench import Workbench
from rocm_perf_lab.optimize.proposal import Proposal
from rocm_perf_lab.optimize.proposers.model import estimated_tokens
from rocm_perf_lab.optimize.proposers.prompt import PromptTemplates, PromptWriter
from rocm_perf_lab.optimize.search import ParentSelection
from rocm_perf_lab.optimize.source_tree import parse_source

if TYPE_CHECKING:
    from rocm_perf_lab.jobs.lab import Lab


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
        templates = PromptTemplates(lab.config.optimizer.llm.prompts)
        bench = Workbench(with_evidence(lab.config, lab.device), lab.device)
        profiled = bench.run(bench.compile(kernel.source_path), lab.output_dir / "baseline")
        require_correct(profiled, lab)
        facts = facts_of(lab.output_dir / "baseline", kernel, text)
        writer = PromptWriter(rules_of(lab, build_guards(lab.config)), lambda _: facts, templates)
        source = Proposal.of(text, transform="none", description="the unmodified source", parent=None)
        messages = writer.question(ParentSelection(source), ())
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
