"""Assemble the instructions of a test file once."""

from __future__ import annotations

import pytest

from tests.builders.opcodes import Snippets


@pytest.fixture(scope="module")
def snippets(request: pytest.FixtureRequest) -> Snippets:
    """Return the snippets of `texts()` of the file."""
    return Snippets(request.module.texts())
