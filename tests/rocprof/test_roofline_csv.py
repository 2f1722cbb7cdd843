"""roofline.csv of rocprofiler-compute, in the layouts of several versions."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from rocm_perf_lab.rocprof.roofline_csv import RooflineCsvError, read_roofline_csv

if TYPE_CHECKING:
    from pathlib import Path

HEADER = "device,HBMBw,HBMBwLow,hbmBwHigh,MALLBw,L2Bw,L1Bw,LDSBw,FP32Flops,FP32FlopsLow,FP64Flops,MFMAF16Flops,MFMAI8Ops"
ROWS = "0,4100.5,4000,4200,11900,21000,30000,61000,122000,121000,61000,900000,1800000\n1,4000,1,1,1,1,1,1,1,1,1,1,1"


def csv(directory: Path, text: str = f"{HEADER}\n{ROWS}\n") -> Path:
    path = directory / "roofline.csv"
    path.write_text(text)
    return path


def test_medians_are_read_and_low_and_high_are_not(tmp_path: Path) -> None:
    peaks = read_roofline_csv(csv(tmp_path))

    assert peaks.memory == {"lds": 61000, "vector_l1": 30000, "l2": 21000, "mall": 11900, "dram": 4100.5}
    assert peaks.compute == {
        ("vector", "f32"): 122000, ("vector", "f64"): 61000, ("matrix", "f16"): 900000, ("matrix", "i8"): 1800000,
    }  # fmt: skip
    assert peaks.source == "roofline.csv, device 0"


def test_each_device_has_its_row(tmp_path: Path) -> None:
    assert read_roofline_csv(csv(tmp_path), device=1).memory["dram"] == 4000


def test_newer_releases_have_more_types_and_another_device_column(tmp_path: Path) -> None:
    text = "devID,HBMBw,HBMBwLow,hbmBwHigh,FP16Flops,BF16Flops,I8Ops,MFMAF4Flops\n1,6237.3,6233,6241,38558,5764,81175,9\n"

    peaks = read_roofline_csv(csv(tmp_path, text), device=1)

    assert peaks.memory == {"dram": 6237.3}
    assert peaks.compute == {("vector", "f16"): 38558, ("vector", "bf16"): 5764, ("vector", "i8"): 81175}


def test_zero_means_not_measured(tmp_path: Path) -> None:
    peaks = read_roofline_csv(csv(tmp_path, "device,HBMBw,MALLBw,FP32Flops,MFMAF8Flops\n0,1600,0,,0\n"))

    assert (peaks.memory, peaks.compute) == ({"dram": 1600}, {})


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("", "no device 0"),
        ("device,HBMBw\n3,1600\n", "devices in the file: 3"),
        ("device,HBMBw\n0,fast\n", "'fast', not a rate"),
        ("device,HBMBw\n0,-1\n", "not a rate"),
        ("device,HBMBw\n0,nan\n", "not a rate"),
        ("kernel,time\n0,1\n", "contains no peaks"),
        ("x" * (1 << 20) + "\n", "too large"),
    ],
)
def test_other_csv_files_are_refused(tmp_path: Path, text: str, what: str) -> None:
    with pytest.raises(RooflineCsvError, match=r"roofline\.csv") as refusal:
        read_roofline_csv(csv(tmp_path, text))

    assert what in str(refusal.value)


def test_a_missing_or_binary_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RooflineCsvError, match="cannot read"):
        read_roofline_csv(tmp_path / "roofline.csv")
    (tmp_path / "roofline.csv").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(RooflineCsvError, match="not CSV"):
        read_roofline_csv(tmp_path / "roofline.csv")
