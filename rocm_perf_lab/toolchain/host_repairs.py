"""Edits that remove a compiler error from host code: `host_repairs(structure, token) -> candidates, the smallest first`.

Host code is neither emitted nor executed in a compilation for the GPU; it only has to keep the kernel launches that instantiate
templates. An edit therefore changes as little as possible: an argument, an initialiser, a statement, and only then a function.
Nothing that device code is made of is edited: an error in it has no candidates.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rocm_perf_lab.toolchain.cpp_structure import CppStructure, Declaration

_HEADS = {"if": "(true)", "while": "(false)", "switch": "(0)", "for": "(;;)", "catch": "(...)"}
_ALONE = frozenset({"else", "do", "try"})
_BEFORE_STATEMENTS = frozenset({")", "else", "do", "try", "{", "}", ";", ":", "mutable", "noexcept", "]"})
_NO_EMPTY_VALUE = frozenset({"constexpr", "auto", "&", "using", "typedef", "constinit"})
"""Declarations whose value or type may select a kernel, or which cannot have an empty value."""
_NOT_CONSTANT = "*(const volatile unsigned char*)nullptr"
"""A number that is no constant expression: an empty value of a const variable could be a template argument of a kernel."""
_NOT_CALLED = frozenset({*_HEADS, "return", "sizeof", "decltype"})


@dataclass(frozen=True)
class HostRepair:
    """Replacement of the text between two offsets."""

    start: int
    end: int
    replacement: str
    changed_classes: tuple[str, ...] = ()
    """Classes whose layout changes: kernels must not use them."""


@dataclass(frozen=True)
class _Unit:
    """A statement, the head of a control statement, or a label: its first and last token."""

    first: int
    last: int
    is_head: bool = False


def host_repairs(structure: CppStructure, index: int) -> tuple[HostRepair, ...]:
    """Return the edits that may remove an error at a token, the smallest first; none if the error is in device code.

    Args:
        structure: Structure of the preprocessed text.
        index: Token at which the compiler reports the error.
    """
    chain = structure.enclosing(index)
    if not chain or any(declaration.is_device for declaration in chain) or _is_assertion(structure, index):
        return ()
    candidates = _Candidates(structure, chain)
    innermost = chain[-1]
    if is_in_body(structure, index):
        found = tuple(candidates.in_body(innermost, index))
    elif innermost.kind == "function":
        found = tuple(candidates.in_header(innermost, index))
    elif innermost.kind == "class" and index < innermost.header_end:
        found = tuple(candidates.in_class_header(innermost))
    else:
        found = tuple(candidates.of_declaration(innermost))
    return tuple(repair for repair in found if structure.text[repair.start : repair.end].split() != repair.replacement.split())


def unseen_classes(structure: CppStructure, chain: tuple[Declaration, ...]) -> tuple[str, ...]:
    """Return the names of a class and of the classes around it if no device code may depend on their layout, else nothing."""
    names = [_unseen_class(structure, declaration) for declaration in chain if declaration.kind == "class"]
    return tuple(name for name in names if name is not None) if None not in names else ()


def _unseen_class(structure: CppStructure, declaration: Declaration) -> str | None:
    """Return the name of a class that no device code and no other type mentions; None if its layout may matter to kernels."""
    name = _class_name(structure, declaration)
    pending = list(structure.declarations)
    while pending and name is not None:
        other = pending.pop()
        pending.extend(other.children)
        words = {structure.word(i) for i in range(other.first, other.last + 1)}
        if other.kind == "function" and not other.is_device and structure.has_device_code(other.first, other.last):
            return None  # a lambda for the device could capture the class without naming it
        if _contains(declaration, other) and other.is_device and "static" not in words:
            return None  # its `this` has the layout of the class
        is_other_type = other.kind == "class" and not _contains(other, declaration) and not _contains(declaration, other)
        is_alias = other.kind == "plain" and bool(words & {"using", "typedef"})
        if name in words and (other.is_device or is_alias or is_other_type):
            return None
    return name


def _class_name(structure: CppStructure, declaration: Declaration) -> str | None:
    header = [i for i in range(declaration.first, declaration.header_end) if structure.word(i) in {"class", "struct"}]
    if not header:
        return None
    index = header[-1] + 1
    while structure.word(index) == "__attribute__":
        index = structure.partner[index + 1] + 1
    return structure.word(index)


def _contains(outer: Declaration, inner: Declaration) -> bool:
    return outer.first <= inner.first and inner.last <= outer.last


def is_in_body(structure: CppStructure, index: int) -> bool:
    """Return whether a token is in the body of a function."""
    innermost = structure.enclosing(index)[-1]
    return innermost.kind == "function" and innermost.body is not None and innermost.body[0] < index < innermost.body[1]


def _is_assertion(structure: CppStructure, index: int) -> bool:
    """Return whether a token is in a static_assert: it states which configurations are valid."""
    first = index
    while first > 0 and structure.word(first) not in {";", "{", "}", "static_assert"}:
        first -= 1
    return structure.word(first) == "static_assert"


class _Candidates:
    """Candidates for errors in one chain of declarations."""

    def __init__(self, structure: CppStructure, chain: tuple[Declaration, ...]) -> None:
        self.code = structure
        self.chain = chain

    def in_body(self, function: Declaration, index: int) -> Iterator[HostRepair]:
        """Yield edits of the body of a function."""
        assert function.body is not None
        block, device = self._block(function.body[0], index)
        if device:
            return
        unit = self._unit(block, index)
        if unit.is_head:
            yield from self._of_head(unit)
        else:
            yield from self._of_launch(unit, index)
            yield from self._of_argument(unit, index)
            yield from self._of_initialiser(unit, index)
            if self.code.word(unit.first) == "return":
                yield self._edit(unit.first, unit.last, "__builtin_unreachable();")
            yield self._edit(unit.first, unit.last, self._launches(unit.first, unit.last) or ";")
        yield from self._body_removed(function)
        yield from self.of_declaration(function)

    def in_header(self, function: Declaration, index: int) -> Iterator[HostRepair]:
        """Yield edits of the return type, a parameter or the whole of a function."""
        assert function.body is not None
        parameters = self.code.parameters(function)
        if self._is_macro_call(function):
            name = f"rocm_perf_lab_host_{self.code.tokens[function.first].start}"
            yield self._edit(function.first, function.header_end - 1, f"static void {name}()")
        elif parameters is not None and parameters[0] < index < parameters[1]:
            first, last = self._piece(parameters, index)
            is_optional = "=" in {self.code.word(i) for i in range(first, last + 1)}
            yield self._edit(first, last, "int = 0" if is_optional else "int")
        elif parameters is not None and index < parameters[0]:
            yield from self._return_type_removed(function, parameters[0])
        elif parameters is not None:
            colon = next((i for i in range(parameters[1], index + 1) if self.code.word(i) == ":"), None)
            if colon is not None:
                yield self._edit(colon, function.header_end - 1, "")
        yield from self.of_declaration(function)

    def in_class_header(self, declaration: Declaration) -> Iterator[HostRepair]:
        """Yield edits of the bases of a class."""
        header = range(declaration.first, declaration.header_end)
        colon = next((i for i in header if self.code.word(i) == ":"), None)
        names = unseen_classes(self.code, self.chain)
        if colon is not None and names:
            yield replace(self._edit(colon, declaration.header_end - 1, ""), changed_classes=names)
        yield from self.of_declaration(declaration)

    def of_declaration(self, declaration: Declaration) -> Iterator[HostRepair]:
        """Yield the removal of a declaration, or of the class of which it is a data member."""
        if declaration.kind == "namespace":
            return
        parents = self.chain[: self.chain.index(declaration)]
        in_class = bool(parents) and parents[-1].kind == "class"
        if in_class and self._has_layout(declaration):
            names = unseen_classes(self.code, parents)
            if names:
                yield replace(self._edit(declaration.first, declaration.last, ""), changed_classes=names)
            yield from _Candidates(self.code, parents).of_declaration(parents[-1])
            return
        if self.code.has_device_code(declaration.first, declaration.last):
            return
        launches = "" if in_class else self._launches(declaration.first, declaration.last)
        if launches:
            name = f"rocm_perf_lab_host_{self.code.tokens[declaration.first].start}"
            launches = f"static void {name}() {{ {launches} }}"
        yield self._edit(declaration.first, declaration.last, launches)

    def _has_layout(self, member: Declaration) -> bool:
        """Return whether a member contributes to the layout of its class."""
        words = [self.code.word(i) for i in range(member.first, member.header_end)]
        if member.kind == "function" or self.code.parameters(member) is not None:
            return "virtual" in words
        if member.kind == "class":
            return member.body is not None and (member.last > member.body[1] + 1 or len(words) < 2)
        return not set(words) & {"using", "typedef", "friend", "static", "static_assert"}

    def _is_in_class(self) -> bool:
        return len(self.chain) > 1 and self.chain[-2].kind == "class"

    def _is_macro_call(self, function: Declaration) -> bool:
        """Return whether a header is `NAME(...)`: a macro of a header that is missing, such as TEST of GoogleTest."""
        first = function.first
        is_call = self.code.tokens[first].is_name and self.code.word(first + 1) == "("
        return is_call and self.code.partner[first + 1] == function.header_end - 1 and not self._is_in_class()

    def _return_type_removed(self, function: Declaration, parenthesis: int) -> Iterator[HostRepair]:
        first = function.first
        while self.code.word(first) == "template":
            first = self.code.after_angles(first + 1, parenthesis)
        last = parenthesis - 2
        while self.code.word(last) in {"::", "~"}:
            last -= 2
        if last >= first:
            yield self._edit(first, last, "void")

    def _body_removed(self, function: Declaration) -> Iterator[HostRepair]:
        assert function.body is not None
        first, last = function.body
        yield self._edit(first, last, f"{{ {self._launches(first, last)} }}")

    def _block(self, opened: int, index: int) -> tuple[int, bool]:
        """Return the innermost braces of statements around a token, and whether they are in a lambda or class for the device."""
        block, device = opened, False
        i = opened + 1
        while i < index:
            if self.code.word(i) in {"(", "[", "{"} and self.code.partner[i] <= index:
                i = self.code.partner[i]
            elif self.code.word(i) == "{" and self._opens_statements(i):
                device = device or self._has_device_header(i, block)
                block = i
            i += 1
        return block, device

    def _opens_statements(self, brace: int) -> bool:
        before = self.code.word(brace - 1)
        if before in _BEFORE_STATEMENTS or self.code.word(brace - 2) == "->":
            return True
        return any(self.code.word(i) in {"struct", "class", "union"} for i in range(max(0, brace - 3), brace))

    def _has_device_header(self, brace: int, block: int) -> bool:
        """Return whether the lambda or member function whose body begins at a brace has a device attribute."""
        i = brace - 1
        while i > block and self.code.word(i) not in {";", "{", "}", "[", ","}:
            i = self.code.partner[i] - 1 if self.code.word(i) == ")" else i - 1
        return self.code.has_device_code(i, brace - 1)

    def _unit(self, block: int, index: int) -> _Unit:
        """Return the statement of a block that contains a token."""
        i, end = block + 1, self.code.partner[block]
        while i < end:
            unit = self._unit_at(i, end)
            if unit.first <= index <= unit.last:
                return unit
            i = unit.last + 1
        return _Unit(block + 1, max(block + 1, end - 1))

    def _unit_at(self, first: int, end: int) -> _Unit:
        word = self.code.word(first)
        if word in _HEADS:
            i = first + 1
            while i < end and self.code.word(i) != "(":
                i += 1
            return _Unit(first, self.code.partner.get(i, i), is_head=True)
        if word in _ALONE:
            return _Unit(first, first)
        if word == "{":
            return _Unit(first, self.code.partner[first])
        i = first
        while i < end and self.code.word(i) != ";":
            if self.code.word(i) == ":" and word in {"case", "default"}:
                break
            i = self.code.partner[i] + 1 if self.code.word(i) in {"(", "[", "{"} else i + 1
        return _Unit(first, min(i, end - 1))

    def _of_head(self, unit: _Unit) -> Iterator[HostRepair]:
        parenthesis = self.code.partner[unit.last]
        yield self._edit(parenthesis, unit.last, _HEADS[self.code.word(unit.first)])

    def _of_launch(self, unit: _Unit, index: int) -> Iterator[HostRepair]:
        """Yield a launch configuration without the erroneous expression."""
        opened = next((i for i in range(index, unit.first, -1) if self.code.word(i) == "<<<"), None)
        if opened is None:
            return
        closed = next((i for i in range(opened, unit.last) if self.code.word(i) == ">>>"), None)
        if closed is not None and index < closed:
            yield self._edit(opened + 1, closed - 1, "1, 1")

    def _of_argument(self, unit: _Unit, index: int) -> Iterator[HostRepair]:
        """Yield a call whose erroneous argument is empty, if the call may instantiate a template."""
        opened = [i for i in range(unit.first, index) if self.code.word(i) == "(" and self.code.partner[i] > index]
        for parenthesis in opened:
            if self._may_instantiate(parenthesis):
                first, last = self._piece((parenthesis, self.code.partner[parenthesis]), index)
                yield self._edit(first, last, "{}")

    def _may_instantiate(self, parenthesis: int) -> bool:
        before = self.code.word(parenthesis - 1)
        if before in {">", ">>>"}:
            return True
        return before not in _NOT_CALLED and before in self._own_functions()

    def _own_functions(self) -> frozenset[str]:
        parentheses = (self.code.parameters(function) for function in self.code.functions())
        return frozenset(self.code.word(found[0] - 1) for found in parentheses if found is not None)

    def _of_initialiser(self, unit: _Unit, index: int) -> Iterator[HostRepair]:
        """Yield a declaration of a variable with an empty value."""
        equal = next((i for i in self._top_level(unit) if self.code.word(i) == "="), None)
        if equal is None or index <= equal or equal - unit.first < 2:
            return
        before = {self.code.word(i) for i in range(unit.first, equal)}
        if before & (_NO_EMPTY_VALUE | {".", "->", "["}):
            return
        last = next((i - 1 for i in self._top_level(unit) if i > equal and self.code.word(i) == ","), unit.last - 1)
        if index <= last:
            yield self._edit(equal + 1, last, _NOT_CONSTANT if "const" in before and "*" not in before else "{}")

    def _top_level(self, unit: _Unit) -> Iterator[int]:
        i = unit.first
        while i <= unit.last:
            yield i
            i = self.code.partner[i] + 1 if self.code.word(i) in {"(", "[", "{"} else i + 1

    def _piece(self, parentheses: tuple[int, int], index: int) -> tuple[int, int]:
        """Return the first and last token of the argument that contains a token; angle brackets must be balanced."""
        pieces: list[tuple[int, int]] = []
        first = i = parentheses[0] + 1
        while i < parentheses[1]:
            if self.code.word(i) == "," and self._angles(first, i) <= 0:
                pieces.append((first, i - 1))
                first = i + 1
            i = self.code.partner[i] + 1 if self.code.word(i) in {"(", "[", "{"} else i + 1
        pieces.append((first, parentheses[1] - 1))
        return next(((a, b) for a, b in pieces if a <= index <= b), (parentheses[0] + 1, parentheses[1] - 1))

    def _angles(self, first: int, end: int) -> int:
        words = [self.code.word(i) for i in range(first, end)]
        return words.count("<") - words.count(">")

    def _launches(self, first: int, last: int) -> str:
        """Return statements that instantiate the kernels with template arguments that a range of tokens launches."""
        found = [self._launched(i) for i in range(first, last + 1) if self.code.word(i) == "<<<"]
        return " ".join(f"(void)&{name};" for name in dict.fromkeys(filter(None, found)))

    def _launched(self, chevron: int) -> str | None:
        """Return the template-id of the kernel before a `<<<`."""
        last = chevron - 1
        while self.code.word(last) == ")" and self.code.partner[last] < last - 1:
            last -= 1
        if self.code.word(last) != ">":
            return None
        i, depth = last, 0
        while i > 0:
            depth += {">": 1, ">>>": 3, "<": -1}.get(self.code.word(i), 0)
            i -= 1
            if depth == 0:
                break
        while self.code.word(i - 1) == "::" and self.code.tokens[i - 2].is_name:
            i -= 2
        return self.code.text[self.code.tokens[i].start : self.code.tokens[last].end] if self.code.tokens[i].is_name else None

    def _edit(self, first: int, last: int, replacement: str) -> HostRepair:
        """Return the replacement of a range of tokens; an empty range is the place before its first token."""
        start = self.code.tokens[first].start
        end = self.code.tokens[last].end if last >= first else start
        return HostRepair(start, end, replacement)
