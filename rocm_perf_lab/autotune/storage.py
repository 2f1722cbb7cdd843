"""Storage of studies by URL: SQLite in the directory of the run, PostgreSQL, or Optuna's journal; several sweeps may share one.

A study records the space that it was started with.
"""

from __future__ import annotations

import re
import shlex
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rocm_perf_lab.core.errors import LabError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from optuna import Study
    from optuna.samplers import BaseSampler
    from optuna.storages import BaseStorage, RDBStorage

    from rocm_perf_lab.autotune.spaces.space import Space

_SPACE = "space"
_JOURNAL = "journal:///"
_CONNECT_S = 10
_ATTEMPTS = 5
_CREATED_BY_ANOTHER = "already exists"
"""Text of the error that SQLite reports if another process has just created a table."""
_DRIVERS = {"postgresql": "postgresql+psycopg", "postgres": "postgresql+psycopg"}
_FORMS = "sqlite:///FILE, postgresql://USER@HOST/DATABASE (pip install 'rocm-perf-lab[cluster]'), journal:///FILE"


class StorageError(LabError):
    """Unreachable storage, or a study that belongs to another space."""


def open_storage(url: str | None, *, directory: Path) -> BaseStorage:
    """Connect to a storage, and create its tables if necessary.

    Args:
        url: `sqlite:///FILE`, `postgresql://…`, any other URL of SQLAlchemy, or `journal:///FILE`; a fourth slash begins an
            absolute path. None: `study.db` in `directory`.
        directory: Directory of the default storage.

    Raises:
        StorageError: The storage cannot be reached or written, or its driver is not installed.
    """
    from optuna.storages import JournalStorage
    from optuna.storages.journal import JournalFileBackend

    where = url or f"sqlite:///{(directory / 'study.db').absolute()}"
    with storage_errors(where):
        if where.startswith(_JOURNAL):
            file = Path(where.removeprefix(_JOURNAL))
            file.parent.mkdir(parents=True, exist_ok=True)
            return JournalStorage(JournalFileBackend(str(file)))
        scheme, separator, rest = where.partition("://")
        if not separator:
            raise StorageError(f"invalid storage URL: {where!r}", where="autotune.storage", hint=f"for example {_FORMS}")
        is_file = scheme.startswith("sqlite")
        if is_file:
            Path(rest.removeprefix("/").partition("?")[0]).parent.mkdir(parents=True, exist_ok=True)
        return _database_at(f"{_DRIVERS.get(scheme, scheme)}://{rest}", is_file=is_file)


def dashboard_command(url: str | None, *, directory: Path) -> str:
    """Return the command that shows the study in a browser; arguments as of :func:`open_storage`, passwords are masked."""
    where = url or f"sqlite:///{(directory / 'study.db').absolute()}"
    if where.startswith(_JOURNAL):
        return f"optuna-dashboard {shlex.quote(where.removeprefix(_JOURNAL))}"
    scheme, _, rest = where.partition("://")
    return f"optuna-dashboard {shlex.quote(without_password(f'{_DRIVERS.get(scheme, scheme)}://{rest}'))}"


def _database_at(url: str, *, is_file: bool) -> RDBStorage:
    """Open a database, and create missing tables; retry if another process creates them at the same time."""
    from optuna.storages import RDBStorage
    from sqlalchemy.exc import DBAPIError, OperationalError

    connect = {"timeout": _CONNECT_S * 6} if is_file else {"connect_timeout": _CONNECT_S} if "postgres" in url else {}
    engine = {"connect_args": connect, "pool_pre_ping": not is_file}
    for attempt in range(_ATTEMPTS):
        try:
            return RDBStorage(url, engine_kwargs=engine)
        except DBAPIError as error:
            unreachable = isinstance(error, OperationalError) and _CREATED_BY_ANOTHER not in str(error)
            if attempt == _ATTEMPTS - 1 or unreachable:
                raise
            time.sleep(0.2 * 2**attempt)
    raise AssertionError("unreachable")


def open_study(storage: BaseStorage, name: str, space: Space, sampler: BaseSampler) -> Study:
    """Create or continue the study of that name.

    Raises:
        StorageError: The storage fails, or the study was started with another space; the message lists the differences.
    """
    import optuna

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    with storage_errors(f"study {name}"):
        study = optuna.create_study(storage=storage, sampler=sampler, study_name=name, direction="minimize", load_if_exists=True)
        current, stored = _statement(space), study.user_attrs.get(_SPACE)
        if stored is None:
            study.set_user_attr(_SPACE, current)
        elif stored != current:
            raise StorageError(
                f"the study was started with another space: {'; '.join(_differences(stored, current))}",
                where=f"study {name}",
                hint="use the space that it was started with, or another name: autotune.study=NAME",
            )
    return study


def _statement(space: Space) -> dict[str, Any]:
    return {
        "parameters": {name: list(values) for name, values in space.values.items()},
        "fixed": dict(space.fixed),
        "configurations": len(space),
        "fingerprint": space.fingerprint(),
    }


def _differences(stored: dict[str, Any], current: dict[str, Any]) -> Iterable[str]:
    """Describe the differences between two spaces."""
    found = [
        f"{name} is {_shown(before.get(name))} in the study and {_shown(now.get(name))} here"
        for group in ("parameters", "fixed")
        for before, now in [(stored.get(group, {}), current[group])]
        for name in sorted(before.keys() | now.keys())
        if before.get(name) != now.get(name)
    ]
    if not found and stored.get("configurations") != current["configurations"]:
        found = [f"{stored.get('configurations')} configurations in the study and {current['configurations']} here"]
    return found or ["its constraints allow other configurations"]


def _shown(value: Any) -> str:
    return "absent" if value is None else str(value)


@contextmanager
def storage_errors(where: str) -> Iterator[None]:
    """Convert errors of Optuna, SQLAlchemy and the file system to :class:`StorageError`."""
    from optuna.exceptions import OptunaError
    from sqlalchemy.exc import SQLAlchemyError

    try:
        yield
    except (OptunaError, SQLAlchemyError, OSError, ImportError, AssertionError) as error:
        cause = error.__cause__ if isinstance(error.__cause__, Exception) else error
        text = next((line.strip() for line in str(cause).splitlines() if line.strip()), type(error).__name__)
        raise StorageError(
            f"the storage of the study cannot be used: {without_password(text)}",
            where=without_password(where),
            hint=f"check autotune.storage (in other applications hydra.sweeper.storage): {_FORMS}",
        ) from error


def without_password(text: str) -> str:
    """Return a text whose URLs have masked passwords."""
    return re.sub(r"(://[^:/@\s]*):[^@\s]+@", r"\1:***@", text)
