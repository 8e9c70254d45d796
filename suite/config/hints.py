"""Hints for arguments that other programs accept but this suite does not.

Examples of such arguments are `amp=true`, `workload=all`, `seed=0..3`, and `dry-run`. The arguments
are checked before Hydra parses them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from suite.config.key_suggestions import ELSEWHERE, GROUPS, SHORT, choices, suite_keys
from suite.machine import devices
from workloads.api import kind_of

FLAGS = (
    "--help",
    "--version",
    "--multirun",
    "--dry-run",
    "--cfg",
    "--package",
    "--config-dir",
    "--shell-completion",
)
"""Flags that `run_suite.py` accepts."""
FLAGS_WITH_VALUE = ("-c", "--cfg", "-p", "--package", "-cd", "--config-dir")
_TRUE, _FALSE = ("true", "1", "yes", "on", "y"), ("false", "0", "no", "off", "n", "none", "null")
_ALL = ("all", "*", "every", "any", "each")
_LONGEST_LIST = 8
"""Maximum length of a range whose values an error message lists.

A longer range is shown as range(…).
"""
_OUTPUT = "set output={}"
_RESUME = "set output=FOLDER resume=true, with the folder of the runs to resume"
_DATA = (
    "set SUITE_DATA_DIR in the shell to the folder of prepared data sets, or workload.dataset=NAME"
)
_PRECISIONS = {
    **dict.fromkeys(("fp16", "16", "half", "float16", "16-mixed", "fp16-mixed"), "fp16"),
    **dict.fromkeys(("bf16", "bfloat16", "bf16-mixed"), "bf16"),
    **dict.fromkeys(("fp32", "32", "full", "single", "float", "float32", "32-true"), "fp32"),
    **dict.fromkeys(("tf32", "tensorfloat32"), "tf32"),
}
"""Maps the name of a precision in common frameworks to its name in the suite."""
_MIXED = ("amp", "mixed", "mixed_precision", "automatic_mixed_precision", "autocast", "use_amp")
KEYS: Mapping[str, str] = {
    **dict.fromkeys(
        (
            *(
                "logs",
                "logdir",
                "logs_dir",
                "log_path",
                "logging_dir",
                "out",
                "outdir",
                "out_dir",
                "output_dir",
                "outputs",
            ),
            *(
                "output_folder",
                "save_dir",
                "save_path",
                "save_to",
                "results",
                "results_dir",
                "result_dir",
                "run_dir",
            ),
            *("work_dir", "workdir", "default_root_dir", "exp_dir"),
        ),
        _OUTPUT,
    ),
    **dict.fromkeys(
        ("checkpoint_dir", "ckpt_dir"),
        "checkpoints are stored in the folder of their run: set output={}",
    ),
    **dict.fromkeys(("datadir", "data_path", "data_root", "dataset_dir", "dataset_path"), _DATA),
    **dict.fromkeys(("random_seed", "manual_seed", "rng_seed"), "set seed={}"),
    **dict.fromkeys(
        ("num_runs", "n_runs", "nruns", "repeat", "repeats", "repetitions", "trials"), "set runs={}"
    ),
    **dict.fromkeys(
        (
            "continue",
            "restart",
            "resume_from",
            "resume_from_checkpoint",
            "continue_from",
            "ckpt_path",
        ),
        _RESUME,
    ),
    **dict.fromkeys(("model", "task", "benchmark", "network"), "set workload={}"),
    **dict.fromkeys(("env", "venv"), "set environment={}"),
    **dict.fromkeys(
        ("division", "closed"), "the settings determine the division. Set dry_run=true to print it"
    ),
    "launcher": "set launch={}",
    "cores": "set cpu.cores_per_device={}",
    "price": "set system.price_per_device_hour={}",
    "docker": "set environment=docker environment.image=NAME:TAG",
    "slurm": "set launch=slurm",
    "multirun": "add -m",
    "sweep": "add -m",
}
"""Maps a key of other programs to a hint, in which `{}` is replaced by the value."""
_BARE = {
    "dryrun": "set dry_run=true",
    "dry": "set dry_run=true",
    "resume": _RESUME,
    "continue": _RESUME,
    "help": "run: python run_suite.py --help",
    "version": "run: python run_suite.py --version",
    "sweep": "add -m",
    "multirun": "add -m",
    "cpu": "set device=cpu",
    "cuda": "set device=cuda",
    "amp": "set precision=fp16 or precision=bf16",
    "async": "set update=async",
}
"""Maps an argument that has no value to a hint."""


def next_step(argument: str, following: str = "") -> str:
    """Return a hint for a flag, word, or key that the suite does not support.

    Returns an empty string if the suite has no hint for the argument.

    Args:
        argument: An argument of the command line: `key=value`, `word`, or `--flag`.
        following: The next argument, which may be the value of a flag.
    """
    if argument.startswith("-"):
        return _step_for_flag(argument, following)
    key, equals, value = argument.partition("=")
    if not equals:
        return _step_for_bare_word(argument)
    return _step_for_key(key, value.strip("'\""))


def next_step_for_value(argument: str) -> str:
    """Return a hint for a value that is not allowed, with the allowed values.

    Returns an empty string if the suite has no hint for the value. Call this function after the
    user's folders have been searched, because files and packages may define additional allowed
    values.
    """
    key, _, value = argument.partition("=")
    value = value.strip("'\"")
    step = _step_for_value(key, value)
    if step and (allowed := _allowed_text(SHORT.get(key, key))):
        return f"allowed: {allowed}. {_sentence(step)}"
    return step


def _allowed_text(key: str) -> str:
    """Format the allowed values of a key, or return "" if they cannot be listed."""
    item = suite_keys().get(key)
    return FORMS.get(key) or ", ".join(
        choices(key, item) if item is not None or key in GROUPS else ()
    )


def _step_for_flag(flag: str, following: str) -> str:
    name, equals, value = flag.lstrip("-").partition("=")
    if not flag.startswith("--") or f"--{name}" in FLAGS:
        return ""
    if not equals:
        value = (
            following
            if following and "=" not in following and not following.startswith("-")
            else "true"
        )
    key = _normalized(name)
    if key in suite_keys():
        return f"settings have no dashes. Set {key}={value}"
    return _step_for_key(key, value) or _unknown(ELSEWHERE.get(key, ""), value)


def _unknown(templates: str, value: str) -> str:
    settings = [template.format(value) for template in templates.split()]
    return f"unknown key. Set {' or '.join(settings)}" if settings else ""


def _step_for_bare_word(word: str) -> str:
    name = _normalized(word)
    item = suite_keys().get(name)
    step = _BARE.get(name) or _BARE.get(name.replace("_", ""), "")
    if step or (item is None and name not in SHORT):
        return step
    return f"set {name}={'true' if item is not None and kind_of(item) == 'bool' else 'VALUE'}"


def _step_for_key(key: str, value: str) -> str:
    name = _normalized(key)
    if name in suite_keys() or "." in name:
        return f"unknown key. Set {name}={value}" if name != key and "." not in name else ""
    step = _step_for_other_key(name, value)
    return f"unknown key. {_sentence(step)}" if step else ""


def _sentence(step: str) -> str:
    """Return the hint with a capital first letter."""
    return step[:1].upper() + step[1:]


def _step_for_other_key(name: str, value: str) -> str:
    lower = value.lower()
    if name in _MIXED:
        named = _PRECISIONS.get(lower)
        if named:
            return f"set precision={named}"
        return "set precision=fp32" if lower in _FALSE else "set precision=fp16 or precision=bf16"
    if name in _PRECISIONS:
        precision = _PRECISIONS[name]
        return (
            "set precision=fp32, or leave it out"
            if lower in _FALSE
            else f"set precision={precision}"
        )
    if name in ("seeds", "num_seeds"):
        return _step_for_seeds(value)
    if name in (
        "checkpoints",
        "checkpointing",
        "checkpoint_every",
        "checkpoint_interval",
        "save_every",
        "save_interval",
    ):
        return f"set checkpoint={_checkpoint(lower) or 'every:1'}"
    if name in KEYS:
        return KEYS[name].format(value or "VALUE")
    return ""


def _step_for_seeds(value: str) -> str:
    listed = _list_of_integers(value) or (value if re.fullmatch(r"\d+(,\d+)+", value) else "")
    if listed:
        return f"add -m and set seed={listed}"
    if value.isdecimal():
        return (
            f"set runs={value} for {value} runs with different seeds, or seed={value} for one fixed"
            " seed"
        )
    return "set runs=N for N runs with different seeds"


def _step_for_value(key: str, value: str) -> str:
    full_key = SHORT.get(key, key)
    item = suite_keys().get(full_key)
    if value in choices(full_key, item):
        return ""
    step = _STEPS[full_key](value) if full_key in _STEPS else ""
    if step:
        return step
    if item is not None and kind_of(item) == "bool" and value.lower() not in ("true", "false"):
        truth = "true" if value.lower() in _TRUE else "false" if value.lower() in _FALSE else ""
        if truth:
            return f"set {key}={truth}"
    allowed = choices(full_key, item)
    if value in _ALL and allowed and value not in allowed and key != "study":
        several = [choice for choice in allowed if choice != "auto"]
        return f"for several values, add -m and set {key}={','.join(several)}"
    is_integer = item is not None and kind_of(item).partition(" |")[0] == "int"
    if is_integer or full_key == "runs":
        listed = _list_of_integers(value)
        if listed:
            return f"expected a single integer. For several values, add -m and set {key}={listed}"
    return ""


def _list_of_integers(text: str) -> str:
    """Convert `0..3`, `0-3`, `0:3`, `[0,1]`, or `0;1` to a list of values for `-m`.

    Returns an empty string if `text` has a different format.
    """
    span = re.fullmatch(r"(\d{1,9})(?:\.{2,3}|-|:)(\d{1,9})", text)
    if span:
        first, last = int(span[1]), int(span[2])
        if last < first:
            return ""
        if last - first < _LONGEST_LIST:
            return ",".join(map(str, range(first, last + 1)))
        return f"'range({first},{last + 1})'"
    bare = text.strip("[](){}")
    parts = [part.strip() for part in re.split(r"[;,]", bare)]
    if (bare != text or ";" in text) and all(part.isdecimal() for part in parts):
        return ",".join(parts)
    return ""


def _checkpoint(text: str) -> str:
    """Convert an unsupported notation to a value of `checkpoint.when`.

    Returns an empty string if the meaning of the notation is ambiguous.
    """
    if text in _FALSE:
        return "off"
    match = re.fullmatch(
        r"(?:every[:_ ]?)?(\d{1,6}) ?(e|ep|epochs?|m|min|mins|minutes?|h|hours?)?", text
    )
    if match and int(match[1]):
        number, unit = int(match[1]), match[2] or "e"
        if unit.startswith("h"):
            return f"every:{60 * number}min"
        return f"every:{number}min" if unit.startswith("m") else f"every:{number}"
    synonyms = (
        *_TRUE,
        "epoch",
        "epochs",
        "every",
        "every_epoch",
        "every:epoch",
        "each",
        "always",
        "all",
        "auto",
    )
    return "every:1" if text in synonyms else ""


def _step_for_checkpoint(value: str) -> str:
    if re.fullmatch(r"off|every:[1-9]\d{0,5}(min)?", value):
        return ""
    meant = _checkpoint(value.lower())
    return f"set checkpoint={meant}" if meant else ""


def _step_for_precision(value: str) -> str:
    if value.lower() in _MIXED:
        return "set precision=fp16 or precision=bf16"
    meant = _PRECISIONS.get(value.lower(), value)
    return (
        f"set precision={meant}"
        if meant != value and value not in ("half", "float16", "bfloat16", "float32")
        else ""
    )


def _step_for_gpus(value: str) -> str:
    if value.lower() in ("all", "auto", "max", "any", "*", "-1"):
        try:
            found = len(devices.gpus())
        except ValueError:  # a GPU does not respond, and the planner reports the GPU later
            return ""
        if found:
            return f"expected at least 1. For all GPUs of this machine, set gpus={found}"
        cores = len(devices.cpu_cores())
        return (
            "expected at least 1. This machine has no visible GPU. For its CPU cores, set"
            f" device=cpu gpus={cores}"
        )
    if value.lower() in ("0", "none", "cpu", "false"):
        return "expected at least 1. To train on CPU cores, set device=cpu gpus=1"
    numbers = value.strip("[]").split(",")
    is_device_list = value.startswith("[") or numbers[0] == "0"
    if (
        is_device_list
        and len(numbers) > 1
        and all(number.strip().isdecimal() for number in numbers)
    ):
        visible = ",".join(number.strip() for number in numbers)
        return (
            f"expected the number of devices. To choose devices, set CUDA_VISIBLE_DEVICES={visible}"
            f" in the shell and gpus={len(numbers)}"
        )
    return ""


def _step_for_nodes(value: str) -> str:
    if value.lower() not in ("all", "auto", "max", "any", "*", "-1"):
        return ""
    return (
        "expected the number of machines. Set nodes=N launch.hosts=[a,b] with N machines, "
        "or nodes=$SLURM_NNODES inside a SLURM allocation"
    )


def _step_for_stop(value: str) -> str:
    if value.isdecimal() and int(value):
        return f"set stop=epochs:{int(value)} or stop=steps:{int(value)}"
    units = "epochs?|steps?|samples?"
    match = re.fullmatch(rf"(\d+) ?({units})|({units})[=:_ ](\d+)", value.lower())
    if not match:
        return ""
    number, unit = match[1] or match[4], (match[2] or match[3]).rstrip("s")
    meant = f"{unit}s:{int(number)}"
    return f"set stop={meant}" if meant != value and int(number) else ""


def _step_for_batch(value: str) -> str:
    if value.isdecimal() and int(value):
        return f"set batch=global:{int(value)} or batch=per_device:{int(value)}"
    each = re.fullmatch(r"(\d+)[x*×]\d+", value)
    return f"set batch=per_device:{int(each[1])}" if each and int(each[1]) else ""


def _step_for_resume(value: str) -> str:
    if value.lower() in ("", *_TRUE, *_FALSE) or "," in value:
        return ""  # `_step_for_value` handles booleans
    folder = value if value.lower() not in ("last", "latest", "auto", "must", "allow") else "FOLDER"
    return f"set output={folder} resume=true"


def _step_for_device(value: str) -> str:
    if value.isdecimal() and int(value):
        return f"set gpus={int(value)}"
    numbered = re.fullmatch(r"(?:cuda|gpu):(\d+)", value.lower())
    return (
        f"set device=cuda, and CUDA_VISIBLE_DEVICES={numbered[1]} in the shell" if numbered else ""
    )


def _step_for_runs(value: str) -> str:
    if value.lower() in (*_ALL, "max", "mlperf"):
        return "set runs=official for the number that the rules require, or runs=N"
    times = re.fullmatch(r"(\d+) ?(?:x|times|runs)", value.lower())
    return f"set runs={int(times[1])}" if times and int(times[1]) else ""


def _step_for_mode(value: str) -> str:
    return (
        "set mode=inference"
        if value.lower() in ("eval", "evaluate", "evaluation", "test", "infer", "predict")
        else ""
    )


def _step_for_profile(value: str) -> str:
    if value.lower() in ("test", "smoke", "small", "tiny", "quick", "example"):
        return "set profile=demo"
    return (
        "set profile=reference"
        if value.lower() in ("full", "mlperf", "real", "benchmark", "default")
        else ""
    )


def _step_for_seed(value: str) -> str:
    if value.lower() in ("random", "auto", "any", "rand", "-1"):
        return "leave seed out. Each run then draws a new seed"
    return ""


def _step_for_data(value: str) -> str:
    return _DATA


FORMS: Mapping[str, str] = {
    "checkpoint.when": "off, every:EPOCHS, every:MINUTESmin",
    "stop": "auto, target, epochs:N, samples:N, steps:N",
    "batch": "set, global:N, per_device:N",
    "runs": "official, N",
}
"""Maps a key to a description of its allowed values."""
_STEPS: Mapping[str, Callable[[str], str]] = {
    "checkpoint.when": _step_for_checkpoint,
    "precision": _step_for_precision,
    "gpus": _step_for_gpus,
    "nodes": _step_for_nodes,
    "stop": _step_for_stop,
    "batch": _step_for_batch,
    "resume": _step_for_resume,
    "device": _step_for_device,
    "runs": _step_for_runs,
    "mode": _step_for_mode,
    "profile": _step_for_profile,
    "seed": _step_for_seed,
    "data": _step_for_data,
}
"""Maps a key to the function that returns a hint for a value of the key."""


def _normalized(key: str) -> str:
    """Convert a key to the spelling of the suite, such as `batch-size` to `batch_size`."""
    name = key.replace("-", "_")
    return name if name in GROUPS or name in suite_keys() else name.lower()
