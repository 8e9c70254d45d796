"""Draw README's picture from logs: `python docs/figures/ncf_demo.py LOG_FOLDER OUT.svg` (needs `pip install matplotlib`).

Quality against time since `run_start`, one line per framework and device count, the target as a dashed line.
"""

import sys
from pathlib import Path

import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as plt

from suite.results import read

COLOURS = {"pytorch": "#c2410c", "tensorflow": "#0369a1", "mxnet": "#15803d"}


def main() -> None:
    """Read every log below the folder and draw."""
    figure, axes = plt.subplots(figsize=(7.2, 3.6), layout="constrained")
    target = 0.0
    for log in sorted(Path(sys.argv[1]).rglob("result_*.txt")):
        record = read(log).record
        settings = record.settings
        points = [(e.seconds, e.quality["hr_at_10"]) for e in record.evaluations]
        style = "-" if settings.devices == 1 else "--"
        label = f"{settings.framework}, {settings.devices} core{'s' if settings.devices > 1 else ''}"
        axes.plot(*zip(*points, strict=True), style, marker="o", ms=3, color=COLOURS[settings.framework], label=label)
        target = settings.targets["hr_at_10"]
    axes.axhline(target, color="grey", lw=1, ls=":")
    place = axes.get_yaxis_transform()  # x as a share of the axis, y in data
    axes.text(0.01, target + 0.008, f"target {target}", color="grey", fontsize=8, transform=place)
    axes.set(xlabel="seconds since run_start", ylabel="HR@10", title="NCF demo on CPU cores - not an MLPerf result")
    axes.legend(fontsize=8, frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(sys.argv[2], metadata={"Date": None})


if __name__ == "__main__":
    main()
