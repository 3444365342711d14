"""What to serve of a model: its directory, which of the versions in it, and the labels of versions."""

from dataclasses import dataclass, field

from convnlp.serving.core.version_directories import version_directories


@dataclass(frozen=True)
class ModelConfig:
    """What to serve of one model.

    Args:
        name: str. The model's name in requests.
        base_path: str. The directory that holds one directory per version.
        num_latest: int or None. How many of the newest versions to serve; None for all of them.
        versions: tuple of int. If not empty, serve exactly these.
        labels: dict of str to int. Names for versions.
    """

    name: str
    base_path: str
    num_latest: int | None = 1
    versions: tuple = ()
    labels: dict = field(default_factory=dict)

    def wanted(self):
        """Returns the versions on disk that the policy selects, as a dict of version to directory."""
        on_disk = version_directories(self.base_path)
        chosen = self.versions or sorted(on_disk)[-self.num_latest if self.num_latest else None :]
        return {version: on_disk[version] for version in chosen if version in on_disk}


def by_name(configs):
    """Returns a list of `ModelConfig` as a dict; raises ValueError if two models have the same name."""
    found = {config.name: config for config in configs}
    if len(found) < len(configs):
        raise ValueError(f"models must have different names, got {[config.name for config in configs]}")
    return found
