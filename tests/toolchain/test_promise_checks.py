"""Checks of promises to the compiler inserted into LLVM IR."""

from __future__ import annotations

import re

from rocm_perf_lab.toolchain.promise_checks import with_promise_checks

MODULE = """\
define void @f(ptr %0, ptr addrspace(3) %1) #0 !dbg !1 {
  %3 = alloca ptr, align 8, addrspace(5)
  %4 = addrspacecast ptr addrspace(5) %3 to ptr
  %5 = getelementptr inbounds nuw %struct.P, ptr %4, i32 0, i32 0, !dbg !2
  store ptr %0, ptr %4, align 8, !dbg !2
  %6 = load i32, ptr %5, align 4, !dbg !2
  %7 = load <4 x float>, ptr %0, align 16, !dbg !3
  store volatile i8 1, ptr addrspace(3) %1, align 1, !dbg !4
  store half %9, ptr addrspace(3) %1, align 2, !dbg !4
  %8 = load atomic i32, ptr %0 syncscope("agent") monotonic, align 4, !dbg !5
  call void @llvm.memcpy.p0.p0.i64(ptr align 16 %4, ptr align 8 %0, i64 16, i1 false), !dbg !6
  call void @llvm.assume(i1 true) [ "align"(ptr %0, i64 64) ], !dbg !7
  ret void
}
define void @library(ptr %0) {
  %2 = load i32, ptr %0, align 4
  ret void
}
"""


def checks(ir: str) -> list[tuple[str, str, str]]:
    """Return pointer, mask and debug location of the inserted checks."""
    return re.findall(r"call void @rocm_perf_lab\.aligned\.\d\(ptr(?: addrspace\(3\))? (%\d+), i64 (\d+)\), !dbg (!\d)", ir)


def test_each_claim_about_memory_outside_of_the_function_is_checked() -> None:
    checked = with_promise_checks(MODULE)

    assert checks(checked) == [
        ("%0", "15", "!3"), ("%1", "1", "!4"), ("%0", "3", "!5"), ("%0", "7", "!6"), ("%0", "63", "!7"),
    ]  # fmt: skip


def test_a_check_is_defined_once_per_address_space() -> None:
    checked = with_promise_checks(MODULE)

    assert re.findall(r"define internal void @(\S+)\(", checked) == ["rocm_perf_lab.aligned.0", "rocm_perf_lab.aligned.3"]
    assert checked.count("declare void @llvm.trap()") == 1


def test_a_module_without_accesses_is_unchanged() -> None:
    module = "define void @f() !dbg !1 {\n  ret void\n}\n"

    assert with_promise_checks(module) == module


def test_alignment_of_references_does_not_remove_checks() -> None:
    module = (
        "define void @g(ptr noundef nonnull align 16 %0, ptr noundef align 32 %1) !dbg !1 {\n"
        "  store i32 0, ptr %0, align 4, !dbg !2\n"
        "  %3 = load ptr, ptr %0, align 8, !dbg !3, !align !9\n"
        "  call void @h(ptr noundef nonnull align 16 dereferenceable(16) %3), !dbg !4\n"
        "  ret void\n}\n"
    )

    checked = with_promise_checks(module)

    assert checks(checked) == [("%1", "31", "!2"), ("%0", "3", "!2"), ("%0", "7", "!3")]
    assert "nonnull align" not in checked
    assert "!align" not in checked


CONDITIONS = """\
define i32 @f(i32 %0) !dbg !1 {
  %2 = icmp sgt i32 %0, 0, !dbg !2
  call void @llvm.assume(i1 %2), !dbg !3
  %3 = icmp eq i32 %0, 7, !dbg !4
  br i1 %3, label %4, label %5, !dbg !4

4:                                                ; preds = %1
  unreachable, !dbg !5

5:                                                ; preds = %1
  ret i32 %0
}
define void @library(i1 %0) {
  call void @llvm.assume(i1 %0)
  unreachable
}
"""


def test_conditions_and_unreachable_places_have_traps_at_the_line_of_the_expression() -> None:
    checked = with_promise_checks(CONDITIONS)

    function, _, library = checked.partition("define void @library")
    assert "call void @rocm_perf_lab.assumed.0(i1 %2), !dbg !2\n" in function
    assert "@llvm.assume" not in function
    assert re.findall(r'asm sideeffect "s_trap (\d+)[^"]*", ""\(\), !dbg (!\d)\n  unreachable', function) == [("66", "!5")]
    assert library.startswith("(i1 %0) {\n  call void @llvm.assume(i1 %0)\n  unreachable\n}")
    assert re.findall(r"define internal void @(\S+)\(", checked) == ["rocm_perf_lab.assumed.0"]
    assert '"s_trap 65 ' in library
