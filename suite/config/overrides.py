"""Checks the command line before Hydra sees it, so that a mistake gets one line instead of Hydra's own errors."""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import ChoiceSweep, Glob, IntervalSweep, Override, RangeSweep
from hydra.errors import HydraException

from suite.common import registry
from suite.common.registry import not_allowed
from suite.common.run_config import RunConfig, SweepConfig, known_fields
from suite.config import hints, keys
from suite.config.keys import FILE_GROUPS, GROUPS, SHORT, SYNONYMS, group_choices
from workloads.api import OPTION_GROUPS, check_value, kind_of, of_sets

_SWEEPS = "runs have the machine one after another: type -m with lists (docs/hydra.md)"
_FOLDER = "Hydra's folders are not used; type output=FOLDER for the runs of this command, or set SUITE_LOG_DIR"
_TRACKERS = "logs are files alone; suite export brings them into a tracker (docs/trackers.md); leave it out"
NOT_OFFERED = {
    "framework.kvstore": "MXNet's processes meet at a dist_sync store, and nothing else is offered (Horovod would be faster on "
    "real networks: docs/several_machines.md); leave it out",
    **dict.fromkeys(("wandb", "mlflow", "tensorboard", "logger"), _TRACKERS),
    **dict.fromkeys(
        ("data_dir", "data.dir", "data.path"),
        "set SUITE_DATA_DIR to the folder of prepared data sets (docs/getting_started.md)",
    ),
    "log_dir": "type output=FOLDER for the runs of this command, or set SUITE_LOG_DIR",
    **dict.fromkeys(("hydra.run.dir", "hydra.sweep.dir", "hydra.sweep.subdir", "hydra.output_subdir"), _FOLDER),
    "hydra.job.chdir": _FOLDER,
    **dict.fromkeys(("hydra/sweeper", "hydra.sweeper"), _SWEEPS),
    **dict.fromkeys(("hydra/launcher", "hydra.launcher"), "type launch=slurm or launch=ssh for other machines"),
    "hydra.mode": "type -m for a sweep",
}
"""Keys that one may look for, and what there is instead."""
_SWEEPER_PARAMS = "hydra.sweeper.params"
"""Mapping of Hydra's sweeper: key to the values of a sweep, as text."""
_OPTIMIZER = dict.fromkeys(("optimizer", "optim", "opt"), "optimizer")
"""What the optimizer of a hyperparameter set is called, here and elsewhere."""
_MAX_SUGGESTED = 10**9
"""Highest limit that is suggested."""
_PATHS = ("output", "backbone.weights", "launch.hostfile", "launch.kubernetes.data", "launch.kubernetes.logs")
_LISTS = ("launch.hosts", "launch.slurm.sbatch", "launch.kubernetes.node_selector")


def in_full(argument: str) -> str:
    """Return an override with its full key and quoted values: `timing=steps` becomes `timing.each=steps`.

    Quoted are paths, and every item of `plugins=[PATH,…]` and of the lists of `launch.*`, because Hydra's grammar does not
    allow spaces at the ends, commas, brackets, or non-ASCII letters in values without quotes.
    """
    key, _, value = argument.partition("=")
    key = key.lstrip("+") if key.lstrip("+") in ("study", "experiment") else SHORT.get(key, key)
    plain = bool(value) and not set(value) & set("'\"")
    if key in _LISTS and plain:
        inner = value[1:-1] if value[0] == "[" and value[-1] == "]" else value
        return f"{key}={_list(re.split(r',(?![^[]*])', inner))}"  # not between the brackets of node[1,3]
    if key in _PATHS and value and value[0] not in "'\"":
        return f"{key}={_quote(value)}"
    if key == "plugins" and plain and value != "null":
        if value.startswith("[") and value.endswith("]"):
            return f"{key}={_list(value[1:-1].split(','))}"
        if "," not in value or Path(value).exists():
            return f"{key}={_list([value])}"
    return f"{key}={value}" if "=" in argument else argument


def experiment_or_study(argument: str) -> str:
    """Return `experiment=NAME` as `study=NAME`, unless the user's folders have a file experiment/NAME.yaml."""
    if not argument.startswith("experiment="):
        return argument
    if set(texts(argument)) <= set(group_choices("experiment")):
        return argument
    return f"study={argument.partition('=')[2]}"


def sweeper_params(argument: str) -> list[str]:
    """Return `hydra.sweeper.params.KEY=VALUES` as `KEY=VALUES`, and `hydra.sweeper.params={KEY: VALUES}` likewise."""
    key, equals, value = argument.lstrip("+").partition("=")
    if not equals or not f"{key}.".startswith(f"{_SWEEPER_PARAMS}."):
        return [argument]
    if key != _SWEEPER_PARAMS:
        axis = key.removeprefix(f"{_SWEEPER_PARAMS}.")
        quoted = len(value) > 1 and value[0] in "'\"" and value[0] == value[-1]
        return [f"{axis}={value[1:-1] if quoted else value}"]
    parsed = parse(f"{key}={value}").value()
    if not isinstance(parsed, dict):
        raise ValueError(f'{argument}: expected a mapping, for example {_SWEEPER_PARAMS}={{seed: "1,2"}}')
    return [f"{axis}={values}" for axis, values in parsed.items()]


def _list(items: Sequence[str]) -> str:
    return f"[{','.join(_quote(item.strip()) for item in items if item.strip())}]"


def _quote(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def check_form(arguments: Sequence[str]) -> None:
    """Raise ValueError, with the next step, for a word that cannot be a setting.

    Such a word is written like a flag (`--gpus 2`), contains a line end, or is the setting of another program (`amp=true`).
    """
    for before, argument, following in zip(["", *arguments], arguments, [*arguments[1:], ""], strict=False):
        if any((character < " " and character != "\t") or character == "\x7f" for character in argument):
            raise ValueError(
                f"{ascii(argument)[1:-1][:80]}: line ends and control characters are in no setting; leave them out"
            )
        key, equals, value = argument.lstrip("-").partition("=")
        fields = known_fields(RunConfig)
        if argument.startswith("-") and key.partition(".")[0] in fields:
            default = "true" if key in fields and kind_of(fields[key]) == "bool" else "VALUE"
            typed = value if equals else following if following and "=" not in following else default
            raise ValueError(f"{argument}: settings are typed without dashes; type {key}={typed}")
        step = "" if before in hints.FLAGS_WITH_VALUE else hints.next_step(argument, following)
        if step:
            raise ValueError(f"{argument}: {step}")


def check_values(arguments: Sequence[str]) -> None:
    """Raise ValueError, with the next step, for a value of another program (`checkpoint=5`).

    The user's folders must have been searched before.
    """
    for argument in arguments:
        step = hints.next_step_for_value(argument)
        if step:
            raise ValueError(f"{argument}: {step}")


@functools.cache  # each word is looked at again for every question about it
def parse(argument: str) -> Override:
    """Hydra's parser. Raises ValueError, with what to type, for what is no override."""
    try:
        return OverridesParser.create().parse_override(argument)
    except HydraException:
        key, _, value = argument.partition("=")
        items = [item for item in value.split(",") if item.strip()]
        if re.fullmatch(r"[\w.-]+", argument):
            meant = next((f"{group}={argument}" for group in GROUPS if argument in group_choices(group)), "")
            do = f"type {meant}" if meant else "type --help for the settings that there are"
            raise ValueError(f"{argument}: not of the form key=value; {do}") from None
        if items and len(items) < len(value.split(",")):
            raise ValueError(f"{argument}: a comma with no value beside it; type {key}={','.join(items)}") from None
        raise ValueError(f"{argument}: not of the form key=value; quote unusual text: key=\"'…'\"") from None


def texts(argument: str) -> list[str]:
    """The values of an override as they are typed; several where it is a sweep. Raises ValueError for `interval()`."""
    override = parse(argument)
    if not override.is_sweep_override():
        return [argument.partition("=")[2]]
    swept: Any = override.value()
    if isinstance(swept, IntervalSweep):
        raise ValueError(f"{argument}: an interval has no end of values to try; type a list or range(1,5)")
    if isinstance(swept, Glob):
        key = override.key_or_group
        values = swept.filter(keys.choices(key, keys.suite_keys().get(key)))
        if not values:
            raise ValueError(f"{argument}: nothing matches; there are {', '.join(keys.choices(key, None)) or 'none'}")
        return list(values)
    return [text.replace("\\:", ":") for text in override.sweep_string_iterator()]  # as a user types per_device:8


def count(argument: str) -> int:
    """How many values an override has, a pattern's as one; none of them is made. Raises ValueError for a sweep without any, or
    without an end."""
    override = parse(argument)
    swept: Any = override.value() if override.is_sweep_override() else None
    found = len(swept.list) if isinstance(swept, ChoiceSweep) else 1
    if isinstance(swept, RangeSweep):
        try:
            start, stop, step = (Fraction(one or 0) for one in (swept.start, swept.stop, swept.step))
            found = max(0, math.ceil((stop - start) / step))
        except (ValueError, ArithmeticError):  # nan, inf; a step of 0
            raise ValueError(f"{argument}: it has no end; type a list or range(1,5)") from None
    if not found:
        raise ValueError(f"{argument}: no value is in it; type a list or a range with one, such as range(1,4)")
    return found


def counts(arguments: Sequence[str]) -> dict[str, int]:
    """Key to how many values it is given."""
    return {argument.partition("=")[0]: count(argument) for argument in arguments}


def limit(arguments: Sequence[str]) -> int:
    """Most jobs: `sweep.limit=N` among the arguments. Raises ValueError for one that is no number."""
    typed = [argument.partition("=")[2] for argument in arguments if argument.startswith("sweep.limit=")]
    for text in typed:
        if not re.fullmatch(r"[1-9]\d{0,9}", text, re.ASCII):
            raise ValueError(f"sweep.limit={text[:80]}: one whole number of at least 1 is needed, for example 5000")
    return int(typed[-1]) if typed else SweepConfig().limit


def check_count(found: Mapping[str, int], arguments: Sequence[str]) -> None:
    """Raise ValueError where there are more jobs, of so many values of each key, than `sweep.limit=N` among the arguments."""
    most, jobs = limit(arguments), math.prod(found.values())
    if jobs > most:
        several = " x ".join(f"{key}: {_shown(number)}" for key, number in found.items() if number > 1)
        typed = f"type sweep.limit={jobs} if they are meant" if jobs <= _MAX_SUGGESTED else "type fewer values"
        raise ValueError(f"{_shown(jobs)} jobs ({several}), where {most:,} are the most; {typed}")


def _shown(number: int) -> str:
    """Python refuses to write numbers of more than 4,300 digits."""
    return f"{number:,}" if number < 10**15 else "over 10^15"


def values(argument: str) -> list[Any]:
    """The values of an override, parsed."""
    key = argument.partition("=")[0]
    parsed = [parse(f"{key}={text}").value() for text in texts(argument)]
    return [getattr(value, "text", value) for value in parsed]


def check(arguments: Sequence[str], workloads: Sequence[str], multirun: bool) -> None:
    """Raise ValueError with one line for the first override that cannot be right for these workloads."""
    for argument in arguments:
        override = parse(argument)
        key = override.key_or_group
        _check_offered(argument, key)
        if key.partition(".")[0] == "hydra":
            continue
        if override.is_add() or override.is_delete() or override.is_force_add():
            check_root(key)
            raise ValueError(f"{argument}: keys can be neither added nor removed; type {key}=VALUE")
        if override.is_sweep_override() and not multirun:
            raise ValueError(f"{argument}: several values make a sweep: add -m")
        for value in values(argument):
            if isinstance(value, dict):
                raise ValueError(f"{key}: a mapping is not typed; write it into a file of yours (docs/environments.md)")
            if key in FILE_GROUPS:
                _check_synonym(key, value, group_choices(key))
                if str(value) not in group_choices(key):
                    raise not_allowed(key, value, group_choices(key))
            else:
                check_key(key, value, workloads)


def _check_offered(argument: str, key: str) -> None:
    """Raise ValueError, with what there is instead, for one of `NOT_OFFERED` or a key below it."""
    instead = next((NOT_OFFERED[name] for name in NOT_OFFERED if f"{key}.".startswith(f"{name}.")), "")
    if instead:
        raise ValueError(f"{argument}: {instead}")


def check_root(key: str) -> None:
    """Raise ValueError for a key whose first word is none of the suite's: `worklod`. No workload need be known."""
    roots = [*FILE_GROUPS, *known_fields(RunConfig), "study", "hydra"]
    _check_offered(key, key.lstrip("+~"))
    if key.lstrip("+~") in _OPTIMIZER:
        raise ValueError(
            f"{key}: it is set by a file, conf/hyperparameters/WORKLOAD/NAME.yaml: docs/hyperparameters.md"
        )
    if key.partition(".")[0].lstrip("+~") not in roots:
        meant = keys.meant(key, "…", [*GROUPS, *keys.suite_keys()]) or "; type --help for those that there are"
        raise ValueError(f"{key}: there is no such key{meant}")


def check_key(key: str, value: Any, workloads: Sequence[str]) -> None:
    """Raise ValueError with one line for a key that there is not, or a value that it cannot have.

    workloads: those that have to know the key.
    """
    group, _, below = key.partition(".")
    known = keys.suite_keys()
    if key in known:
        _check_value(key, known[key], value)
        return
    for workload in workloads:
        known = keys.suite_keys() | keys.workload_keys(workload)
        if key.startswith("workload.target") and "workload.target" in known:
            _check_target(key, value, keys.metrics(workload))
        elif key in known:
            _check_value(key, known[key], value)
        else:
            _check_set_alone(key, value, workload)
            parts = [name for name in known if name.startswith(f"{group}.") and name != "workload.name"]
            if not parts and below and group in known:
                raise ValueError(f"{key}: there is no such key, {group} has no parts; type {group}=VALUE")
            meant = keys.meant(key, value, known)
            owner = f" of workload={workload}" if group in ("workload", *OPTION_GROUPS) else ""
            allowed = f"; there are {', '.join(parts)}" if parts and not meant else ""
            hint = "" if meant or allowed else f"; type workload={workload} --help for those that there are"
            raise ValueError(f"{key}={value}: there is no such key{owner}{meant}{allowed}{hint}")


def _check_set_alone(key: str, value: Any, workload: str) -> None:
    """Raise ValueError for what a hyperparameter set alone says, with the files that say it: `optimizer=adam`."""
    name = _OPTIMIZER.get(key.removeprefix("workload."), key.removeprefix("workload."))
    item = of_sets(registry.load_workload(workload).Options).get(name)
    if item is not None and item.metadata.get("internal"):
        allowed = f" (allowed: {', '.join(choices)})" if (choices := item.metadata["choices"]) else ""
        raise ValueError(
            f"{key}={value}: {name} is set by a file in conf/hyperparameters/{workload}{allowed}; write "
            f"hyperparameters/{workload}/NAME.yaml in a folder of yours and type --config-dir FOLDER "
            f"workload.hyperparameter_set=NAME (docs/hyperparameters.md)"
        )
    if name == "optimizer":
        others = f"type workload={workload} --help for those that there are"
        raise ValueError(f"{key}={value}: workload={workload} has one optimizer and no setting for it; {others}")


def _check_value(key: str, item: Any, value: Any) -> None:
    """`check_value`, with what other programs call a value."""
    metadata = {**item.metadata, "choices": keys.choices(key, item)} if key in keys.GROWING else item.metadata
    _check_synonym(key, value, metadata.get("choices") or ())
    check_value(key, kind_of(item), metadata, value)


def _check_synonym(key: str, value: Any, allowed: Sequence[str]) -> None:
    """Raise ValueError for what other programs call one of the allowed values."""
    if str(value) not in allowed and SYNONYMS.get(str(value)) in allowed:
        raise ValueError(f"{key}={value}: did you mean {key}={SYNONYMS[str(value)]}? allowed: {', '.join(allowed)}")


def _check_target(key: str, value: Any, metrics: Sequence[str]) -> None:
    """Raise ValueError unless `key` names one target and gives it a number."""
    metric = key.removeprefix("workload.target").removeprefix(".")
    if not metric and len(metrics) > 1 and value is not None:
        typed = ", ".join(f"workload.target.{name}=…" for name in metrics)
        raise ValueError(f"{key}={value}: there are several; type one of {typed}")
    if metric and metric not in metrics:
        near = [name for name in metrics if name.lower() == metric.lower()] or metrics
        typed = " or ".join(f"workload.target{f'.{name}' if len(metrics) > 1 else ''}={value}" for name in near)
        raise ValueError(f"{key}={value}: there is no such target; type {typed}")
    check_value(key, "float | None", {"minimum": 0.0}, value)
