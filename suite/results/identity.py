"""What makes two runs the same experiment: their settings and every logged hyperparameter, the seed aside.

`same` says whether two rows agree, `differences` in what they do not, `own_words` names several rows by what tells them apart.
Results, tables, comparisons, advice, studies, predictions and packages all ask here.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from typing import Any

from suite.launch.recorded_env import identifying_variables
from suite.results.columns import HEADINGS, Row
from suite.results.logs.keys import BOOKKEEPING
from suite.results.logs.record import RunSettings
from suite.results.names import UNKNOWN_ROUND, workload_name
from suite.results.targets import same_targets, targets_told
from suite.results.text import clean
from workloads.api import DeviationCode, LoggedSettings, field_names

_OF_OTHERS = ("round", "submitter", "division", "folder")
"""Columns that decide for logs and results of others beside the settings; of ours they are empty or say nothing."""
FIELDS = (*field_names(RunSettings, row=True), *_OF_OTHERS)
DERIVED = ("labels", "deviations", "data_fingerprint")
"""What follows from other fields: it counts, but is only named where nothing else differs."""
_BOOKKEEPING_PREFIXES = ("submission_", "suite_", "power_")

HYPERPARAMETERS, ENVIRONMENT_VARIABLES = "hyperparameters", "environment_variables"
_WITH_DEVICES = (*(item.name for item in fields(LoggedSettings) if item.metadata["of_size"]), HYPERPARAMETERS)
_FOLLOWS: Mapping[str, tuple[str, ...]] = {
    "gpus": _WITH_DEVICES,
    "nodes": _WITH_DEVICES,
    "batch": ("batch_size_global", "hyperparameter_set", HYPERPARAMETERS),
    "lr_scaling": (HYPERPARAMETERS,),
    "device": (
        "device_name", "cores_per_device", "threads_per_device", "linear", "graphs", "kernels", "framework_version",
        "thread_waiting", "devices", "batch_size_global", HYPERPARAMETERS,
    ),
    "cpu.cores_per_device": ("cores_per_device", "device_name", "thread_waiting"),
    "framework": ("framework_version", "linear", "graphs", "kernels", "thread_waiting", HYPERPARAMETERS),
    "precision": ("linear",),
    "mode": ("targets", "stop", "max_epochs"),
    "workload.hyperparameter_set": ("batch_size_global", HYPERPARAMETERS),
    "workload.model": (
        "variant", "dataset", "hyperparameter_set", "data_fingerprint", "targets", "lr_scaling", "max_epochs",
        HYPERPARAMETERS,
    ),
    "workload.image_size": ("variant", "data_fingerprint", HYPERPARAMETERS),
    "workload": (
        "dataset", "hyperparameter_set", "data_fingerprint", "targets", "sample_unit", "batch_unit", "rules",
        "clock", "linear", "graphs", "kernels", "variant", "batch_size_global", "lr_scaling", "thread_waiting", "max_epochs",
        HYPERPARAMETERS,
    ),
}  # fmt: skip
"""Key that a user types to the fields that differ with it, beside its own."""
_OF_SIZE = ("system", "folder", "framework_version")
"""What also goes with the number of devices in results of others: a cluster's name has its size in it."""
OF_SIZE_LOGGED = ("model_bn_span", "input_pairs_left_out")
"""Logged keys that follow from the number of devices at one global batch: nobody chose them."""
_OWN_FIELD = {item.metadata["typed"]: item.name for item in fields(LoggedSettings) if item.metadata["typed"]}
_LABELS = {
    "batch_size_global": "global batch",
    "batch_rule": "batch",
    "device_name": "hardware",
    "sample_unit": "samples are",
    "framework_version": "version",
    "hyperparameter_set": "hyperparameters",
    "data_fingerprint": "data",
    "thread_waiting": "threads wait",
    "targets": "target",
    "rules": "round",
    "clock": "clock rule",
    "lr_scaling": "learning-rate scaling",
    "dataset": "data set",
    "base_learning_rate": "learning rate",
    "timing_each": "timed by",
    "opt_name": "optimizer",
}


def facts(row: Row) -> dict[str, Any]:
    """Everything that decides what a run measures, by name: fields, environment variables, then logged hyperparameters."""
    values = {
        name: getattr(row, name)
        for name in FIELDS
        if name != ENVIRONMENT_VARIABLES and (name != "rules" or row.profile)  # of others `round` says it
    }
    if row.profile:
        variables = identifying_variables(row.environment_variables or {})
        values |= {f"{ENVIRONMENT_VARIABLES}.{name}": value for name, value in variables.items()}
    logged = getattr(row, HYPERPARAMETERS) or {}
    return values | {f"{HYPERPARAMETERS}.{key}": value for key, value in logged.items() if not _is_bookkeeping(key)}


def key(row: Row, *aside: str) -> tuple[Any, ...]:
    """Equal in two rows that are the same experiment. `aside`: keys as typed (`gpus`, `batch`), which may differ with all that
    follows from them."""
    out = left_out(row, aside)
    return tuple(
        (name, comparable_value(value)) for name, value in sorted(facts(row).items()) if not _is_out(name, out)
    )


def experiment(row: Row) -> tuple[Any, ...]:
    """Return a value that is equal for the runs of one result: `key`, or the folder of a submission whatever its runs log."""
    if row.is_submission:
        return row.folder, row.workload
    return key(row, "batch") if row.folder else key(row)


def varying(rows: Sequence[Row]) -> dict[str, list[Any]]:
    """In what rows differ: name as in `facts` to the distinct values, None for what a row does not say."""
    every = [facts(row) for row in rows]
    names = dict.fromkeys(name for one in every for name in one)
    values = {name: {comparable_value(one.get(name)): one.get(name) for one in every} for name in names}
    return {name: list(distinct.values()) for name, distinct in values.items() if len(distinct) > 1}


def same(one: Row, other: Row, *aside: str) -> bool:
    """Whether two rows are the same experiment, but for what is left `aside`."""
    return key(one, *aside) == key(other, *aside)


def differences(one: Row, other: Row, *aside: str, known: bool = False) -> dict[str, tuple[Any, Any]]:
    """In what two rows differ: name of a field (or `hyperparameters.KEY`) to both values, None for one that was not logged.

    `known`: leave out what one of them does not say, as a run that failed early or a log of another program.
    """
    out = left_out(one, aside) | left_out(other, aside)
    first, second = facts(one), facts(other)
    if known and not (one.hyperparameters and other.hyperparameters):
        out.add(HYPERPARAMETERS)
    pairs = {
        name: (first.get(name), second.get(name))
        for name in first | second
        if not _is_out(name, out) and comparable_value(first.get(name)) != comparable_value(second.get(name))
    }
    if known:
        pairs = {
            name: pair
            for name, pair in pairs.items()
            if name.startswith(f"{ENVIRONMENT_VARIABLES}.")  # the first lines of a log have them all
            or not any(value in (None, "", (), {}) for value in pair)
        }
    return {name: pair for name, pair in pairs.items() if name not in DERIVED} or pairs


TIME, EPOCH_TIME, EPOCHS, THROUGHPUT = "time to target", "time per epoch", "epochs to target", "throughput"
"""What two results may be compared in."""


def refusals(row: Row, other: Row) -> Iterator[tuple[tuple[str, ...], str]]:
    """Quantities whose ratio of two results would be meaningless, and why; the most important reason first."""
    training = (TIME, EPOCHS, EPOCH_TIME)
    if row.mode != other.mode:
        yield (*training, THROUGHPUT), f"mode {row.mode} does other work than mode {other.mode}"
    if not (row.to_target and other.to_target):
        fixed = "theirs is a run" if row.to_target else "ours is a run" if other.to_target else "both are runs"
        yield training, f"{fixed} of fixed length: there is a throughput only"
    deviates = any(map(_trained_on_other_data, (row, other)))
    if row.dataset != other.dataset and (deviates or (row.dataset and other.dataset)):
        both = " against ".join(one.dataset or "that of the rules" for one in (row, other))
        yield training, f"trained on another data set: {both}"
    if same_targets(row.targets, other.targets, row.workload) is False:
        both = " against ".join(value_text("targets", one.targets, one) for one in (row, other))
        yield (TIME, EPOCHS), f"trained to another target: {both}"
    if ("token" in row.sample_unit) != ("token" in other.sample_unit):
        yield (THROUGHPUT,), f"samples are {row.sample_unit} against {other.sample_unit}"


def _trained_on_other_data(row: Row) -> bool:
    """Check whether the runs of a row are open because of the name or the fingerprint of their data set."""
    return any(
        deviation.setting == "dataset" or deviation.code is DeviationCode.DATA_NOT_VERIFIED
        for deviation in row.parsed_deviations
    )


def label(name: str) -> str:
    """What tables call a field: `global batch`; of a logged key the words without the prefixes of programs."""
    if name.startswith(f"{ENVIRONMENT_VARIABLES}."):
        return clean(name.removeprefix(f"{ENVIRONMENT_VARIABLES}."), 60)
    name = name.removeprefix(f"{HYPERPARAMETERS}.")
    if name != "opt_name":
        name = re.sub("^(sgd_opt|lars_opt|opt_hp|opt|model_hp|model|input_hp)_", "", name)
    return _LABELS.get(name, clean(name, 40).replace("_", " "))


def heading(name: str) -> str:
    """What tables call a column: `time per epoch`; of a rate `samples/s`."""
    rate = name.removesuffix("_per_second")
    return HEADINGS.get(name) or (label(name) if rate == name else f"{label(rate)}/s")


def value_text(name: str, value: Any, row: Row | None = None, limit: int = 80) -> str:
    """A value in words, cut to `limit` characters: `8,192`, `BLEU ≥ 24`; `none` for one that is not known or not set."""
    if value is None or value in ("", (), [], {}):
        return "none"
    if name == "targets":
        return clean(targets_told(value, workload_name(row.workload) if row is not None else ""), limit)
    if name == "data_fingerprint":
        return clean(value, 12)
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}" if name in FIELDS else str(value)
    if isinstance(value, (tuple, list)):
        return clean("; ".join(map(str, value)), limit)
    return clean(f"{value:.6g}" if isinstance(value, float) else str(value), limit)


def follows(aside: Iterable[str]) -> set[str]:
    """The fields that differ with these keys."""
    names = {name for one in aside for name in (_OWN_FIELD.get(one, HYPERPARAMETERS), *_FOLLOWS.get(one, ()))}
    return names | {"labels", "deviations"} if names else names


def left_out(row: Row, aside: Collection[str]) -> set[str]:
    """Return the settings that go with the keys in `aside`, for results of other programs the system too."""
    of_size = set(_OF_SIZE if not row.profile and {"gpus", "nodes"} & set(aside) else ())
    if row.round == UNKNOWN_ROUND:  # which other folders then need not share
        of_size.discard("folder")
    return follows(aside) | of_size


def _is_out(name: str, out: Collection[str]) -> bool:
    return name.partition(".")[0] in out


def _is_bookkeeping(key: str) -> bool:
    return key in BOOKKEEPING or key.startswith(_BOOKKEEPING_PREFIXES)


def comparable_value(value: Any) -> Any:
    """A value that can be hashed and compared, whatever its type: the type is no difference."""
    if isinstance(value, Mapping):
        return tuple(sorted((str(name), comparable_value(item)) for name, item in value.items()))
    return tuple(map(comparable_value, value)) if isinstance(value, (tuple, list)) else value
