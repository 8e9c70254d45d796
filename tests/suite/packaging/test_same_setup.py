"""Copies of a log, and runs that shared a machine, are found by their timestamps."""

import json
import random
import shutil

import pytest
from hypothesis import given
from hypothesis import strategies as st

from suite.packaging.choose_runs import choose_runs
from suite.packaging.same_setup import (
    find_copy,
    find_different_code,
    find_foreign_overlap,
    find_overlap,
)
from suite.packaging.tree import check_tree
from suite.packaging.write import PackageOptions, package
from suite.results.logs.collect import collect
from suite.results.logs.reader import read
from tests.helpers import examples
from tests.suite.packaging.package_logs import HOUR_MS, JITTER_MS, derived, log_set, our_run

DAY = 24


def records_of(logs):
    return [read(log) for log in logs]


def edited(source, target, change):
    """Write a copy of a log in which each record is replaced by `change(record)`."""
    lines = [
        json.loads(line.partition(":::MLLOG ")[2])
        for line in source.read_text("latin-1").splitlines()
    ]
    target.write_text("".join(f":::MLLOG {json.dumps(change(record))}\n" for record in lines))


def with_stamp(record, time_ms):
    seed = {"value": 4711} if record["key"] == "seed" else {}
    return {**record, **seed, "time_ms": round(time_ms)}


def scaled(factor, hours):
    def change(record):
        return with_stamp(
            record, START_MS + hours * HOUR_MS + (record["time_ms"] - START_MS) * factor
        )

    return change


START_MS = 1_500_000_000_000


def run_start_moved(record):
    moved = 150_000 if record["key"] == "run_start" else 0
    return with_stamp(record, record["time_ms"] + 9 * HOUR_MS + moved)


COPIES = {
    "the same start": lambda record: with_stamp(record, record["time_ms"]),
    "the same start, a later stop": lambda record: with_stamp(
        record, record["time_ms"] + (5000 if record["key"] == "run_stop" else 0)
    ),
    "shifted": lambda record: with_stamp(record, record["time_ms"] + 9 * HOUR_MS),
    "shifted by milliseconds": lambda record: with_stamp(record, record["time_ms"] + 9),
    "shifted, and its start moved": run_start_moved,
    "shortened": scaled(0.9, 9),
    "stretched": scaled(1.25, 9),
    "divided by ten": scaled(0.1, 9),
}


@pytest.mark.parametrize("trick", COPIES)
def test_a_copy_is_found_although_its_seed_differs(tmp_path, trick):
    logs = log_set(tmp_path / "logs", "resnet")
    assert find_copy(records_of(logs)) == ""
    edited(logs[1], logs[4], COPIES[trick])
    message = find_copy(records_of(logs))
    assert "logs/result_1.txt and " in message
    assert "logs/result_4.txt have the same " in message
    with pytest.raises(
        ValueError, match=r"resnet: .*result_1.txt and .*result_4.txt .* copies of the same run"
    ):
        choose_runs(collect([tmp_path / "logs"]))


@pytest.mark.parametrize("trick", ["the same start", "shifted", "shortened"])
def test_a_copy_in_a_tree_fails_its_result_set(tmp_path, trick):
    log_set(tmp_path / "logs", "resnet")
    tree = package(
        [tmp_path / "logs"],
        tmp_path / "tree",
        PackageOptions(submitter="EXAMPLE_ORG", system="box"),
    ).folder
    folder = tree / "results" / "box" / "resnet"
    edited(folder / "result_1.txt", folder / "result_4.txt", COPIES[trick])
    (result_set,) = [verdict for verdict in check_tree(tree) if verdict.rules_name == "result set"]
    assert not result_set.passed
    (found,) = [item.found for item in result_set.complaints if not item.warning]
    assert found.startswith(
        "the same run twice: box/resnet/result_1.txt and box/resnet/result_4.txt have the same "
    )


def rewritten(source, target, change, factor=1.0):
    """Write a copy nine hours later, with a new seed and the records that `change` returns."""
    items = [
        json.loads(line.partition(":::MLLOG ")[2])
        for line in source.read_text("latin-1").splitlines()
    ]
    items = change([scaled(factor, 9)(item) for item in items])
    target.write_text("".join(f":::MLLOG {json.dumps(item)}\n" for item in items))


def later(item, milliseconds):
    return {**item, "time_ms": item["time_ms"] + milliseconds}


def without_second(items, key):
    second = [item for item in items if item["key"] == key][1]
    return [item for item in items if item is not second]


def repeated(items, key):
    return [
        copy
        for item in items
        for copy in ([item, later(item, 25)] if item["key"] == key else [item])
    ]


def edited_stamps(items, key, count):
    chosen = [id(item) for item in items if item["key"] == key][:count]
    return [later(item, 700) if id(item) in chosen else item for item in items]


def paused(items, pauses=1):
    step = len(items) // (pauses + 1)
    return [later(item, 5000 * min(pauses, number // step)) for number, item in enumerate(items)]


def swapped(items, key):
    for number in [number for number, item in enumerate(items[:-1]) if item["key"] == key]:
        items[number], items[number + 1] = items[number + 1], items[number]
    return items


COPIES_WITH_OTHER_LINES = {
    "a line removed": lambda items: without_second(items, "epoch_stop"),
    "all evaluations' edges removed": lambda items: [
        item for item in items if item["key"] not in ("eval_start", "eval_stop")
    ],
    "a key renamed": lambda items: [
        {**item, "key": item["key"].replace("block_", "part_")} for item in items
    ],
    "lines of a second process": lambda items: repeated(items, "epoch_start"),
    "three stamps edited": lambda items: edited_stamps(items, "epoch_stop", 3),
    "lines swapped": lambda items: swapped(items, "epoch_stop"),
    "a pause": paused,
    "two pauses": lambda items: paused(items, 2),
}
SCALED_COPIES_WITH_OTHER_LINES = {
    "run_start moved": lambda items: edited_stamps(items, "run_start", 1),
    "run_stop moved": lambda items: edited_stamps(items, "run_stop", 1),
    "a line removed": lambda items: without_second(items, "epoch_stop"),
    "lines of a second process": lambda items: repeated(items, "epoch_start"),
}


@pytest.mark.parametrize("trick", COPIES_WITH_OTHER_LINES)
def test_a_copy_with_other_lines_is_found(tmp_path, trick):
    logs = log_set(tmp_path / "logs", "resnet")
    rewritten(logs[1], logs[4], COPIES_WITH_OTHER_LINES[trick])
    assert "logs/result_4.txt have " in find_copy(records_of(logs))


@pytest.mark.parametrize("factor", [0.8, 1.1])
@pytest.mark.parametrize("trick", SCALED_COPIES_WITH_OTHER_LINES)
def test_a_scaled_copy_with_other_lines_is_found(tmp_path, trick, factor):
    logs = log_set(tmp_path / "logs", "resnet")
    rewritten(logs[1], logs[4], SCALED_COPIES_WITH_OTHER_LINES[trick], factor)
    assert "logs/result_4.txt have " in find_copy(records_of(logs))


@pytest.mark.parametrize("deviation_ms", [5, 50])
def test_very_regular_runs_are_not_reported_as_copies(tmp_path, deviation_ms):
    """Compare 20 runs whose intervals differ by normal noise.

    No system is known with a standard deviation below 5 ms.
    """
    draw, records = random.Random(deviation_ms), []
    for index in range(20):
        stamp, lines = START_MS + index * HOUR_MS, []
        for number in range(40):
            key = "run_start" if number == 0 else "run_stop" if number == 39 else "eval_accuracy"
            lines.append(
                {"key": key, "value": None, "time_ms": round(stamp), "metadata": {"n": number}}
            )
            stamp += 2000 + draw.gauss(0, deviation_ms)
        path = tmp_path / f"result_{index}.txt"
        path.write_text("".join(f":::MLLOG {json.dumps(line)}\n" for line in lines))
        records.append(read(path))
    assert find_copy(records) == ""


@pytest.mark.parametrize("trick", ["the same start", "shifted", "shortened"])
def test_a_copy_in_the_results_of_another_system_is_found(tmp_path, trick):
    log_set(tmp_path / "logs", "resnet")
    tree = package(
        [tmp_path / "logs"],
        tmp_path / "tree",
        PackageOptions(submitter="EXAMPLE_ORG", system="box"),
    ).folder
    box_folder, second_folder = (
        tree / "results" / "box" / "resnet",
        tree / "results" / "other" / "resnet",
    )
    shutil.copytree(box_folder, second_folder)
    for index in range(5):
        derived(
            box_folder / f"result_{index}.txt",
            second_folder / f"result_{index}.txt",
            24 * 30,
            900 + index,
            JITTER_MS,
        )
    sets = [verdict for verdict in check_tree(tree) if verdict.rules_name == "result set"]
    assert [verdict.passed for verdict in sets] == [True, True]
    edited(box_folder / "result_1.txt", second_folder / "result_3.txt", COPIES[trick])
    sets = [verdict for verdict in check_tree(tree) if verdict.rules_name == "result set"]
    assert [verdict.passed for verdict in sets] == [True, False]


def test_systems_of_two_names_on_one_machine_are_compared(tmp_path):
    """Compare machines by the logged host name, because the system name is only a folder name."""
    for index in range(5):
        our_run(tmp_path / "logs" / "ssd", index, "ssd", suite_run={"machines": ["a"]})
    tree = package([tmp_path / "logs"], tmp_path / "tree", PackageOptions(system="box")).folder
    box_folder, second_folder = tree / "results" / "box" / "ssd", tree / "results" / "other" / "ssd"
    shutil.copytree(box_folder, second_folder)
    for index in range(5):
        derived(
            box_folder / f"result_{index}.txt",
            second_folder / f"result_{index}.txt",
            0.05,
            900 + index,
            JITTER_MS,
        )
    found = [
        item.found
        for verdict in check_tree(tree)
        for item in verdict.complaints
        if not item.warning
    ]
    assert any("overlap in time" in text for text in found)


@given(
    factor=st.floats(0.05, 20),
    shift_hours=st.floats(1, 1000),
    lengths_ms=st.lists(st.integers(2_000, 10**7), min_size=6, max_size=40),
    seed=st.integers(0, 10**6),
)
@examples(60)
def test_every_shift_and_factor_is_found_and_no_other_run(
    tmp_path_factory, factor, shift_hours, lengths_ms, seed
):
    folder, draw = tmp_path_factory.mktemp("runs"), random.Random(seed)
    other_lengths_ms = [
        length + draw.choice((-1, 1)) * draw.randint(20, 500) for length in lengths_ms
    ]

    def written(name, begin_ms, intervals_ms):
        keys = ["run_start", *["eval_accuracy"] * (len(intervals_ms) - 1), "run_stop"]
        stamps = [begin_ms]
        for length in intervals_ms:
            stamps.append(stamps[-1] + length)
        pairs = zip(keys, stamps, strict=True)
        records = [
            {"key": key, "value": None, "time_ms": round(at), "metadata": {}} for key, at in pairs
        ]
        path = folder / name
        path.write_text("".join(f":::MLLOG {json.dumps(record)}\n" for record in records))
        return read(path)

    original = written("result_0.txt", START_MS, lengths_ms)
    copy = written(
        "result_1.txt", START_MS + shift_hours * HOUR_MS, [length * factor for length in lengths_ms]
    )
    other_run = written("result_2.txt", START_MS + shift_hours * HOUR_MS + 1, other_lengths_ms)
    assert "result_1.txt" in find_copy([original, copy])
    assert find_copy([original, other_run]) == ""


def run_on(folder, index, hours, machines=("a",), system="our box", name="resnet50"):
    """Write a ten-minute run of this suite that starts `hours` later on these machines."""
    log = our_run(
        folder / f"job{index}", 0, name, suite_run={"machines": list(machines), "system": system}
    )
    derived(log, log, hours, 100 + index, JITTER_MS)
    return log


@pytest.mark.parametrize(
    ("hours", "machines", "systems", "overlaps"),
    [
        ((0, 0.1), ("a", "a"), ("s", "s"), True),
        ((0, 0.001), ("a", "ab"), ("s", "s"), True),
        ((0.1, 0), ("a", "a"), ("s", "t"), True),
        ((0, 0.1), ("", ""), ("s", "s"), True),
        ((0, 0.1), ("a", ""), ("s", "s"), True),
        ((0, 0.1), ("a", "b"), ("s", "s"), False),
        ((0, 0.1), ("", ""), ("s", "t"), False),
        ((0, 1), ("a", "a"), ("s", "s"), False),
    ],
    ids=["one machine", "one of two machines", "another system name", "one system", "an older log",
         "two machines", "two systems", "one after another"],
)  # fmt: skip
def test_runs_that_overlap_on_one_machine_are_found(tmp_path, hours, machines, systems, overlaps):
    logs = [
        run_on(tmp_path, index, hours[index], machines[index], systems[index]) for index in range(2)
    ]
    names = find_overlap(records_of(logs))
    assert bool(names) == overlaps
    assert not names or {"job0", "job1"} <= {part for part in ("job0", "job1") if part in names}
    assert find_foreign_overlap(records_of(logs)) == ""


def test_an_interrupted_run_does_not_occupy_its_machine(tmp_path):
    first, second = run_on(tmp_path, 0, 0), run_on(tmp_path, 1, 1)
    records = [
        json.loads(line.removeprefix(":::MLLOG ")) for line in first.read_text().splitlines()
    ]
    continued = {
        **records[-1],
        "key": "suite_continued",
        "time_ms": records[-1]["time_ms"] + 3 * HOUR_MS,
    }
    stop = {**records[-1], "time_ms": continued["time_ms"] + HOUR_MS}
    first.write_text(
        "".join(f":::MLLOG {json.dumps(record)}\n" for record in [*records[:-1], continued, stop])
    )
    assert find_overlap(records_of([first, second])) == ""
    derived(second, second, 3, 101)
    assert find_overlap(records_of([first, second]))


@pytest.mark.parametrize("shared", [True, False])
def test_runs_of_two_benchmarks_on_one_machine_are_compared_too(tmp_path, shared):
    for name, benchmark in (("ssd", "ssd"), ("resnet50", "resnet")):
        for index in range(5):
            machine = "a" if shared or name == "ssd" else "b"
            log = our_run(tmp_path / "logs" / name, index, name, suite_run={"machines": [machine]})
            start_ms = read(log).start_ms
            hours = index + (START_MS - start_ms) / HOUR_MS
            derived(log, log, hours, 100 + index, JITTER_MS, submission_benchmark=benchmark)
    if shared:
        with pytest.raises(
            ValueError, match=r"/result_0.txt and .*/result_0.txt overlap in time on one machine"
        ):
            choose_runs(collect([tmp_path / "logs"]))
        return
    tree = package([tmp_path / "logs"], tmp_path / "tree", PackageOptions()).folder
    assert all(verdict.passed for verdict in check_tree(tree))
    for log in tree.glob("results/*/*/result_*.txt"):
        log.write_text(log.read_text().replace('"machines": ["b"]', '"machines": ["a"]'))
    failed = [verdict for verdict in check_tree(tree) if not verdict.passed]
    assert [item.needed for verdict in failed for item in verdict.complaints] == [
        "one run at a time on each machine"
    ]


def test_overlapping_runs_of_other_programs_are_a_warning(tmp_path):
    logs = log_set(tmp_path / "logs", "ssd")
    derived(logs[1], logs[4], 0.001, 104, JITTER_MS)
    assert find_overlap(records_of(logs)) == ""
    packaged = package(
        [tmp_path / "logs"],
        tmp_path / "tree",
        PackageOptions(submitter="EXAMPLE_ORG", system="box"),
    )
    assert any(
        "overlap in time. Such runs need different machines" in note for note in packaged.notes
    )
    assert all(verdict.passed for verdict in check_tree(packaged.folder))
    assert not all(verdict.passed for verdict in check_tree(packaged.folder, werror=True))


@pytest.mark.parametrize(
    ("digests", "differ"),
    [("aaa", False), ("aab", True), ("baa", True), ("-aa", False), ("-ab", True), ("---", False)],
)
def test_runs_of_one_result_need_the_same_code_digest(tmp_path, digests, differ):
    """Compare the digests of the logged code; `-` is a log of an older version without a digest."""
    logs = [
        our_run(
            tmp_path / f"job{index}",
            0,
            "resnet50",
            suite_run={} if digest == "-" else {"code_digest": digest},
        )
        for index, digest in enumerate(digests)
    ]
    for log in logs:
        log.write_text(log.read_text().replace('"code_digest": ""', '"code": ""'))
    assert bool(find_different_code(records_of(logs))) == differ
