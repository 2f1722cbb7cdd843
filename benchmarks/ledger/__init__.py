"""Diagnosis of kernels with known defects on the emulator: `python -m benchmarks.ledger`.

Modules: `cases` (definition of a case), `development`, `unseen` and `fresh` (the sets, labelled before they ran), `diagnosing`
(runs a case and asks the ledger), `report` (hit rates, calibration, misses).

Before its first run, while the rules of the ledger were still being corrected with the development set, the unseen set had this
SHA-256 (`cat unseen.py kernels/unseen/*.hip`): 7ab3ce0fa2d02746d52511f88c3352ab58b4fb79da87e147b2215b8ddbbc8c55.

The fresh set was frozen before the rules were (`cat fresh.py kernels/fresh/*.hip`):
dfa02b5dc834500913df0f7b116d87fda498f65217c873482b8b1cc1574a70b2.
`ledger_fresh.json` has its only run.
"""
