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
    from rocm_perf_lab.jobs.analyze.document import export_schema as export_report_schema
    from rocm_perf_lab.jobs.verify.document import export_schema as export_verify_schema
    from rocm_perf_lab.replay.format import export_schemas as export_capture_schemas

    to = Path(directory)
    try:
        single = (
            export_report_schema(to),
            export_compare_schema(to),
            export_series_schema(to),
            export_schema(to),
            export_verify_schema(to),
        )
        for path in (*export_schemas(to), *single, *export_capture_schemas(to)):
            click.echo(path)
    except OSError as error:
        hint = "choose a writable directory"
        raise LabError(f"cannot write the schemas: {error.strerror or error}", where=directory, hint=hint) from error
