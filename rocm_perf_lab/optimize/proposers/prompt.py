"""Prompts for language models, rendered from the templates `llm_prompt*.j2`, which users can replace or extend."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from rocm_perf_lab.core.errors import LabError
from rocm_perf_lab.core.resources import resource_dir
from rocm_perf_lab.optimize.guards import warnings_of
from rocm_perf_lab.optimize.proposers.model import ChatMessage

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from jinja2 import Environment

    from rocm_perf_lab.optimize.proposal import Proposal, Verdict
    from rocm_perf_lab.optimize.search import ParentSelection

SYSTEM, QUESTION, REPAIR = TEMPLATES = ("llm_prompt_system.j2", "llm_prompt.j2", "llm_prompt_repair.j2")
_MAX_VERDICTS = 12
_BEST_VERDICTS = 4
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
        hardware: Facts of the target, one sentence each.
        launch_changes: Whether a source may change the launch by a comment.
    """

    entry: str
    file_name: str
    guards: tuple[str, ...]
    min_improvement: float
    time_word: str
    hardware: tuple[str, ...] = ()
    launch_changes: bool = False


@dataclass(frozen=True)
class PromptTemplates:
    """Templates of the messages.

    Args:
        directory: Directory with templates of the user that replace those of the same name. They may extend
            `builtin/NAME` and override its blocks.

    Raises:
        LabError: The directory does not exist, has no template, or has an invalid one.
    """

    directory: Path | None = None

    def __post_init__(self) -> None:
        if self.directory is None:
            return
        own = sorted(path.name for path in self.directory.glob("*.j2")) if self.directory.is_dir() else []
        unknown = [name for name in own if name not in TEMPLATES]
        if not own or unknown:
            raise LabError(
                f"{unknown[0]} is not the name of a prompt" if unknown else "there are no prompt templates in this directory",
                where=f"optimizer.llm.prompts: {self.directory}",
                hint=f"templates: {', '.join(TEMPLATES)}",
            )
        for name in own:
            self._load(name)

    def render(self, name: str, **values: Any) -> str:
        """Return the text of a message.

        Raises:
            LabError: A template of the user fails.
        """
        from jinja2 import TemplateError

        try:
            return str(self._load(name).render(**values)).strip() + "\n"
        except (TemplateError, TypeError, ValueError, ArithmeticError, LookupError) as error:
            raise LabError(f"the prompt cannot be rendered: {error}", where=self._place(name)) from error

    @cached_property
    def _environment(self) -> Environment:
        from jinja2 import ChoiceLoader, Environment, FileSystemLoader, PrefixLoader, StrictUndefined

        builtin = FileSystemLoader(resource_dir("templates"))
        own = [FileSystemLoader(self.directory)] if self.directory is not None else []
        return Environment(
            loader=ChoiceLoader([*own, builtin, PrefixLoader({"builtin": builtin})]),
            autoescape=False,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
            keep_trailing_newline=True,
        )

    def _load(self, name: str) -> Any:
        from jinja2 import TemplateError, TemplateSyntaxError

        try:
            return self._environment.get_template(name)
        except TemplateSyntaxError as error:
            place = f"{error.filename or self._place(name)}:{error.lineno}"
            raise LabError(f"invalid prompt template: {error.message}", where=place) from error
        except (TemplateError, UnicodeDecodeError, OSError) as error:
            raise LabError(f"invalid prompt template: {error}", where=self._place(name)) from error

    def _place(self, name: str) -> str:
        return str(self.directory / name) if self.directory is not None else f"template {name}"


@dataclass(frozen=True)
class PromptWriter:
    """Renders the messages of conversations.

    Args:
        rules: Rules for rewrites.
        facts: Returns the facts of an evaluated source: profile, analysis, metrics, hot spots, hot loop, arguments.
        templates: Templates of the messages.
    """

    rules: PromptRules
    facts: Callable[[Proposal], Mapping[str, Any]]
    templates: PromptTemplates = field(default_factory=PromptTemplates)

    def question(self, selection: ParentSelection, verdicts: Sequence[Verdict]) -> list[ChatMessage]:
        """Return the first messages of a conversation: the rules, and the source with its facts and earlier verdicts."""
        profiles = {verdict.proposal.id: verdict for verdict in verdicts}
        values = {
            "rules": asdict(self.rules),
            "source": _plain(selection.parent.text),
            "facts": self.facts(selection.parent),
            "verdicts": [_verdict_facts(verdict, profiles) for verdict in _told(verdicts)],
            "partners": [{**_verdict_facts(v, profiles), "source": _plain(v.proposal.text)} for v in selection.partners],
        }
        return [
            ChatMessage(role="system", content=self.templates.render(SYSTEM, rules=values["rules"])),
            ChatMessage(role="user", content=self.templates.render(QUESTION, **values)),
        ]

    def repair(self, verdict: Verdict, parent: Proposal) -> ChatMessage:
        """Return the message about an answer that was not accepted: compiler output, finding, failing input, or profile."""
        log = verdict.log if len(verdict.log) <= _LONGEST_LOG else verdict.log[:_LONGEST_LOG] + "\n[cut]"
        content = self.templates.render(
            REPAIR,
            rules=asdict(self.rules),
            stage=verdict.stage,
            reason=verdict.reason,
            log=log,
            warnings=warnings_of(verdict.guards),
            facts=self.facts(verdict.proposal) if verdict.stage == "measurement" else None,
            parent_facts=self.facts(parent) if verdict.stage == "measurement" else None,
        )
        return ChatMessage(role="user", content=content)


def guard_rules(guards: Sequence[object]) -> tuple[str, ...]:
    """Return one sentence per guard: its `rule` with its limits, or the first paragraph of its docstring."""
    sentences = []
    for guard in guards:
        first = (type(guard).__doc__ or type(guard).__name__).strip().split("\n\n")[0]
        sentences.append(getattr(guard, "rule", None) or " ".join(first.split()))
    return tuple(sentences)


def _plain(text: str) -> str:
    return text.removeprefix("\ufeff").replace("\r\n", "\n")


def _told(verdicts: Sequence[Verdict]) -> list[Verdict]:
    """Return the last verdicts and the largest gains, in the order of evaluation."""
    if len(verdicts) <= _MAX_VERDICTS:
        return list(verdicts)
    last = list(verdicts[-(_MAX_VERDICTS - _BEST_VERDICTS) :])
    earlier = [v for v in verdicts[: -len(last)] if v.improvement is not None]
    best = sorted(earlier, key=lambda v: -(v.improvement or 0.0))[:_BEST_VERDICTS]
    chosen = {v.proposal.id for v in best}
    return [v for v in earlier if v.proposal.id in chosen] + last


def _verdict_facts(verdict: Verdict, known: Mapping[str, Verdict]) -> dict[str, Any]:
    parent = known.get(verdict.proposal.parent_id or "")
    before = parent.profile if parent is not None else None
    changes = verdict.profile.changes_from(before) if verdict.profile is not None and before is not None else ()
    return {
        "description": verdict.proposal.description,
        "outcome": "accepted" if verdict.accepted else f"rejected at {verdict.stage}",
        "reason": verdict.reason,
        "improvement": verdict.improvement,
        "runtime_ns": verdict.runtime_ns,
        "warnings": warnings_of(verdict.guards),
        "changes": changes,
    }
