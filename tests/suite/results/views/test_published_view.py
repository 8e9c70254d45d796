"""List of published results: filters, rows of the article, user-defined files, and output."""

import csv
import json

import pytest

from suite.results import published_results as files
from suite.results.price import parse_prices
from suite.results.render.document import document
from suite.results.scores import published_results, results
from suite.results.targets import epoch_unit
from suite.results.views.published_view import published_list
from tests.helpers import PROJECT, one_line, suite_here
from tests.suite.results.rows import lines

HEADER = "round,submitter,system,chips,framework,benchmark,minutes,runs,note\n"


def found(prices=None, **filters):
    return lines(published_list(filters, prices).data)


def values(name, **filters):
    return {getattr(row, name) for row in found(**filters)}


def test_all_figures_of_the_files_are_listed_unchanged():
    with open(PROJECT / "logs" / "published" / "results.csv", newline="") as stream:
        keys = ("round", "submitter", "system", "benchmark")
        printed = {tuple(row[key] for key in keys): row for row in csv.DictReader(stream)}
    listed = [row for row in found() if row.round != "dgx1-article"]
    scored = {
        (row.round, row.submitter, row.system, row.workload): row for row in published_results()
    }
    assert len(listed) == len(printed) == len(published_results()) - 18 >= 445
    assert len(results(published=True)) == len(published_results())
    for row in listed:
        key = (row.round, row.submitter, row.system, row.benchmark)
        text, score = printed[key], scored[key]
        factor = float(text["scaling_factor"] or 1.0)
        assert row.minutes == pytest.approx(factor * float(text["minutes"]), abs=2e-6)
        figures = (row.chips, row.runs, row.batch, row.target, row.throughput)
        names = ("chips", "runs", "batch", "target", "throughput")
        assert figures == tuple(float(text[name]) if text[name] else None for name in names)
        assert score.seconds == pytest.approx(factor * float(text["seconds"]), abs=1e-3)
        facts = (
            row.accelerator,
            str(row.nodes or ""),
            row.availability or "",
            row.scaling_factor or 1.0,
        )
        assert facts == (text["accelerator"], text["nodes"], text["availability"], factor)
        assert row.epochs == score.epochs  # Both are means over the retained runs.
        assert row.epochs == (
            pytest.approx(float(text["epochs"]), abs=1e-4) if text["epochs"] else None
        )


def test_filters_are_combined_and_ignore_case():
    wanted = {
        "round": "0.7",
        "submitter": "nvidia",
        "workload": "mask_rcnn",
        "framework": "PyTorch",
        "chips": "1-16",
    }
    listed = found(**wanted, division="Closed")
    names = {(row.round, row.submitter, row.benchmark, row.framework) for row in listed}
    assert names == {("v0.7", "NVIDIA", "maskrcnn", "pytorch")}
    assert {row.chips for row in listed} == {8, 16}
    assert [row.minutes for row in listed] == sorted(row.minutes for row in listed)
    assert values("submitter", round="v0.5,v0.6", submitter="Google,Intel") == {"Google", "Intel"}
    assert all("dgx2h" in name for name in values("system", system="DGX2H"))
    assert found(system="Xeon")  # Only the description of the system contains this name.


@pytest.mark.parametrize(
    ("chips", "allowed"), [("0", {0}), ("1,4,8", {1, 4, 8}), ("1-16,2048", {*range(1, 17), 2048})]
)
def test_the_chips_filter_accepts_numbers_and_ranges(chips, allowed):
    assert set() < values("chips", chips=chips) <= allowed


@pytest.mark.parametrize(
    ("filters", "message"),
    [
        ({"round": "v0.8"}, "--round v0.8"),
        ({"submitter": "NVDIA"}, "Nearest: NVIDIA"),
        ({"workload": "resnet51"}, "Nearest: resnet50"),
        ({"framework": "pytroch"}, "Nearest: pytorch"),
        ({"system": "dgx9_ngc"}, "Nearest: dgx"),
        ({"chips": "7"}, "Allowed: 0, 1, 2, 3, 4, 6, 8"),
        ({"chips": "8-1"}, "a range such as 1-16"),
        ({"chips": "many"}, "a range such as 1-16"),
        ({"round": "v0.5", "workload": "maskrcnn"}, "--workload maskrcnn"),
    ],
)
def test_a_filter_without_a_match_is_rejected_in_one_line_with_the_nearest_values(filters, message):
    with pytest.raises(ValueError, match=one_line(message)):
        found(**filters)


def test_rows_of_the_article_are_listed():
    article = {(row.benchmark, row.chips): row for row in found(round="dgx1-article")}
    assert len(article) == 18
    assert all(row.note.startswith("article; ") for row in article.values())
    assert (article["ssd", 8].batch, article["gnmt", 4].batch) == (1216, None)
    assert "512 (unknown)" in article["gnmt", 4].note


def test_cost_is_devices_times_hours_times_price():
    (row,) = found(prices=parse_prices("2.5"), round="v0.7", submitter="Inspur", workload="ssd")
    assert row.cost == pytest.approx(2.5 * row.chips * row.minutes / 60, rel=1e-5)


@pytest.fixture
def user_folder(tmp_path, monkeypatch):
    monkeypatch.setenv(files.FOLDER_VARIABLE, str(tmp_path))
    return tmp_path


def test_user_files_are_labeled_and_escaped_for_terminals_and_spreadsheets(user_folder):
    (user_folder / "results_x.csv").write_text(
        HEADER + 'v9,=1+1,"a|b <i>\x1b[2J",4,JAX,ncf,12.5,3,<script>\n'
    )
    view = published_list({"round": "v9"})
    assert [(row.minutes, row.runs, row.note) for row in lines(view.data)] == [
        (12.5, 3, "own file; <script>")
    ]
    text = document(view)
    assert not any(raw in text for raw in ("\x1b", "<script>"))
    assert "a\\|b &lt;i>" in text
    assert ",'=1+1," in document(view, "csv")
    assert json.loads(document(view, "json"))["rows"][0]["submitter"] == "=1+1"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        *(
            (
                HEADER + f"v9,Us,box,4,JAX,ncf,{minutes},1,\n",
                r"results_x\.csv line 2: minutes is '.{1,200}$",
            )
            for minutes in ("soon", "nan", "-1", "1e400", "9" * 400)
        ),
        ("round,system\n", "no column submitter, chips"),
    ],
)
def test_an_invalid_user_file_is_rejected_in_one_line(user_folder, text, message):
    (user_folder / "results_x.csv").write_text(text)
    with pytest.raises(ValueError, match=message):
        found()


def test_values_that_all_rows_share_are_above_a_single_table():
    view = published_list({"workload": "ncf"})
    listed = view.sections[-1]
    assert listed.facts == (("Benchmark", "ncf"), ("Target", "hit rate at 10 ≥ 0.635"))
    assert not {"benchmark", "target"} & set(listed.table.columns)
    assert (
        sum(
            line.startswith("| round ") and "submitter" in line
            for line in document(view).splitlines()
        )
        == 1
    )
    assert {row["target"] for row in view.data} == {0.635}


def test_failed_runs_are_shown_if_there_are_any():
    listed = published_list({"round": "v0.5", "workload": "ncf"}).sections[-1]
    failed = {row["system"]: row["failed"] for row in listed.table}
    assert failed == {
        "dgx2h_ngc18.11_pytorch": 17,
        "dgx2_ngc18.11_pytorch": 20,
        "dgx1_ngc18.11_pytorch": 14,
        "skx8180": 45,
    }


def test_the_command_prints_the_list_with_its_notes(tmp_path):
    words = (
        "published",
        "list",
        "--round",
        "v0.5",
        "--submitter",
        "NVIDIA",
        "--workload",
        "ncf",
        "--chips",
        "8",
    )
    done = suite_here(tmp_path, *words, exits=0)
    assert max(map(len, done.stdout.splitlines())) <= 120
    assert done.stdout.count("Not verified by MLCommons Association") == 1
    assert "(a) first 50 successes in file-number order instead give 28.399 s" in done.stdout


def test_the_readme_explains_every_column_of_the_shipped_files():
    text = (PROJECT / "logs" / "published" / "README.md").read_text()
    for path in sorted((PROJECT / "logs" / "published").glob("*.csv")):
        with open(path, newline="") as stream:
            for name in next(csv.reader(stream)):
                assert f"`{name}`" in text, (path.name, name)
        assert f"`{path.name}`" in text


LATER = ("bert", "dlrm_dcnv2", "flux1", "gpt3", "llama2_70b_lora", "llama31_405b", "llama31_8b")


@pytest.mark.parametrize("workload", [*LATER, "retinanet", "rgat", "stable_diffusion"])
def test_a_workload_without_a_class_in_the_suite_is_listed(workload):
    view = published_list({"workload": workload})
    table = view.sections[-1].table
    unit = epoch_unit(workload)
    rows = list(view.data)
    assert rows
    assert {row["benchmark"] for row in rows} == {workload}
    assert {row["epoch_unit"] for row in rows} == {unit}
    below = view.sections[-1].below[-1]
    hidden = "epochs" if unit == "epochs" else f"{unit} to target"
    column = "epochs" if unit == "epochs" else f"{unit}_to_target"
    assert column in table.columns or hidden in below


def test_a_loss_is_shown_with_its_direction_and_with_samples():
    view = published_list({"workload": "llama31_8b", "submitter": "Cisco", "system": "hpf_n8"})
    [row] = view.data
    assert (row["epochs"], row["epoch_unit"]) == (227_088.0, "samples")
    # 51.47 GFLOP a token, 691,282 tokens/s on 64 H100 of 989 TFLOP/s.
    assert row["bf16_peak_share"] == pytest.approx(691_282 * 51.47e9 / (64 * 989e12), rel=1e-3)
    section = published_list({"workload": "llama31_8b", "submitter": "Oracle"}).sections[-1]
    assert section.table.values("samples_to_target") == [179_712, 173_568]
    assert ("Target", "log perplexity ≤ 3.3") in section.facts


def test_the_share_of_a_peak_that_no_source_states_is_unknown():
    view = published_list({"workload": "llama31_8b", "submitter": "AMD", "round": "v5.1"})
    shares = {row["accelerator"]: row["bf16_peak_share"] for row in view.data}
    assert shares["AMD Instinct MI350X"] is None
    assert shares["AMD Instinct MI355X"] == pytest.approx(0.646, abs=5e-4)
