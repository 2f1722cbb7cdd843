"""Diagnosis of kernels with known defects on the emulator: `python -m benchmarks.ledger`.

Modules: `cases` (what a case is), `development` and `unseen` (the two sets, labelled before they ran), `diagnosing` (runs a case
and asks the ledger), `report` (hit rates, calibration, misses).
"""
