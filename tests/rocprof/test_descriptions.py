"""Descriptions of code objects."""

from __future__ import annotations

from pathlib import Path

import pytest

from rocm_perf_lab.rocprof.descriptions import described_code_object
from rocm_perf_lab.rocprof.reader import read_database
from rocm_perf_lab.rocprof.writer import write_database
from rocm_perf_lab.target.catalog import load_target
from tests.builders.recordings import read_run
from tests.builders.rocpd import dispatch, recorded_run

RECORDING = Path(__file__).parents[1] / "data/recorded/rocprofv3_json/908_results.json.gz"


@pytest.mark.parametrize(
    ("uri", "load_bytes", "text"),
    [
        ("memory://908#offset=0x55ac72058080&size=32648", 36864, "32648 bytes"),
        ("file:///opt/lib/libtorch_hip.so#offset=4096&size=812", 0, "libtorch_hip.so, 812 bytes"),
        ("file:///home/user/app", 2048, "app, 2048 bytes loaded"),
        ("memory://4242", 0, ""),
        ("", 0, ""),
        ("#size=", -1, ""),
    ],
)
def test_a_code_object_is_described_without_addresses(uri: str, load_bytes: int, text: str) -> None:
    assert described_code_object(uri, load_bytes) == text


def test_kernels_of_a_database_have_their_code_object(tmp_path: Path) -> None:
    path = tmp_path / "x_results.db"
    write_database(path, recorded_run(load_target("mi300x"), [dispatch(0, 10)]))

    assert {kernel.code_object for kernel in read_database(path).kernels} == {"4096 bytes loaded"}


def test_kernels_of_a_json_document_have_their_code_object() -> None:
    kernels = {kernel.name: kernel.code_object for kernel in read_run([RECORDING]).kernels}

    assert kernels["__amd_rocclr_copyBuffer"] == "32648 bytes"
