"""Check the command line before Hydra parses it.

The checks give a single-line error message for each mistake on the command line.
"""

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
from suite.common.registry import allowed_text, invalid_choice
from suite.common.run_config import RunConfig, SweepConfig, known_fields
from suite.config import hints, key_suggestions
from suite.config.key_suggestions import FILE_GROUPS, GROUPS, SHORT, SYNONYMS, group_choices
from workloads.api import OPTION_GROUPS, check_value, hyperparameter_fields, kind_of

_SWEEPS = (
    "the suite starts the jobs of a sweep in sequence. Add -m and set lists of values"
    " (docs/how-to/configure_a_run.md)"
)
_FOLDER = (
    "Hydra's folders are not used. Set output=FOLDER for the runs of this command, or set"
    " SUITE_LOG_DIR"
)
_TRACKERS = (
    "runs write log files only. Leave this key out, and send the logs to a tracker with suite"
    " export (docs/how-to/export_to_trackers.md)"
)
NOT_OFFERED = {
    "framework.kvstore": (
        "MXNet's processes always exchange gradients through a dist_sync store (Horovod would be"
        " faster on real networks: docs/how-to/multiple_nodes.md). Leave this key out"
    ),
    **dict.fromkeys(("wandb", "mlflow", "tensorboard", "logger"), _TRACKERS),
    **dict.fromkeys(
        ("data_dir", "data.dir", "data.path"),
        "set SUITE_DATA_DIR to the folder of prepared data sets (docs/tutorials/first_run.md)",
    ),
    "log_dir": "set output=FOLDER for the runs of this command, or set SUITE_LOG_DIR",
    **dict.fromkeys(
        ("hydra.run.dir", "hydra.sweep.dir", "hydra.sweep.subdir", "hydra.output_subdir"), _FOLDER
    ),
    "hydra.job.chdir": _FOLDER,
    **dict.fromkeys(("hydra/sweeper", "hydra.sweeper"), _SWEEPS),
    **dict.fromkeys(
        ("hydra/launcher", "hydra.launcher"),
        "set launch=slurm or launch=ssh to run on different machines",
    ),
    "hydra.mode": "add -m for a sweep",
}
"""Maps each unsupported key to a message with its replacement."""
_SWEEPER_PARAMS = "hydra.sweeper.params"
"""Setting of Hydra's sweeper, which maps keys to the values of a sweep as strings."""
_OPTIMIZER = dict.fromkeys(("optimizer", "optim", "opt"), "optimizer")
"""Maps names of the optimizer key in common frameworks and in this suite to the key that
hyperparameter sets use.
"""
_MAX_SUGGESTED = 10**9
"""Maximum value of `sweep.limit` that an error message suggests."""
_PATHS = (
    "output",
    "backbone.weights",
    "launch.hostfile",
    "launch.kubernetes.data",
    "launch.kubernetes.logs",
)
_LISTS = ("launch.hosts", "launch.slurm.sbatch", "launch.kubernetes.node_selector")


def in_full(argument: str) -> str:
    """Return an override with its full key and quoted values.

    For example, `timing=steps` becomes `timing.each=steps`. The function quotes paths, the elements
    of `plugins=[PATH,…]`, and the elements of lists in `launch.*`. The quotes are needed because
    Hydra's grammar does not allow commas, brackets, non-ASCII letters, or leading and trailing
    spaces in unquoted values.
    """
    key, _, value = argument.partition("=")
    key = key.lstrip("+") if key.lstrip("+") in ("study", "experiment") else SHORT.get(key, key)
    plain = bool(value) and not set(value) & set("'\"")
    if key in _LISTS and plain:
        inner = value[1:-1] if value[0] == "[" and value[-1] == "]" else value
        # Commas inside brackets, as in node[1,3], do not separate the elements of a list.
        return f"{key}={_list(re.split(r',(?![^[]*])', inner))}"
    if key in _PATHS and value and value[0] not in "'\"":
        return f"{key}={_quote(value)}"
    if key == "plugins" and plain and value != "null":
        if value.startswith("[") and value.endswith("]"):
            return f"{key}={_list(value[1:-1].split(','))}"
        if "," not in value or Path(value).exists():
            return f"{key}={_list([value])}"
    return f"{key}={value}" if "=" in argument else argument


def experiment_or_study(argument: str) -> str:
    """Convert `experiment=NAME` to `study=NAME`.

    The override is returned unchanged if a user's folder contains experiment/NAME.yaml.
    """
    if not argument.startswith("experiment="):
        return argument
    if set(texts(argument)) <= set(group_choices("experiment")):
        return argument
    return f"study={argument.partition('=')[2]}"


def sweeper_params(argument: str) -> list[str]:
    """Convert an override of `hydra.sweeper.params` to overrides `KEY=VALUES`.

    The function accepts `hydra.sweeper.params.KEY=VALUES` and `hydra.sweeper.params={KEY: VALUES}`.

    Raises:
        ValueError: The value of `hydra.sweeper.params` is not a mapping.
    """
    key, equals, value = argument.lstrip("+").partition("=")
    if not equals or not f"{key}.".startswith(f"{_SWEEPER_PARAMS}."):
        return [argument]
    if key != _SWEEPER_PARAMS:
        axis = key.removeprefix(f"{_SWEEPER_PARAMS}.")
        quoted = len(value) > 1 and value[0] in "'\"" and value[0] == value[-1]
        return [f"{axis}={value[1:-1] if quoted else value}"]
    parsed = parse(f"{key}={value}").value()
    if not isinstance(parsed, dict):
        raise ValueError(
            f'{argument}: expected a mapping, for example {_SWEEPER_PARAMS}={{seed: "1,2"}}'
        )
    return [f"{axis}={values}" for axis, values in parsed.items()]


def _list(items: Sequence[str]) -> str:
    return f"[{','.join(_quote(item.strip()) for item in items if item.strip())}]"


def _quote(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def check_form(arguments: Sequence[str]) -> None:
    """Check that every argument has the form of a flag or a setting of the suite.

    Raises:
        ValueError: An argument has leading dashes (`--gpus 2`), contains a line break, or is a
            setting of another program (`amp=true`). The message contains a hint.
    """
    for before, argument, following in zip(
        ["", *arguments], arguments, [*arguments[1:], ""], strict=False
    ):
        if any(
            (character < " " and character != "\t") or character == "\x7f" for character in argument
        ):
            raise ValueError(
                f"{ascii(argument)[1:-1][:80]}: line ends and control characters are not allowed."
                " Leave them out"
            )
        key, equals, value = argument.lstrip("-").partition("=")
        fields = known_fields(RunConfig)
        if argument.startswith("-") and key.partition(".")[0] in fields:
            default = "true" if key in fields and kind_of(fields[key]) == "bool" else "VALUE"
            setting = (
                value if equals else following if following and "=" not in following else default
            )
            raise ValueError(f"{argument}: settings have no dashes. Set {key}={setting}")
        step = "" if before in hints.FLAGS_WITH_VALUE else hints.next_step(argument, following)
        if step:
            raise ValueError(f"{argument}: {step}")


def check_values(arguments: Sequence[str]) -> None:
    """Check that no value uses the notation of another program (`checkpoint=5`).

    Call this function after the user's folders have been searched.

    Raises:
        ValueError: A value uses the notation of another program. The message contains a hint.
    """
    for argument in arguments:
        step = hints.next_step_for_value(argument)
        if step:
            raise ValueError(f"{argument}: {step}")


@functools.cache  # several checks parse the same argument
def parse(argument: str) -> Override:
    """Parse an override with Hydra.

    Raises:
        ValueError: The argument is not an override. The message contains a hint.
    """
    try:
        return OverridesParser.create().parse_override(argument)
    except HydraException:
        key, _, value = argument.partition("=")
        items = [item for item in value.split(",") if item.strip()]
        if re.fullmatch(r"[\w.-]+", argument):
            meant = next(
                (f"{group}={argument}" for group in GROUPS if argument in group_choices(group)), ""
            )
            remedy = f"Set {meant}" if meant else "Run with --help for the available settings"
            raise ValueError(f"{argument}: expected key=value. {remedy}") from None
        if items and len(items) < len(value.split(",")):
            raise ValueError(
                f"{argument}: there is an empty value next to a comma. Set {key}={','.join(items)}"
            ) from None
        raise ValueError(
            f"{argument}: expected key=value. Quote text with special characters: key=\"'…'\""
        ) from None


def texts(argument: str) -> list[str]:
    """Return the values of an override as strings. An override of a sweep has several values.

    Raises:
        ValueError: The override is an `interval()`, or a pattern that matches no value.
    """
    override = parse(argument)
    if not override.is_sweep_override():
        return [argument.partition("=")[2]]
    swept: Any = override.value()
    if isinstance(swept, IntervalSweep):
        raise ValueError(
            f"{argument}: an interval has infinitely many values. Set a list or range(1,5)"
        )
    if isinstance(swept, Glob):
        key = override.key_or_group
        values = swept.filter(key_suggestions.choices(key, key_suggestions.suite_keys().get(key)))
        if not values:
            raise ValueError(
                f"{argument}: the pattern matches no value,"
                f" {allowed_text(key_suggestions.choices(key, None))}"
            )
        return list(values)
    # Hydra returns a string such as `per_device\:8`, in which the colon is escaped.
    return [text.replace("\\:", ":") for text in override.sweep_string_iterator()]


def count(argument: str) -> int:
    """Count the values of an override without generating them.

    A pattern counts as a single value.

    Raises:
        ValueError: The override is a sweep without values, or an infinite range.
    """
    override = parse(argument)
    swept: Any = override.value() if override.is_sweep_override() else None
    found = len(swept.list) if isinstance(swept, ChoiceSweep) else 1
    if isinstance(swept, RangeSweep):
        try:
            start, stop, step = (
                Fraction(number or 0) for number in (swept.start, swept.stop, swept.step)
            )
            found = max(0, math.ceil((stop - start) / step))
        except (ValueError, ArithmeticError):  # the range contains nan or inf, or its step is 0
            raise ValueError(
                f"{argument}: the range never ends. Set a list or range(1,5)"
            ) from None
    if not found:
        raise ValueError(
            f"{argument}: the sweep has no values. Set a list or a range with values, such as"
            " range(1,4)"
        )
    return found


def counts(arguments: Sequence[str]) -> dict[str, int]:
    """Map each key to the number of its values."""
    return {argument.partition("=")[0]: count(argument) for argument in arguments}


def limit(arguments: Sequence[str]) -> int:
    """Return the maximum number of jobs, from `sweep.limit=N` or its default.

    Raises:
        ValueError: `sweep.limit` is not a positive integer.
    """
    limits = [
        argument.partition("=")[2] for argument in arguments if argument.startswith("sweep.limit=")
    ]
    for text in limits:
        if not re.fullmatch(r"[1-9]\d{0,9}", text, re.ASCII):
            raise ValueError(
                f"sweep.limit={text[:80]}: expected a single positive integer, for example 5000"
            )
    return int(limits[-1]) if limits else SweepConfig().limit


def check_count(found: Mapping[str, int], arguments: Sequence[str]) -> None:
    """Check that a sweep does not have more jobs than `sweep.limit`.

    Args:
        found: Maps each key to the number of its values.
        arguments: Overrides of the command line, which may contain `sweep.limit=N`.

    Raises:
        ValueError: The sweep has too many jobs, or `sweep.limit` is invalid.
    """
    most, jobs = limit(arguments), math.prod(found.values())
    if jobs > most:
        several = " x ".join(
            f"{key}: {_shown(number)}" for key, number in found.items() if number > 1
        )
        remedy = (
            f"Set sweep.limit={jobs} to allow them"
            if jobs <= _MAX_SUGGESTED
            else "Set fewer values"
        )
        raise ValueError(
            f"{_shown(jobs)} jobs ({several}), but at most {most:,} are allowed. {remedy}"
        )


def _shown(number: int) -> str:
    """Format a number, and abbreviate very large numbers.

    The abbreviation is needed because Python cannot convert numbers with more than 4,300 digits to
    strings.
    """
    return f"{number:,}" if number < 10**15 else "over 10^15"


def values(argument: str) -> list[Any]:
    """Return the parsed values of an override."""
    key = argument.partition("=")[0]
    parsed = [parse(f"{key}={text}").value() for text in texts(argument)]
    return [getattr(value, "text", value) for value in parsed]


def check(arguments: Sequence[str], workloads: Sequence[str], multirun: bool) -> None:
    """Check that the overrides are valid for the workloads.

    Args:
        arguments: Overrides of the command line.
        workloads: Names of the workloads of the command.
        multirun: True if overrides may have several values.

    Raises:
        ValueError: An override is invalid. The message is a single line about the first invalid
            override.
    """
    for argument in arguments:
        override = parse(argument)
        key = override.key_or_group
        _check_offered(argument, key)
        if key.partition(".")[0] == "hydra":
            continue
        if override.is_add() or override.is_delete() or override.is_force_add():
            check_root(key)
            raise ValueError(f"{argument}: keys can be neither added nor removed. Set {key}=VALUE")
        if override.is_sweep_override() and not multirun:
            raise ValueError(f"{argument}: several values need a sweep. Add -m")
        for value in values(argument):
            if isinstance(value, dict):
                raise ValueError(
                    f"{key}: a mapping cannot be an override. Write it into a configuration file"
                    " (docs/how-to/install_and_environments.md)"
                )
            if key in FILE_GROUPS:
                _check_synonym(key, value, group_choices(key))
                if str(value) not in group_choices(key):
                    raise invalid_choice(key, value, group_choices(key))
            else:
                check_key(key, value, workloads)


def _check_offered(argument: str, key: str) -> None:
    """Raise ValueError if the key or a prefix of the key is in `NOT_OFFERED`.

    The error message contains the replacement of the key.
    """
    instead = next(
        (NOT_OFFERED[name] for name in NOT_OFFERED if f"{key}.".startswith(f"{name}.")), ""
    )
    if instead:
        raise ValueError(f"{argument}: {instead}")


def check_root(key: str) -> None:
    """Check the first component of a key, without checking the workload.

    Raises:
        ValueError: No key of the suite begins with this component. An example is `worklod`.
    """
    roots = [*FILE_GROUPS, *known_fields(RunConfig), "study", "hydra"]
    _check_offered(key, key.lstrip("+~"))
    if key.lstrip("+~") in _OPTIMIZER:
        raise ValueError(
            f"{key}: a file sets the optimizer, conf/hyperparameters/WORKLOAD/NAME.yaml"
            " (docs/how-to/configure_a_run.md)"
        )
    if key.partition(".")[0].lstrip("+~") not in roots:
        hint = (
            key_suggestions.meant(key, "…", [*GROUPS, *key_suggestions.suite_keys()])
            or ". Run with --help for the available keys"
        )
        raise ValueError(f"{key}: unknown key{hint}")


def check_key(key: str, value: Any, workloads: Sequence[str]) -> None:
    """Check that a key exists and that its value is allowed.

    Args:
        key: Full key, such as `workload.learning_rate`.
        value: Parsed value.
        workloads: Names of the workloads. A key that is not common to all workloads must exist for
            each of these workloads.

    Raises:
        ValueError: A workload does not have the key, or the value is not allowed. The message is a
            single line.
    """
    group, _, below = key.partition(".")
    available_keys = key_suggestions.suite_keys()
    if key in available_keys:
        _check_value(key, available_keys[key], value)
        return
    for workload in workloads:
        available_keys = key_suggestions.suite_keys() | key_suggestions.workload_keys(workload)
        if key.startswith("workload.target") and "workload.target" in available_keys:
            _check_target(key, value, key_suggestions.metrics(workload))
        elif key in available_keys:
            _check_value(key, available_keys[key], value)
        else:
            _check_set_alone(key, value, workload)
            parts = [
                name
                for name in available_keys
                if name.startswith(f"{group}.") and name != "workload.name"
            ]
            if not parts and below and group in available_keys:
                raise ValueError(f"{key}: unknown key, {group} has no subkeys. Set {group}=VALUE")
            meant = key_suggestions.meant(key, value, available_keys)
            owner = f" of workload={workload}" if group in ("workload", *OPTION_GROUPS) else ""
            allowed = f". Allowed: {', '.join(parts)}" if parts and not meant else ""
            hint = (
                ""
                if meant or allowed
                else f". Run with workload={workload} --help for the available keys"
            )
            raise ValueError(f"{key}={value}: unknown key{owner}{meant}{allowed}{hint}")


def _check_set_alone(key: str, value: Any, workload: str) -> None:
    """Raise ValueError for a key that only hyperparameter sets may set (`optimizer`).

    The error message contains the folder for files of hyperparameter sets.
    """
    name = _OPTIMIZER.get(key.removeprefix("workload."), key.removeprefix("workload."))
    item = hyperparameter_fields(registry.load_workload(workload).Options).get(name)
    if item is not None and item.metadata.get("internal"):
        allowed = (
            f" (allowed: {', '.join(choices)})" if (choices := item.metadata["choices"]) else ""
        )
        raise ValueError(
            f"{key}={value}: a file in conf/hyperparameters/{workload} sets {name}{allowed}. Write "
            f"hyperparameters/{workload}/NAME.yaml in a folder and add --config-dir FOLDER "
            "workload.hyperparameter_set=NAME (docs/how-to/configure_a_run.md)"
        )
    if name == "optimizer":
        remedy = f"Run with workload={workload} --help for the available keys"
        raise ValueError(f"{key}={value}: workload={workload} has a fixed optimizer. {remedy}")


def _check_value(key: str, item: Any, value: Any) -> None:
    """Check a value with `check_value`, and suggest the allowed value for a synonym."""
    metadata = (
        {**item.metadata, "choices": key_suggestions.choices(key, item)}
        if key in key_suggestions.GROWING
        else item.metadata
    )
    _check_synonym(key, value, metadata.get("choices") or ())
    check_value(key, kind_of(item), metadata, value)


def _check_synonym(key: str, value: Any, allowed: Sequence[str]) -> None:
    """Raise ValueError for a synonym of an allowed value, such as `bfloat16` for `bf16`."""
    if str(value) not in allowed and SYNONYMS.get(str(value)) in allowed:
        raise ValueError(
            f"{key}={value}: did you mean {key}={SYNONYMS[str(value)]}? {allowed_text(allowed)}"
        )


def _check_target(key: str, value: Any, metrics: Sequence[str]) -> None:
    """Check a key below `workload.target` and its value.

    Raises:
        ValueError: The key does not select exactly one target of the workload, or the value is not
            a number ≥ 0.
    """
    metric = key.removeprefix("workload.target").removeprefix(".")
    if not metric and len(metrics) > 1 and value is not None:
        settings = ", ".join(f"workload.target.{name}=…" for name in metrics)
        raise ValueError(f"{key}={value}: the workload has several targets. Set one of {settings}")
    if metric and metric not in metrics:
        similar = [name for name in metrics if name.lower() == metric.lower()] or metrics
        settings = " or ".join(
            f"workload.target{f'.{name}' if len(metrics) > 1 else ''}={value}" for name in similar
        )
        raise ValueError(f"{key}={value}: unknown target. Set {settings}")
    check_value(key, "float | None", {"minimum": 0.0}, value)
