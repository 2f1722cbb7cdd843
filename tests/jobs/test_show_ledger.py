"""Lines of the ledger: numbers by hand, lower bounds, unknown times, and what is abbreviated."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rocm_perf_lab.analysis.ledger import Cause, Evidence, HardwareUnit, Ledger, Loss, Roof, Source
from rocm_perf_lab.analysis.ledger_document import ledger_part
from rocm_perf_lab.jobs.show_ledger import TimeUnit, duration_text, ledger_lines

WAITS = Evidence(Source.COUNTERS, "wavefronts wait for vector memory for 77% of their life")
LINE = Evidence(Source.THREAD_TRACE, "most of it at global_load_dword v1")


def loss(cause: Cause, share: float, *, gain: float | None = None, location: str | None = None) -> Loss:
    most = share if gain is None else gain
    return Loss(cause, share * 20_000, share, most * 20_000, most, 0.7, (WAITS, LINE), f"Repair {cause}.", location)


LEDGER = Ledger(
    measured_ns=20_000.0,
    emulated=False,
    roof=Roof(HardwareUnit.DRAM, 10_000.0, 0.5, (Evidence(Source.COUNTERS, "2,000 GB/s"),)),
    losses=(
        loss(Cause.MEMORY_LATENCY, 0.25, gain=0.3, location="copy.hip:12"),
        loss(Cause.LDS_BANK_CONFLICTS, 0.1),
        loss(Cause.TAIL, 0.05),
        loss(Cause.DEPENDENCY, 0.004),
    ),
    unexplained_ns=1_920.0,
    unexplained=0.096,
    missing=("a thread trace", "one", "two"),
    verdict="memory_latency",
    confidence=0.6,
)


def shown(ledger: Ledger, *, width: int = 80, verbose: bool = False) -> list[str]:
    return [line.plain for line in ledger_lines(ledger, width=width, verbose=verbose)]


def test_the_screen_of_a_ledger() -> None:
    assert shown(LEDGER) == [
        "roof     dram: 10 us, 50% of the time",
        "verdict  memory latency (confidence 60%)",
        "  ledger, times measured             us   share      gain at most  confidence",
        "  dram roof                       10.00   50.0%",
        "  memory latency                   5.00   25.0%           6.00 us         70%",
        "    counters: wavefronts wait for vector memory for 77% of their life",
        "  LDS bank conflicts               2.00   10.0%           2.00 us         70%",
        "    counters: wavefronts wait for vector memory for 77% of their life",
        "  tail                             1.00    5.0%           1.00 us         70%",
        "    counters: wavefronts wait for vector memory for 77% of their life",
        "  1 smaller                        0.08    0.4%",
        "  unexplained                      1.92    9.6%",
        "suggestions",
        "  1. copy.hip:12: Repair memory_latency.",
        "  2. Repair lds_bank_conflicts.",
        "  3. Repair tail.",
        "missing  a thread trace",
        "         one",
        "         and 1 more (--verbose)",
    ]


def test_verbose_has_every_loss_all_evidence_and_everything_missing() -> None:
    lines = shown(LEDGER, verbose=True)

    assert sum("most of it at global_load_dword v1" in line for line in lines) == len(LEDGER.losses)
    assert any(line.startswith("  dependency") for line in lines)
    assert "  4. Repair dependency." in lines
    assert lines[-1] == "         two"


def test_a_lower_bound_is_marked_and_an_emulated_time_is_labelled() -> None:
    assert LEDGER.roof is not None
    lines = shown(replace(LEDGER, emulated=True, roof=replace(LEDGER.roof, lower_bound=True)))

    assert lines[0] == "roof     dram: >=10 us, >=50% of the time"
    assert lines[2].startswith("  ledger, times emulated")
    assert lines[3] == "  dram roof                     >=10.00 >=50.0%"


def test_without_times_there_are_shares_only() -> None:
    losses = tuple(replace(one, amount_ns=None, gain_ns=None) for one in LEDGER.losses)
    assert LEDGER.roof is not None
    roof = replace(LEDGER.roof, time_ns=None)

    lines = shown(replace(LEDGER, measured_ns=None, unexplained_ns=None, losses=losses, roof=roof))

    assert lines[0] == "roof     dram: 50% of the time"
    assert lines[4] == "  memory latency                      -   25.0%             30.0%         70%"


@pytest.mark.parametrize("width", [80, 100, 120])
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    long = replace(LEDGER.losses[0], evidence=(Evidence(Source.PC_SAMPLES, "word " * 80),), suggestion="x" * 300)

    assert max(map(len, shown(replace(LEDGER, losses=(long,), verdict="v" * 200), width=width))) <= width


@pytest.mark.parametrize(
    ("time_ns", "text"),
    [(None, "-"), (0.5, "0.5 ns"), (999, "999 ns"), (1000, "1 us"), (16_320, "16.3 us"), (2.5e6, "2.5 ms"), (15.1e9, "15.1 s"),
     (4.2e12, "4,200 s")],
)  # fmt: skip
def test_durations_have_three_digits(time_ns: float | None, text: str) -> None:
    assert duration_text(time_ns) == text


def test_a_column_has_one_unit() -> None:
    assert [TimeUnit.for_time(ns).name for ns in (None, 0.5, 1500, 4_870, 16_320, 1.2e6, 3e6, 9e9)] == [
        "us", "ns", "ns", "us", "us", "us", "ms", "s",
    ]  # fmt: skip


def test_the_document_has_the_same_numbers() -> None:
    part = ledger_part(LEDGER)

    assert (part.measured_us, part.unexplained_us, part.unexplained_share) == (20.0, 1.92, 0.096)
    assert part.roof is not None
    assert (part.roof.name, part.roof.time_us, part.roof.lower_bound) == ("dram", 10.0, False)
    assert (part.losses[0].cause, part.losses[0].amount_us, part.losses[0].gain_us) == ("memory_latency", 5.0, 6.0)
    assert part.losses[0].evidence[1].source == "thread_trace"
