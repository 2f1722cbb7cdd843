"""One column of a CSV file: texts of a small file, or an Arrow array of a large one, converted only as needed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from rocm_perf_lab.rocprof.dialects import DatabaseError

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    Integers = NDArray[np.int64]


class CsvError(DatabaseError):
    """A CSV file that cannot be read as output of a ROCm profiler."""


class CsvColumn:
    """Cells of one column, in order of the rows."""

    def __init__(self, file: Path, name: str, cells: list[str] | Any) -> None:
        """Create a column.

        Args:
            file: File of the column, for messages.
            name: Name of the column.
            cells: Texts, or an Arrow array of strings.
        """
        self._file = file
        self._name = name
        self._cells: Any = cells
        self._is_list = isinstance(cells, list)

    def __len__(self) -> int:
        return len(self._cells)

    @property
    def file(self) -> Path:
        """File of the column."""
        return self._file

    @property
    def name(self) -> str:
        """Name of the column."""
        return self._name

    def texts(self) -> list[str]:
        """Return the cells as written."""
        return [str(cell) for cell in (self._cells if self._is_list else self._cells.to_pylist())]

    def take(self, rows: Integers) -> CsvColumn:
        """Return a column of the given rows."""
        if self._is_list:
            return CsvColumn(self._file, self._name, [self._cells[row] for row in rows.tolist()])
        return CsvColumn(self._file, self._name, self._cells.take(rows))

    def codes(self) -> tuple[Integers, list[str]]:
        """Return the number of each cell's text, and the texts in order of their first cell."""
        if self._is_list:
            number_of: dict[str, int] = {}
            found = np.array([number_of.setdefault(text, len(number_of)) for text in self._cells], np.int64)
            return found, list(number_of)
        import pyarrow

        is_encoded = pyarrow.types.is_dictionary(self._cells.type)
        encoded = self._cells.unify_dictionaries() if is_encoded else self._cells.dictionary_encode()
        encoded = encoded.combine_chunks()
        texts = ["" if text is None else str(text) for text in encoded.dictionary.to_pylist()]
        codes = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
        if np.bincount(codes, minlength=len(texts)).all():
            return codes, texts
        # Some rows were omitted, and with them some texts.
        used, first, code = np.unique(codes, return_index=True, return_inverse=True)
        order = np.argsort(first, kind="stable")
        number = np.empty(len(order), np.int64)
        number[order] = np.arange(len(order))
        return number[code.ravel()], [texts[one] for one in used[order].tolist()]

    def plain_integers(self) -> Integers | None:
        """Return the cells as integers; None if any cell is not a plain integer."""
        if self._is_list:
            try:
                return np.array(list(map(int, self._cells)), np.int64)
            except (ValueError, OverflowError):
                return None
        import pyarrow

        try:
            cells = self._cells if pyarrow.types.is_integer(self._cells.type) else self._cells.cast(pyarrow.int64())
        except pyarrow.ArrowException:
            return None
        numbers: Integers = cells.fill_null(0).to_numpy()
        return numbers

    def integers(self) -> Integers:
        """Return the cells as integers; an empty cell is 0.

        Raises:
            CsvError: A cell is not an integer.
        """
        found = self.plain_integers()
        if found is not None:
            return found
        codes, texts = self.codes()
        try:
            return np.array([_integer(text) for text in texts], np.int64)[codes]
        except (ValueError, OverflowError) as error:
            raise CsvError(
                f"column {self._name} contains a value that is not an integer: {error}", where=str(self._file)
            ) from error

    def reals(self) -> NDArray[np.float64]:
        """Return the cells as numbers, including infinities and NaN; an empty cell is NaN.

        Raises:
            CsvError: A cell is not a number.
        """
        if not self._is_list and (plain := self._plain_reals()) is not None:
            return plain
        codes, texts = self.codes()
        try:
            return np.array([float(text) if text.strip() else np.nan for text in texts], np.float64)[codes]
        except ValueError as error:
            raise CsvError(
                f"column {self._name} contains a value that is not a number: {error}", where=str(self._file)
            ) from error

    def _plain_reals(self) -> NDArray[np.float64] | None:
        import pyarrow

        try:
            numbers: NDArray[np.float64] = self._cells.cast(pyarrow.float64()).to_numpy()
        except pyarrow.ArrowException:
            return None
        return numbers


def _integer(text: str) -> int:
    """Return an integer that may be empty, or that a data frame or a spreadsheet converted (`12.0`, `1.2E+01`)."""
    if not text.strip():
        return 0
    try:
        return int(text)
    except ValueError:
        value = float(text)
        if not value.is_integer():
            raise
        return int(value)
