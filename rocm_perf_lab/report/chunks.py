"""Parts of the HTML report that are compressed in the file and decoded by the browser when they are shown."""

from __future__ import annotations

import base64
import gzip
import json
from dataclasses import dataclass, field
from typing import Any

_LEVEL = 6


@dataclass
class Chunks:
    """Compressed JSON values by name."""

    parts: dict[str, str] = field(default_factory=dict)

    def add(self, name: str, value: Any) -> str:
        """Store a value; return its name, made unique by a number."""
        unique = f"chunk-{name}-{len(self.parts)}"  # sections have ids such as waves-0
        text = json.dumps(value, separators=(",", ":")).encode()
        # A fixed time in the header makes the bytes reproducible.
        self.parts[unique] = base64.b64encode(gzip.compress(text, _LEVEL, mtime=0)).decode()
        return unique

    def html(self) -> str:
        """Return the elements that hold the values."""
        return "\n".join(f'<script type="text/plain" id="{name}">{text}</script>' for name, text in self.parts.items())
