"""Puts into wheels what lies beside the packages in a checkout: Hydra's files, locks, figures.

All else: setup.cfg.
"""

from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

SHIPPED = ("conf/**/*.yaml", "environments/*.txt", "logs/published/*")
"""What `suite.common.paths.shipped` finds: in a checkout where it lies, in a wheel below
suite/shipped/.
"""


class BuildWithShipped(build_py):
    """Copies SHIPPED; an editable installation reads them where they are."""

    def run(self):
        """Build, then copy."""
        super().run()
        if self.editable_mode:
            return
        here = Path(__file__).resolve().parent
        for source in (path for pattern in SHIPPED for path in sorted(here.glob(pattern))):
            target = Path(self.build_lib, "suite", "shipped", source.relative_to(here))
            target.parent.mkdir(parents=True, exist_ok=True)
            self.copy_file(str(source), str(target))


setup(cmdclass={"build_py": BuildWithShipped})
