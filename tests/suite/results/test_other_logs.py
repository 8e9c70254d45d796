"""System details that logs of foreign programs lack.

They come from the published results, run by run, or from a system description.
"""

import csv
import json

import pytest

from suite.results.logs.collect import collect
from suite.results.published_results import SHIPPED, with_system_details
from testing.fake_logs import write


def published_run(**wanted):
    with open(SHIPPED / "runs.csv", newline="", encoding="utf-8") as stream:
        return next(
            row
            for row in csv.DictReader(stream)
            if all(row[key] == value for key, value in wanted.items())
        )


def log_of(row, form="MLLOG", cut_off=False):
    start = float(row["run_start_unix_seconds"]) * 1e3

    def record(milliseconds, key, value=None, **metadata):
        if form == "MLL":
            content_text = json.dumps({"value": value, "metadata": metadata})
            return f":::MLL {(start + milliseconds) / 1e3:.6f} {key}: {content_text}"
        content = {
            "namespace": "",
            "time_ms": start + milliseconds,
            "event_type": "POINT_IN_TIME",
            "key": key,
        }
        return f":::{form} " + json.dumps({**content, "value": value, "metadata": metadata})

    lines = [record(-5, "submission_benchmark", row["benchmark"]), record(0, "run_start")]
    if not cut_off:
        length = float(row["seconds"]) * 1e3
        lines += [
            record(10, "epoch_start", epoch_num=1),
            record(length - 1, "eval_accuracy", 0.9, epoch_num=1),
        ]
        lines.append(record(length, "run_stop", status="success"))
    return lines


def described_by_name(folder):
    found = {
        run.path.name: run.described_settings for run in with_system_details(collect([folder]))
    }
    return {
        name: (described.rules, described.device_name, described.devices, described.framework)
        for name, described in found.items()
    }


V07 = {
    "round": "v0.7",
    "submitter": "NVIDIA",
    "system": "dgx1_ngc20.06_mxnet",
    "benchmark": "resnet50",
}
V11 = {
    "round": "v1.1",
    "system": "nd96amsr_a100_v4_ngc21.09_pytorch",
    "benchmark": "maskrcnn",
    "run": "4",
}
TPU = {
    "round": "v0.6",
    "submitter": "Google",
    "system": "tpu-v3-2048",
    "benchmark": "ssd",
    "run": "0",
}


def test_each_run_of_a_folder_gets_the_details_of_its_published_result(tmp_path):
    write(tmp_path / "a.txt", log_of(published_run(**TPU), "MLL"))
    write(tmp_path / "b.txt", log_of(published_run(**V07, status="success")))
    write(tmp_path / "c.txt", log_of(published_run(**V11), cut_off=True))
    write(tmp_path / "d.txt", log_of({**published_run(**V07, status="success"), "seconds": "17"}))
    write(tmp_path / "failed.txt", log_of(published_run(**V07, status="aborted")))
    assert described_by_name(tmp_path) == {
        "a.txt": ("v0.6", "tpu-v3 chip (2 cores)", 1024, "tensorflow"),
        "b.txt": ("v0.7", "NVIDIA V100-SXM2-16GB (300W)", 8, "mxnet"),
        "c.txt": ("v1.1", "NVIDIA A100-SXM4-80GB (400W)", 8, "pytorch"),
        "d.txt": ("not known", "", None, ""),
        "failed.txt": ("v0.7", "NVIDIA V100-SXM2-16GB (300W)", 8, "mxnet"),
    }


@pytest.mark.parametrize("described", [True, False])
def test_the_round_and_system_of_the_folder_decide_for_a_log_that_is_published_elsewhere(
    tmp_path, described
):
    """Dell's v4.0 ResNet entry for the XE9640, for example, repeats logs of v3.1."""
    row = published_run(
        round="v3.1", submitter="Dell", system="XE9640x4H100-SXM-80GB", benchmark="resnet50"
    )
    company = tmp_path / "v4.0" / "Company"
    write(company / "results" / "box" / "resnet" / "result_0.txt", log_of(row))
    if described:
        description = {
            "number_of_nodes": 1,
            "accelerators_per_node": 8,
            "accelerator_model_name": "Some GPU",
        }
        write(company / "systems" / "box.json", [json.dumps(description)])
    (run,) = with_system_details(collect([tmp_path]))
    settings = run.described_settings
    hardware = (settings.device_name, settings.devices)
    assert (settings.rules, settings.system, *hardware) == (
        "v4.0",
        "box",
        *(("Some GPU", 8) if described else ("", None)),
    )


def test_a_published_log_below_the_name_of_its_entry_gets_the_figures_of_that_round(tmp_path):
    """Check the entry of v4.0 although the same logs were published in v3.1 too."""
    wanted = {
        "round": "v4.0",
        "submitter": "Dell",
        "system": "XE9640x4H100-SXM-80GB",
        "benchmark": "resnet50",
    }
    folder = tmp_path / "v4.0" / "Dell" / "results" / wanted["system"] / "resnet"
    write(folder / "result_0.txt", log_of(published_run(**wanted)))
    (tmp_path / "v4.0" / "Dell" / "systems").mkdir()
    (run,) = with_system_details(collect([tmp_path]))
    settings = run.described_settings
    assert (settings.rules, settings.devices, settings.device_name) == (
        "v4.0",
        4,
        "NVIDIA H100-SXM5-80GB",
    )


def test_the_format_of_a_log_takes_precedence_for_its_round(tmp_path):
    write(tmp_path / "a.txt", log_of(published_run(**V07, status="success"), "MLL"))
    assert described_by_name(tmp_path)["a.txt"][0] == "v0.6"


@pytest.mark.parametrize(
    ("folders", "form", "expected_round"),
    [
        ("v4.1/NVIDIA/results/dgx/ssd", "MLLOG", "v4.1"),
        ("training_results_v5.0/v4.1/box/ssd", "MLLOG", "v4.1"),
        ("training_results_v5.0/Dell/ssd", "MLLOG", "v5.0"),
        ("logs/box/ssd", "MLLOG", "not known"),
        ("v0.5/box/ssd", "MLLOG", "not known"),  # The form MLLOG began with v0.7.
        ("v4.1/box/ssd", "MLL", "v0.6"),
    ],
)
def test_the_round_of_an_unpublished_log_comes_from_the_folder_name(
    tmp_path, folders, form, expected_round
):
    write(tmp_path / folders / "a.txt", log_of({**published_run(**TPU), "seconds": "17"}, form))
    assert described_by_name(tmp_path)["a.txt"][0] == expected_round


@pytest.mark.parametrize("name", ["a.txt", "b.txt"])
def test_a_description_takes_precedence_even_for_a_published_log(tmp_path, name):
    """Submitters may submit the same log again for another system."""
    write(tmp_path / "system" / "ssd" / "a.txt", log_of(published_run(**TPU), "MLL"))
    write(
        tmp_path / "system" / "ssd" / "b.txt",
        log_of({**published_run(**TPU), "seconds": "17"}, "MLL"),
    )
    description = {
        "number_of_nodes": "2.0",
        "accelerators_per_node": 4,
        "accelerator_model_name": "Some GPU",
    }
    write(tmp_path / "system" / "system.json", [json.dumps(description)])
    found = described_by_name(tmp_path / "system" / "ssd")[name]
    assert found == ("v0.6", "Some GPU", 8, "tensorflow" if name == "a.txt" else "")
    runs = with_system_details(collect([tmp_path / "system" / "ssd" / name]))
    assert [run.described_settings.nodes for run in runs] == [2]
