"""Prompts for language models, rendered from the templates `llm_prompt*.j2`."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from rocm_perf_lab.core.resources import resource_dir
from rocm_perf_lab.optimize.guards import warnings_of
from rocm_perf_lab.optimize.proposers.model import ChatMessage

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from rocm_perf_lab.optimize.proposal import Proposal, Verdict

_MAX_VERDICTS = 12
_LONGEST_LOG = 4000


@dataclass(frozen=True)
class PromptRules:
    """Rules for rewrites in prompts.

    Args:
        entry: Name of the kernel.
        file_name: File name of the source.
        guards: One sentence per guard.
        min_improvement: Required relative gain.
        time_word: `measured` or `emulated`.
    """

    entry: str
    file_name: str
    guards: tuple[str, ...]
    min_improvement: float
    time_word: str


@dataclass(frozen=True)
class PromptWriter:
    """Renders the messages of conversations.

    Args:
        rules: Rules for rewrites.
        facts: Returns the facts of an evaluated source: profile, analysis, metrics, hot spots, arguments.
    """

    rules: PromptRules
    facts: Callable[[Proposal], Mapping[str, Any]]

    def question(self, parent: Proposal, verdicts: Sequence[Verdict]) -> list[ChatMessage]:
        """Return the first messages of a conversation: the rules, and the source with its facts and earlier verdicts."""
        context = {
            "source": parent.text.removeprefix("\ufeff").replace("\r\n", "\n"),
            "facts": self.facts(parent),
            "verdicts": [_verdict_facts(verdict) for verdict in verdicts[-_MAX_VERDICTS:]],
        }
        return [
            ChatMessage(role="system", content=_render("llm_prompt_system.j2", rules=asdict(self.rules))),
            ChatMessage(role="user", content=_render("llm_prompt.j2", rules=asdict(self.rules), **context)),
        ]

    def repair(self, verdict: Verdict) -> ChatMessage:
        """Return the message with the compiler output, or with the reason why the last answer is unusable."""
        log = verdict.log if len(verdict.log) <= _LONGEST_LOG else verdict.log[:_LONGEST_LOG] + "\n[cut]"
        content = _render("llm_prompt_repair.j2", rules=asdict(self.rules), stage=verdict.stage, reason=verdict.reason, log=log)
        return ChatMessage(role="user", content=content)


def guard_rules(guards: Sequence[object]) -> tuple[str, ...]:
    """Return one sentence per guard: its `rule` with its limits, or the first paragraph of its docstring."""
    sentences = []
    for guard in guards:
        first = (type(guard).__doc__ or type(guard).__name__).strip().split("\n\n")[0]
        sentences.append(getattr(guard, "rule", None) or " ".join(first.split()))
    return tuple(sentences)


def _verdict_facts(verdict: Verdict) -> dict[str, Any]:
    return {
        "description": verdict.proposal.description,
        "outcome": "accepted" if verdict.accepted else f"rejected at {verdict.stage}",
        "reason": verdict.reason,
        "improvement": verdict.improvement,
        "warnings": warnings_of(verdict.guards),
    }


def _render(template: str, **values: Any) -> str:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(resource_dir("templates")),
        autoescape=False,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    return environment.get_template(template).render(**values).strip() + "\n"
