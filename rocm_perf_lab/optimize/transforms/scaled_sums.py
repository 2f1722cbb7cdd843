"""Sums relative to the largest value so far, as in a softmax of one pass:

    float top = fmaxf(largest, x), old = expf(largest - top);
    sum = sum * old + expf(x - top);
    largest = top;

Results of several lanes are combined by scaling each sum with the exponential of the difference from the overall largest value.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rocm_perf_lab.optimize.syntax_nodes import called_name, text_of, walk
from rocm_perf_lab.optimize.transforms.rewriting import Edit, apply_within, names_in, substituted
from rocm_perf_lab.optimize.transforms.thread_indices import statements, without_parentheses

if TYPE_CHECKING:
    from tree_sitter import Node

    from rocm_perf_lab.optimize.transforms.rewriting import CountedLoop

_EXPONENTIAL = re.compile(r"(?:__)?expf?|exp2f?|__expf|__builtin_expf")
_MAXIMUM = frozenset({"fmaxf", "fmax", "__builtin_fmaxf", "max"})


@dataclass(frozen=True)
class ScaledSums:
    """Variables that a loop accumulates together.

    Args:
        top: Variable with the largest value.
        sums: Variables that are relative to its exponential.
        function: Name of the exponential function.
        calls: Calls of this function, whose argument is a difference from the largest value.
    """

    top: str
    sums: tuple[str, ...]
    function: str
    calls: tuple[Node, ...]

    def body(self, loop: CountedLoop) -> str:
        """Return the body of the loop for a subset of the iterations.

        Before the first finite value, the sums remain 0. Only the first iteration of the whole loop may make them NaN.
        """
        edits = []
        for call in self.calls:
            left, right = _difference(call) or ("", "")
            test = f"({left}) == ({right}) && ({right}) == -INFINITY && {loop.index} != ({loop.start_text})"
            edits.append(Edit(call.start_byte, call.end_byte, f"({test} ? 0 : {text_of(call)})"))
        return apply_within(loop.body.text or b"", loop.body.start_byte, edits)

    def merged(self, group_max: str, group_sum: str) -> list[str]:
        """Return the code that combines the results of a group's lanes.

        Args:
            group_max: Function with the largest value of the group.
            group_sum: Function with the sum of the group.
        """
        return [
            "{",
            f"  const auto rpl_top = {group_max}({self.top});",
            f"  const auto rpl_scale = {self.top} == rpl_top ? 1 : {self.function}({self.top} - rpl_top);",
            *(f"  {name} = {group_sum}({name} * rpl_scale);" for name in self.sums),
            f"  {self.top} = rpl_top;",
            "}",
        ]


def scaled_sums(loop: CountedLoop, carried: set[str], kind: str) -> ScaledSums | None:
    """Return the scaled sums of a loop, or None for loops of a different form.

    Args:
        loop: Loop.
        carried: Variables that are assigned in the loop and declared outside.
        kind: Type of the variables.
    """
    if len(carried) < 2:
        return None
    return _with_new_top(loop, carried, kind) or _with_test(loop, carried, kind)


def _with_new_top(loop: CountedLoop, carried: set[str], kind: str) -> ScaledSums | None:
    """Recognise `next = fmaxf(top, x); sum = sum * expf(top - next) + w * expf(x - next); top = next;`."""
    body = statements(loop.body)
    last = _assignment(body[-1]) if body else None
    if last is None or last[0] not in carried or not re.fullmatch(r"\w+", last[2]) or last[1] != "=":
        return None
    top, new = last[0], last[2]
    place = next((number for number, node in enumerate(body) if new in _values([node], kind, set())), None)
    if place is None or any(names_in(node) & carried for node in body[:place]):
        return None
    if new in _assigned(loop.body) or any(_assigned(n) for n in body[place:] if n.type == "declaration"):
        return None
    values = _values(body[:place], kind, _assigned(loop.body)) | _values(body[place:-1], kind, set())
    updates: dict[str, str] = {}
    for node in body[place + 1 : -1]:
        if node.type == "declaration":
            continue
        update = _assignment(node)
        if update is None or update[0] not in carried - {top} or update[1] not in ("=", "+=", "*="):
            return None
        name, operator, right = update
        old = updates.get(name, name)
        updates[name] = f"({old}){operator[0]}({right})" if operator != "=" else substituted(right, name, f"({old})")
    sums = carried - {top}
    element = _maximum(_values([body[place]], kind, set())[new], top)
    if element is None or set(updates) != sums or _names_in(_expanded(element, values, without="")) & (carried | {new}):
        return None
    changing = carried | {new}
    for name in sums:
        text = _expanded(updates[name], values, without=new)
        if not _is_scaled_sum(text, name, (top, new), _expanded(element, values, without=new), changing):
            return None
    return _calls(loop, carried, top, new)


def _values(nodes: list[Node], kind: str, changed: set[str]) -> dict[str, str]:
    """Return the values of variables with one type that are declared in statements, and that do not depend on `changed`."""
    found: dict[str, str] = {}
    for node in nodes:
        if node.type != "declaration" or text_of(node.child_by_field_name("type")) not in (kind, "auto"):
            continue
        for child in node.children_by_field_name("declarator"):
            name, value = child.child_by_field_name("declarator"), child.child_by_field_name("value")
            if child.type != "init_declarator" or name is None or value is None or name.type != "identifier":
                continue
            if text_of(name) not in changed and not names_in(value) & changed:
                found[text_of(name)] = text_of(value)
    return found


def _assigned(node: Node) -> set[str]:
    """Return variables that a node assigns other than in declarations, or whose address it takes."""
    found = set()
    for inner in walk(node):
        is_address = inner.type == "pointer_expression" and text_of(inner).startswith("&")
        if inner.type in ("assignment_expression", "update_expression") or is_address:
            target = inner.child_by_field_name("left") or inner.child_by_field_name("argument")
            found |= names_in(target) if target is not None else set()
    return found


def _with_test(loop: CountedLoop, carried: set[str], kind: str) -> ScaledSums | None:
    """Recognise `if (x > top) { sum *= expf(top - x); top = x; } sum += w * expf(x - top);`."""
    body = statements(loop.body)
    place = next((number for number, node in enumerate(body) if names_in(node) & carried), len(body))
    test = body[place] if place < len(body) else None
    if test is None or test.type != "if_statement" or test.child_by_field_name("alternative") is not None:
        return None
    found = _scalings(test, carried)
    if found is None:
        return None
    top, element = found
    later = body[place + 1 :]
    if any(names_in(node) & _names_in(element) for node in later if _assigned(node) & _names_in(element)):
        return None
    values = _values(later, kind, _assigned(loop.body) - carried)
    added: set[str] = set()
    for node in later:
        if node.type == "declaration":
            continue
        update = _assignment(node)
        if update is None or update[0] not in carried - {top} - added or update[1] != "+=":
            return None
        added.add(update[0])
        if not _has_weight(_expanded(update[2], values, without=""), element, top, carried):
            return None
    return _calls(loop, carried, top, "") if added == carried - {top} else None


def _scalings(test: Node, carried: set[str]) -> tuple[str, str] | None:
    """Return the variable with the largest value and the new value of `if (x > top) { sum *= expf(top - x); top = x; }`."""
    assigned = [_assignment(node) for node in statements(test.child_by_field_name("consequence") or test)]
    if not assigned or any(a is None for a in assigned):
        return None
    *scalings, (top, operator, element) = [a for a in assigned if a is not None]
    condition, bare = _bare(text_of(test.child_by_field_name("condition"))), _bare(element)
    if operator != "=" or top not in carried or condition not in (f"({bare}>{top})", f"({top}<{bare})"):
        return None
    if carried & _names_in(element) or sorted(name for name, _, _ in scalings) != sorted(carried - {top}):
        return None
    for name, sign, right in scalings:
        scaling = right if sign == "*=" else _without_factor(right, name) if sign == "=" else None
        if scaling is None or not _is_exponential(scaling, top, element):
            return None
    return top, element


def _assignment(node: Node) -> tuple[str, str, str] | None:
    """Return variable, operator and value of an assignment statement to a variable, or None."""
    inner = node.named_children[0] if node.type == "expression_statement" and len(node.named_children) == 1 else None
    left, right = (inner.child_by_field_name(n) if inner is not None else None for n in ("left", "right"))
    if inner is None or inner.type != "assignment_expression" or left is None or right is None or left.type != "identifier":
        return None
    return text_of(left), text_of(inner.child_by_field_name("operator")), text_of(right)


def _bare(text: str) -> str:
    return re.sub(r"\s+", "", text)


def _names_in(text: str) -> set[str]:
    """Return the identifiers in a text, without members."""
    return set(re.findall(r"(?<![\w.])[A-Za-z_]\w*", text))


def _expanded(text: str, values: dict[str, str], *, without: str, depth: int = 6) -> str:
    """Replace variables by their values, without white space."""
    for _ in range(depth):
        used = sorted(_names_in(text) & (set(values) - {without}))
        if not used:
            break
        for name in used:
            text = substituted(text, name, f"({values[name]})")
    return _bare(text)


def _maximum(text: str, top: str) -> str | None:
    """Return `x` of `fmaxf(top, x)`, or of `x > top ? x : top`."""
    bare = _bare(text)
    match = re.fullmatch(r"(?:std::)?(\w+)\((.*)\)", bare)
    if match is not None and match[1] in _MAXIMUM:
        parts = _split(match[2], ",")
        others = [part for part in parts if part != top]
        return others[0] if len(parts) == 2 and len(others) == 1 else None
    match = re.fullmatch(r"\(?(.+?)([<>])(.+?)\)?\?(.+):(.+)", bare)
    if match is None or match[5] != top:
        return None
    compared = (match[1], match[3]) if match[2] == ">" else (match[3], match[1])
    return match[4] if compared == (match[4], top) else None


def _split(text: str, signs: str) -> list[str]:
    """Split a text at signs outside of parentheses."""
    parts, depth, start = [], 0, 0
    for place, letter in enumerate(text):
        depth += (letter in "([") - (letter in ")]")
        is_exponent = letter in "+-" and re.search(r"(?<![\w.])[\d.]+e$", text[:place]) is not None
        if depth == 0 and letter in signs and place > start and not is_exponent:
            parts.append(text[start:place])
            start = place + 1
    return [*parts, text[start:]]


def _is_exponential(text: str, left: str, right: str) -> bool:
    """Return whether a text is the exponential of `left - right`."""
    match = re.fullmatch(r"(\w+)\((.*)\)", without_parentheses(_bare(text)))
    if match is None or _EXPONENTIAL.fullmatch(match[1]) is None or without_parentheses(f"({match[2]})") != match[2]:
        return False
    parts = _split(match[2], "-")
    expected = [without_parentheses(_bare(side)) for side in (left, right)]
    return [without_parentheses(part) for part in parts] == expected and len(_split(match[2], "?,:<>=&|^")) == 1


def _without_factor(text: str, name: str) -> str | None:
    """Return `b` of `name * b`, or None."""
    factors = _split(_bare(text), "*")
    others = [factor for factor in factors if without_parentheses(factor) != name]
    return others[0] if len(factors) == 2 and len(others) == 1 else None


def _is_scaled_sum(text: str, name: str, tops: tuple[str, str], element: str, changing: set[str]) -> bool:
    """Return whether a text is `name * exp(top - new) + w * exp(element - new)`, in any order."""
    top, new = tops
    text = without_parentheses(text)
    match = re.fullmatch(r"(?:__builtin_)?(?:fmaf?|__fmaf_rn)\((.*)\)", text)
    parts = _split(match[1], ",") if match is not None and without_parentheses(f"({match[1]})") == match[1] else []
    terms = [f"{parts[0]}*{parts[1]}", parts[2]] if len(parts) == 3 else _split(text, "+")
    if len(terms) != 2 or any(len(_split(term, "-")) > 1 for term in terms):
        return False
    for own, added in (terms, reversed(terms)):
        scaling = _without_factor(without_parentheses(own), name)
        if scaling is not None and _is_exponential(scaling, top, new):
            return _has_weight(added, element, new, changing)
    return False


def _has_weight(text: str, element: str, top: str, changing: set[str]) -> bool:
    """Return whether a text is a product with the factor `exp(element - top)`; no other factor depends on `changing`."""
    bare = without_parentheses(_bare(text))
    if len(_split(bare, "+-/%?<>=&|^,")) != 1:
        return False
    factors = _split(bare, "*")
    if len(factors) == 1:
        return _is_exponential(bare, element, top)
    exponentials = [factor for factor in factors if _is_exponential(factor, element, top)]
    others = [factor for factor in factors if factor not in exponentials]
    nested = [factor for factor in others if _names_in(factor) & changing]
    if not exponentials and len(nested) == 1 and len(_split(without_parentheses(nested[0]), "*")) > 1:
        return _has_weight(nested[0], element, top, changing)
    return len(exponentials) == 1 and not nested


def _calls(loop: CountedLoop, carried: set[str], top: str, new: str) -> ScaledSums | None:
    """Return the sums with the calls of the exponential function that depend on the largest value."""
    found = [
        node
        for node in walk(loop.body)
        if node.type == "call_expression"
        and _EXPONENTIAL.fullmatch(called_name(node))
        and names_in(node) & ({top, new} if new else {top})
    ]
    if not found or len({called_name(node) for node in found}) != 1 or any(_difference(node) is None for node in found):
        return None
    return ScaledSums(top, tuple(sorted(carried - {top})), called_name(found[0]), tuple(found))


def _difference(call: Node) -> tuple[str, str] | None:
    """Return both sides of the argument `a - b`."""
    arguments = call.child_by_field_name("arguments")
    inner = arguments.named_children[0] if arguments is not None and len(arguments.named_children) == 1 else None
    if inner is None or inner.type != "binary_expression" or text_of(inner.child_by_field_name("operator")) != "-":
        return None
    return text_of(inner.child_by_field_name("left")), text_of(inner.child_by_field_name("right"))
