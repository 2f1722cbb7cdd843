"""Config source that provides `experiments/<name>/kernel.yaml` as `kernel/<name>`, and `space.yaml` as `space/<name>`.

A new kernel is a directory, without registration. The path of the directory is added as `directory`, so that the kernel finds its
source from any working directory.
"""

from __future__ import annotations

from pathlib import Path

from hydra.core.object_type import ObjectType
from hydra.plugins.config_source import ConfigLoadError, ConfigResult, ConfigSource
from omegaconf import OmegaConf

GROUPS = ("kernel", "space")


class ExperimentsConfigSource(ConfigSource):
    """Config source `experiments://<directory>`, with one sub-directory per kernel."""

    @staticmethod
    def scheme() -> str:
        """Return the URI scheme of this source."""
        return "experiments"

    def load_config(self, config_path: str) -> ConfigResult:
        """Load the YAML of one kernel or space."""
        path = self._file(config_path)
        if path is None or not path.is_file():
            raise ConfigLoadError(f"Config not found: {config_path} in {self.path}")
        config = OmegaConf.load(path)
        if path.name == "kernel.yaml":
            config = OmegaConf.merge(config, {"directory": str(path.parent)})
        header = self._get_header_dict(path.read_text(encoding="utf-8")[:512])
        return ConfigResult(config=config, path=str(path), provider=self.provider, header=header)

    def available(self) -> bool:
        """Return whether the directory exists."""
        return Path(self.path).is_dir()

    def is_group(self, config_path: str) -> bool:
        """Return whether the path is the root or one of the two groups."""
        return config_path == "" or config_path in GROUPS

    def is_config(self, config_path: str) -> bool:
        """Return whether the directory of that name has the YAML of the group."""
        path = self._file(config_path)
        return path is not None and path.is_file()

    def list(self, config_path: str, results_filter: ObjectType | None) -> list[str]:
        """List the groups at the root, and the kernels or spaces inside a group."""
        if config_path == "":
            return [] if results_filter == ObjectType.CONFIG else list(GROUPS)
        if config_path not in GROUPS or results_filter == ObjectType.GROUP:
            return []
        return sorted(path.parent.name for path in Path(self.path).glob(f"*/{config_path}.yaml"))

    def _file(self, config_path: str) -> Path | None:
        parts = config_path.removesuffix(".yaml").split("/")
        if len(parts) != 2 or parts[0] not in GROUPS:
            return None
        group, name = parts
        return Path(self.path) / name / f"{group}.yaml"
