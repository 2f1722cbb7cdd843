"""Snippets of CDNA assembly on RDNA2, so that the tables of `tests/emulator/opcodes` are its oracles too."""

from __future__ import annotations

import re
import subprocess
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from rocm_perf_lab.emulator.program import DEFAULT_MODE
from rocm_perf_lab.emulator.structures import LANES
from rocm_perf_lab.toolchain.compilers import find_compiler
from tests.builders.opcodes import Outcome, Snippets

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

ARCHITECTURE = "gfx1030"
_LONG_ONLY = r"(v_(?:add|sub)_nc_[ui]16|v_mul_lo_u16|v_(?:min|max)_[ui]16|v_(?:lshl|lshr|ashr)rev_[bi]16)_e32"
_RENAMED = (
    (r"v_(add|sub|subrev)_u32(_e32|_e64|_dpp|_sdwa|)\b", r"v_\1_nc_u32\2"),
    (r"v_(add|sub)_([ui]16|i32)(_e32|_e64|_dpp|_sdwa|)\b", r"v_\1_nc_\2\3"),
    (r"v_addc_co_u32", "v_add_co_ci_u32"),
    (r"v_subb(rev)?_co_u32", r"v_sub\1_co_ci_u32"),
    (r"v_(add|sub|subrev)_co_u32_e(32|64)", r"v_\1_co_u32"),
    (r"(v_cmpx_\w+) vcc, ", r"\1 "),
    (_LONG_ONLY, r"\1"),
)
_MASK = re.compile(r"\bvcc\b(?!_)")
_MASK_PAIR = re.compile(r"(?<=[ ,])s\[10:11\]")
_ERROR_LINE = re.compile(r"code\.s:(\d+):\d+: error")


def translated(text: str, wave_size: int) -> str:
    """Return a snippet with the names of RDNA2 and lane masks of one or two registers."""
    for pattern, name in _RENAMED:
        text = re.sub(pattern, name, text)
    masks = re.search(r"v_(cmp|cndmask|add_co|sub_co|subrev_co|div|mad_[iu]64)", text)
    if wave_size < LANES and masks:
        text = _MASK_PAIR.sub("s10", _MASK.sub("vcc_lo", text))
    return text


def assembles(texts: Sequence[str], wave_size: int) -> list[bool]:
    """Return for each text whether RDNA2 has all of its instructions."""
    compiler = find_compiler(("clang", "pip"))
    flag = "-mwavefrontsize64" if wave_size == LANES else "-mno-wavefrontsize64"
    lines = [line for text in texts for line in text.splitlines()]
    owner = [number for number, text in enumerate(texts) for _ in text.splitlines()]
    with TemporaryDirectory() as directory:
        source = Path(directory, "code.s")
        source.write_text("\n".join([*lines, ""]))
        target = (
            "--target=amdgcn-amd-amdhsa",
            f"-mcpu={ARCHITECTURE}",
            flag,
            "-ferror-limit=0",
            "-c",
            "-o",
            f"{directory}/code.o",
        )
        done = subprocess.run((*compiler.command, *target, str(source)), capture_output=True, text=True, check=False)
    bad = {owner[int(line) - 1] for line in _ERROR_LINE.findall(done.stderr)}
    return [number not in bad for number in range(len(texts))]


class Absent(Exception):
    """RDNA2 lacks an instruction of a snippet."""


class Rdna2Snippets(Snippets):
    """Snippets given and run by their CDNA texts; `known` maps those that RDNA2 has to their own texts."""

    def __init__(self, texts: Iterable[str], *, mode: int = DEFAULT_MODE, wave_size: int) -> None:
        given = list(dict.fromkeys(texts))
        own = [translated(text, wave_size) for text in given]
        has = assembles(own, wave_size)
        self.known = {text: mine for text, mine, exists in zip(given, own, has, strict=True) if exists}
        super().__init__(self.known.values(), mode=mode, architecture=ARCHITECTURE, wave_size=wave_size)

    @cached_property
    def refused(self) -> Mapping[str, str]:
        """Reasons of texts that RDNA2 has and the emulator refuses."""
        assert self._translated
        return self.unsupported

    def run(self, text: str, *arguments: Any, **options: Any) -> Outcome:
        """Run a snippet by its CDNA text.

        Raises:
            Absent: RDNA2 lacks it.
        """
        if text not in self.known:
            raise Absent(text)
        return super().run(self.known[text], *arguments, **options)
