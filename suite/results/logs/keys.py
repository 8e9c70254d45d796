"""Classify the keys of a log.

The MLPerf rules define some keys as hyperparameters. Structural keys describe the run or the
submission, and bookkeeping keys are other keys that are not hyperparameters.
"""

from __future__ import annotations

import re

STRUCTURAL = frozenset(
    {
        *(f"submission_{name}" for name in ("benchmark", "org", "division", "status", "platform")),
        *(
            f"suite_{name}"
            for name in (
                "run", "condition", "step_times", "staleness", "all_reduce", "gradients",
            )
        ),
        "suite_checkpoint", "suite_continued",
        *(
            f"{part}_{edge}"
            for part in ("init", "run", "block", "epoch", "eval")
            for edge in ("start", "stop")
        ),
        "cache_clear", "seed", "run_set_random_seed", "run_final", "train_loop", "tracked_stats",
        "eval_accuracy", "eval_result", "quality_target",
    }
)  # fmt: skip
"""Keys that describe the submission, the run, or the structure of the log. These keys are not
settings.
"""
BOOKKEEPING = (
    "seed",
    "run_set_random_seed",
    "global_batch_size",
    "power_measurement",
    "initialized_tensor",
)
"""Keys that are not hyperparameters, although the rules of a round list them.

The global batch size has a separate column.
"""
_OF_THE_RULES = re.compile(
    # Optimizer keys of every round, and the v0.5 prefixes preproc_hp_, input_hp_, train_hp_,
    # model_hp_, and eval_hp_.
    r"(\w+_)?(opt|hp)_\w+"
    r"|(model|moe|nms|lora|lars|lr|generation|lowest_numerical_precision)_\w+|\w+_(initialization|shape|parallelism)"
    r"|data_(train|speed|spec|num)_\w+|(min|max)_(image_size|samples|steps|sequence_length|predictions_per_seq)"
    r"|(global|train|micro|input)_batch_size|gradient_accumulation_steps|num_(image_candidates|warmup_steps)"
    r"|start_warmup_step|init_checkpoint_step|oversampling|validation_overlap|eval_max_prediction_symbols"
    r"|eval_every_data_pct|evaluation_frequency|num_(prompts|generations)_per_(step|prompt)"
    # MiniGo
    r"|virtual_losses|num_(readouts|games)|(parallel|eval)_games|window_size|gating_win_rate|filter_amount|value_init_penalty"
    r"|resign_threshold|(holdout|disable_resign)_pct|min_selfplay_games_per_generation"
)
"""Sources: mlperf-logging, compliance_checker/training_*/*.yaml (v0.6 to v6.1), the tags of
mlperf_compliance 0.0.10 (v0.5).
"""


def is_hyperparameter(key: str, of_this_suite: bool) -> bool:
    """Check whether runs with different values of a key belong to different experiments.

    Other programs log measurements such as `throughput`, `train_loss`, and `trained_samples` next
    to hyperparameters. This suite logs measurements only in structural keys, so all other keys of
    its logs are settings.
    """
    return key not in STRUCTURAL and (of_this_suite or _OF_THE_RULES.fullmatch(key) is not None)
