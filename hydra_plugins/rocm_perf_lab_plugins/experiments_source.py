"""Config source that shows Hydra `experiments/<name>/kernel.yaml` as `kernel/<name>`, `space.yaml` as `space/<name>`.

So a new kernel is a directory: no registration, no Python. The directory's own path is added as `directory`, so that a kernel
finds its source from any working directory.
"""

from __future__ import annotations

from pathlib import Path

from hydra.core.object_type import ObjectType
from hydra.plugins.config_source import ConfigLoadError, ConfigResult, ConfigSource
from omegaconf import OmegaConf

GROUPS = ("kernel", "space")


class ExperimentsConfigSource(ConfigSource):
    """`experiments://<directory>`: one sub-directory per kernel."""

    @staticmethod
    def scheme() -> str:
        """URI scheme of this source."""
        return "experiments"

    def load_config(self, config_path: str) -> ConfigResult:
        """The YAML of one kernel or space."""
        path = self._file(config_path)
        if path is None or not path.is_file():
            raise ConfigLoadError(f"Config not found: {config_path} in {self.path}")
        config = OmegaConf.load(path)
        if path.name == "kernel.yaml":
            config = OmegaConf.merge(config, {"directory": str(path.parent)})
        header = self._get_header_dict(path.read_text(encoding="utf-8")[:512])
        return ConfigResult(config=config, path=str(path), provider=self.provider, header=header)

    def available(self) -> bool:
        """True where the directory exists."""
        return Path(self.path).is_dir()

    def is_group(self, config_path: str) -> bool:
        """The root and the two groups."""
        return config_path == "" or config_path in GROUPS

    def is_config(self, config_path: str) -> bool:
        """True where the directory of that name has the group's YAML."""
        path = self._file(config_path)
        return path is not None and path.is_file()

    def list(self, config_path: str, results_filter: ObjectType | None) -> list[str]:
        """Groups at the root; kernels or spaces inside a group."""
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
