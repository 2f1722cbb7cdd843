"""Recognise and write overrides of the configuration (`key=value`) in the grammar of Hydra."""

from __future__ import annotations

import re

_OF_JOB = "device="
"""An application's device is a key of its job: those of kernels cannot run applications."""
_OVERRIDE = re.compile(r"[+~]{0,2}[\w/@.]+=")


def is_override(argument: str) -> bool:
    """Return whether an argument starts like `kernel=softmax`, `+experiment=NAME` or `~space=NAME`."""
    return bool(_OVERRIDE.match(argument))


def quoted(text: str) -> str:
    """Quote a string so that Hydra's override grammar and OmegaConf's interpolation read it back unchanged.

    Backslashes are special only before `${`, before a quote, and at the end of the text.
    """
    literal = re.sub(r"(\\*)\$\{", lambda m: m[1] * 2 + r"\${", text)
    return "'" + re.sub(r"(\\*)('|$)", lambda m: m[1] * 2 + (r"\'" if m[2] else ""), literal) + "'"


def quoted_list(texts: tuple[str, ...]) -> str:
    """Return a list of strings in the grammar of Hydra."""
    return f"[{','.join(map(quoted, texts))}]"


def application_setting(override: str) -> str:
    """Return an override of the configuration of a job with an application: `device=emulator` becomes a key of the job."""
    return f"job.{override}" if override.startswith(_OF_JOB) else override
