"""Requirements of every view: escaping, robustness, page width, and errors of one line."""

import json

import pytest

from suite.results.views.section import NOT_VERIFIED
from testing.fake_logs import demo_log, write, write_run
from tests.helpers import PROJECT, suite_here

EVIL = "a|b`c\x1b[31m\n## <script>alert(1)</script>[x](y)\u202e\ud800=1+1"
OPTIONS = dict.fromkeys(("report", "tables", "advise"), ())
OPTIONS |= {"scaling": ("--devices", "8", "--system", "pcie"), "compare": ("--to-logs", "{second}")}
REFERENCE = {"profile": "reference", "labels": [], "device": "cuda"}


def write_job(folder, **options):
    """Write runs with two batch sizes on one device and a run on two devices for every view."""
    keys = {"suite_gradients": {"bytes": 8_000_000, "tensors": 12, "buckets": 1}}
    for devices, batch, seconds in ((1, 64, 1.0), (1, 256, 2.0), (2, 256, 1.25)):
        settings = {
            "devices": devices,
            "global_batch_size": batch,
            "batch_rule": f"global:{batch}",
            "samples": 101 * batch,
        }
        settings |= {"train_seconds": seconds, "seconds_per_epoch": seconds, "keys": keys}
        write_run(folder, f"{batch}-{devices}", **settings, **options)
    return folder


def printed(command, folder, *more):
    options = [option.format(second=folder.parent / "other") for option in OPTIONS[command]]
    done = suite_here(PROJECT, command, folder, *options, *more)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


@pytest.fixture(scope="module")
def hostile(tmp_path_factory):
    texts = dict.fromkeys(
        ("framework", "system", "workload", "precision", "dataset", "framework_version"), EVIL
    )
    root = tmp_path_factory.mktemp("logs")
    folders = root / "mine", root / "other"
    for folder, form in zip(folders, ("fp32", "bf16"), strict=True):
        write_job(folder, **{**texts, "labels": ["demo", EVIL], "data_fingerprint": form})
        write_run(folder, "failed", qualities=(0.1,), reason=EVIL, **texts)
    return folders[0]


@pytest.mark.parametrize("command", OPTIONS)
def test_hostile_text_stays_in_its_cell_and_pages_fit_a_terminal(hostile, command):
    page = printed(command, hostile)
    page.encode()
    prose = "\n".join(
        line for line in page.splitlines() if not line.startswith("    ")
    )  # Lines with an indent of four are quoted commands.
    assert not any(text in prose for text in ("<script>", "\x1b", "\u202e", "\n## <"))
    tables = [
        part.replace("\\|", "").splitlines() for part in page.split("\n\n") if part.startswith("|")
    ]
    assert tables
    assert all(
        len({line.count("|") for line in table if line.startswith("|")}) == 1 for table in tables
    )
    assert max(len(line) for table in tables for line in table) <= 120
    assert page.count(NOT_VERIFIED) == 1
    assert "\x1b" not in printed(command, hostile, "--format", "csv")
    assert json.loads(printed(command, hostile, "--format", "json"))["rows"]


@pytest.mark.parametrize("missing", ["run_start", "run_stop", "suite_run"])
def test_a_log_without_a_required_event_does_not_change_the_rows_of_other_logs(tmp_path, missing):
    for folder in (tmp_path / "mine", tmp_path / "other"):
        write_job(folder)
    commands = [
        name for name in OPTIONS if (name, missing) != ("compare", "suite_run")
    ]  # of no profile: not compared
    whole = {
        command: json.loads(printed(command, tmp_path / "mine", "--format", "json"))["rows"]
        for command in commands
    }
    lines = [line for line in demo_log(global_batch_size=64) if f'"key": "{missing}"' not in line]
    write(tmp_path / "mine" / "cut" / "run_0" / "result_0.txt", lines)
    for command, rows in whole.items():
        found = json.loads(printed(command, tmp_path / "mine", "--format", "json"))["rows"]
        names = [
            name
            for name in ("seconds", "train_seconds", "ratio", "speedup", "devices")
            if name in rows[0]
        ]
        kept = [[row.get(name) for name in names] for row in found]
        assert all([row.get(name) for name in names] in kept for row in rows), command


@pytest.fixture(scope="module")
def mistaken(tmp_path_factory):
    """Write folders of runs, each of which some command cannot use."""
    folder = tmp_path_factory.mktemp("mistakes")
    write_run(folder / "demo", "job")
    write_run(folder / "reference", "job", **REFERENCE)
    write_run(folder / "fixed", "job", stop="epochs:3")
    write_run(folder / "failed", "job", qualities=(0.1, 0.2))
    (folder / "empty").mkdir()
    (folder / "there.md").touch()
    return folder


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("tables", "give a folder with runs"),
        ("tables fixed", "no run was trained to a target"),
        ("scaling", "--devices 16,64,512"),
        ("scaling demo --devices 8", "Set --system NAME or FILE"),
        ("scaling demo --devices 8 --system dgx3", "allowed: dgx1"),
        ("scaling --devices 8", "give a folder with runs (suite scaling logs/)"),
        ("scaling demo --validate", "Omit DIR"),
        ("scaling demo --devices 8 --workload bert", "--workload"),
        ("advise fixed", "advice needs runs that reached a target"),
        ("compare empty", "holds no log"),
        ("compare none", "does not exist"),
        ("compare demo demo demo", "expected one or two. Run: "),
        ("compare .", "the runs have several profiles (demo, reference)"),
        ("compare demo --to v0.5/NVIDA/dgx1", "Nearest: v0.5/NVIDIA/dgx1"),
        ("compare demo --workload ssd", "--workload=ssd: allowed: ncf"),
        ("compare demo --profile refrence", "--profile=refrence: allowed: demo"),
        (
            "compare failed",
            "1 of 1 runs did not succeed (suite report lists them): no run succeeded",
        ),
        ("compare demo --to-logs empty", "holds no log"),
        ("compare demo reference --output there.md", "exists and is not overwritten"),
    ],
)
def test_a_mistake_is_reported_in_one_line_with_a_remedy(mistaken, arguments, words):
    done = suite_here(mistaken, *arguments.split())
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert words in done.stderr
