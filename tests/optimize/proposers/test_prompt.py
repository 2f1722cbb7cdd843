"""Prompt templates: what they tell a model, and replacements by the user."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from rocm_perf_lab.core.errors import LabError
from rocm_perf_lab.optimize.profile_summary import ProfileSummary
from rocm_perf_lab.optimize.proposal import Proposal, Verdict
from rocm_perf_lab.optimize.proposers.prompt import PromptRules, PromptTemplates, PromptWriter
from rocm_perf_lab.optimize.search import ParentSelection

if TYPE_CHECKING:
    from pathlib import Path

RULES = PromptRules("k", "k.hip", ("No clocks.",), 0.02, "emulated", ("64 KiB of LDS",), launch_changes=True)
BASE = Proposal.of("void k() {}\n", transform="none", description="the unmodified source", parent=None)
TILED = Proposal.of("void k() { tiled(); }\n", transform="llm", description="Tiles in LDS.", parent=BASE)
WIDE = Proposal.of("void k() { wide(); }\n", transform="vector", description="Wide loads.", parent=TILED)
BEFORE = ProfileSummary("memory_latency", (("memory_latency", 0.6),))
AFTER = ProfileSummary("small_grid", (("memory_latency", 0.2),))
FIRST = Verdict(TILED, True, "measurement", "40.0% less time", runtime_ns=6000.0, improvement=0.4, profile=BEFORE)
SECOND = Verdict(WIDE, False, "measurement", "3.0% more time", runtime_ns=6180.0, improvement=-0.03, profile=AFTER)


def facts(_: Proposal) -> dict[str, Any]:
    """Facts of a profile that has the least content."""
    resources = {"vgpr_per_thread": 16, "agpr_per_thread": 0, "sgpr_per_wave": 8, "lds_bytes": 0, "scratch_bytes": 0}
    ledger = {"verdict": "small_grid", "confidence": 0.5, "roof": None, "unexplained_share": 0.1, "losses": []}
    return {
        "profile": {
            "gpu": {"name": "GPU", "architecture": "gfx942", "dram_gb_per_s": 1.0},
            "kernel": {"grid": [1], "block": [64]},
            "provenance": {"time_kind": "emulated", "device": "emulator"},
            "runtime_ms": 0.01,
            "resources": resources,
            "occupancy": {"waves_per_simd": 8.0, "max_waves_per_simd": 8, "limiter": "nothing"},
            "roofline": None,
            "instruction_mix": None,
        },
        "analysis": {"headroom": None, "ledger": ledger},
        "metrics": {},
        "losses": [],
        "hot_spots": [],
        "hot_loop": {
            "source": "k.hip:3-4",
            "share": 0.9,
            "cycles_per_turn": 120.0,
            "rows": ["   100     90  s_waitcnt vmcnt(0)"],
        },
        "arguments": [],
        "defines": [],
        "tolerances": [],
    }


WRITER = PromptWriter(RULES, facts)


def question(selection: ParentSelection, *verdicts: Verdict, writer: PromptWriter = WRITER) -> tuple[str, str]:
    system, user = writer.question(selection, verdicts)
    return system.content, user.content


def test_the_rules_name_hardware_guards_edits_and_the_launch_comment() -> None:
    system, _ = question(ParentSelection(BASE))

    for part in (
        "- 64 KiB of LDS\n",
        "- No clocks.\n",
        "<<<<<<< SEARCH",
        "// rocm-perf launch: {",
        "at least 2.0 % of the emulated time",
    ):
        assert part in system


def test_a_kernel_with_a_fixed_launch_is_told_so() -> None:
    fixed = PromptWriter(replace(RULES, launch_changes=False), facts)

    system, _ = question(ParentSelection(BASE), writer=fixed)

    assert "its parameter list and the launch geometry" in system
    assert "rocm-perf launch" not in system


def test_earlier_proposals_have_their_effect_and_the_change_of_their_profile() -> None:
    _, user = question(ParentSelection(TILED), FIRST, SECOND)

    assert "1. Tiles in LDS.: accepted. 40.0% less time\n" in user
    assert "2. Wide loads.: rejected at measurement. 3.0% more time; memory latency 60% to 20% of the time\n" in user


def test_of_many_proposals_the_largest_gains_and_the_last_ones_are_told() -> None:
    verdicts = [
        Verdict(
            replace(WIDE, id=str(n), description=f"rewrite {n}"), False, "measurement", "", improvement=n / 100 if n < 9 else 0.0
        )
        for n in range(30)
    ]

    _, user = question(ParentSelection(BASE), *verdicts)

    told = [n for n in range(30) if f" rewrite {n}:" in user]
    assert told == [5, 6, 7, 8, *range(22, 30)]


def test_the_hot_loop_is_shown_with_its_cycles() -> None:
    _, user = question(ParentSelection(BASE))

    assert "## Hottest loop: k.hip:3-4, 90 % of the wave time, 120 cycles per turn" in user
    assert "   100     90  s_waitcnt vmcnt(0)\n" in user


def test_a_crossover_shows_both_sources() -> None:
    _, user = question(ParentSelection(BASE, (FIRST,)), FIRST)

    assert "## Another version, 6.0000 us: Tiles in LDS." in user
    assert user.index(TILED.text) < user.index(BASE.text)


@pytest.mark.parametrize(
    ("verdict", "told"),
    [
        (
            Verdict(TILED, False, "compile", "k.hip:1: no", log="error: no ;"),
            "This does not compile:\nk.hip:1: no\n\nCompiler output:\nerror: no ;",
        ),
        (Verdict(TILED, False, "guard", "signature: changed"), "This breaks a rule: signature: changed"),
        (Verdict(TILED, False, "gate", "load past the end [n=3]"), "in the trial in brackets: load past the end [n=3]"),
        (Verdict(TILED, False, "verification", "y [n=3]: 0 instead of 1"), "The results are wrong"),
        (SECOND, "The results are correct, but it was not accepted: 3.0% more time"),
        (Verdict(TILED, False, "answer", "no code block"), "This answer cannot be used: no code block"),
    ],
    ids=["compile", "guard", "gate", "verification", "measurement", "answer"],
)
def test_a_repair_states_what_failed(verdict: Verdict, told: str) -> None:
    message = WRITER.repair(verdict, BASE)

    assert told in message.content
    assert "SEARCH/REPLACE edits of your last version" in message.content


def test_a_slow_answer_is_returned_with_its_own_hot_loop() -> None:
    content = WRITER.repair(SECOND, BASE).content

    assert "registers: 16 VGPR (before 16)" in content
    assert "s_waitcnt vmcnt(0)" in content


def test_a_template_of_the_user_extends_a_built_in_one(tmp_path: Path) -> None:
    own = '{% extends "builtin/llm_prompt_system.j2" %}\n{% block hardware %}Think of LDS first.{% endblock %}\n'
    (tmp_path / "llm_prompt_system.j2").write_text(own)

    system, user = question(ParentSelection(BASE), writer=PromptWriter(RULES, facts, PromptTemplates(tmp_path)))

    assert "Think of LDS first." in system
    assert "64 KiB" not in system
    assert user == question(ParentSelection(BASE))[1]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("llm_prompt.j2", "{% if %}", "invalid prompt template: "),
        ("question.j2", "x", "question.j2 is not the name of a prompt"),
        ("notes.txt", "x", "there are no prompt templates in this directory"),
        ("llm_prompt.j2", b"\xff\xfe", "invalid prompt template: "),
    ],
)
def test_an_invalid_template_is_refused_before_a_run(tmp_path: Path, name: str, content: str | bytes, message: str) -> None:
    (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())

    with pytest.raises(LabError, match=message) as error:
        PromptTemplates(tmp_path)

    assert str(tmp_path) in str(error.value.where)


def test_an_unknown_variable_is_one_error(tmp_path: Path) -> None:
    (tmp_path / "llm_prompt_repair.j2").write_text("{{ verdict.stage }}\n")

    with pytest.raises(LabError, match="the prompt cannot be rendered: 'verdict' is undefined"):
        PromptWriter(RULES, facts, PromptTemplates(tmp_path)).repair(FIRST, BASE)
