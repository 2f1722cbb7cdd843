"""`rocm-perf schemas`: write the JSON Schemas of all documents."""

from __future__ import annotations

import click

from rocm_perf_lab.cli.exit_codes import answer
from rocm_perf_lab.core.errors import LabError


@click.command(short_help="Write the JSON Schemas of all documents.")
@click.argument("directory", type=click.Path(file_okay=False), default="schemas")
def schemas(directory: str) -> None:
    """Write the JSON Schemas of all documents (report, profile, series, compare, verify, captures, ...) to DIRECTORY."""
    answer(lambda: _write_schemas(directory))


def _write_schemas(directory: str) -> None:
    from pathlib import Path

    from rocm_perf_lab.analysis.comparison_document import export_schema as export_compare_schema
    from rocm_perf_lab.analysis.documents import export_schemas
    from rocm_perf_lab.analysis.series_document import export_schema as export_series_schema
    from rocm_perf_lab.autotune.document import export_schema
    from rocm_perf_lab.autotune.shapes_document import export_schema as export_shapes_schema
    from rocm_perf_lab.jobs.analyze.document import export_schema as export_report_schema
    from rocm_perf_lab.jobs.optimize.document import export_schema as export_optimize_schema
    from rocm_perf_lab.jobs.profile.observations import export_schemas as export_observation_schemas
    from rocm_perf_lab.jobs.run.document import export_schema as export_run_schema
    from rocm_perf_lab.jobs.run_identity import export_schema as export_origin_schema
    from rocm_perf_lab.jobs.verify.document import export_schema as export_verify_schema
    from rocm_perf_lab.replay.format import export_schemas as export_capture_schemas
    from rocm_perf_lab.replay.schemas import export_schemas as export_replay_schemas

    to = Path(directory)
    try:
        single = (
            export_report_schema(to),
            export_compare_schema(to),
            export_series_schema(to),
            export_schema(to),
            export_shapes_schema(to),
            export_optimize_schema(to),
            export_run_schema(to),
            export_origin_schema(to),
            export_verify_schema(to),
        )
        several = (*export_observation_schemas(to), *export_capture_schemas(to), *export_replay_schemas(to))
        for path in (*export_schemas(to), *single, *several):
            click.echo(path)
    except OSError as error:
        hint = "choose a writable directory"
        raise LabError(f"cannot write the schemas: {error.strerror or error}", where=directory, hint=hint) from error
