"""Launch configuration that a rewritten source requests in a comment.

A rewrite can change the work of one work-item only together with its launch. It states the launch in one comment line, which is
part of the source's hash, of its diff and of a model's answer:

    // rocm-perf launch: {"grid": ["ceil_div(n, 1024)"], "block": [256]}

Expressions are those of a `kernel.yaml`, over its `params`. What the comment omits stays as described.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, TypeVar

from pydantic import Field, ValidationError

from rocm_perf_lab.core.errors import LabError
from rocm_perf_lab.core.models import StrictModel
from rocm_perf_lab.languages.arguments import Expression

if TYPE_CHECKING:
    from pathlib import Path

    from rocm_perf_lab.languages.spec import KernelSpec

    Spec = TypeVar("Spec", bound=KernelSpec)

_LINE = re.compile(r"^[ \t]*//[ \t]*rocm-perf launch:(?P<body>[^\r\n]*)$", re.MULTILINE)
_HINT = 'for example: // rocm-perf launch: {"grid": ["ceil_div(n, 1024)"], "block": [256]}'


class LaunchDescriptor(StrictModel):
    """Launch configuration of a source; None and missing definitions stay as described.

    `grid` counts workgroups per axis, `block` work-items of a workgroup per axis. `defines` are preprocessor definitions, which
    must be among those of the description.
    """

    grid: tuple[Expression, ...] | None = Field(None, min_length=1, max_length=3)
    block: tuple[Expression, ...] | None = Field(None, min_length=1, max_length=3)
    dynamic_lds_bytes: Expression | None = None
    defines: dict[str, Expression] = {}

    def line(self) -> str:
        """Return the comment, without a line end."""
        return f"// rocm-perf launch: {json.dumps(self.model_dump(mode='json', exclude_defaults=True))}"


def launch_descriptor(text: str) -> LaunchDescriptor | None:
    """Return the launch that a source requests, or None.

    Raises:
        LabError: The source has several, or the content is invalid.
    """
    found = list(_LINE.finditer(text))
    if not found:
        return None
    line = text.count("\n", 0, found[0].start()) + 1
    if len(found) > 1:
        raise LabError(f"the source has {len(found)} launch comments, one is allowed", where=f"line {line}")
    try:
        return LaunchDescriptor.model_validate_json(found[0]["body"])
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        what = f"invalid launch comment: {f'{place}: ' if place else ''}{first['msg']}"
        raise LabError(what, where=f"line {line}", hint=_HINT) from error


def without_launch(text: str) -> str:
    """Return a source without its launch comment."""
    return re.sub(rf"{_LINE.pattern}\r?\n?", "", text, flags=re.MULTILINE)


def with_source_launch(description: Spec, source: Path) -> Spec:
    """Return the description with the launch that a source requests. Other properties of the kernel cannot be changed.

    Raises:
        LabError: The comment is invalid, defines a macro that the description does not define, or the kernel is cooperative.
    """
    try:
        descriptor = launch_descriptor(source.read_text(encoding="utf-8", errors="replace"))
    except OSError:
        return description  # reported by the compiler
    return description if descriptor is None else launched(description, descriptor)


def launched(description: Spec, descriptor: LaunchDescriptor) -> Spec:
    """Return the description with another launch.

    Raises:
        LabError: A macro is not defined in the description, the kernel is cooperative, or the language fixes the workgroup.
    """
    where = "launch comment of the source"
    unknown = sorted(set(descriptor.defines) - set(description.defines))
    if unknown:
        known = ", ".join(description.defines) or "none"
        raise LabError(f"{unknown[0]} is no macro of the kernel's description", where=where, hint=f"defines: {known}")
    if description.cooperative or not description.block:
        raise LabError("the launch of this kernel cannot be changed", where=where, hint="keep its launch configuration")
    changed: dict[str, object] = {"defines": {**description.defines, **descriptor.defines}}
    if descriptor.grid is not None:
        changed |= {"grid": descriptor.grid, "work_items": ()}
    if descriptor.block is not None:
        changed["block"] = descriptor.block
    if descriptor.dynamic_lds_bytes is not None:
        changed["dynamic_lds_bytes"] = descriptor.dynamic_lds_bytes
    return description.model_copy(update=changed)
