"""What a model is told, rendered from the templates `llm_prompt*.j2`."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from rocm_perf_lab.core.resources import resource_dir
from rocm_perf_lab.optimize.proposers.model import ChatMessage

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from rocm_perf_lab.optimize.proposal import Proposal, Verdict

_VERDICTS_TOLD = 12
_LONGEST_LOG = 4000


@dataclass(frozen=True)
class PromptRules:
    """What every rewrite is held to, in words.

    Args:
        entry: The kernel.
        file_name: Of the source.
        guards: One sentence per guard.
        min_improvement: What it has to save.
        time_word: `measured` or `emulated`.
    """

    entry: str
    file_name: str
    guards: tuple[str, ...]
    min_improvement: float
    time_word: str


@dataclass(frozen=True)
class PromptWriter:
    """Renders the messages.

    Args:
        rules: The same for the whole run.
        facts: What the profile says of a source that was run: kernel, gpu, profile, analysis, hot_spots.
    """

    rules: PromptRules
    facts: Callable[[Proposal], Mapping[str, Any]]

    def question(self, parent: Proposal, judged: Sequence[Verdict]) -> list[ChatMessage]:
        """What a conversation begins with: the rules, then the source with all that is known of it."""
        told = {
            "source": parent.text.removeprefix("\ufeff").replace("\r\n", "\n"),
            "facts": self.facts(parent),
            "verdicts": [_told(verdict) for verdict in judged[-_VERDICTS_TOLD:]],
        }
        return [
            ChatMessage(role="system", content=_render("llm_prompt_system.j2", rules=asdict(self.rules))),
            ChatMessage(role="user", content=_render("llm_prompt.j2", rules=asdict(self.rules), **told)),
        ]

    def repair(self, verdict: Verdict) -> ChatMessage:
        """What the compiler, or the reader of the answer, said to the last one."""
        log = verdict.log if len(verdict.log) <= _LONGEST_LOG else verdict.log[:_LONGEST_LOG] + "\n[cut]"
        content = _render("llm_prompt_repair.j2", rules=asdict(self.rules), stage=verdict.stage, reason=verdict.reason, log=log)
        return ChatMessage(role="user", content=content)


def guard_rules(guards: Sequence[object]) -> tuple[str, ...]:
    """What each guard says of itself: its `rule`, which has its limits, or the first paragraph of its docstring."""
    sentences = []
    for guard in guards:
        first = (type(guard).__doc__ or type(guard).__name__).strip().split("\n\n")[0]
        sentences.append(getattr(guard, "rule", None) or " ".join(first.split()))
    return tuple(sentences)


def _told(verdict: Verdict) -> dict[str, Any]:
    return {
        "description": verdict.proposal.description,
        "outcome": "accepted" if verdict.accepted else f"rejected at {verdict.stage}",
        "reason": verdict.reason,
        "improvement": verdict.improvement,
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
