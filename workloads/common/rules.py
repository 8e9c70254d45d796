"""Rows of the closed rules that hold for every workload, and for every one that reads images (docs/rules.md prints them).

Sources are sections of training_rules.adoc in mlcommons/training_policies at the last commit before the round's results:
v0.5 at ae9f1e0 (18 December 2018), v0.7 at e382b31 (26 June 2020).
"""

from __future__ import annotations

from workloads.api.rules import ANY, Allowed, Rule, at_most, below, one_of, rule

PEAK = "Closed Division: the reference's training method, whose rate reaches its peak"
RATE = "; 0 trains nothing"
UNUSED = "has no effect there"
HYPERPARAMETERS_V05 = "v0.5, Hyperparameters and Optimizer"
HYPERPARAMETERS_V07 = "v0.7, Hyperparameters"
AS_REFERENCE_V05 = f"{HYPERPARAMETERS_V05}: by default the same as the reference"
AS_REFERENCE_V07 = f"{HYPERPARAMETERS_V07}: by default the same as the reference"
STRETCHED_V05 = f"{HYPERPARAMETERS_V05}: the schedule scaled in time by 1 + k/10"
GRAPH = "Graph Execution: any optimization that is mathematically equivalent"
MOST_REPEATED = 0.01
"""Of an epoch, as padding of its last batches. Closed entries on images need up to 0.86 % (NVIDIA v0.7, SSD, batch 1,536)."""

_HOW = (
    "framework device devices nodes cores_per_device oversubscribe workload data_dir rules threads_per_device linear link "
    "variant timing_each batch_rule lr_scaling hyperparameter_set seed"
)
ORDER = "Training Data Order: the same conceptual order as the reference"
"""What v0.5 says of it; of batching and of "exactly once" v0.7 alone speaks."""


def _of_every_workload(version: str, formats: tuple[str, ...]) -> tuple[Rule, ...]:
    """The rows of a round that no workload changes."""
    return (
        rule("profile", one_of("reference"), f"{version}, Closed Division: preprocessing, model and training method"),
        rule("mode", one_of("train"), f"{version}, Definitions: a run is a complete execution"),
        rule("stop", one_of("target"), f"{version}, Quality measure: each run must reach the target"),
        rule("timing_warmup_steps", one_of(0), f"{version}, Run Results: one contiguous period"),
        rule("update", one_of("sync"), f"{version}, Optimizer: as the reference, whose update is by all gradients"),
        rule("straggler_ms", one_of(0), "a device that sleeps is for demonstrations"),
        rule("precision", one_of(*formats), f"{version}, Numerical formats"),
        rule("seed_source", one_of("system"), f"{version}, Random numbers: clock, system or another generator"),
        rule("cache_clear", one_of(True), f"{version}, Data State at Start of Run: you must flush the cache"),
        rule(
            "left_out_share",
            one_of(0.0),
            f"v0.5, {ORDER}" if version == "v0.5" else "v0.7, Training Data Order: each datum appears exactly once",
        ),
        rule(
            "repeated_share",
            at_most(MOST_REPEATED),
            f"{version}, Equivalence exceptions: the last batch of an epoch may be padded; how much is our reading",
        ),
        rule("batch_size_global", ANY, f"{version}, hyperparameters: batch size arbitrary, constant"),
        rule("max_epochs", ANY, "the rules name no end of a run that misses its target"),
        rule("first_decay_samples run_samples", ANY, "bounds of the warm-up, which has a row of its own"),
        rule(_HOW, ANY, "where a run takes place, and how values came about that have rows of their own"),
    )


EVERY_V05 = _of_every_workload("v0.5", ("fp32", "fp16", "bf16"))
EVERY_V07 = _of_every_workload("v0.7", ("fp32", "tf32", "fp16", "bf16"))

IMAGES = (
    rule("decode", one_of("exact"), "Preprocessing During the Run: the same steps as the reference"),
    rule("skip_bad", one_of(False), "Training Data Order: each datum appears exactly once"),
    rule("evaluation_batch_size data_threads compile", ANY, GRAPH),
)
"""The same words in both rounds; "exactly once" was written into v0.7's and is what v0.5's "same conceptual order" means."""

AS_REFERENCE = "Hyperparameters: by default the same as the reference"
DETECTION = (
    rule("optimizer", one_of("sgd"), AS_REFERENCE),
    rule("momentum", one_of(0.9), AS_REFERENCE),
    rule("decay", one_of("steps"), AS_REFERENCE),
    rule("horizon_epochs", ANY, UNUSED, {"decay": one_of("steps")}),
    rule("evaluator", ANY, "Quality measure: the same; both evaluators give the same AP"),
    rule(
        "backbone backbone_weights backbone_allow_other",
        ANY,
        "Pre-training: the reference's weights; other ones are a note of the data, which opens the division",
    ),
    *IMAGES,
)
"""Of SSD and Mask R-CNN."""


def warm_up(source: str, *samples: float) -> Rule:
    """The row of every workload's warm-up: the rate reaches its peak before `samples`, before it decays and within the run."""
    return rule("warm_up_samples", below(*samples, "first_decay_samples", "run_samples"), source)


def when(**conditions: Allowed | str) -> dict[str, Allowed]:
    """Conditions of a row; a text is the one value."""
    return {name: one_of(item) if isinstance(item, str) else item for name, item in conditions.items()}
