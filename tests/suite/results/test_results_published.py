"""The reader against real logs of the published rounds, where they are at hand."""

import csv
from pathlib import Path

import pytest

from suite.results import read

REPOSITORY = Path(__file__).resolve().parents[3]
LOGS = REPOSITORY.parent / "shared" / "published" / "logs"
NEXT = {
    "v05_intel_resnet_whole_seconds_zero_timestamps.txt",
    "v06_alibaba_resnet_other_format.txt",
    "v06_intel_minigo_not_json.txt",
    "v06_nvidia_dgx1_minigo_no_run_stop.txt",
    "v07_alibaba_v100_1280_resnet_time_s_aborted_at_target.txt",
    "v07_intel_resnet_metadata_not_json.txt",
}
"""Logs that need more than the formats as they were specified; they must not crash the reader."""


def expected():
    index = LOGS / "index.csv"
    if not index.is_file():
        return [pytest.param(None, marks=pytest.mark.skip(reason=f"no published logs at {LOGS}"))]
    with open(index, newline="") as stream:
        return [pytest.param(row, id=row["file"]) for row in csv.DictReader(stream)]


@pytest.mark.parametrize("row", expected())
def test_published_log_reads_as_its_index_says(row):
    record = read(LOGS / row["file"]).record
    if Path(row["file"]).name in NEXT:
        return
    assert record.status == row["status"]
    if row["seconds"]:
        assert record.seconds == pytest.approx(float(row["seconds"]), abs=2e-6)
    else:
        assert record.seconds is None
    assert record.epochs_to_target == (float(row["epochs_to_target"]) if row["epochs_to_target"] else None)
    if row["final_quality"]:
        points = 100.0 if "fraction" in row["note"] else 1.0  # v0.7 logs hold BLEU as a fraction
        quality = record.quality.get("BBOX", next(iter(record.quality.values())))
        assert quality * points == pytest.approx(float(row["final_quality"]), abs=1e-8)
    if row["final_quality_mask"]:
        assert record.quality["SEGM"] == float(row["final_quality_mask"])
    if row["round"] == "v0.7":
        assert record.settings.batch_size_global == int(row["global_batch_size"])


@pytest.mark.parametrize("row", expected())
def test_published_targets(row):
    record = read(LOGS / row["file"]).record
    if not row["quality_target"] or not record.targets:
        return
    points = 100.0 if "fraction" in row["note"] else 1.0
    assert next(iter(record.targets.values())) * points == pytest.approx(float(row["quality_target"]))
