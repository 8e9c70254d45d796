"""Base class of translation workloads: batches, BLEU, validation loss, and log keys."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from workloads.api import (
    Array,
    Arrays,
    ArraySpec,
    Batch,
    DataPipeline,
    DatasetInfo,
    EpochSamples,
    Json,
    OptimizerSettings,
    Settings,
    WorkerContext,
    Workload,
    build_options,
    check_evaluation_coverage,
    hyperparameter,
    option,
)
from workloads.common import manifest as manifests
from workloads.common.batch_plan import Bucket, buckets_by_samples
from workloads.common.randomness import bits, integers, stream
from workloads.common.text import batches, bleu, dataset_info, prepared
from workloads.common.text.batches import Batching, TranslationData
from workloads.common.text.beam import Beam, Decoder, search
from workloads.common.text.bleu import Detokenise
from workloads.common.text.dataset_info import TextFacts
from workloads.common.text.prepared import Parallel
from workloads.common.text.vocabulary import EOS, GNMT, SPECIALS, Framing, Vocabulary

METRIC = "bleu"
WARM_UP_TOKENS = 2
"""Maximum number of tokens in the translations of a dummy batch. Two tokens are enough to
compile all code of the beam search.
"""
NOTHING: Arrays = {
    "number": np.zeros(0, np.int64), "token_count": np.zeros(0, np.int32),
    "token": np.zeros(0, np.int32),
    "loss_number": np.zeros(0, np.int64), "loss": np.zeros(0, np.float64),
    "loss_tokens": np.zeros(0, np.int64),
}  # fmt: skip
"""Empty results of an evaluation batch. A batch to translate replaces the translation arrays. A
batch for the validation loss replaces the loss arrays.
"""


@dataclass(frozen=True, kw_only=True)
class TranslationOptions:
    """Options that all translation workloads share."""

    learning_rate: float = hyperparameter("learning rate after the warm-up", minimum=0.0)
    warmup_steps: int = hyperparameter("number of warm-up steps", minimum=0)
    dropout: float = hyperparameter("dropout rate", minimum=0.0)
    max_sequence_length: int = hyperparameter(
        "highest number of tokens of a side, special tokens included. Longer pairs are left out",
        minimum=2,
    )
    beta1: float = hyperparameter(
        "Adam's decay of the mean of gradients", minimum=0.0, overridable=False
    )
    beta2: float = hyperparameter(
        "Adam's decay of the mean of squared gradients", minimum=0.0, overridable=False
    )
    epsilon: float = hyperparameter("Adam's epsilon", minimum=0.0, overridable=False)
    label_smoothing: float = hyperparameter(
        "share of the loss that is spread over other tokens", minimum=0.0
    )
    evaluation_batch_size: int = option(64, "sentences per device and evaluation step", minimum=1)
    compile: str = option(
        "auto",
        "XLA for each padded shape (TensorFlow), or graphs (MXNet). "
        "auto: XLA only for GNMT on GPUs, which has few shapes (not measured). Graphs are on",
        choices=("auto", "on", "off"),
    )
    evaluation_shapes: int = option(
        3, "number of padded lengths of evaluation sentences", minimum=1
    )
    validation_loss: bool = option(
        True, "also compute the loss on the validation set at each evaluation"
    )
    beam_width: int = option(5, "number of hypotheses of the beam search", minimum=1)
    target: float | None = option(
        None,
        "target BLEU: a fraction with rules v0.7, points with earlier rules. null: the target of"
        " the profile",
        minimum=0.0,
    )


DETOKENISED_AS = {dataset_info.WMT16.name: "en"}
"""Language of the Moses detokenizer by data set. The default is the target language.

The GNMT reference sets no language, so Moses detokenizes as English (inference.py).
"""


class TranslationWorkload(Workload):
    """Base class of translation workloads, with BLEU as the metric.

    If the batch size is a number of samples, the hyperparameter sets must define `buckets`.
    """

    runs_required = 10
    sample_unit = "sentence pairs"
    extra_throughput_units = ("tokens",)
    length_dependent_log_keys = frozenset(
        {"train_samples", "input_pairs_too_long", "input_pairs_left_out", "input_fill"}
    )
    framing: ClassVar[Framing] = GNMT
    weigh_tokens: ClassVar[bool] = False
    """True if the loss is a mean over target tokens. False if the loss is a mean over sentences."""
    every_pair: ClassVar[bool] = False
    """Whether an epoch uses every sentence pair.

    If False, the remaining pairs of a bucket that do not fill a batch are left out.
    """
    data: ClassVar[TextFacts] = dataset_info.WMT16
    bleu_digits: ClassVar[int] = 9
    """Number of decimal places of BLEU. The rounded BLEU is compared with the target."""
    options: TranslationOptions

    def __init__(self, settings: Settings, dataset_info: DatasetInfo) -> None:
        super().__init__(settings, dataset_info)
        if not self.counts.steps:
            raise ValueError(
                f"batch size {settings.global_batch_size}: the {dataset_info.train_samples:,}"
                " training pairs do not fill a batch in any bucket. Set a smaller batch=global:N"
            )

    # -- before a run exists
    # --------------------------------------------------------------------------------------

    @classmethod
    def load_dataset_info(cls, settings: Settings) -> DatasetInfo:
        """Return the sizes of the prepared data set.

        With `profile=synthetic`, the method reads no data set and returns the published sizes. The
        number of training pairs excludes pairs that are too long. `sizes["pairs"]` includes pairs
        that are too long.
        """
        info = cls.data.for_settings(settings)
        if cls.framing.begin is not None and dataset_info.END in info.sizes:
            raise ValueError(
                f"workload.dataset={settings.dataset}: {cls.name} needs an id for the beginning of"
                " a sentence, which the vocabulary of this data set does not have. Set"
                f" workload.dataset={dataset_info.WMT16.name}"
            )
        pairs, _ = dataset_info.length_counts(info, info.train_samples)
        most = build_options(cls.Options, settings).max_sequence_length - cls.framing.extra
        short = int(pairs[: most + 1].sum())
        info = replace(info, train_samples=short, sizes={**info.sizes, "pairs": info.train_samples})
        cls(settings, info)  # The constructor raises errors about batch sizes before workers start.
        return info

    # -- batches
    # ----------------------------------------------------------------------------------------------

    @property
    def end(self) -> int:
        """Return the id of EOS in this data set."""
        return self.dataset_info.sizes.get(dataset_info.END, EOS)

    @property
    def vocabulary_size(self) -> int:
        """Return the number of ids in the data set.

        Padding rows of embedding tables are not counted.
        """
        return self.dataset_info.sizes["vocabulary"]

    def buckets(self) -> tuple[Bucket, ...]:
        """Return buckets of equal width whose batches have the same number of samples.

        Workloads whose batches have the same number of tokens override this method.

        Raises:
            ValueError: The batch cannot be divided equally among the devices.
        """
        count = int(self.settings.hyperparameters["buckets"])
        edges = batches.equal_edges(self.options.max_sequence_length, count)
        return buckets_by_samples(edges, self.settings.global_batch_size, self.settings.devices)

    @cached_property
    def batching(self) -> Batching:
        """Return the settings that control how sentence pairs are grouped into batches."""
        longest = (
            max(self.dataset_info.sizes["test_longest"], self.dataset_info.sizes["dev_longest"])
            + self.framing.extra
        )
        shapes = self.options.evaluation_shapes
        share = -(-self.dataset_info.evaluation_samples // self.settings.devices)
        return Batching(
            framing=replace(self.framing, end=self.end),
            buckets=self.buckets(),
            evaluation_edges=tuple(
                sorted({-(-longest * number // shapes) for number in range(1, shapes + 1)})
            ),
            evaluation_sentences=min(self.options.evaluation_batch_size, share),
            weigh_tokens=self.weigh_tokens,
            replicas=self.settings.devices,
            every_pair=self.every_pair,
        )

    @cached_property
    def counts(self) -> batches.Counts:
        """Return the numbers of steps, left-out pairs, and repeated pairs of an epoch."""
        return batches.count(
            dataset_info.length_counts(self.dataset_info, self.dataset_info.sizes["pairs"]),
            self.batching,
        )

    @property
    def epoch_samples(self) -> EpochSamples:
        """Return the numbers of sentence pairs in an epoch.

        The three numbers are the number of pairs in all batches, the number of pairs that are
        repeated to fill the last batch, and the number of pairs that are left out because they do
        not fill a batch.
        """
        counts = self.counts
        return EpochSamples(
            counts.steps * self.settings.global_batch_size, counts.repeated, counts.left_out
        )

    @property
    def steps_per_epoch(self) -> int:
        """Return the number of batches in all buckets."""
        return self.counts.steps

    @property
    def warmup_steps(self) -> int:
        """Return the number of warm-up steps from the hyperparameter set."""
        return self.options.warmup_steps

    def shapes(self) -> Sequence[Mapping[str, ArraySpec]]:
        """Return the array shapes of each bucket that has batches, longest bucket first."""
        filled = zip(self.batching.buckets, self.counts.bucket_steps, strict=True)
        return [self.batching.train_shape(bucket) for bucket, steps in filled if steps][::-1]

    def evaluation_shapes(self) -> Sequence[Mapping[str, ArraySpec]]:
        """Return the array shapes of evaluation batches.

        The shapes of batches to translate come before the shapes of batches for the validation
        loss.

        The list is empty with profile=synthetic, which has no evaluation.
        """
        listed = self.batching.evaluation_shapes() if self.settings.profile != "synthetic" else []
        return listed if self.has_validation_loss else listed[: len(listed) // 2]

    @property
    def has_validation_loss(self) -> bool:
        """Return whether evaluations compute the validation loss.

        The property is False with mode=inference, which counts every evaluation batch as a step.
        """
        return self.options.validation_loss and self.settings.mode != "inference"

    def dummy_batch(self, specs: Mapping[str, ArraySpec]) -> Batch:
        """Return a batch of full rows, which repeat the first subword and end with EOS."""
        batch = super().dummy_batch(specs)
        for name, array in batch.arrays.items():
            if array.ndim == 2:
                array.fill(len(SPECIALS))
                if name != "target":
                    array[:, -1] = self.end
        arrays = dict(batch.arrays)
        for length, side in (("source_length", "source"), ("target_length", "label")):
            if length in arrays:
                arrays[length].fill(arrays[side].shape[1])
        count = len(arrays["source"])
        weight = (
            float(arrays["target_length"].sum())
            if self.weigh_tokens and "label" in arrays
            else float(count)
        )
        return Batch(
            arrays,
            weight,
            weight,
            count,
            {"tokens": sum(int(a.size) for a in arrays.values() if a.ndim == 2)},
        )

    def open_data(self, worker: WorkerContext, seed: int) -> DataPipeline:
        """Return the pipeline over memory-mapped arrays, or over a synthetic corpus.

        Hashes determine the synthetic sentences.
        """
        splits = ("train", "test", "dev") if self.has_validation_loss else ("train", "test")
        counts, synthetic = self.dataset_info.sizes, self.settings.profile == "synthetic"
        sizes = {
            "train": counts["pairs"],
            "test": self.dataset_info.evaluation_samples,
            "dev": counts["dev"],
        }
        read = self._synthetic if synthetic else partial(prepared.read, self.folder)
        corpus = {split: read(split, sizes[split]) for split in splits}
        lengths = (
            dataset_info.synthetic_lengths(counts["pairs"])
            if synthetic
            else corpus["train"].lengths()
        )
        return TranslationData(self.batching, lengths, corpus, worker, seed, self.steps_per_epoch)

    @property
    def folder(self) -> Path:
        """Return the folder of the prepared data set."""
        return Path(self.settings.data_dir)

    def _synthetic(self, split: str, count: int) -> Parallel:
        """Return a synthetic split with the published number of pairs and random ids.

        At most `dataset_info.SYNTHETIC_PAIRS` pairs are drawn. A larger training set repeats these
        pairs.
        """
        most = self.dataset_info.sizes.get(f"{split}_longest", prepared.LONGEST)
        lengths = np.minimum(
            dataset_info.synthetic_lengths(min(count, dataset_info.SYNTHETIC_PAIRS)), most
        )
        draws = bits(stream(0, f"synthetic sentences {split}"), np.arange(1 << 20))
        ids = (integers(draws, self.vocabulary_size - len(SPECIALS)) + len(SPECIALS)).astype(
            np.int32
        )
        return Parallel(*(batches.random_side(side_lengths, ids) for side_lengths in lengths))

    # -- quality
    # ----------------------------------------------------------------------------------------------

    def optimizer(self) -> OptimizerSettings:
        """Return the settings of Adam without weight decay and without gradient clipping."""
        values = self.options
        return OptimizerSettings(
            "adam",
            beta1=values.beta1,
            beta2=values.beta2,
            epsilon=values.epsilon,
            loss_scaling=self.loss_scaling,
        )

    @property
    @abstractmethod
    def beam(self) -> Beam:
        """Return the parameters of the beam search."""

    @abstractmethod
    def longest_translation(self, batch: Batch) -> Array:
        """Return the maximum number of tokens of each translation (B,), including EOS."""

    def translated(self, decoder: Decoder[Any], batch: Batch) -> Arrays:
        """Return the translations of a batch: `tokens` (B, T) and `token_count` (B,).

        A dummy batch has no array `valid`. The translations of a dummy batch have at most
        `WARM_UP_TOKENS` tokens.
        """
        live = batch.arrays.get("valid")
        longest = self.longest_translation(batch) if live is not None else WARM_UP_TOKENS
        translations = search(decoder, batch, self.beam, longest, live)
        return {"tokens": translations.tokens, "token_count": translations.counts}

    def eval_batch_metrics(self, batch: Batch, outputs: Arrays) -> Arrays:
        """Return the results of an evaluation batch without padding sentences.

        Args:
            batch: Evaluation batch.
            outputs: For a batch to translate, `tokens` (B, T) and `token_count` (B,). For a batch
                of the validation loss, `loss` (B,), which is the sum of -log p over the tokens of
                each target.
        """
        arrays = batch.arrays
        valid = arrays["valid"]
        if "label" in arrays:
            lengths = arrays["target_length"][valid].astype(np.int64)
            loss = np.asarray(outputs["loss"], np.float64)[valid]
            return {
                **NOTHING,
                "loss_number": arrays["number"][valid],
                "loss": loss,
                "loss_tokens": lengths,
            }
        counts = np.asarray(outputs["token_count"], np.int32)[valid]
        tokens = np.asarray(outputs["tokens"], np.int32)[valid]
        flat = tokens[np.arange(tokens.shape[1]) < counts[:, None]]
        return {**NOTHING, "number": arrays["number"][valid], "token_count": counts, "token": flat}

    def compute_metrics(self, results: Arrays) -> dict[str, float]:
        """Return the BLEU of the test set, and the validation loss per token if it is enabled.

        The ruleset determines whether BLEU is in points or a fraction.

        Raises:
            ValueError: A sentence was evaluated more than once, or not at all.
        """
        check_evaluation_coverage(
            results["number"], self.dataset_info.evaluation_samples, "translations"
        )
        references = prepared.read_references(self.folder, self.dataset_info.evaluation_samples)
        quality = {
            METRIC: self.unit * bleu.score(self.translations(results), references, self.bleu_digits)
        }
        if self.has_validation_loss:
            check_evaluation_coverage(
                results["loss_number"], self.dataset_info.sizes["dev"], "validation losses"
            )
            # The losses are sorted by sentence number, so that the sum does not depend on the
            # distribution of sentences over replicas.
            losses = results["loss"][np.argsort(results["loss_number"])]
            quality["validation_loss"] = math.fsum(losses.tolist()) / int(
                results["loss_tokens"].sum()
            )
        return quality

    @property
    def unit(self) -> float:
        """Return the value of one BLEU point in the unit of the metric."""
        return self.round.bleu_scale

    def translations(self, results: Arrays) -> list[str]:
        """Return the text of all translations in test set order."""
        manifest = manifests.read(self.folder)
        assert manifest is not None, self.folder
        vocabulary = prepared.vocabulary_of(self.folder, manifest.options)
        text: Detokenise = str  # Text that is decoded from subtokens needs no detokenization.
        if isinstance(vocabulary, Vocabulary):
            text = bleu.detokeniser(
                DETOKENISED_AS.get(self.settings.dataset, str(manifest.options["languages"][1]))
            )
        stops = np.cumsum(results["token_count"], dtype=np.int64)
        starts = stops - results["token_count"]
        sentences = [
            results["token"][starts[row] : stops[row]].tolist()
            for row in np.argsort(results["number"])
        ]
        return [text(vocabulary.decode(ids)) for ids in sentences]

    def metric_signatures(self) -> Mapping[str, Json]:
        """Return the sacrebleu signature of the BLEU metric."""
        return {METRIC: bleu.signature()}

    def log_keys(self) -> Mapping[str, Json]:
        """Return the log keys that the rules require, and the batch statistics.

        Subclasses add their log keys.
        """
        counts, values = self.counts, self.options
        return {
            "max_sequence_length": values.max_sequence_length,
            "input_vocabulary_size": self.vocabulary_size,
            "input_pairs_too_long": counts.too_long,
            "input_pairs_left_out": counts.left_out,
            "input_fill": round(counts.fill, 4),
            "eval_hp_beam_size": self.beam.width,
            "eval_hp_len_norm_factor": self.beam.length_penalty,
            "eval_hp_cov_penalty_factor": self.beam.coverage_penalty,
            "opt_name": "adam",
            "opt_base_learning_rate": values.learning_rate,
            "opt_learning_rate_warmup_steps": values.warmup_steps,
            "opt_adam_beta_1": values.beta1,
            "opt_adam_beta_2": values.beta2,
            "opt_adam_epsilon": values.epsilon,
            "model_hp_dropout": values.dropout,
            "model_hp_label_smoothing": values.label_smoothing,
        }
