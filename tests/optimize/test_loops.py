"""The loops of a kernel, and what forbids to unroll one."""

from __future__ import annotations

import pytest

from rocm_perf_lab.optimize.loops import Loop, loops_of
from rocm_perf_lab.optimize.source_tree import parse_source

LOOP = "for (int i = 0; i < 4; ++i) a[i] = 0;"


def loops(source: str, entry: str = "k") -> tuple[Loop, ...]:
    return loops_of(parse_source(source.encode(), entry))


def in_kernel(body: str) -> tuple[Loop, ...]:
    return loops(f"__global__ void k(float* a, int n) {{\n{body}\n}}\n")


def obstacles(body: str, before: str = "") -> list[str | None]:
    return [loop.obstacle for loop in loops(f"{before}__global__ void k(float* a, int n) {{\n{body}\n}}\n")]


# Finding loops


def test_loops_are_in_source_order_with_their_lines_and_headers() -> None:
    found = in_kernel(
        "for (int i = 0; i < n; ++i)\n  for (int j = 0;\n       j < n;\n       ++j) { a[i * n + j] = 0; }\n"
        "while (a[0] > 0) a[0] -= 1;\ndo a[1] += 1; while (a[1] < 0);\nfor (;;) {}"
    )

    assert [(loop.line, loop.header) for loop in found] == [
        (2, "for (int i = 0; i < n; ++i)"),
        (3, "for (int j = 0; j < n; ++j)"),
        (6, "while (a[0] > 0)"),
        (7, "do"),
        (8, "for (;;)"),
    ]


def test_a_range_based_for_is_a_for_loop() -> None:
    (loop,) = in_kernel("int v[2] = {0, 1};\nfor (int x : v) a[x] = 0;")

    assert (loop.header, loop.obstacle) == ("for (int x : v)", None)


def test_comments_and_strings_have_no_loops() -> None:
    found = in_kernel(
        '// for (int i = 0; i < 4; ++i)\n/* for (;;) {} */\nconst char* s = "for (int i = 0;;)";\n'
        'const char* r = R"(\nfor (;;) {})";\nfor (int i = 0; i < 4; ++i) a[i] = s[i]; // for ('
    )

    assert [loop.line for loop in found] == [7]


def test_macro_definitions_have_no_loops() -> None:
    source = (
        "#define ZERO(a) for (;;) a[0] = 0\n#define ONE(a) \\\n  for (int i = 0; i < 4; ++i) \\\n    a[i] = 1\n"
        f"__global__ void k(float* a) {{\n#define TWO(a) {LOOP}\n  ZERO(a);\n  ONE(a);\n  {LOOP}\n}}\n"
    )

    assert [loop.line for loop in loops(source)] == [9]


def test_loops_of_both_branches_of_an_if_directive_are_found() -> None:
    found = in_kernel(f"#if FAST\n{LOOP}\n#else\n{LOOP}\n#endif\nfor (;;) {{\n#ifdef X\na[0] = 1;\n#endif\n}}")

    assert [(loop.line, loop.obstacle) for loop in found] == [(3, None), (5, None), (7, None)]


def test_loops_of_called_device_functions_belong_to_the_kernel_and_those_of_others_do_not() -> None:
    source = (
        f"__device__ void late(float* a);\n__device__ void unused(float* a) {{ {LOOP} }}\n"
        f"template <int N> __device__ void early(float* a) {{ {LOOP} late(a); }}\n"
        f"struct S {{ __device__ void method(float* a) {{ {LOOP} early<3>(a); }} }};\n"
        "__global__ void k(float* a) { S s; s.method(a); }\n"
        f"__device__ void late(float* a) {{ {LOOP} if (a[0] > 0) late(a); }}\n"
    )

    assert [(loop.line, loop.function) for loop in loops(source)] == [(3, "early"), (4, "method"), (6, "late")]


def test_positions_are_bytes_and_lines_also_with_crlf_and_non_ascii_text() -> None:
    source = f"// größe ∑ 𝄞\r\n__global__ void k(float* a) {{\r\n  /* ä */ {LOOP}\r\n}}\r\n"

    (loop,) = loops(source)

    assert loop.line == 3
    assert source.encode()[loop.start :].startswith(LOOP.encode())


def test_very_deep_expressions_are_walked() -> None:
    (loop,) = in_kernel(f"for (int i = 0; i < 4; ++i) a[i] = {'+'.join(['n'] * 5000)};")

    assert loop.obstacle is None


@pytest.mark.parametrize(
    "body",
    [
        "if (n)\n#pragma unroll 2\n{LOOP}\nelse\n#pragma unroll 4\n{LOOP}",
        "for (int j = 0; j < n; ++j)\n#pragma unroll 2\n{LOOP}\n{LOOP}",
        "while (a[0] > 0)\n#pragma unroll 2\n{LOOP}\n{LOOP} while (0) {}",
    ],
)
def test_a_pragma_before_a_body_does_not_hide_later_code(body: str) -> None:
    without = body.replace("#pragma unroll 2\n", "").replace("#pragma unroll 4\n", "")

    found, expected = in_kernel(body.replace("{LOOP}", LOOP)), in_kernel(without.replace("{LOOP}", LOOP))

    assert len(found) >= 2
    assert [(loop.header, loop.obstacle) for loop in found] == [(loop.header, loop.obstacle) for loop in expected]


# What forbids to unroll


@pytest.mark.parametrize(
    ("statement", "obstacle"),
    [
        ("__syncthreads();", "contains a barrier"),
        ("if (__syncthreads_or(n)) a[i] = 0;", "contains a barrier"),
        ("__builtin_amdgcn_s_barrier();", "contains a barrier"),
        ("cooperative_groups::sync(block);", "contains a barrier"),
        ("block.sync();", "contains a barrier"),
        ("atomicAdd(&a[i], 1.0f);", "contains an atomic"),
        ("unsafeAtomicAdd(&a[i], 1.0f);", "contains an atomic"),
        ("__hip_atomic_fetch_add(&a[i], 1, 5, 4);", "contains an atomic"),
        ("counter.fetch_add(1);", "contains an atomic"),
        ('asm volatile("s_nop 0");', "contains inline assembly"),
        ('__asm__ volatile("v_add_f32 %0, %1, %2" : "=v"(a[0]) : "v"(a[1]), "v"(a[2]));', "contains inline assembly"),
        ("if (a[i] > 0) return;", "contains return"),
        ("if (a[i] > 0) break;", "contains break"),
        ("switch (n) { case 1: if (a[i] > 0) return; }", "contains return"),
        ("if (a[i] > 0) goto out;", "jumps with goto"),
        ("again: a[i] += 1;", "contains a jump label"),
        ("a[i] = = 1;", "cannot be parsed"),
    ],
)
def test_irregular_and_order_dependent_loops_have_obstacles(statement: str, obstacle: str) -> None:
    assert obstacles(f"for (int i = 0; i < n; ++i) {{\n  {statement}\n}}\nout: a[0] = 1;") == [f"{obstacle} (line 3)"]


@pytest.mark.parametrize(
    "statement",
    [
        "a[i] = sqrtf(a[i]);",
        "if (a[i] > 0) continue;",
        "switch (i) { case 0: a[i] = 1; break; default: break; }",
        "auto f = [](int x) { return x + 1; }; a[i] = f(i);",
        'const char* s = "__syncthreads(); return; asm"; // atomicAdd(a, 1); break;',
        "__shared__ float tile[4]; tile[i] = a[i];",
        "a[i] = __shfl_xor(a[i], 1);",
    ],
)
def test_statements_within_an_iteration_are_no_obstacles(statement: str) -> None:
    assert obstacles(f"for (int i = 0; i < n; ++i) {{ {statement} }}") == [None]


@pytest.mark.parametrize(
    "inner", ["while (1) { BREAK }", "do { BREAK } while (1);", "for (;;) { BREAK }", "for (int x : v) { BREAK }"]
)
def test_a_break_affects_the_innermost_loop_only(inner: str) -> None:
    outer, innermost = obstacles(f"int v[2];\nfor (int i = 0; i < n; ++i)\n{inner.replace('BREAK', 'if (a[i] > 0) break;')}")

    assert outer is None
    assert innermost in ("is not a for loop", "contains break (line 4)")


def test_a_barrier_affects_every_enclosing_loop() -> None:
    found = obstacles(f"for (int i = 0; i < n; ++i) {{\n  for (int j = 0; j < n; ++j) a[j] = 0;\n  __syncthreads();\n}}\n{LOOP}")

    assert found == ["contains a barrier (line 4)", None, None]


@pytest.mark.parametrize(
    ("helper", "obstacle"),
    [
        ("__device__ void f(float* a) { __syncthreads(); }\n", "contains a barrier (line 1)"),
        ("__device__ void g() { __syncthreads(); } __device__ void f(float* a) { g(); }\n", "contains a barrier (line 1)"),
        ("__device__ void f(float* a) { atomicAdd(a, 1.0f); }\n", "contains an atomic (line 1)"),
        ('__device__ void f(float* a) { asm volatile("s_nop 0"); }\n', "contains inline assembly (line 1)"),
        ("#define f(a) __syncthreads()\n", "contains a barrier in the macro f (line 3)"),
        ("#define SYNC __syncthreads\n#define f(a) SYNC()\n", "contains a barrier in the macro f (line 4)"),
        ("#define f(a) do { if (a[0]) return; } while (0)\n", "may contain return in the macro f (line 3)"),
    ],
)
def test_called_functions_and_macros_are_analysed(helper: str, obstacle: str) -> None:
    assert obstacles("for (int i = 0; i < n; ++i) f(a);", helper) == [obstacle]


def test_a_return_in_a_called_function_is_no_obstacle() -> None:
    helper = "__device__ float f(float* a) { for (int j = 0; j < 2; ++j) { if (a[j] > 0) break; } return a[0]; }\n"

    assert obstacles("for (int i = 0; i < n; ++i) a[i] = f(a);", helper) == ["contains break (line 1)", None]


@pytest.mark.parametrize(
    "declaration",
    [
        "extern __shared__ float s[];",
        "extern __shared__ __align__(16) float s[];",
        "extern __shared__ char raw[]; float* s = reinterpret_cast<float*>(raw);",
        "extern __shared__ char raw[]; char* middle = raw + 64; auto s = (float*)middle;",
        "HIP_DYNAMIC_SHARED(float, s);",
    ],
)
def test_dynamic_shared_memory_is_found_through_aliases(declaration: str) -> None:
    body = f"{LOOP}\nfor (int i = 0; i < n; ++i) a[i] = s[i];"

    assert obstacles(f"{declaration}\n{body}") == [None, "uses dynamic shared memory (line 4)"]


def test_dynamic_shared_memory_may_be_declared_outside() -> None:
    assert obstacles("for (int i = 0; i < n; ++i) a[i] = s[i];", "extern __shared__ float s[];\n") == [
        "uses dynamic shared memory (line 3)"
    ]


def test_a_value_read_from_dynamic_shared_memory_is_not_shared_memory() -> None:
    assert obstacles("extern __shared__ float s[];\nfloat first = s[0];\nfor (int i = 0; i < n; ++i) a[i] = first;") == [None]


def test_a_loop_in_the_arguments_of_a_macro_cannot_have_a_pragma() -> None:
    assert obstacles(f"RUN([&] {{ {LOOP} }});", "#define RUN(f) (f)()\n") == ["is an argument of a macro"]
    assert obstacles(f"run([&] {{ {LOOP} }});", "template <typename F> __device__ void run(F f) { f(); }\n") == [None]


@pytest.mark.parametrize(
    "pragma", ["#pragma nounroll", "#pragma clang loop unroll_count(4)", "#pragma GCC unroll 4", '_Pragma("unroll 4")']
)
def test_other_unrolling_pragmas_are_respected(pragma: str) -> None:
    assert obstacles(f"{pragma}\n{LOOP}") == [f"has another pragma: {pragma}"]


@pytest.mark.parametrize("between", ["", "\n", "  // why\n", "  /* why */ ", "#pragma clang loop vectorize(disable)\n"])
@pytest.mark.parametrize(
    "pragma", ["#pragma unroll\n", "#pragma unroll 4\n", "  # pragma unroll(4)\n", "#pragma unroll 1 // why\n"]
)
def test_the_pragma_of_a_loop_is_found_across_comments(pragma: str, between: str) -> None:
    source = f"__global__ void k(float* a) {{\n{pragma}{between}{LOOP}\n}}\n"

    (loop,) = loops(source)

    assert loop.pragma is not None
    assert source[slice(*loop.pragma)] == pragma


@pytest.mark.parametrize("between", ["a[0] = 1;\n", "/* a */ a[0] = 1; /* b */\n", f"{LOOP}\n", "if (a[0] > 0)\n"])
def test_the_pragma_of_another_statement_is_ignored(between: str) -> None:
    assert in_kernel(f"#pragma unroll\n{between}for (;;) {{}}")[-1].pragma is None


def test_a_pragma_in_a_comment_is_ignored() -> None:
    (loop,) = in_kernel(f"/*\n#pragma unroll 4\n*/\n// #pragma unroll 2\n{LOOP}")

    assert (loop.pragma, loop.obstacle) == (None, None)
