"""Pages that are generated when the site is built: the README, and the reference of commands, configuration, documents, API."""

from __future__ import annotations

import inspect
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from mkdocs.structure.files import File

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files

ROOT = Path(__file__).parents[2]


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the generated pages to the site."""
    pages = {
        "index.md": (ROOT / "README.md").read_text(encoding="utf-8").replace("](docs/", "]("),
        "reference/commands.md": commands(),
        "reference/configuration.md": configuration(),
        "reference/documents.md": documents(),
        "reference/python.md": python(),
    }
    for name, text in pages.items():
        files.append(File.generated(config, name, content=text))
    return files


def commands() -> str:
    """Return the help of every command."""
    from rocm_perf_lab.cli import main

    parts = ["# Commands", ""]
    for words, command in _walk(main, ("rocm-perf",)):
        context = click.Context(command, info_name=" ".join(words), max_content_width=100)
        parts += [f"## {' '.join(words)}", "", "```text", command.get_help(context), "```", ""]
    return "\n".join(parts)


def _walk(command: click.Command, words: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    yield words, command
    if isinstance(command, click.Group):
        for name, below in sorted(command.commands.items()):
            yield from _walk(below, (*words, name))


def configuration() -> str:
    """Return a table of keys for each group of the configuration."""
    from rocm_perf_lab.config.lab import LabConfig

    schema = LabConfig.model_json_schema()
    parts = ["# Configuration", "", "Keys of the composed configuration: `group.key=value` on the command line.", ""]
    for group, row in schema["properties"].items():
        model = _resolved(row, schema)
        if "properties" in model:
            parts += [f"## {group}", "", model.get("description", ""), "", *_keys(model, schema), ""]
    return "\n".join(parts)


def documents() -> str:
    """Return a table of keys for each document, from the JSON Schemas."""
    parts = ["# Documents", "", "JSON documents that the commands write. `rocm-perf schemas` writes their JSON Schemas.", ""]
    for path in sorted((ROOT / "docs" / "schemas").glob("*.json")):
        schema = json.loads(path.read_text(encoding="utf-8"))
        parts += [
            f"## {path.name.removesuffix('.schema.json')}",
            "",
            schema.get("description", ""),
            "",
            *_keys(schema, schema),
            "",
        ]
    return "\n".join(parts)


def python() -> str:
    """Return signature and documentation of the functions and results of the Python API."""
    from rocm_perf_lab import api

    parts = ["# Python", "", "```python", "import rocm_perf_lab as lab", "```", ""]
    for name in api.__all__:
        value = getattr(api, name)
        signature = f"{name}{inspect.signature(value)}" if inspect.isfunction(value) else f"class {name}"
        parts += [f"## {name}", "", "```python", signature, "```", "", "```text", inspect.getdoc(value) or "", "```", ""]
        members = inspect.getmembers(value, lambda one: isinstance(one, property)) if inspect.isclass(value) else []
        parts += [f"- `{member}`: {_first_line(found)}" for member, found in members if not member.startswith("_")] + [""]
    return "\n".join(parts)


def _first_line(value: object) -> str:
    return (inspect.getdoc(value) or "").partition("\n")[0]


def _resolved(row: Mapping[str, Any], schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the model that a property refers to, or the property."""
    for one in (row, *row.get("allOf", ()), *row.get("anyOf", ())):
        if "$ref" in one:
            found: Mapping[str, Any] = schema["$defs"][one["$ref"].rpartition("/")[2]]
            return found
    return row


def _keys(model: Mapping[str, Any], schema: Mapping[str, Any]) -> list[str]:
    rows = ["| key | type | default | meaning |", "| --- | --- | --- | --- |"]
    for name, row in model.get("properties", {}).items():
        text = (row.get("description") or _resolved(row, schema).get("description") or "").replace("\n", " ").replace("|", "\\|")
        default = f"`{json.dumps(row['default'])}`".replace("|", "\\|") if "default" in row else ""
        rows.append(f"| `{name}` | {_type(row, schema)} | {default} | {text} |")
    return rows


def _type(row: Mapping[str, Any], schema: Mapping[str, Any]) -> str:
    if "anyOf" in row:
        return " or ".join(dict.fromkeys(_type(one, schema) for one in row["anyOf"]))
    if "enum" in row:
        return ", ".join(f"`{value}`" for value in row["enum"])
    return str(_resolved(row, schema).get("title", "") if "$ref" in row else row.get("type", row.get("const", "any")))
