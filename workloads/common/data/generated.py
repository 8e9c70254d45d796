"""Generated data sets, which are prepared with the same code as real data sets."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from pathlib import Path

from workloads.api import Dataset
from workloads.common import manifest as manifests
from workloads.common.manifest import Manifest


class Generated(Dataset):
    """Mixin of generated data sets.

    The mixin must precede the layout class in the list of base classes: `class Demo(Generated,
    RealLayout)`.
    """

    generated = True
    lines: Callable[[Manifest, Path], list[str]]
    """Method that returns the lines to print after the data set is generated.

    The layout class or the data set class defines this method.
    """

    @abstractmethod
    def generate(self, folder: Path) -> Manifest:
        """Write the generated and the prepared data below `folder`, and return the manifest."""

    def prepare(self, source: Path, destination: Path) -> list[str]:
        """Raise ValueError, because this data set is generated."""
        raise ValueError(
            f"{self.name} is a generated data set and cannot be read from files. Run: {self.how()}"
        )

    def make_demo(self, destination: Path) -> list[str]:
        """Generate the data set if it does not exist yet, and return the lines to print.

        Two processes may generate the same data set simultaneously.

        Raises:
            ValueError: `destination` contains a different data set.
        """
        manifests.remove_unfinished(destination)
        present = manifests.read(destination)
        if present is not None:
            if present.dataset != self.name:
                raise ValueError(
                    f"{destination} holds {present.dataset}. Set a different folder with --to, or"
                    " remove this folder"
                )
            return [f"{self.name}: already generated in {destination}"]
        with manifests.workspace(destination) as folder:
            manifest = manifests.publish(folder, destination, self.generate(folder))
        return self.lines(manifest, destination)

    def how(self) -> str:
        """Return the command that generates this data set."""
        return f"suite data make-demo {self.name}"
