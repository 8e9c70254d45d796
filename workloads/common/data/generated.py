"""Data sets that are generated instead of read, through the same preparation as the real ones."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from pathlib import Path

from workloads.api import Dataset
from workloads.common import manifest as manifests
from workloads.common.manifest import Manifest


class Generated(Dataset):
    """A data set for demos; stands before the class whose layout it has: `class Demo(Generated, RealLayout)`."""

    generated = True
    lines: Callable[[Manifest, Path], list[str]]
    """What to tell after generating: a method of the other class, or of the data set."""

    @abstractmethod
    def generate(self, folder: Path) -> Manifest:
        """Write the data set and its prepared form below `folder`; the manifest of it all."""

    def prepare(self, source: Path, destination: Path) -> list[str]:
        """Refused: this data set is generated."""
        raise ValueError(f"{self.name} is generated, not read; type: {self.how()}")

    def make_demo(self, destination: Path) -> list[str]:
        """Generate, unless that is done already; lines to print. Two processes may do so at once.

        Raises ValueError if `destination` holds another data set.
        """
        manifests.remove_unfinished(destination)
        present = manifests.read(destination)
        if present is not None:
            if present.dataset != self.name:
                raise ValueError(f"{destination} holds {present.dataset}; name another folder with --to, or remove it")
            return [f"{self.name}: already generated in {destination}"]
        with manifests.workspace(destination) as folder:
            manifest = manifests.publish(folder, destination, self.generate(folder))
        return self.lines(manifest, destination)

    def how(self) -> str:
        """The command that makes this data set."""
        return f"suite data make-demo {self.name}"
