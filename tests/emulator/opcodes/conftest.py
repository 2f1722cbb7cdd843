"""The instructions of a file of tests are assembled together, once."""

from __future__ import annotations

import pytest

from tests.builders.opcodes import Snippets


@pytest.fixture(scope="module")
def snippets(request: pytest.FixtureRequest) -> Snippets:
    """Those that the file lists in `texts()`."""
    return Snippets(request.module.texts())
