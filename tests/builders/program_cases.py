"""Programs as test cases: some in the slow suite, the others in the corpus, since each is compiled for some seconds."""

from collections.abc import Collection, Sequence
from pathlib import Path

import pytest
from _pytest.mark import ParameterSet


def program_cases(sources: Sequence[Path], in_slow_suite: Collection[str]) -> list[ParameterSet]:
    """Return a case for each source, named like the file.

    Args:
        sources: Programs.
        in_slow_suite: Names, without suffix, of those that the slow suite runs.
    """
    return [
        pytest.param(source, id=source.stem, marks=pytest.mark.slow if source.stem in in_slow_suite else pytest.mark.corpus)
        for source in sources
    ]
