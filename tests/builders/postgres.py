"""PostgreSQL server in a separate directory, run as another user if the tests run as root."""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


def server_binaries() -> Path | None:
    """Return the directory with initdb and postgres; Debian keeps them off PATH."""
    on_path = shutil.which("initdb")
    directories = [*sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True), *([Path(on_path).parent] if on_path else [])]
    return next(
        (directory for directory in directories if (directory / "initdb").exists() and (directory / "pg_ctl").exists()), None
    )


@contextmanager
def running_postgres() -> Iterator[str]:
    """Yield the URL of a database that is empty and disappears."""
    binaries = server_binaries()
    assert binaries is not None
    user = _unprivileged()
    directory = Path(tempfile.mkdtemp(prefix="pg-"))  # not below pytest's directory, which other users may not enter
    if user is not None:
        os.chown(directory, user.pw_uid, user.pw_gid)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]

    def call(*words: str) -> None:
        as_user = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []} if user is not None else {}
        environment = {"PATH": f"{binaries}:/usr/bin:/bin", "HOME": str(directory), "LC_ALL": "C"}
        subprocess.run(words, check=True, cwd=directory, env=environment, stdout=subprocess.DEVNULL, timeout=400, **as_user)  # type: ignore[call-overload]

    data = directory / "data"
    settings = f"-p {port} -k '' -c listen_addresses=127.0.0.1 -c fsync=off"
    try:
        call(str(binaries / "initdb"), "-D", str(data), "-U", "lab", "--auth=trust", "-E", "UTF8")
        call(str(binaries / "pg_ctl"), "-D", str(data), "-l", str(directory / "log"), "-o", settings, "-w", "-t", "300", "start")
        try:
            yield f"postgresql://lab@127.0.0.1:{port}/postgres"
        finally:
            call(str(binaries / "pg_ctl"), "-D", str(data), "-m", "immediate", "stop")
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def _unprivileged() -> pwd.struct_passwd | None:
    """Return the user that runs PostgreSQL, which refuses to run as root."""
    if os.geteuid() != 0:
        return None
    names = {entry.pw_name: entry for entry in pwd.getpwall()}
    return names.get("postgres") or names["nobody"]
