"""Structure of a source, for niches and novelty: which features of the GPU it uses, and how similar two sources are."""

from __future__ import annotations

import re
from functools import lru_cache

_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_TOKEN = re.compile(r"[A-Za-z_]\w*|\d[\w.]*|[^\s\w]")
_SHINGLE = 4
_FEATURES = (
    ("matrix", re.compile(r"__builtin_amdgcn_s?mfma\w*|\brocwmma\b")),
    ("lds", re.compile(r"__shared__")),
    ("cross-lane", re.compile(r"__shfl\w*|__ballot|__builtin_amdgcn_(?:update_dpp|ds_swizzle|ds_bpermute|readlane|mov_dpp)\w*")),
    ("vector", re.compile(r"\b(?:float|double|int|uint|half|short|ushort|char|uchar)(?:2|4|8|16)\b|ext_vector_type")),
    ("unrolled", re.compile(r"#\s*pragma\s+(?:clang\s+loop\s+)?unroll")),
    ("atomic", re.compile(r"\batomic\w+\s*\(|__hip_atomic\w*")),
)
"""Name and pattern of each feature; names of types and builtins are those of HIP and of LLVM."""


def features_of(text: str) -> tuple[str, ...]:
    """Return the names of the features that a source uses, in a fixed order."""
    code = _COMMENT.sub(" ", text)
    return tuple(name for name, pattern in _FEATURES if pattern.search(code))


def distance(one: str, other: str) -> float:
    """Return the Jaccard distance of two sources from 0 (same tokens) to 1, without comments and white space."""
    first, second = _shingles(one), _shingles(other)
    if not first and not second:
        return 0.0
    return 1 - len(first & second) / len(first | second)


@lru_cache(maxsize=512)
def _shingles(text: str) -> frozenset[tuple[str, ...]]:
    """Return all sequences of consecutive tokens; the cache only saves time."""
    tokens = _TOKEN.findall(_COMMENT.sub(" ", text))
    length = max(len(tokens) - _SHINGLE + 1, 1)
    return frozenset(tuple(tokens[at : at + _SHINGLE]) for at in range(length)) if tokens else frozenset()
