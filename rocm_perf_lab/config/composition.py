"""Compose a configuration with Hydra, and report errors of Hydra, OmegaConf and YAML as configuration errors."""

from __future__ import annotations

import difflib
import re
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rocm_perf_lab.config.errors import ConfigError, Origins, nearest
from rocm_perf_lab.core.resources import resource_dir

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from omegaconf import DictConfig
    from yaml import MarkedYAMLError

    from rocm_perf_lab.config.lab import LabConfig


def compose_overrides(overrides: Sequence[str]) -> tuple[dict[str, Any], Origins]:
    """Return the plain, resolved configuration of some overrides, and the origins of its values."""
    from hydra import compose, initialize_config_dir
    from hydra.core.hydra_config import HydraConfig
    from omegaconf import OmegaConf, open_dict

    directory = str(resource_dir("conf").resolve())
    with hydra_errors_explained(overrides), initialize_config_dir(config_dir=directory, version_base="1.3"):
        composed = compose(config_name="config", overrides=list(overrides), return_hydra_config=True)
        HydraConfig.instance().set_config(composed)
        origins = _origins(HydraConfig.get())
        with open_dict(composed):
            del composed["hydra"]
        plain: Any = OmegaConf.to_container(composed, resolve=True)
    return plain, origins


@contextmanager
def hydra_errors_explained(arguments: Sequence[str]) -> Iterator[None]:
    """Raise the errors of Hydra, OmegaConf and YAML in this block as :class:`ConfigError`."""
    from hydra.errors import HydraException
    from omegaconf.errors import OmegaConfBaseException
    from yaml import MarkedYAMLError

    try:
        yield
    except (HydraException, OmegaConfBaseException) as error:
        raise _explain(error, arguments) from error
    except MarkedYAMLError as error:
        raise _explain_yaml(error) from error
    except ValueError as error:
        explained = _explain_value_error(str(error), arguments)
        if explained is None:
            raise
        raise explained from error


def parse_composed(composed: DictConfig) -> tuple[LabConfig, dict[str, Any]]:
    """Return the validated configuration, and the same as plain data, without the node of Hydra, whose state must be set."""
    from hydra.core.hydra_config import HydraConfig
    from omegaconf import OmegaConf

    from rocm_perf_lab.config.lab import parse_config

    lab = OmegaConf.masked_copy(composed, [str(key) for key in composed if key != "hydra"])
    plain: Any = OmegaConf.to_container(lab, resolve=True)
    return parse_config(plain, _origins(HydraConfig.get())), plain


def _origins(runtime: Any) -> Origins:
    """Return the files of each group choice, the most specific first: experiment, then group option."""
    choices = {str(group): str(option) for group, option in runtime.runtime.choices.items() if option is not None}
    directories = [Path(s.path) for s in runtime.runtime.config_sources if s.schema in ("file", "experiments") and s.path]
    experiment = [f / "experiment" / f"{choices['experiment']}.yaml" for f in directories] if "experiment" in choices else []
    files: dict[str, tuple[Path, ...]] = {}
    for group, option in choices.items():
        candidates = [directory / group / f"{option}.yaml" for directory in directories]
        candidates += [directory / option / f"{group}.yaml" for directory in directories]
        files[group] = tuple(path for path in [*experiment, *candidates] if path.is_file())
    return Origins(files=files, overrides=tuple(runtime.overrides.task))


def _explain_value_error(text: str, arguments: Sequence[str]) -> ConfigError | None:
    """Explain the plain ValueErrors of Hydra; None for any other."""
    option = re.match(r"Invalid defaults list in '([^']+)'", text)
    if option is not None:
        return ConfigError(
            "`defaults` is a reserved key of Hydra in an option of a group, and must be a list there",
            where=f"the option {option[1]}",
            hint="in a space write `first:`, or name the file: autotune.space=FILE",
        )
    if not text.startswith("Config group override must be"):
        return None
    empty = [argument for argument in arguments if argument.partition("=")[2] in ("", "null")]
    return ConfigError(
        "the option of a group must be a name",
        where=f"the override {empty[0]!r}" if empty else None,
        hint="space=none searches no space, tracking=none disables tracking",
    )


def _explain(error: Exception, arguments: Sequence[str]) -> ConfigError:
    """Explain a composition error of Hydra or OmegaConf."""
    from hydra.errors import OverrideParseException

    text = str(error).strip()
    cause = str(error.__cause__ or "")
    unknown = re.search(r"Could not override '([^']+)'", text)
    if unknown:
        key = unknown[1]
        origin = next((argument for argument in arguments if argument.partition("=")[0].strip() == key), key)
        addition = re.search(r"append to your default list use (\+\S+)", text)
        if addition:
            return ConfigError(
                f"{key} is not part of the configuration", where=f"the override {origin!r}", hint=f"write {addition[1]}"
            )
        return ConfigError(f"unknown key {key!r}", where=f"the override {origin!r}", hint=_nearest_key(key, arguments))
    twice = re.match(r"(\S+) appears more than once in the final defaults list", text)
    if twice:
        return ConfigError(
            f"{twice[1]} is chosen twice", where=f"the override +{twice[1]}=...", hint=f"write {twice[1]}=NAME without +"
        )
    if isinstance(error, OverrideParseException):
        return ConfigError(
            f"not an override: {error.message.splitlines()[0]}",
            where=f"the argument {error.override!r}",
            hint="write key=value; quote values with brackets, commas or spaces: 'key=\"a, b\"'",
        )
    option = re.search(r"Could not find '([^']+)'", text) or re.search(r"In '[^']*': Could not find '([^']+)'", text)
    if option:
        available = re.findall(r"^\t(\S+)", text.partition("Config search path")[0], flags=re.MULTILINE)
        return _explain_absent_option(option[1], available, arguments)
    return ConfigError(
        text.splitlines()[0] if text else type(error).__name__,
        where=cause.splitlines()[0] if cause else None,
        hint="see python -m rocm_perf_lab --help",
    )


def _explain_absent_option(option: str, available: Sequence[str], arguments: Sequence[str]) -> ConfigError:
    """Explain an option, for example `kernel/softmx`, that its group does not have, or a path in place of a name."""
    by_path = next((a for a in arguments if _is_path(a) and option == "/".join(a.lstrip("+").split("=", 1))), None)
    if by_path is not None:
        key, _, value = by_path.partition("=")
        group, path = key.lstrip("+"), Path(value)
        name = path.parent.name if path.name == "kernel.yaml" else path.stem
        hint = f"write {key}={name}; " if name in available else f"write {key}=NAME; "
        what = f"{group}={value} is a path; a {group} is selected by name"
    else:
        group, _, name = option.rpartition("/")
        key = next((a.partition("=")[0] for a in arguments if a.lstrip("+").startswith(f"{group}=")), group)
        near = difflib.get_close_matches(name, available, n=1, cutoff=0.4)
        hint = f"did you mean {key}={near[0]}? " if near else ""
        hint += "joblib, submitit and ray come with pip install 'rocm-perf-lab[cluster]'; " if group == "hydra/launcher" else ""
        what = f"there is no {group or 'option'} named {name!r}"
    if group == "kernel":
        hint += f"kernels are in {Path.cwd() / 'experiments'}/NAME/kernel.yaml and in the experiments of rocm-perf-lab; "
    where = f"the override {by_path or f'{key}={name}'}" if group else option
    return ConfigError(what, where=where, hint=f"{hint}available: {', '.join(available) or 'see --help'}")


def _is_path(argument: str) -> bool:
    """Return whether the value of an override looks like a file or directory."""
    value = argument.partition("=")[2]
    return "/" in value or value.endswith((".yaml", ".yml"))


def _explain_yaml(error: MarkedYAMLError) -> ConfigError:
    mark = error.problem_mark or error.context_mark
    return ConfigError(
        f"invalid YAML: {error.problem or error.context}",
        where=f"{mark.name}:{mark.line + 1}:{mark.column + 1}" if mark is not None else None,
        hint="look for an open bracket or quote, or wrong indentation, on this line or the one before",
    )


def _nearest_key(path: str, arguments: Sequence[str]) -> str:
    """Suggest the key nearest to a mistyped one, from the configuration composed without that override."""
    from hydra import compose, initialize_config_dir
    from hydra.errors import HydraException
    from omegaconf import DictConfig, OmegaConf
    from omegaconf.errors import OmegaConfBaseException

    from rocm_perf_lab.config.key_paths import valid_keys
    from rocm_perf_lab.config.lab import LabConfig

    others = [argument for argument in arguments if "=" in argument and argument.partition("=")[0].strip() != path]
    try:
        with initialize_config_dir(config_dir=str(resource_dir("conf").resolve()), version_base="1.3"):
            composed = compose(config_name="config", overrides=others)
    except (HydraException, OmegaConfBaseException):
        return "see --cfg job for the composed configuration; a new key needs a leading +"
    parts = path.split(".")
    if parts[-1] in valid_keys(LabConfig, parts[:-1]):
        return f"{path} is not set in this configuration; to add it, write +{path}=..."
    for depth, part in enumerate(parts):
        node = OmegaConf.select(composed, ".".join(parts[:depth])) if depth else composed
        if not isinstance(node, DictConfig):
            below = valid_keys(LabConfig, parts[:depth]) if node is None else frozenset()
            if below:
                return nearest(parts[:depth], part, below, rest=parts[depth + 1 :])
            break
        if part not in node:
            valid = {*map(str, node), *valid_keys(LabConfig, parts[:depth])}
            return nearest(parts[:depth], part, valid, rest=parts[depth + 1 :])
    return "see --cfg job for the composed configuration; a new key needs a leading +"
