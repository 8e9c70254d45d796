"""Generate rules for mlperf-logging's compliance checker from the rounds' tables.

mlperf-logging has no rules for NCF or for round v0.5, and its rules for open runs of Llama 3.1 8B
cannot be met. This module defines the rules that are the same for all rounds: the order of the
records, how often each record occurs, and the remedies. Targets, metrics, benchmarks, the clock,
the number of the first epoch, and the reference's data counts come from the round's table and its
workloads. Values are converted to Python code with `repr`. A value from a log never becomes part of
a rule.

`python -m suite.compliance.generated_rules ncf_demo > FILE` writes a rule file for the checker of
mlperf-logging.
"""

from __future__ import annotations

import argparse
import functools
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import yaml

from suite.catalog.rounds import get_round, workload_names
from suite.catalog.sets import named_sets
from suite.common import registry
from suite.results.targets import metric_abbreviation
from workloads.api import Round, Settings, Workload

NCF_DEMO, NCF_REFERENCE, OF_V05, LLAMA_OPEN = NAMES = (
    "ncf_demo", "ncf_reference", "v0.5", "llama31_8b_open",
)  # fmt: skip
"""Names of the generated rules: for NCF demos, for NCF with `profile=reference`, for all other
workloads of round v0.5, and for open runs of Llama 3.1 8B.
"""
_NCF, _LLAMA = "ncf", "llama31_8b"
_INIT_MINUTES = 20
"""Maximum time between `init_start` and `init_stop` in minutes."""
_OPEN_INIT_MINUTES = 240
"""The same maximum for open runs of v5.1 and v6.0 (common.yaml of rulesets 5.1.0 and 6.0.0)."""
_OPTIMIZER_NAMES = {"adam": ("adam", "lazy_adam")}
"""Maps an optimizer to the names of its implementations in logs of round v0.5."""

_SAME_EPOCH = "v['metadata']['epoch_num'] == s['epoch']"
_NEXT_EPOCH = "v['metadata']['epoch_num'] == s['epoch'] + 1"
_OF_LAST_EPOCH = "epoch_num of the last epoch that began"
_POSITIVE = ("v['value'] > 0", "above 0")
_SHARE = ("0 <= v['value'] < 1", "from 0 to below 1")
_IN_ORDER = "log each epoch once and in order"
_LOG_WHAT_WAS_USED = "log what the run used"
_TRAIN_LONGER = (
    "train longer, or choose other hyperparameters (some runs miss the target even with good ones)"
)
_AS_THE_RULES = "sample as the rules say (no overrides of the sampling)"
_FULL_MODEL = "train the full model (profile=reference without overrides of the model)"
_COUNTS: Mapping[str, str] = {
    **dict.fromkeys(("train_samples", "eval_samples", "eval_hp_num_users"), ""),
    **dict.fromkeys(("preproc_hp_min_ratings", "preproc_hp_num_eval"), _AS_THE_RULES),
    **dict.fromkeys(("input_hp_num_neg", "eval_hp_num_neg"), _AS_THE_RULES),
    **dict.fromkeys(("model_hp_mf_dim", "model_hp_mlp_layer_sizes"), _FULL_MODEL),
}
"""Maps NCF log keys to remedies. With `profile=reference`, the value of each key must equal the
reference's value.

An empty remedy is replaced by a remedy that names the data set.
"""

Entry = Mapping[str, Mapping[str, str]]
"""Entry of a rule file, such as the rule for a log key.

The checker executes the Python code in CHECK, POST, and CODE. `suite check` prints NEEDS and DO if
a CHECK fails.
"""


@functools.cache
def rule_entries(name: str) -> Sequence[Entry]:
    """Return the entries of the rule file for `name`, which is an element of `NAMES`.

    Raises:
        ValueError: The file of a round is invalid.
    """
    if name == OF_V05:
        return tuple(_v05_entries())
    if name == LLAMA_OPEN:
        return tuple(_llama_open_entries())
    return tuple(_ncf_entries(is_reference=name == NCF_REFERENCE))


@functools.cache
def rule_text(name: str) -> str:
    """Return the generated rules `name` as the text of a rule file."""
    head = (
        f"# Rules {name} of the suite, generated from the round tables. Use with --ruleset 0.7.0"
        " --config."
    )
    entries = yaml.safe_dump(
        list(rule_entries(name)), sort_keys=False, width=100, allow_unicode=True
    )
    return f"{head}\n{entries}"


def _ncf_entries(is_reference: bool) -> list[Entry]:
    """Return the rules for NCF, in which `init_start` and `init_stop` are optional.

    `init_start` and `init_stop` are optional because the clock of v0.5 does not use them. In logs
    without `suite_run`, the first epoch must be 1.
    """
    kind = registry.load_workload(_NCF)
    found = get_round(kind.default_rules, kind)
    ((metric, target),) = found.targets.items()
    first_epoch = f"(the first is {found.first_epoch} under rules {found.name}, else 1)"
    is_reached = f"isinstance(v['value'], (int, float)) and {target!r} <= v['value'] < 1.0"
    of_target = f"{metric_abbreviation(metric)} from {target} to below 1.0"
    is_of_round = f"v['value'].get('rules') == {found.name!r}"
    is_cleared = is_reference and False not in found.listed_values("cache_clear", (False,))
    return [
        _begin("'init': None, 'init_done': False", epoch=0),
        _key("suite_run", post=f"s['epoch'] = {found.first_epoch - 1} if {is_of_round} else 0"),
        *_identity((kind.mlperf_name,), is_cleared),
        *_init_window(_INIT_MINUTES),
        _key("run_start", "EXACTLY_ONE", "s['init'] is None or s['init_done']",
             post="s['run'] = True", needs="after init_stop where there is an init_start",
             do="end the init window before the clock starts"),
        _run_stop(),
        *_epochs(first_epoch),
        _eval_accuracy(is_reached, of_target),
        *_ncf_settings(kind, found, is_reference),
    ]  # fmt: skip


def _v05_entries() -> list[Entry]:
    """Return the rules for the workloads of round v0.5 except NCF.

    In a log, the quality is a number, or a dictionary if the workload has several metrics.
    """
    kinds = [registry.load_workload(name) for name in workload_names(OF_V05) if name != _NCF]
    of_round = get_round(OF_V05, kinds[0])
    targets = {kind.mlperf_name: dict(get_round(OF_V05, kind).targets) for kind in kinds}
    rules, clock = repr(of_round.name), repr(of_round.clock)
    # This assignment requires that exactly one workload has several metrics.
    (metrics,) = (least for least in targets.values() if len(least) > 1)
    several = " and ".join(f"v['value'][{name!r}] >= s['least'][{name!r}]" for name in metrics)
    single = "v['value'] >= min(s['least'].values())"
    least = "v['value']['targets'] or s['least']"
    of_benchmark = f"s['of_round'] = {targets!r}.get(v['value'], {{'none': 0.0}})"
    assert of_round.setup_is_timed, "the template below has no init window"
    return [
        _begin("'least': {'none': 0.0}", epoch=of_round.first_epoch - 1),
        _key("suite_run", "EXACTLY_ONE",
             f"v['value']['rules'] == {rules} and v['value']['clock'] == {clock}",
             post="s['least'] = s['of_round'] if v['value']['profile'] == 'reference' "
             f"else {least}",
             needs=f"rules {of_round.name} with its own clock",
             do="leave --rules out for a log of another round"),
        *_identity(tuple(targets), False, post=f"{of_benchmark}; s['least'] = s['of_round']"),
        _key("init_start", check="False", do="log run_start before the model is built",
             needs=f"none, the clock of {of_round.clock} starts before any work on the benchmark"),
        _key("run_start", "EXACTLY_ONE", "not s['run']", post="s['run'] = True", needs="once",
             do="start the clock once"),
        _run_stop(),
        *_epochs(f"(the first is {of_round.first_epoch})"),
        _eval_accuracy(f"{several} if isinstance(v['value'], dict) else {single}",
                       "the target (of the round; of a demo its own)", joined=" at "),
        _batch_size(),
        _setting("train_samples", _POSITIVE, _LOG_WHAT_WAS_USED),
        _setting("eval_samples", _POSITIVE, _LOG_WHAT_WAS_USED),
    ]  # fmt: skip


def _llama_open_entries() -> list[Entry]:
    """Return the rules for open runs of Llama 3.1 8B.

    The target of a demo, whose data are not C4, is the target in its `suite_run`.
    """
    kind = registry.load_workload(_LLAMA)
    of_round = get_round(kind.default_rules, kind)
    ((metric, target),) = of_round.targets.items()
    of_demo = f"v['value']['targets'].get({metric!r}, {target!r})"
    is_reached = "isinstance(v['value'], (int, float)) and 0.0 < v['value'] <= s['target']"
    log_samples = "log the samples trained so far as samples_count"
    at_least_one = {"req": "AT_LEAST_ONE", "do": log_samples}
    counts = "isinstance(v['metadata'].get('samples_count'), int)"
    next_count = f"s['run'] and {counts} and v['metadata']['samples_count'] >= s['samples']"
    count = f"s['samples'] = v['metadata']['samples_count'] if {counts} else s['samples']"
    rising = "samples_count in the metadata, not below the last samples_count, after run_start"
    return [
        _begin(
            f"'init': None, 'init_done': False, 'samples': 0, 'target': {target!r}",
            epoch=of_round.first_epoch - 1,
        ),
        _key("suite_run",
             post=f"s['target'] = {target!r} if v['value'].get('profile') == 'reference' else "
             f"{of_demo}"),
        *_identity((kind.mlperf_name,), False),
        *_init_window(_OPEN_INIT_MINUTES),
        _key("run_start", "EXACTLY_ONE", "s['init_done']", post="s['run'] = True",
             needs="after init_stop", do="end the init window before the clock starts"),
        _run_stop(),
        *(_key(name, check=next_count, post=count, needs=rising, **at_least_one)
          for name in ("block_start", "eval_start", "eval_stop", "block_stop")),
        _key("eval_accuracy", check=f"{next_count} and not s['end']", post=count,
             reach=is_reached, req="AT_LEAST_ONE", do=_TRAIN_LONGER,
             needs=f"one evaluation at or below the target ({target:g}, of a demo its own), each "
             "with samples_count in the metadata"),
        _batch_size(),
        *(_setting(name, _POSITIVE, _LOG_WHAT_WAS_USED)
          for name in ("train_samples", "eval_samples", "max_sequence_length",
                       "opt_base_learning_rate")),
    ]  # fmt: skip


def _init_window(minutes: int) -> list[Entry]:
    """Return the rules for `init_start` and `init_stop`, which are at most `minutes` apart."""
    return [
        _key("init_start", check="not s['init_done'] and not s['run']",
             post="s['init'] = ll.timestamp if s['init'] is None else s['init']",
             needs="before init_stop and run_start", do="start the init window before the clock"),
        _key("init_stop",
             check="s['init'] is not None and not s['init_done'] and not s['run'] "
             f"and ll.timestamp - s['init'] < {minutes * 60 * 1000}",
             post="s['init_done'] = True", do="shorten the setup before the clock",
             needs=f"once, after init_start, before run_start, less than {minutes} minutes after "
             "init_start"),
    ]  # fmt: skip


def _begin(state: str, epoch: int) -> Entry:
    """Return the entry of the rule file that initializes the checker's variables.

    `epoch` is the number of the first epoch minus 1.
    """
    common = f"'run': False, 'end': False, 'epoch': {epoch}, 'in_epoch': False"
    return {"BEGIN": {"CODE": f"s.update({{{state}, {common}}})"}}


def _key(
    name: str,
    req: str = "",
    check: str = "",
    post: str = "",
    reach: str = "",
    needs: str = "",
    do: str = "",
) -> Entry:
    """Return the rule for a log key, without empty fields."""
    parts = {
        "NAME": name,
        "REQ": req,
        "CHECK": check,
        "POST": post,
        "ATLEAST_ONE_CHECK": reach,
        "NEEDS": needs,
        "DO": do,
    }
    return {"KEY": {part: text for part, text in parts.items() if text}}


def _setting(name: str, condition: tuple[str, str], do: str) -> Entry:
    """Return the rule for a key that must be logged exactly once.

    `condition` is the pair (condition as Python code, condition in words).
    """
    return _key(name, "EXACTLY_ONE", condition[0], needs=condition[1], do=do)


def _one_of(*values: str) -> tuple[str, str]:
    """Return, as code and in words, the condition that a value is in `values`."""
    if len(values) == 1:
        return f"v['value'] == {values[0]!r}", values[0]
    return f"v['value'] in {values!r}", f"{', '.join(values[:-1])} or {values[-1]}"


def _identity(benchmarks: Sequence[str], is_cleared: bool, post: str = "") -> list[Entry]:
    """Return the rules for the keys that are logged before the clock starts.

    Args:
        benchmarks: Allowed values of `submission_benchmark`.
        is_cleared: True if the caches must have been cleared.
        post: Code that is executed after `submission_benchmark`.
    """
    of_settings = "log one of the two; the suite derives it from the settings"
    of_benchmark = "check logs of other benchmarks without --rules"
    text = ("isinstance(v['value'], str) and len(v['value']) > 0", "a text that is not empty")
    statuses = _one_of("cloud", "onprem", "preview", "research")
    check, needs = _one_of(*benchmarks)
    seed = ("int(v['value']) >= 0", "a whole number from 0 on")
    if is_cleared:
        cleared, of_cleared = "v['value'] is True", "true"
        do = "have the caches cleared before the run (system.cache_clear_command)"
    else:
        cleared, of_cleared = "isinstance(v['value'], bool)", "true or false"
        do = "log whether the caches were cleared"
    return [
        _setting("submission_org", text, "set profile.submission_org=NAME"),
        _setting("submission_platform", text, "set system.submission_platform=NAME"),
        _setting("submission_division", _one_of("closed", "open"), of_settings),
        _setting("submission_status", statuses, "set profile.submission_status=onprem"),
        _key("submission_benchmark", "EXACTLY_ONE", check, post, needs=needs, do=of_benchmark),
        _key("seed", "AT_LEAST_ONE", seed[0], needs=seed[1], do="log the seed of the run"),
        _key("cache_clear", "AT_LEAST_ONE", f"{cleared} and not s['run']",
             needs=f"{of_cleared}, before run_start", do=do),
    ]  # fmt: skip


def _run_stop() -> Entry:
    return _key(
        "run_stop", "EXACTLY_ONE", "s['run'] and v['metadata'].get('status') == 'success'",
        post="s['end'] = True", needs="status success in the metadata, after run_start",
        do="look into status.json for what ended the run; train until the target is reached",
    )  # fmt: skip


def _epochs(first_epoch: str) -> list[Entry]:
    """Return the rules for blocks, epochs, and the start and stop of evaluations.

    Args:
        first_epoch: Description of the number of the first epoch.
    """
    is_next = "v['metadata']['first_epoch_num'] == s['epoch'] + 1"
    evaluation = {
        "req": "AT_LEAST_ONE", "check": f"s['run'] and {_SAME_EPOCH}", "needs": _OF_LAST_EPOCH,
        "do": "log the epoch that was just trained",
    }  # fmt: skip
    return [
        _key("block_start", check=f"s['run'] and {is_next} and v['metadata']['epoch_count'] > 0",
             needs="first_epoch_num one above the last epoch, epoch_count above 0, after run_start",
             do="log each block once and in order"),
        _key("block_stop", check="'first_epoch_num' in v['metadata']",
             needs="first_epoch_num in the metadata", do="log it as at block_start"),
        _key("epoch_start", "AT_LEAST_ONE", f"s['run'] and not s['in_epoch'] and {_NEXT_EPOCH}",
             post="s['epoch'] = v['metadata']['epoch_num']; s['in_epoch'] = True", do=_IN_ORDER,
             needs=f"epoch_num one above the last epoch {first_epoch}, after run_start and after "
             "the last epoch_stop"),
        _key("epoch_stop", "AT_LEAST_ONE", f"s['in_epoch'] and {_SAME_EPOCH}",
             post="s['in_epoch'] = False", needs="epoch_num of the open epoch", do=_IN_ORDER),
        _key("eval_start", **evaluation),
        _key("eval_stop", **evaluation),
    ]  # fmt: skip


def _eval_accuracy(is_reached: str, target: str, joined: str = " with ") -> Entry:
    """Return the rule for evaluations.

    At least one evaluation must reach the target. The epoch number of an evaluation must equal the
    number of the epoch that precedes it.
    """
    return _key(
        "eval_accuracy", "AT_LEAST_ONE", f"s['run'] and not s['end'] and {_SAME_EPOCH}",
        reach=is_reached, do=_TRAIN_LONGER,
        needs=f"one evaluation{joined}{target}, each with the {_OF_LAST_EPOCH}",
    )  # fmt: skip


def _batch_size() -> Entry:
    do = "log the samples per optimizer step over all devices"
    return _setting("global_batch_size", _POSITIVE, do)


def _ncf_settings(kind: type[Workload], found: Round, is_reference: bool) -> list[Entry]:
    """Return the rules for NCF's settings.

    If `is_reference` is true, data counts and model sizes must equal the reference's values.
    Otherwise, data counts and model sizes must be greater than 0.
    """
    run = _reference_run(kind, found)
    facts = run.dataset_info
    samples = {"train_samples": facts.train_samples, "eval_samples": facts.evaluation_samples}
    logged = {**run.log_keys(), **samples}
    optimizer = run.optimizer().name
    prepare = f"suite data prepare {found.dataset} --from {found.dataset}.zip"
    of_data = f"prepare all of MovieLens-20M ({prepare}) and run profile=reference"
    counts = (
        (
            _of_reference(name, logged[name], do or of_data)
            if is_reference
            else _free(name, logged[name])
        )
        for name, do in _COUNTS.items()
    )
    names = _OPTIMIZER_NAMES.get(optimizer, (optimizer,))
    return [
        _batch_size(),
        _setting("opt_name", _one_of(*names), f"train with {optimizer.capitalize()}"),
        _setting("opt_base_learning_rate", _POSITIVE, "log the learning rate"),
        _setting("opt_adam_beta_1", _SHARE, "log the first beta of Adam"),
        _setting("opt_adam_beta_2", _SHARE, "log the second beta of Adam"),
        _setting("opt_adam_epsilon", _POSITIVE, "log the epsilon of Adam"),
        *counts,
        *(_key(name, check="v['value'] is True", needs="true", do="draw negatives with replacement")
          for name, value in logged.items() if value is True),
    ]  # fmt: skip


def _of_reference(name: str, value: Any, do: str) -> Entry:
    """Return the rule that a logged number or list of numbers equals the reference's value."""
    found = "list(v['value'])" if isinstance(value, list) else "v['value']"
    return _setting(name, (f"{found} == {value!r}", str(value)), do)


def _free(name: str, value: Any) -> Entry:
    """Return the rule that a logged number, or each number in a list, is greater than 0.

    The rule expects a list if the reference's `value` is a list.
    """
    above_0 = "len(v['value']) > 0 and all(size > 0 for size in v['value'])"
    condition = (above_0, "a list of sizes above 0") if isinstance(value, list) else _POSITIVE
    return _setting(name, condition, _LOG_WHAT_WAS_USED)


def _reference_run(kind: type[Workload], found: Round) -> Workload:
    """Return the workload of a `profile=reference` run with the published data counts."""
    defaults = kind.defaults("reference", found, {})
    chosen = named_sets(kind)[defaults.hyperparameter_set]
    values = {name: item.value for name, item in chosen.items()}
    settings = Settings(
        workload=kind.name, profile="reference", rules=found.name, round=found.figures,
        device="cpu", devices=1, nodes=1, cores_per_device=1,
        global_batch_size=values["global_batch_size"], model=defaults.model,
        targets=defaults.targets, hyperparameters=values,
    )  # fmt: skip
    return kind(settings, kind.load_dataset_info(settings))


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the generated rule file with the given name."""
    parser = argparse.ArgumentParser(
        prog="python -m suite.compliance.generated_rules", description="Print a rule file."
    )
    parser.add_argument("name", choices=NAMES, help="rules to print")
    sys.stdout.write(rule_text(parser.parse_args(arguments).name))
    return 0


if __name__ == "__main__":
    sys.exit(main())
