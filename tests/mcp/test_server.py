"""The MCP server through the client of the `mcp` package, over standard input and output."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
from mcp import Client, StdioServerParameters

from rocm_perf_lab.mcp.jobs import bounded

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

TOOLS = {"profile", "optimize", "autotune", "analyze", "compare", "replay", "doctor", "list_runs", "read_run"}


def served(directory: Path, session: Callable[[Client], Awaitable[None]]) -> None:
    """Run a session with a server whose working directory is `directory`."""
    environment = {**os.environ, "MLFLOW_TRACKING_URI": f"sqlite:///{directory}/mlflow.db"}
    server = StdioServerParameters(
        command=sys.executable, args=["-m", "rocm_perf_lab.cli", "mcp"], cwd=str(directory), env=environment
    )

    async def run() -> None:
        async with Client(server) as client:
            await session(client)

    asyncio.run(run())


def plain(result: Any) -> dict[str, Any]:
    assert not result.is_error, result.content
    found: dict[str, Any] = result.structured_content
    return found


def test_tools_have_schemas_and_errors_have_hints(tmp_path: Path) -> None:
    async def session(client: Client) -> None:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert set(tools) == TOOLS
        assert tools["profile"].input_schema["required"] == ["kernel"]
        assert "context" not in tools["profile"].input_schema["properties"]
        assert all(tool.description for tool in tools.values())

        wrong = await client.call_tool("profile", {"kernel": "vectr_add"})
        assert wrong.is_error
        assert "did you mean kernel=vector_add?" in str(wrong.content)

    served(tmp_path, session)


@pytest.mark.slow
def test_an_agent_goes_from_an_unknown_kernel_to_an_accepted_rewrite(tmp_path: Path) -> None:
    lines: list[str | None] = []

    async def told(progress: float, total: float | None, message: str | None) -> None:
        lines.append(message)

    async def session(client: Client) -> None:
        assert "emulator" in plain(await client.call_tool("doctor"))["can_run"]
        shape = {"rows": 16, "cols": 4096}
        profiled = plain(
            await client.call_tool(
                "profile", {"kernel": "softmax", "parameters": shape, "device": "emulator"}, progress_callback=told
            )
        )
        assert profiled["time_kind"] == "emulated" and profiled["ledger"]
        assert "compiling" in lines
        overrides = ["optimizer=quick", "device=emulator"]
        arguments = {"kernel": "softmax", "budget": 2, "parameters": shape, "overrides": overrides}
        rewritten = plain(await client.call_tool("optimize", arguments))
        assert any(row["accepted"] for row in rewritten["proposals"])
        assert rewritten["best_diff"].startswith("---")
        runs = plain(await client.call_tool("list_runs", {"kernel": "softmax"}))["runs"]
        assert {run["job"] for run in runs} == {"profile", "optimize"}
        *_, date, run = profiled["directory"].split("/")
        (content,) = (await client.read_resource(f"runs://{date}/{run}/profile.json")).contents
        assert json.loads(content.model_dump()["text"])["result"] == "correct"

    served(tmp_path, session)


@pytest.mark.slow
def test_an_agent_searches_compares_analyses_and_replays(tmp_path: Path) -> None:
    """The remaining tools, on a vector addition; the capture is that of the command line."""
    capture = [sys.executable, "-m", "rocm_perf_lab.cli", "replay", "capture", "kernel=vector_add", "kernel.params.n=4096"]
    subprocess.run([*capture, "--output", "captured"], cwd=tmp_path, check=True, capture_output=True)
    (tmp_path / "space.yaml").write_text("{parameters: {block: [64, 128]}}")

    async def session(client: Client) -> None:
        small = {"parameters": {"n": 4096}}
        tuned = plain(await client.call_tool("autotune", {"kernel": "vector_add", "space": "space.yaml", "budget": 2, **small}))
        assert tuned["best"]["block"] in (64, 128) and len(tuned["fastest_trials"]) == 2
        first, second = [
            plain(await client.call_tool("profile", {"kernel": "vector_add", "thread_trace": deep, **small}))
            for deep in (True, False)
        ]
        compared = plain(await client.call_tool("compare", {"base": first["directory"], "new": second["directory"]}))
        assert compared["regressions"] == [] and [row["verdict"] for row in compared["kernels"]] == ["same"]
        analysed = plain(await client.call_tool("analyze", {"paths": [f"{first['directory']}/.rocpd_profile"]}))
        assert analysed["runtime_us"] == first["runtime_us"]
        again = plain(await client.call_tool("read_run", {"directory": first["directory"]}))
        assert again["metrics"] == first["metrics"]
        replayed = plain(await client.call_tool("replay", {"capture": "captured", "iterations": 2, "check": True}))
        assert replayed["verification"]["passed"] and replayed["timing"]["kind"] == "emulated"
        missing = await client.call_tool("replay", {"capture": "elsewhere"})
        assert missing.is_error and "elsewhere" in str(missing.content)

    served(tmp_path, session)


@pytest.mark.slow
def test_a_cancelled_job_is_stopped(tmp_path: Path) -> None:
    async def session(client: Client) -> None:
        started = asyncio.Event()

        async def told(progress: float, total: float | None, message: str | None) -> None:
            started.set()

        call = asyncio.create_task(
            client.call_tool("optimize", {"kernel": "softmax", "overrides": ["device=emulator"]}, progress_callback=told)
        )
        await asyncio.wait_for(started.wait(), 120)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        for _ in range(150):
            if not workers(tmp_path):
                return
            await asyncio.sleep(0.1)
        raise AssertionError(f"still running: {workers(tmp_path)}")

    served(tmp_path, session)


def workers(directory: Path) -> list[str]:
    """Return the processes of jobs whose working directory is `directory`."""
    from pathlib import Path

    found = []
    for place in Path("/proc").glob("[0-9]*"):
        try:
            if (place / "cwd").readlink() == directory and b"mcp.worker" in (place / "cmdline").read_bytes():
                found.append(place.name)
        except OSError:
            continue
    return found


def test_answers_are_bounded() -> None:
    result = bounded({"rows": list(range(100_000)), "text": "x" * 100_000}, most=10_000)

    assert len(json.dumps(result)) <= 10_000
    assert result["rows"][0] == 0 and "more" in result["rows"][-1]
    assert "more characters" in result["text"]
    assert bounded({"rows": [1, 2]}) == {"rows": [1, 2]}
