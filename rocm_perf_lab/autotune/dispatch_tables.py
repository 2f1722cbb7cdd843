"""Selected configurations as files that programs load: a Triton autotune table, a C++ header, and params of kernel.yaml.

For a shape that was not tuned, the tables name the configuration of the nearest one that satisfies the constraints of the space:
the one with the smallest product of the ratios of its numbers.
"""

from __future__ import annotations

import json
import re
from itertools import count
from typing import TYPE_CHECKING, Any

from rocm_perf_lab.autotune.constraint_code import ShapeConstraints
from rocm_perf_lab.core.expressions import evaluate

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from rocm_perf_lab.autotune.constraint_code import ConstraintCode
    from rocm_perf_lab.autotune.shapes_document import ShapesDocument
    from rocm_perf_lab.autotune.space import Configuration
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
    key = list(names.values())
    code = constraints.python(found.shapes[0].shape, [*names, *found.configurations[0]])
    table = "\n".join(f"    {_tuple(sizes)}: {max(shares, key=shares.__getitem__)}," for sizes, shares in weights.items())
    imports = "import math\n\n" if any("math." in check for check in code.checks) else ""
    return f'''"""{_origin(found)}.

    @triton.autotune(configs=CONFIGS, key=KEY, prune_configs_by={{"early_config_prune": select}})
    @triton.jit
    def kernel(...): ...
"""

{imports}import triton

KEY = {key!r}
CONFIGS = [
{chr(10).join(f"    {text}," for text in configurations)}
]
TABLE = {{
{table}
}}
{_triton_check(found, list(names), code)}

def select(configs, named_args, **kwargs):
    """Return the tuned configuration of a shape, or that of the nearest tuned shape, as a list."""
{_unchecked(code, "    #")}    values = {{**named_args, **kwargs}}
    shape = tuple(values[name] for name in KEY)
    nearest = sorted(TABLE, key=lambda known: _distance(shape, known))
{_TRITON_CHECKED if code.checks else "    return [configs[TABLE[nearest[0]]]]"}


def _distance(shape, known):
    total = 1.0
    for one, other in zip(shape, known):
        if one == other:
            continue
        numbers = not isinstance(one, str) and not isinstance(other, str) and one > 0 and other > 0
        total *= max(one / other, other / one) if numbers else 1e6
    return total
'''


_TRITON_CHECKED = """\
    for known in nearest:
        if _valid({**dict(zip(NAMES, shape)), **PARAMETERS[TABLE[known]]}):
            return [configs[TABLE[known]]]
    raise ValueError(f"no tuned configuration is valid for {dict(zip(KEY, shape))}: tune this shape as well")"""


def _triton_check(found: ShapesDocument, names: Sequence[str], code: ConstraintCode) -> str:
    """Return the definitions that check constraints; empty without constraints."""
    if not code.checks:
        return ""
    parameters = "\n".join(f"    {dict(values)!r}," for values in found.configurations)
    checks = "\n        and ".join(code.checks)
    return f'''NAMES = {list(names)!r}
PARAMETERS = [
{parameters}
]


def _valid(values):
    """Return whether a configuration satisfies the constraints of the space for a shape."""
    return bool(
        {checks}
    )
'''


def _unchecked(code: ConstraintCode, comment: str) -> str:
    """Return comment lines with the constraints that the configuration of the nearest shape may violate."""
    said = ["Not checked for shapes that were not tuned:", *(f"  {row}" for row in code.unchecked)] if code.unchecked else []
    return "".join(f"{comment} {line}\n" for line in said)


def _tuple(values: Any) -> str:
    return repr(tuple(values))


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
    shape_rows = [(_renamed(shape, sizes_of), position) for shape, position in _rows(found)]
    shapes = list(sizes_of.values())
    fields = {name: _type([values[name] for values in configurations]) for name in settings.values()}
    sizes = {name: _size_type([shape.shape[key] for shape in found.shapes]) for key, name in sizes_of.items()}
    namespace = f"{_cpp_names([found.kernel.name])[found.kernel.name]}_tuned"
    members = "\n".join(f"    {kind} {name};" for name, kind in fields.items())
    listed = "\n".join(f"    {{{_values(values, fields)}}}," for values in configurations)
    types = "\n".join(_struct(number, values, fields) for number, values in enumerate(configurations))
    rows = "\n".join(f"    {{{_values(shape, sizes)}, {position}}}," for shape, position in shape_rows)
    distance = "\n".join(f"    total_ *= detail::ratio({name}, shape_.{name});" for name in shapes)
    cases = "\n".join(
        f"    case {number}: return function_(Configuration{number}{{}});" for number in range(1, len(found.configurations))
    )
    arguments = ", ".join(f"{kind} {name}" for name, kind in sizes.items())
    given = ", ".join(shapes)
    named = {key: (f"configuration_.{name}", fields[name]) for key, name in settings.items()}
    named |= {key: (name, sizes[name]) for key, name in sizes_of.items()}
    code = constraints.cpp(sizes_of, named)
    checked = bool(code.checks)
    return f"""// {_origin(found)}
#pragma once
{_CPP_INCLUDES if checked else ""}
namespace {namespace} {{

struct Configuration {{
{members}
}};

inline constexpr Configuration configurations[] = {{
{listed}
}};

{types}

struct Shape {{
{chr(10).join(f"    {kind} {name};" for name, kind in sizes.items())}
    int configuration_;
}};

inline constexpr Shape shapes[] = {{
{rows}
}};

namespace detail {{

constexpr double ratio(double one, double other) {{
    if (one == other) return 1.0;
    if (one <= 0.0 || other <= 0.0) return 1e6;
    return one > other ? one / other : other / one;
}}

constexpr double ratio(const char* one, const char* other) {{
    for (; *one && *one == *other; ++one, ++other) {{}}
    return *one == *other ? 1.0 : 1e6;
}}

constexpr double distance({arguments}, const Shape& shape_) {{
    double total_ = 1.0;
{distance}
    return total_;
}}
{_cpp_check(arguments, code) if checked else ""}
}}  // namespace detail

// Position of the configuration for a shape: that of the nearest tuned shape, by the product of the ratios of its sizes.
{"// Only configurations that satisfy the constraints of the space; -1 if there is none." + chr(10) if checked else ""}\
{_unchecked(code, "//")}constexpr int select({arguments}) {{
    int found_ = {-1 if checked else 0};
    double least_ = 1e300;
    for (const Shape& shape_ : shapes) {{
{f"        if (!detail::valid(configurations[shape_.configuration_], {given})) continue;" + chr(10) if checked else ""}\
        const double distance_ = detail::distance({given}, shape_);
        if (distance_ < least_) {{
            least_ = distance_;
            found_ = shape_.configuration_;
        }}
    }}
    return found_;
}}

// Call the function with Configuration0, Configuration1 or another, whose members are constants for templates and launch bounds.
{"// Without a valid configuration, the program ends with a message." + chr(10) if checked else ""}\
template <class Function>
constexpr auto dispatch({arguments}, Function&& function_) {{
    switch (select({given})) {{
{"    case -1: detail::refuse();" + chr(10) if checked else ""}\
{cases}
    default: return function_(Configuration0{{}});
    }}
}}

}}  // namespace {namespace}
"""


_CPP_INCLUDES = """
#include <cstdio>
#include <cstdlib>
"""


def _cpp_check(arguments: str, code: ConstraintCode) -> str:
    """Return the definitions that check constraints."""
    helpers = "".join(f"\n{text}\n" for text in code.helpers)
    checks = "\n        && ".join(code.checks)
    return f"""{helpers}
// Whether a configuration satisfies the constraints of the space for a shape.
constexpr bool valid(const Configuration& configuration_, {arguments}) {{
    return {checks};
}}

[[noreturn]] inline void refuse() {{
    std::fputs("no tuned configuration is valid for this shape: tune it as well\\n", stderr);
    std::abort();
}}
"""


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


def _struct(number: int, values: Configuration, fields: Mapping[str, str]) -> str:
    members = "\n".join(f"    static constexpr {kind} {name} = {_literal(values[name], kind)};" for name, kind in fields.items())
    return f"struct Configuration{number} {{\n    static constexpr int index = {number};\n{members}\n}};"


def _values(values: Configuration, kinds: Mapping[str, str]) -> str:
    return ", ".join(_literal(values[name], kind) for name, kind in kinds.items())


def _literal(value: Any, kind: str) -> str:
    if kind == "bool":
        return "true" if value else "false"
    if kind == "const char*":
        return json.dumps(str(value), ensure_ascii=False)
    return repr(float(value)) if kind == "double" else str(int(value))
