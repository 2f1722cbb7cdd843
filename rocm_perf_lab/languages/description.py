"""The validated description of one kernel: :class:`KernelSpec`, checked by the language of the kernel."""

from __future__ import annotations

from typing import Self

from pydantic import field_validator, model_validator
from pydantic_core import PydanticCustomError

from rocm_perf_lab.languages.registry import UnknownLanguage, find_language
from rocm_perf_lab.languages.spec import KernelSpec


class KernelDescription(KernelSpec):
    """One kernel: its source, arguments, launch configuration and reference, valid for its language.

    See :class:`KernelSpec` for the fields.
    """

    @field_validator("language")
    @classmethod
    def _exists(cls, name: str) -> str:
        try:
            find_language(name)
        except UnknownLanguage as error:
            raise PydanticCustomError("language", "{what}", {"what": error.what, "hint": error.hint}) from error
        return name

    @model_validator(mode="after")
    def _fits_the_language(self) -> Self:
        find_language(self.language).check(self)
        return self
