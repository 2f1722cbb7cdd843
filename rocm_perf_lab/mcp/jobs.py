"""Run a worker, pass on its progress, and stop it if the client cancels the request."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from rocm_perf_lab.core.errors import LabError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

_LONGEST_LINE = 64 << 20
_LONGEST_END_S = 10.0
_MOST_CHARACTERS = 60_000
"""Largest answer of a tool; larger texts in it are cut, and the documents have all of them."""


async def run_worker(function: str, arguments: Mapping[str, Any], progress: Callable[[str], Awaitable[None]]) -> dict[str, Any]:
    """Run a job in another process.

    Args:
        function: Function of the API.
        arguments: Its arguments as plain data.
        progress: Called with lines of text.

    Raises:
        LabError: The job failed; the text is that of the command line.
    """
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "rocm_perf_lab.mcp.worker",
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, start_new_session=True, limit=_LONGEST_LINE,
    )  # fmt: skip
    assert process.stdin is not None and process.stdout is not None
    try:
        process.stdin.write(json.dumps({"function": function, "arguments": arguments}).encode() + b"\n")
        await process.stdin.drain()
        async for line in process.stdout:
            row = json.loads(line)
            if "result" in row:
                return bounded(row["result"])
            if "error" in row:
                raise LabError(row["error"])
            await progress(row["progress"])
        raise LabError(f"the job ended without an answer, with exit code {await process.wait()}", where=function)
    finally:
        await _end(process)


async def _end(process: asyncio.subprocess.Process) -> None:
    """Stop the worker and its children; a job that ignores SIGTERM is killed."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        with suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with suppress(TimeoutError):
            await asyncio.wait_for(asyncio.shield(process.wait()), _LONGEST_END_S)
            return


def bounded(result: dict[str, Any], most: int = _MOST_CHARACTERS) -> dict[str, Any]:
    """Return a result whose JSON text has at most about `most` characters: long lists and texts are cut, which is marked."""
    items, characters = 1000, most // 2
    while len(json.dumps(result, default=str)) > most and items > 1:
        result = _cut(result, items, characters)
        items, characters = items // 2, characters // 2
    return result


def _cut(value: Any, items: int, characters: int) -> Any:
    if isinstance(value, str) and len(value) > characters:
        return f"{value[:characters]}… ({len(value) - characters} more characters)"
    if isinstance(value, dict):
        return {name: _cut(one, items, characters) for name, one in value.items()}
    if isinstance(value, list):
        left = [f"… {len(value) - items} more"] if len(value) > items else []
        return [_cut(one, items, characters) for one in value[:items]] + left
    return value
