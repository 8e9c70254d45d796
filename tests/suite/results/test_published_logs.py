"""Reader of logs, compared with every column of the index of published logs.

The tests are skipped if the published logs are not available on this machine.
"""

import csv
from pathlib import Path

import pytest

from suite.results import read

REPOSITORY = Path(__file__).resolve().parents[3]
LOGS = REPOSITORY.parent / "shared" / "published" / "logs"


def rows(path):
    with open(path, newline="", encoding="utf-8") as stream:
        return list(csv.DictReader(stream))


def expected():
    if not (LOGS / "index.csv").is_file():
        return [pytest.param(None, marks=pytest.mark.skip(reason=f"no published logs at {LOGS}"))]
    return [pytest.param(row, id=row["file"]) for row in rows(LOGS / "index.csv")]


@pytest.fixture(scope="module")
def detailed():
    """Return the rows of runs.csv by the path of the log in the published repositories."""
    return {row["source_path"]: row for row in rows(LOGS.parent / "runs.csv")}


def figure(text):
    return float(text) if text else None


def first(quality):
    return quality.get("BBOX", next(iter(quality.values()), None))


@pytest.mark.parametrize("row", expected())
def test_published_log_agrees_with_its_index_and_the_table_of_runs(row, detailed):
    """Compare status, times, epochs, quality, and batch size with both tables.

    Logs of v0.7 contain BLEU as a fraction, the tables contain points.
    """
    record, run_row = read(LOGS / row["file"]), detailed.get(row["source_path"])
    points = (
        100.0 if row["round"] == "v0.7" and row["benchmark"] in ("gnmt", "transformer") else 1.0
    )
    assert (record.status, record.seconds) == (
        row["status"],
        pytest.approx(figure(row["seconds"]), abs=2e-6),
    )
    assert record.epochs_to_target == figure(row["epochs_to_target"])
    quality, target = first(record.quality), first(record.targets)
    assert (quality and quality * points) == pytest.approx(figure(row["final_quality"]), abs=1e-8)
    assert record.quality.get("SEGM") == pytest.approx(figure(row["final_quality_mask"]), abs=1e-12)
    assert (target and target * points) == pytest.approx(figure(row["quality_target"]))
    names = {"resnet50": {"resnet"}, "mask_rcnn": {"maskrcnn", "mask"}}
    assert record.benchmark in (
        names.get(row["benchmark"], {row["benchmark"]}) if record.format else {""}
    )
    assert run_row is not None or row["file"].startswith("odd/")
    if run_row is not None:
        assert (record.status, len(record.evaluations)) == (
            run_row["status"],
            int(run_row["evaluations"]),
        )
        assert record.seconds == pytest.approx(figure(run_row["seconds"]), abs=2e-6)
        assert first(record.best_quality) * points == pytest.approx(
            figure(run_row["best_quality"]), abs=1e-8
        )
        assert record.evaluations[-1].epoch == figure(run_row["last_eval_epoch_logged"])
        if run_row["run_start_unix"]:  # It is empty for logs whose dates have no time zone.
            assert record.start_ms == pytest.approx(
                1e3 * float(run_row["run_start_unix"]), abs=1e-3
            )
    # Logs of v0.5 contain either the global batch size or the batch size per device. They do not
    # state which of the two it is.
    whole = figure(row["global_batch_size"])
    if record.batch_basis == "global":
        assert record.batch_logged == record.settings.global_batch_size == whole
        return
    assert record.settings.global_batch_size is None
    if record.batch_logged is None:
        assert row["status"] == "unreadable"
        return
    assert row["round"] == "v0.5" or "alibaba" in row["file"]
    assert record.batch_logged == float(run_row["batch_logged"])
    assert whole is None or whole in (
        record.batch_logged,
        record.batch_logged * float(run_row["accelerators_total"]),
    )


TOLERATED = {
    "v05_intel_resnet_whole_seconds_zero_timestamps.txt": ("labeled from -1", "time stamp 0"),
    "v06_alibaba_resnet_other_format.txt": (
        "without a time zone",
        "percent as a fraction",
        "different run_start",
    ),
    "v06_google_tpu1024_resnet_aborted.txt": ("time stamp 0",),
    "v06_google_tpu2048_ssd_records_after_run_stop.txt": (
        "eval_accuracy after run_stop is not used",
    ),
    "v06_intel_minigo_not_json.txt": (
        "single quotes",
        "words without quotes",
        "eval_result",
        "labeled from 0",
    ),
    "v06_nvidia_dgx1_minigo_no_run_stop.txt": ("eval_result",),
    "v07_alibaba_v100_1280_resnet_time_s_aborted_at_target.txt": (
        "time_s",
        "has status aborted, but an evaluation reaches",
    ),
    "v07_intel_resnet_metadata_not_json.txt": ("single quotes", "eval_accuracy holds text"),
    "v05_intel_ncf_encrypted.txt": ("not a log",),
    "v05_nvidia_dgx2_gnmt_glued_record_and_float32_target.txt": ("only up to float32 rounding",),
    "v11_azure_maskrcnn_cut_off_in_first_evaluation.txt": ("no run_stop",),
}


@pytest.mark.skipif(not LOGS.is_dir(), reason=f"no published logs at {LOGS}")
@pytest.mark.parametrize("name", TOLERATED)
def test_tolerated_deviations_are_reported_with_their_line(name):
    problems = read(LOGS / "odd" / name).problems
    for text in TOLERATED[name]:
        found = [problem for problem in problems if text in problem.text]
        assert found, (text, problems)
        assert found[0].line > 0 or text == "not a log"
