"""Runs that were exported to TensorBoard, read by TensorBoard's reader."""

import pytest

from testing.fake_logs import START_MS, demo_log, write, write_run
from tests.suite.trackers.libraries import export, needs, probed

pytestmark = [pytest.mark.slow, needs("tensorboard")]
START = START_MS / 1000
BUSY = {"busy": ["others took 48 % of its cores"], "others_share": 0.48}


def test_a_growing_run_is_stored_once_with_the_times_of_its_log(tmp_path):
    folder, lines = (
        write_run(tmp_path / "logs", "ncf", status={"status": "running"}),
        demo_log(condition=BUSY),
    )
    ends = [at for at, text in enumerate(lines, start=1) if '"block_stop"' in text]
    write(folder / "result_0.txt", lines[: ends[0]])
    assert export(tmp_path, "tensorboard", "logs").startswith("tensorboard: 1 runs, ")
    (first,) = probed(tmp_path, "tensorboard", "tensorboard_events", "tensorboard").values()
    assert first["scalars"]["epoch/hr_at_10"] == [[1, pytest.approx(0.3), START + 1.999]]
    assert "hparams" not in first, "TensorBoard keeps the first summary, so it is written last"
    events = next((tmp_path / "tensorboard").glob("*/events*"))
    events.write_bytes(
        events.read_bytes() + b"\x80\0\0"
    )  # the incomplete record of a killed process

    write(folder / "result_0.txt", lines)
    export(tmp_path, "tensorboard", "logs")
    assert export(tmp_path, "tensorboard", "logs") == "tensorboard: 1 runs, 0 new scalars"
    (folder := tmp_path / "moved").mkdir()
    (tmp_path / "logs").rename(folder / "logs")
    assert export(tmp_path, "tensorboard", "moved") == "tensorboard: 1 runs, 0 new scalars"
    (run,) = probed(tmp_path, "tensorboard", "tensorboard_events", "tensorboard").values()
    assert run["first"] == START
    steps, values, times = zip(*run["scalars"]["epoch/hr_at_10"], strict=True)
    assert (steps, values) == ((1, 2, 3), pytest.approx((0.3, 0.5, 0.65)))
    assert times == (START + 1.999, START + 3.999, START + 5.999)
    assert [step for step, _, _ in run["scalars"]["step/training_loss"]] == [101, 202, 303]
    assert run["scalars"]["result/seconds_to_target"] == [[303, 6.0, START + 6]]
    assert run["session"] == [START, START + 6, 1]
    expected = {
        "hyperparameters.opt_base_learning_rate": 0.003,
        "framework": "pytorch",
        "global_batch_size": 4096.0,
    }
    assert expected.items() <= run["hparams"].items()
    for text in (run["texts"][-1], run["hparams"]["labels"], run["descriptions"][-1]):
        assert (
            "cpu; demo; busy machine: others took 48 % of its cores; Not verified by MLCommons"
            in text
        )


def test_several_runs_are_separate_and_text_of_logs_is_escaped(tmp_path):
    for index in range(2):
        write_run(tmp_path / "logs", "ncf", index=index, start=index, system="<b>x</b> | y")
    export(tmp_path, "tensorboard", "logs", "--output", "events")
    runs = probed(tmp_path, "tensorboard", "tensorboard_events", "events")
    assert [name.rpartition("-")[0] for name in sorted(runs)] == ["ncf_run_0", "ncf_run_1"]
    assert all("| system | &lt;b>x&lt;/b> \\| y |" in run["texts"][0] for run in runs.values())
