"""Selected configurations as files that programs load: a Triton autotune table, a C++ header, and params of kernel.yaml.

For a shape that was not tuned, the tables name the configuration of the nearest one that satisfies the constraints of the space:
the one with the smallest product of the ratios of its numbers.
"""

from __future__ import annotations

import json
import re
from itertools import count
from typing import TYPE_CHECKING, Any

from rocm_perf_lab.autotune.spaces.constraint_code import ShapeConstraints
from rocm_perf_lab.core.expressions import evaluate
from rocm_perf_lab.core.resources import resource_dir

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from rocm_perf_lab.autotune.shapes_document import ShapesDocument
    from rocm_perf_lab.autotune.spaces.space import Configuration
    from rocm_perf_lab.languages.description import KernelDescription

TRITON_FILE, HEADER_FILE, PARAMS_FILE = "triton_configs.py", "configurations.hpp", "kernel_params.yaml"
_OF_CONFIG = ("num_warps", "num_stages", "num_ctas", "maxnreg")
"""Arguments of `triton.Config`; other options are among its keyword arguments."""
_LARGEST_INT = 2**31
_KEYWORDS = frozenset(
    re.findall(
        r"\w+",
        """alignas alignof and and_eq asm auto bitand bitor bool break case catch char class compl const constexpr continue
        decltype default delete do double else enum explicit export extern false float for friend goto if inline int long
        mutable namespace new noexcept not not_eq nullptr operator or or_eq private protected public register return short
        signed sizeof static struct switch template this throw true try typedef typeid typename union unsigned using virtual
        void volatile while xor xor_eq detail index select dispatch shapes configurations Shape Configuration Function""",
    )
)
"""Words of C++ and names of the header."""


NO_CONSTRAINTS = ShapeConstraints()


def tables(
    found: ShapesDocument, kernel: KernelDescription | None, constraints: ShapeConstraints = NO_CONSTRAINTS
) -> dict[str, str]:
    """Return the text of each file by name.

    Args:
        found: Result of the search.
        kernel: The kernel; None for a command.
        constraints: Constraints of the space.
    """
    return {
        TRITON_FILE: triton_table(found, kernel, constraints),
        HEADER_FILE: header(found, constraints),
        PARAMS_FILE: kernel_params(found),
    }


def _origin(found: ShapesDocument) -> str:
    return f"{found.kernel.name} on {found.gpu.name} ({found.gpu.architecture}), {found.time_kind} times"


def _rows(found: ShapesDocument) -> list[tuple[Configuration, int]]:
    return [(shape.shape, position) for shape, position in found.covered]


def kernel_params(found: ShapesDocument) -> str:
    """Return YAML: `params` for kernel.yaml of the configuration with the largest share, and those of each shape."""
    import yaml

    shares = [0.0] * len(found.configurations)
    for shape, position in found.covered:
        shares[position] += shape.weight
    content = {
        "params": dict(found.configurations[shares.index(max(shares))]),
        "shapes": [{"params": {**shape, **found.configurations[position]}} for shape, position in _rows(found)],
    }
    return f"# {_origin(found)}\n" + yaml.safe_dump(content, sort_keys=False, default_flow_style=None)


def triton_table(found: ShapesDocument, kernel: KernelDescription | None, constraints: ShapeConstraints = NO_CONSTRAINTS) -> str:
    """Return a Python module with the arguments of `triton.autotune`.

    The values of constexprs and options are those that kernel.yaml computes from the parameters. Triton's key has arguments of
    the kernel only; of the shapes that they do not tell apart, the configuration with the largest weight is selected.
    Constraints that read other values of a shape are not checked.
    """
    configurations = [_triton_config(values, found, kernel) for values in found.configurations]
    names = _argument_names(found, kernel)
    weights: dict[tuple[Any, ...], dict[int, float]] = {}
    for shape, position in found.covered:
        of_key = weights.setdefault(tuple(shape.shape[name] for name in names), {})
        of_key[position] = of_key.get(position, 0.0) + shape.weight
    code = constraints.python(found.shapes[0].shape, [*names, *found.configurations[0]])
    return _rendered(
        "triton_configs.py.j2",
        origin=_origin(found),
        key=list(names.values()),
        names=list(names),
        configurations=configurations,
        parameters=[dict(values) for values in found.configurations],
        table=[(sizes, max(shares, key=shares.__getitem__)) for sizes, shares in weights.items()],
        checks=code.checks,
        unchecked=code.unchecked,
        uses_math=any("math." in check for check in code.checks),
    )


def _rendered(template: str, **values: Any) -> str:
    """Return a file for programs."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(resource_dir("templates")),
        undefined=StrictUndefined,
        autoescape=False,
        keep_trailing_newline=True,
        trim_blocks=True,
    )
    environment.filters["literals"] = _literals
    return environment.get_template(template).render(**values)


def _triton_config(values: Configuration, found: ShapesDocument, kernel: KernelDescription | None) -> str:
    options: dict[str, Any] = {name: value for name, value in values.items() if name in _OF_CONFIG}
    keywords: dict[str, Any] = {name: value for name, value in values.items() if name not in _OF_CONFIG}
    if kernel is not None and (kernel.constexprs or kernel.options):
        params, shape = {**kernel.params, **values}, found.shapes[0].shape.keys()
        keywords = {
            name: evaluate(text, params, where=f"kernel.constexprs.{name}")
            for name, text in kernel.constexprs.items()
            if text is not None and _reads(text, values) and not _reads(text, shape)
        }
        given = {
            name: evaluate(text, params, where=f"kernel.options.{name}")
            for name, text in kernel.options.items()
            if not _reads(text, shape)
        }
        options = {name: value for name, value in given.items() if name in _OF_CONFIG}
        keywords |= {name: value for name, value in given.items() if name not in _OF_CONFIG}
    return f"triton.Config({keywords!r}{''.join(f', {name}={value!r}' for name, value in options.items())})"


def _reads(text: Any, names: Any) -> bool:
    return bool(set(re.findall(r"\w+", str(text))) & set(names))


def _argument_names(found: ShapesDocument, kernel: KernelDescription | None) -> dict[str, str]:
    """Return name of a shape -> name of the kernel's argument with that value; for Triton without names that are no argument."""
    names = {name: name for name in found.shapes[0].shape}
    if kernel is not None:
        scalars = {str(a.value): a.name for a in kernel.arguments if a.kind == "scalar"}
        constants = {str(text): name for name, text in kernel.constexprs.items()}
        names |= {name: (constants | scalars)[name] for name in names if name in constants | scalars}
        if kernel.language == "triton":
            passed = {*kernel.constexprs, *(argument.name for argument in kernel.arguments)}
            names = {name: argument for name, argument in names.items() if argument in passed}
    return names


def header(found: ShapesDocument, constraints: ShapeConstraints = NO_CONSTRAINTS) -> str:
    """Return a C++17 header: the configurations as types, and `dispatch`, which calls a function with the one of a shape.

    Names that cannot be names in C++ are changed: `block-m` becomes `block_m`, `template` becomes `template_0`.
    """
    settings, sizes_of = _cpp_names(found.configurations[0]), _cpp_names(found.shapes[0].shape)
    configurations = [_renamed(values, settings) for values in found.configurations]
    fields = {name: _type([values[name] for values in configurations]) for name in settings.values()}
    sizes = {name: _size_type([shape.shape[key] for shape in found.shapes]) for key, name in sizes_of.items()}
    named = {key: (f"configuration_.{name}", fields[name]) for key, name in settings.items()}
    named |= {key: (name, sizes[name]) for key, name in sizes_of.items()}
    code = constraints.cpp(sizes_of, named)
    return _rendered(
        "configurations.hpp.j2",
        origin=_origin(found),
        namespace=f"{_cpp_names([found.kernel.name])[found.kernel.name]}_tuned",
        fields=fields,
        configurations=configurations,
        sizes=sizes,
        rows=[(_renamed(shape, sizes_of), position) for shape, position in _rows(found)],
        arguments=", ".join(f"{kind} {name}" for name, kind in sizes.items()),
        given=", ".join(sizes),
        checks=code.checks,
        unchecked=code.unchecked,
        helpers=code.helpers,
    )


def _cpp_names(names: Iterable[str]) -> dict[str, str]:
    """Return a different name in C++ for each name: without underscores at its ends, which the names of the header have."""
    found: dict[str, str] = {}
    for name in names:
        base = re.sub(r"\W|_+$", "_", name, flags=re.ASCII).strip("_") or "value"
        base = base if base[0].isalpha() else f"value_{base}"
        is_reserved = base in _KEYWORDS or re.fullmatch(r"Configuration\d+", base) is not None
        unused = (f"{base}_{number}" for number in count())
        chosen = next(unused) if is_reserved else base
        while chosen in found.values():
            chosen = next(unused)
        found[name] = chosen
    return found


def _renamed(values: Configuration, names: Mapping[str, str]) -> Configuration:
    return {names[name]: value for name, value in values.items()}


def _size_type(values: Sequence[Any]) -> str:
    kind = _type(values)
    return "long long" if kind == "int" else kind


def _type(values: Sequence[Any]) -> str:
    if all(isinstance(value, bool) for value in values):
        return "bool"
    if all(isinstance(value, int) for value in values):
        return "int" if all(abs(value) < _LARGEST_INT for value in values) else "long long"
    if any(isinstance(value, str) for value in values):
        return "const char*"
    return "double"


def _literals(values: Configuration, kinds: Mapping[str, str]) -> str:
    """Return values as literals of C++, separated by commas."""
    return ", ".join(_literal(values[name], kind) for name, kind in kinds.items())


def _literal(value: Any, kind: str) -> str:
    if kind == "bool":
        return "true" if value else "false"
    if kind == "const char*":
        return json.dumps(str(value), ensure_ascii=False)
    return repr(float(value)) if kind == "double" else str(int(value))
