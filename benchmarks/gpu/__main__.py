"""Run five stages of benchmarks on a machine with a GPU, each in at most ten minutes.

    python -m benchmarks.gpu [right learns fast fed why] [--out build/gpu] [--minutes 10]
        [--workloads ssd,ncf]

The results of completed cases are kept, and a later call skips the completed cases.
* right: compares the steps and outputs of every trainer on the GPU with those on the CPU, in four
  precisions.
* learns: trains seven demos to their targets.
* fast: trains on synthetic data at the published batch sizes, with 10 warm-up steps and 40 timed
  steps. Runs in bf16 are also repeated on two GPUs if available.
* fed: measures NCF and SSD with their input pipelines (negative sampling, JPEGs), and NCF's
  evaluation.
* why: measures the effect of single changes on the step time.

The results are written to OUT/results.json, a report to OUT/report.md, and the logs to OUT/logs.
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from suite.common.run_config import EnvironmentConfig
from suite.environments.environment import Environment, resolve
from suite.machine import devices
from suite.results import table
from suite.results.logs.collect import collect
from suite.results.logs.events import number
from suite.results.logs.recorded_telemetry import json_lines
from testing.python_path import with_yaml

PROJECT = Path(__file__).resolve().parents[2]
STAGES = ("right", "learns", "fast", "fed", "why")
PER_DEVICE = {
    "resnet50": 208,
    "ssd": 114,
    "maskrcnn": 8,
    "gnmt": 256,
    "transformer": 10_240,
    "ncf": 1_048_576,
}
"""Batch size per GPU in NVIDIA's v0.7 entries (for NCF, v0.5). The Transformer's batch size is in
tokens, and all other batch sizes are in samples.
"""
PRECISIONS = dict.fromkeys(PER_DEVICE, ("bf16", "fp16", "tf32", "fp32")) | {
    "ncf": ("bf16", "tf32", "fp32")
}
DEMOS = (*PER_DEVICE, "zoo", "llama31_8b")
"""Workloads whose demos are trained.

Stages `fast` and `why` do not include Llama 3.1 8B, whose full model does not fit on one GPU.
"""
CASE_SECONDS = 300.0
Results = dict[str, dict[str, Any]]


def cases(stage: str, workloads: Sequence[str], gpus: int) -> list[tuple[str, str, str, int]]:
    """Return (name, workload, precision, number of GPUs) for each case of a stage.

    Stage `fast` first measures all workloads in bf16 on one GPU. Runs on two GPUs then measure the
    cost of the all-reduce. Runs in fp16 help to choose the value of `precision=auto`. Runs in tf32
    measure the speedup of tf32 over fp32.
    """
    if stage == "fast":
        kinds = [
            ("bf16", 1),
            *([("bf16", 2)] if gpus > 1 else []),
            ("fp16", 1),
            ("tf32", 1),
            ("fp32", 1),
        ]
        return [
            (f"{name} {precision}" + " on two" * (count > 1), name, precision, count)
            for precision, count in kinds
            for name in workloads
            if precision in PRECISIONS.get(name, ())
        ]
    if stage == "fed":
        return [(name, name, "auto", 1) for name in ("ncf", "ssd") if name in workloads]
    every = (
        DEMOS
        if stage == "learns"
        else ("kernels", *PER_DEVICE, "llama31_8b")
        if stage == "right"
        else tuple(PER_DEVICE)
    )
    return [(name, name, "auto", 1) for name in every if name in (*workloads, "kernels")]


def asked(environment: Environment, module: str, *words: str) -> dict[str, Any]:
    """Run a module in PyTorch's environment, and return the JSON in its last output line."""
    return _json(environment.command("-m", module, *words))


def _json(command: Sequence[str]) -> dict[str, Any]:
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=CASE_SECONDS,
            cwd=PROJECT,
            env={**os.environ, "PYTHONPATH": f"{with_yaml()}:{os.environ.get('PYTHONPATH', '')}"},
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        # `stdout` of the error contains bytes, although text=True
        lines = (error.stdout or b"").splitlines()
        printed = [line for line in lines if line.startswith(b"{")]
        return {
            **(json.loads(printed[-1]) if printed else {}),
            "error": f"no answer within {CASE_SECONDS:.0f} s",
        }
    if done.returncode:
        return {"error": (done.stderr.strip() or done.stdout.strip())[-600:]}
    found: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return found


def trained(out: Path, environment: Environment, *words: str) -> dict[str, Any]:
    """Run the suite, and return measurements from the run's log."""
    values = (
        word.partition("=")[2].replace(":", "_") for word in dict.fromkeys((*words[:3], words[-1]))
    )
    folder = out / "logs" / "-".join(values)
    where = [f"output={folder}", "device=cuda", f"environment={environment.name}", "resume=true"]
    command = [sys.executable, str(PROJECT / "run_suite.py"), *words, *where]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=CASE_SECONDS, cwd=PROJECT, check=False
        )
        (record,) = collect([folder])
    except (ValueError, subprocess.TimeoutExpired) as error:
        output = (
            f"{done.stdout}{done.stderr}".strip()[-600:] if isinstance(error, ValueError) else ""
        )
        return {"error": output or str(error)}
    run = record.path.parent if record.has_log else record.path
    found: dict[str, Any] = {"status": record.status, "reason": record.reason, "run": str(run)}
    if record.has_log:
        blocks = [block for block in record.throughput if block.samples and block.train_seconds]
        seconds = sum(block.train_seconds or 0 for block in blocks)
        rate = sum(block.samples or 0 for block in blocks) / max(seconds, 1e-9)
        metrics = json_lines(run / "metrics.jsonl")
        peak = max((number(line.get("memory_peak_bytes")) or 0 for line in metrics), default=0)
        found |= {
            "seconds": record.seconds,
            "epochs": record.epochs_to_target,
            "quality": dict(record.quality),
        }
        found["evaluation_seconds"] = round(
            sum(block.evaluation_seconds or 0 for block in record.throughput), 1
        )
        found |= {"samples_per_second": round(rate, 1), "peak_gib": round(peak / 2**30, 2)}
        found |= {"precision": record.settings.precision, "labels": list(record.settings.labels)}
    return found


def result(
    stage: str,
    workload: str,
    precision: str,
    gpus: int,
    out: Path,
    environment: Environment,
    done: Results,
) -> dict[str, Any]:
    """Run a case of a stage and return its result."""
    if stage == "right":
        return asked(environment, "benchmarks.gpu.right", workload)
    if stage == "learns":
        return trained(out, environment, f"workload={workload}", "profile=demo", "gpus=1")
    if stage == "fast":
        overrides = (f"workload={workload}", "profile=synthetic", f"precision={precision}")
        batch = f"batch=per_device:{PER_DEVICE[workload]}"
        return trained(
            out,
            environment,
            *overrides,
            batch,
            "stop=steps:50",
            "timing.warmup_steps=10",
            f"gpus={gpus}",
        )
    runs = (
        done.get("fast", {}).get(f"{workload} {precision_}", {}).get("run")
        for precision_ in PRECISIONS[workload]
    )
    run = next((folder for folder in runs if folder), None)
    return (
        asked(environment, f"benchmarks.gpu.{stage}", run)
        if run
        else {"error": "stage fast has no run of it"}
    )


@functools.cache
def published(workload: str) -> str:
    """Return the published median samples/s per GPU of eight-GPU entries (A100 and H100)."""
    rows = table(published=True)
    rows = rows[
        (rows["workload"] == workload) & (rows["devices"] == 8) & rows["published_rate"].notna()
    ]
    cards = {card: rows[rows["device_name"].str.contains(card)] for card in ("A100", "H100")}
    rates = {
        card: of_card["published_rate"].median() / 8
        for card, of_card in cards.items()
        if len(of_card)
    }
    return ", ".join(f"{card} {rate:,.0f}" for card, rate in rates.items()) or "–"


def report(found: Mapping[str, Mapping[str, Any]], hardware: Mapping[str, Any]) -> Iterator[str]:
    """Yield the lines of the report, with a table per stage."""
    gpus = ", ".join(dict.fromkeys(gpu["name"] for gpu in hardware["gpus"])) or "no GPU"
    yield f"# First run on {len(hardware['gpus'])} × {gpus}"
    heads = {
        "right": (
            "workload",
            "precision",
            "losses: distance from the CPU's",
            "waits in a step",
            "as expected",
        ),
        "learns": ("demo", "precision", "status", "seconds", "epochs", "of them evaluation, s"),
        "fast": (
            "workload, precision",
            "samples/s",
            "published, one GPU of eight",
            "peak GiB",
            "status",
        ),
        "fed": (
            "workload",
            "input alone, samples/s",
            "steps on ready batches",
            "steps on the input",
            "an evaluation, s",
        ),
        "why": (
            "workload",
            "changed",
            "ms a step",
            "device busy",
            "peak GiB",
            "longest kernels, ms",
        ),
    }
    for stage, head in heads.items():
        rows = [
            row
            for case, found_case in found.get(stage, {}).items()
            for row in _rows(stage, case, found_case)
        ]
        yield from (
            "",
            f"## {stage}",
            "",
            _line(head),
            _line("---" for _ in head),
            *map(_line, rows),
        )


def _rows(stage: str, case: str, result: Mapping[str, Any]) -> Iterator[Sequence[Any]]:
    """Yield the table rows of a case.

    If the case failed, its only row contains the last line of the error message.
    """
    if "error" in result:
        yield case, result["error"].splitlines()[-1]
    elif stage == "learns":
        yield (
            case,
            *(
                result.get(name)
                for name in ("precision", "status", "seconds", "epochs", "evaluation_seconds")
            ),
        )
    elif stage == "fed":
        yield (
            case,
            *(f"{result[name]:,.0f}" for name in ("input", "ready", "fed")),
            result.get("evaluation_seconds", ""),
        )
    elif stage == "fast":
        rate, peak, status = (
            result.get(name) for name in ("samples_per_second", "peak_gib", "status")
        )
        yield case, f"{rate or 0:,.0f}", published(case.partition(" ")[0]), peak, status
    parts = {
        name: part
        for name, part in result.items()
        if isinstance(part, dict) and stage in ("right", "why")
    }
    for name, part in parts.items():
        if "error" in part:
            yield case, name, part["error"].splitlines()[-1]
        elif stage == "right":
            yield case, name, f"{part['loss']:.1e}", part["waits"] or "none", part["as_expected"]
        else:
            slowest = "; ".join(
                f"{kernel[:60]} {ms}" for kernel, ms in part.get("kernels", {}).items()
            )
            yield (
                case,
                name,
                part["step_ms"],
                part.get("device_busy", ""),
                part["peak_gib"],
                slowest,
            )
    if stage == "right" and case == "kernels":
        checks = (f"{name}: {result.get(name)}" for name in ("plain", "usable", "samples", "norm"))
        yield case, "", *checks, result.get("as_expected")


def _line(cells: Iterable[Any]) -> str:
    return f"| {' | '.join(str(cell).replace('|', '/') for cell in cells)} |"


def main() -> int:
    """Run all cases of the requested stages."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "stages", nargs="*", metavar="STAGE", help=f"of {', '.join(STAGES)}; default: all"
    )
    parser.add_argument("--out", type=Path, default=PROJECT / "build" / "gpu")
    parser.add_argument(
        "--minutes",
        type=float,
        default=10.0,
        help="of each stage; the rest waits for the next call",
    )
    parser.add_argument("--workloads", default=",".join(DEMOS))
    parser.add_argument(
        "--environment",
        default="",
        help="of PyTorch; default: torch if it was made, else this Python",
    )
    args = parser.parse_args()
    if unknown := [stage for stage in args.stages if stage not in STAGES]:
        parser.error(f"{unknown[0]}: allowed: {', '.join(STAGES)}")
    try:
        environment = resolve(EnvironmentConfig(name=args.environment or "torch"), "torch")
    except ValueError:
        environment = resolve(EnvironmentConfig(name=args.environment or "current"), "torch")
    hardware = devices.hardware()
    if not hardware["gpus"]:
        parser.error("no GPU answers here; look with nvidia-smi, and at CUDA_VISIBLE_DEVICES")
    args.out.mkdir(parents=True, exist_ok=True)
    path = args.out / "results.json"
    found: Results = json.loads(path.read_text()) if path.exists() else {}
    for stage in args.stages or STAGES:
        until = time.monotonic() + args.minutes * 60
        kept = found.setdefault(stage, {})
        asked_for = cases(stage, args.workloads.split(","), len(hardware["gpus"]))
        for name, workload, precision, gpus in sorted(asked_for, key=lambda item: item[0] in kept):
            if is_done(kept.get(name)):
                continue
            if time.monotonic() > until:
                print(
                    f"{stage}: {args.minutes:g} minutes are over; type the same again for the rest"
                )
                break
            started = time.monotonic()
            kept[name] = result(stage, workload, precision, gpus, args.out, environment, found)
            kept[name]["took_seconds"] = round(time.monotonic() - started, 1)
            print(f"{stage} {name}: {json.dumps(kept[name], ensure_ascii=False)[:300]}", flush=True)
            path.write_text(
                json.dumps({**found, "hardware": hardware}, indent=1, ensure_ascii=False) + "\n"
            )
            (args.out / "report.md").write_text("\n".join(report(found, hardware)) + "\n")
    all_cases = [
        (f"{stage} {name}", item) for stage in STAGES for name, item in found.get(stage, {}).items()
    ]
    wrong = [name for name, item in all_cases if not as_expected(item)]
    summary = (
        f"not as expected: {', '.join(wrong)}" if wrong else f"{len(all_cases)} cases as expected"
    )
    print(f"{summary}; {args.out / 'report.md'}")
    return 1 if wrong else 0


def is_done(result: Mapping[str, Any] | None) -> bool:
    """Check whether a case has complete results without an error.

    All other cases are run again.
    """
    if result is None:
        return False
    parts = [result, *(part for part in result.values() if isinstance(part, dict))]
    return all("error" not in part and part.get("status", "success") == "success" for part in parts)


def as_expected(result: Mapping[str, Any]) -> bool:
    """Check whether a case is complete and within its tolerances.

    Only the comparisons with the CPU (stage `right`) have a tolerance.
    """
    parts = [result, *(part for part in result.values() if isinstance(part, dict))]
    return is_done(result) and all(part.get("as_expected", True) for part in parts)


if __name__ == "__main__":
    sys.exit(main())
