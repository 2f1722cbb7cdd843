"""Launches of kernel descriptions: shapes, values and geometry."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rocm_perf_lab.device.launch import LaunchError
from rocm_perf_lab.device.protocol import ScalarValue
from rocm_perf_lab.languages.hip import HipLanguage
from rocm_perf_lab.verify.reference import expected_outputs
from tests.builders.descriptions import buffer, describe, launch_of

PARTIAL: dict[str, Any] = {"grid": (), "work_items": ["n"]}


def test_geometry_is_evaluated_over_params_and_has_three_dimensions() -> None:
    launch = launch_of(describe())

    assert launch.grid == (4, 1, 1)
    assert launch.block == (256, 1, 1)


def test_a_grid_in_work_items_may_end_in_a_partial_workgroup() -> None:
    launch = launch_of(describe(**PARTIAL))

    assert (launch.grid, launch.remainder) == ((4, 1, 1), (232, 0, 0))
    assert launch.geometry.work_items == (1000, 1, 1)


@pytest.mark.parametrize("given", [{"grid": ()}, {"work_items": ["n"]}], ids=["neither", "both"])
def test_a_kernel_has_a_grid_or_work_items(given: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="needs grid: the number of workgroups"):
        describe(**given)


def test_a_kernel_with_partial_workgroups_is_compiled_for_them() -> None:
    flags = [HipLanguage().syntax_request(describe(**d), Path("scale.hip"), architecture="gfx942").flags for d in ({}, PARTIAL)]

    assert flags == [(), ("-fno-offload-uniform-block",)]


def struct(*fields: dict[str, Any]) -> ScalarValue:
    launch = launch_of(describe(arguments=[{"name": "s", "kind": "struct", "fields": fields}], reference={}))
    value = launch.arguments[0]
    assert isinstance(value, ScalarValue)
    return value


def test_a_struct_has_the_layout_of_c() -> None:
    """struct { char c; float f; short n; void* p; char d; }: gaps of 3, 6 and 7 bytes."""
    members = [("i8", 1), ("f32", 1.0), ("i16", "n"), ("u64", 0x1122334455667788), ("i8", 2)]
    value = struct(*({"dtype": dtype, "value": v} for dtype, v in members))

    assert value.encoded.hex(" ", 4) == "01000000 0000803f e8030000 00000000 88776655 44332211 02000000 00000000"


def test_a_member_has_the_offset_of_the_description() -> None:
    assert struct({"dtype": "i8", "value": 1}, {"dtype": "i8", "value": 2, "offset": 5}).encoded.hex() == "010000000002"
    with pytest.raises(LaunchError, match="offset 2 overlaps the previous member, which ends at 4") as caught:
        struct({"dtype": "f32", "value": 1}, {"dtype": "i8", "value": 2, "offset": 2})
    assert caught.value.where == "kernel.arguments.s.fields[1]"


def test_variables_of_the_module_are_filled_and_known_to_the_reference() -> None:
    variable = {"name": "scale", "dtype": "f32", "shape": [1], "init": {"kind": "constant", "value": 4}}
    description = describe(variables=[variable], reference={"y": "scale * x"})
    launch = launch_of(description)
    expected = expected_outputs(description, launch)

    assert launch.variables[0].data.tolist() == [4.0]
    assert expected is not None
    assert expected["y"].tolist() == (4 * buffer(launch, "x").data).tolist()


def test_defines_are_evaluated_over_params() -> None:
    assert describe().compile_defines() == {"BLOCK": "256", "TWICE": "512"}


def test_equal_seeds_result_in_equal_bytes() -> None:
    first, second = (buffer(launch_of(describe()), "x").data.tobytes() for _ in range(2))

    assert first == second


def test_an_output_is_initialised_with_nan() -> None:
    assert np.isnan(buffer(launch_of(describe()), "y").data).all()


def test_a_scalar_is_encoded_little_endian_in_its_own_size() -> None:
    assert launch_of(describe()).arguments[2] == ScalarValue("n", (1000).to_bytes(4, "little"))


def test_a_scalar_that_does_not_fit_is_refused() -> None:
    with pytest.raises(LaunchError, match="does not fit in i32"):
        launch_of(describe(params={"n": 2**31, "block": 256}, arguments=[describe().arguments[2]]))


def test_a_grid_of_zero_is_refused() -> None:
    with pytest.raises(LaunchError, match="at least 1"):
        launch_of(describe(grid=[0]))


def test_an_input_without_initial_values_is_refused() -> None:
    with pytest.raises(LaunchError, match="no init"):
        launch_of(describe(arguments=[{"name": "x", "kind": "buffer", "dtype": "f32", "shape": [4]}]))
