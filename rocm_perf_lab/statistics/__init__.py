"""Statistics of repeated times: the only package that decides whether times differ.

| question | module |
| --- | --- |
| Can the times of one kernel be trusted? | `stability`, `drift`, `bootstrap` |
| Do two independent series differ? | `two_sample_tests` |
| Is a rewrite faster, from interleaved pairs? | `paired_test` |
| Which of several configurations is the fastest? | `racing` |
| How are many tests corrected? | `error_control` |

Results are deterministic: equal inputs return equal results. SciPy loads inside the functions that need it
(`scipy.stats` takes 0.6 s to import).
"""
