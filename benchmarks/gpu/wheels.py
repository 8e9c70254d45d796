"""Collect wheels for a machine without access to a package index.

    python -m benchmarks.gpu.wheels [--python 3.12] [--out build/gpu/wheels]

The wheels are the suite itself and those dependencies of the suite that container images of PyTorch
lack. On the machine without a package index, run:

    python3 -m pip install --no-index --no-deps --target SITE wheels/*.whl
    PYTHONPATH=SITE python3 -m benchmarks.gpu
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

from suite.environments import locks

PROJECT = Path(__file__).resolve().parents[2]
NEEDED = (
    "hydra-core", "omegaconf", "mlperf-logging", "clustershell", "simplejpeg", "pycocotools",
    "turbojpeg", "sacremoses", "joblib", "subword-nmt", "mock",
)  # fmt: skip
"""Dependencies of the suite that container images of PyTorch usually lack.

Container images of PyTorch usually contain NumPy, pandas, SciPy, rich, psutil, OpenCV, Pillow,
sacreBLEU, PyYAML, and NVML.
"""
WITHOUT_WHEEL = ("antlr4-python3-runtime",)
"""Packages for which the package index has no wheel."""
PLATFORMS = (
    "manylinux_2_28_x86_64",
    "manylinux_2_17_x86_64",
    "manylinux2014_x86_64",
    "manylinux1_x86_64",
)


def main() -> int:
    """Download and build the wheels."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--python", default="3.12", help="of the other machine")
    parser.add_argument("--out", type=Path, default=PROJECT / "build" / "gpu" / "wheels")
    args = parser.parse_args()
    major, minor = (int(part) for part in args.python.split("."))
    pins: dict[str, str] = {}
    for name in ("controller", "torch"):
        pins |= locks.read(locks.folder() / f"{name}.txt").pins((major, minor))
    pip, where = (
        [sys.executable, "-m", "pip", "--quiet", "--no-input"],
        ["--no-deps", "--wheel-dir", str(args.out)],
    )
    target = [word for platform in PLATFORMS for word in ("--platform", platform)]
    chosen = [
        "--no-deps",
        "--only-binary=:all:",
        "--python-version",
        args.python,
        *target,
        "--dest",
        str(args.out),
    ]
    for command in (
        [*pip, "download", *chosen, *(f"{name}=={pins[name]}" for name in NEEDED)],
        [*pip, "wheel", *where, *(f"{name}=={pins[name]}" for name in WITHOUT_WHEEL), str(PROJECT)],
    ):
        if code := subprocess.run(command, check=False).returncode:
            return code
    size = sum(path.stat().st_size for path in args.out.glob("*.whl"))
    print(f"{args.out}: {len(list(args.out.glob('*.whl')))} wheels, {size / 1e6:.1f} MB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
