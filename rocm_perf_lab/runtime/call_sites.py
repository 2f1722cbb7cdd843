"""Source lines of return addresses in an application's executable and libraries."""

from __future__ import annotations

from bisect import bisect_right
from pathlib import Path
from typing import TYPE_CHECKING

from rocm_perf_lab.core.errors import LabError

if TYPE_CHECKING:
    from collections.abc import Callable

_LARGEST_FILE_BYTES = 1 << 28


class CallSites:
    """Source lines of host code; each file is read once.

    Args:
        root: Directory tree in which the application ran, if any.
    """

    def __init__(self, root: Path | None = None) -> None:
        self._root = root
        self._lookups: dict[str, Callable[[int], str]] = {}

    def line_of(self, path: str, offset: int) -> str | None:
        """Return `file:line` of the call that returns to an address, or the function or file without line tables.

        Args:
            path: Executable or library; empty if unknown.
            offset: Return address at link time.
        """
        if not path:
            return None
        if path not in self._lookups:
            self._lookups[path] = self._lookup(path)
        return self._lookups[path](offset - 1)  # in the call instruction

    def _lookup(self, path: str) -> Callable[[int], str]:
        from rocm_perf_lab.toolchain.source_lines import line_table_of_file

        data = self._read(path)
        try:
            lines = line_table_of_file(data) if data else None
        except LabError:
            lines = None
        functions = _functions(data)
        starts = [start for start, _ in functions]

        def lookup(address: int) -> str:
            line = lines(address) if lines is not None else None
            if line is not None:
                return f"{line.file}:{line.line}"
            place = bisect_right(starts, address) - 1
            if place >= 0:
                return f"{Path(path).name}, function {functions[place][1]}"
            return f"{Path(path).name}+{address:#x}"

        return lookup

    def _read(self, path: str) -> bytes:
        inside = [self._root / path.lstrip("/")] if self._root is not None else []
        for place in (*inside, Path(path)):
            try:
                if place.stat().st_size <= _LARGEST_FILE_BYTES:
                    return place.read_bytes()
            except OSError:
                continue
        return b""


def _functions(data: bytes) -> list[tuple[int, str]]:
    """Return the functions of an ELF file by address."""
    import io

    from elftools.common.exceptions import ELFError
    from elftools.elf.elffile import ELFFile
    from elftools.elf.sections import SymbolTableSection

    try:
        section = ELFFile(io.BytesIO(data)).get_section_by_name(".symtab")
    except ELFError:
        return []
    symbols = section.iter_symbols() if isinstance(section, SymbolTableSection) else ()
    return sorted((s["st_value"], s.name) for s in symbols if s["st_info"]["type"] == "STT_FUNC" and s["st_value"])
