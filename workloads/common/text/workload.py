"""What workloads that translate have in common: batches of sentence pairs, BLEU, validation loss, keys of the log."""

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
"""Length of the translations of a dummy batch: enough to compile what a search needs."""
NOTHING: Arrays = {
    "number": np.zeros(0, np.int64), "token_count": np.zeros(0, np.int32), "token": np.zeros(0, np.int32),
    "loss_number": np.zeros(0, np.int64), "loss": np.zeros(0, np.float64), "loss_tokens": np.zeros(0, np.int64),
}  # fmt: skip
"""Results of no sentence: each evaluation batch is one of the two kinds."""


@dataclass(frozen=True, kw_only=True)
class TranslationOptions:
    """Hyperparameters and options of translation."""

    learning_rate: float = hyperparameter("rate after the warm-up", minimum=0.0)
    warmup_steps: int = hyperparameter("steps of warm-up", minimum=0)
    dropout: float = hyperparameter("share that is dropped", minimum=0.0)
    max_sequence_length: int = hyperparameter(
        "tokens of a side, special ones counted; longer pairs are left out", minimum=2
    )
    beta1: float = hyperparameter("Adam's decay of the mean of gradients", minimum=0.0, overridable=False)
    beta2: float = hyperparameter("Adam's decay of the mean of squared gradients", minimum=0.0, overridable=False)
    epsilon: float = hyperparameter("Adam's epsilon", minimum=0.0, overridable=False)
    label_smoothing: float = hyperparameter("share of the loss that is spread over other words", minimum=0.0)
    evaluation_batch_size: int = option(64, "sentences per device and evaluation step", minimum=1)
    compile: str = option(
        "auto",
        "TensorFlow: XLA, for each padded shape; MXNet: graphs; auto: XLA for GNMT's few shapes on GPUs (a guess), and graphs",
        choices=("auto", "on", "off"),
    )
    evaluation_shapes: int = option(3, "padded lengths of evaluation sentences", minimum=1)
    validation_loss: bool = option(True, "also compute the loss on the validation set at each evaluation")
    beam_width: int = option(5, "hypotheses of the beam search", minimum=1)
    target: float | None = option(
        None, "BLEU to reach: a fraction under rules v0.7, points under others; null: the profile's", minimum=0.0
    )


DETOKENISED_AS = {dataset_info.WMT16.name: "en"}
"""Data set to the language of Moses' detokeniser: the reference calls it without one, which is English (inference.py).
Of others: the target's."""


class TranslationWorkload(Workload):
    """Sentence pairs in, BLEU out. Where batches are of samples, sets give `buckets` too."""

    runs_required = 10
    sample_unit = "sentence pairs"
    extra_throughput_units = ("tokens",)
    length_dependent_log_keys = frozenset(
        {"train_samples", "input_pairs_too_long", "input_pairs_left_out", "input_fill"}
    )
    framing: ClassVar[Framing] = GNMT
    weigh_tokens: ClassVar[bool] = False
    """Whether the loss is a mean over target tokens, instead of sentences."""
    every_pair: ClassVar[bool] = False
    """Whether an epoch has every pair, instead of those alone that fill a batch of their bucket."""
    data: ClassVar[TextFacts] = dataset_info.WMT16
    bleu_digits: ClassVar[int] = 9
    """To which BLEU in points is rounded before it is compared with the target."""
    options: TranslationOptions

    def __init__(self, settings: Settings, dataset_info: DatasetInfo) -> None:
        super().__init__(settings, dataset_info)
        if not self.counts.steps:
            raise ValueError(
                f"batch size {settings.global_batch_size}: no bucket of the {dataset_info.train_samples:,} training pairs "
                f"fills a batch; type a smaller batch=global:N"
            )

    # -- before a run exists --------------------------------------------------------------------------------------

    @classmethod
    def load_dataset_info(cls, settings: Settings) -> DatasetInfo:
        """Counts of the prepared data set, without training pairs that are too long; under profile=synthetic as published.

        `sizes["pairs"]` counts all that are prepared.
        """
        of_data = cls.data.for_settings(settings)
        if cls.framing.begin is not None and dataset_info.END in of_data.sizes:
            raise ValueError(
                f"workload.dataset={settings.dataset}: its vocabulary has no beginning of a sentence, which {cls.name} needs; "
                f"type workload.dataset={dataset_info.WMT16.name}"
            )
        pairs, _ = dataset_info.length_counts(of_data, of_data.train_samples)
        most = build_options(cls.Options, settings).max_sequence_length - cls.framing.extra
        short = int(pairs[: most + 1].sum())
        of_data = replace(of_data, train_samples=short, sizes={**of_data.sizes, "pairs": of_data.train_samples})
        cls(settings, of_data)  # what its batches refuse is refused before anything starts
        return of_data

    # -- batches --------------------------------------------------------------------------------------------------

    @property
    def end(self) -> int:
        """The id of EOS in this data set."""
        return self.dataset_info.sizes.get(dataset_info.END, EOS)

    @property
    def vocabulary_size(self) -> int:
        """Ids of the data set, without rows that only pad a model's tables."""
        return self.dataset_info.sizes["vocabulary"]

    def buckets(self) -> tuple[Bucket, ...]:
        """By samples, of equal widths; batches by tokens override this. Raises ValueError if devices cannot share a batch."""
        count = int(self.settings.hyperparameters["buckets"])
        edges = batches.equal_edges(self.options.max_sequence_length, count)
        return buckets_by_samples(edges, self.settings.global_batch_size, self.settings.devices)

    @cached_property
    def batching(self) -> Batching:
        """How pairs become batches."""
        longest = (
            max(self.dataset_info.sizes["test_longest"], self.dataset_info.sizes["dev_longest"]) + self.framing.extra
        )
        shapes = self.options.evaluation_shapes
        share = -(-self.dataset_info.evaluation_samples // self.settings.devices)
        return Batching(
            framing=replace(self.framing, end=self.end),
            buckets=self.buckets(),
            evaluation_edges=tuple(sorted({-(-longest * number // shapes) for number in range(1, shapes + 1)})),
            evaluation_sentences=min(self.options.evaluation_batch_size, share),
            weigh_tokens=self.weigh_tokens,
            replicas=self.settings.devices,
            every_pair=self.every_pair,
        )

    @cached_property
    def counts(self) -> batches.Counts:
        """Steps of an epoch, and what is left out of it."""
        return batches.count(
            dataset_info.length_counts(self.dataset_info, self.dataset_info.sizes["pairs"]), self.batching
        )

    @property
    def epoch_samples(self) -> EpochSamples:
        """Size of all batches, pairs that fill up the last batch of the longest ones, and pairs that fill no batch."""
        counts = self.counts
        return EpochSamples(counts.steps * self.settings.global_batch_size, counts.repeated, counts.left_out)

    @property
    def steps_per_epoch(self) -> int:
        """Batches of all buckets."""
        return self.counts.steps

    @property
    def warmup_steps(self) -> int:
        """As the set says."""
        return self.options.warmup_steps

    def shapes(self) -> Sequence[Mapping[str, ArraySpec]]:
        """One for each bucket that fills a batch, longest first."""
        filled = zip(self.batching.buckets, self.counts.bucket_steps, strict=True)
        return [self.batching.train_shape(bucket) for bucket, steps in filled if steps][::-1]

    def evaluation_shapes(self) -> Sequence[Mapping[str, ArraySpec]]:
        """Those to translate, then those for the validation loss; none under profile=synthetic, which evaluates nothing."""
        listed = self.batching.evaluation_shapes() if self.settings.profile != "synthetic" else []
        return listed if self.has_validation_loss else listed[: len(listed) // 2]

    @property
    def has_validation_loss(self) -> bool:
        """Whether evaluations compute it; never where evaluation batches are counted as steps."""
        return self.options.validation_loss and self.settings.mode != "inference"

    def dummy_batch(self, specs: Mapping[str, ArraySpec]) -> Batch:
        """Full rows of the first subword, ended by EOS; all valid."""
        batch = super().dummy_batch(specs)
        for name, array in batch.arrays.items():
            if array.ndim == 2:
                array.fill(len(SPECIALS))
                if name != "target":
                    array[:, -1] = self.end
        arrays = dict(batch.arrays)
        for length, of_side in (("source_length", "source"), ("target_length", "label")):
            if length in arrays:
                arrays[length].fill(arrays[of_side].shape[1])
        count = len(arrays["source"])
        weight = float(arrays["target_length"].sum()) if self.weigh_tokens and "label" in arrays else float(count)
        return Batch(
            arrays, weight, weight, count, {"tokens": sum(int(a.size) for a in arrays.values() if a.ndim == 2)}
        )

    def open_data(self, worker: WorkerContext, seed: int) -> DataPipeline:
        """Map the arrays; a synthetic corpus is drawn by hash."""
        splits = ("train", "test", "dev") if self.has_validation_loss else ("train", "test")
        counts, synthetic = self.dataset_info.sizes, self.settings.profile == "synthetic"
        sizes = {"train": counts["pairs"], "test": self.dataset_info.evaluation_samples, "dev": counts["dev"]}
        read = self._synthetic if synthetic else partial(prepared.read, self.folder)
        corpus = {split: read(split, sizes[split]) for split in splits}
        lengths = dataset_info.synthetic_lengths(counts["pairs"]) if synthetic else corpus["train"].lengths()
        return TranslationData(self.batching, lengths, corpus, worker, seed, self.steps_per_epoch)

    @property
    def folder(self) -> Path:
        """Of the prepared data set."""
        return Path(self.settings.data_dir)

    def _synthetic(self, split: str, count: int) -> Parallel:
        """Random ids of the published sizes; more training pairs than are drawn repeat them."""
        most = self.dataset_info.sizes.get(f"{split}_longest", prepared.LONGEST)
        lengths = np.minimum(dataset_info.synthetic_lengths(min(count, dataset_info.SYNTHETIC_PAIRS)), most)
        draws = bits(stream(0, f"synthetic sentences {split}"), np.arange(1 << 20))
        ids = (integers(draws, self.vocabulary_size - len(SPECIALS)) + len(SPECIALS)).astype(np.int32)
        return Parallel(*(batches.random_side(of_side, ids) for of_side in lengths))

    # -- quality --------------------------------------------------------------------------------------------------

    def optimizer(self) -> OptimizerSettings:
        """Adam without decay or clipping."""
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
        """How translations are searched for."""

    @abstractmethod
    def longest_translation(self, batch: Batch) -> Array:
        """(B,) tokens that a translation of each source may have, EOS included."""

    def translated(self, decoder: Decoder[Any], batch: Batch) -> Arrays:
        """A batch's translations: `tokens` (B, T) and `token_count` (B,); short ones of a dummy batch, which has no `valid`."""
        live = batch.arrays.get("valid")
        longest = self.longest_translation(batch) if live is not None else WARM_UP_TOKENS
        found = search(decoder, batch, self.beam, longest, live)
        return {"tokens": found.tokens, "token_count": found.counts}

    def eval_batch_metrics(self, batch: Batch, outputs: Arrays) -> Arrays:
        """Of one evaluation batch; padding is dropped.

        To translate, `outputs` has `tokens` (B, T) and `token_count` (B,); else `loss` (B,): Σ -log p of a target's tokens.
        """
        arrays = batch.arrays
        valid = arrays["valid"]
        if "label" in arrays:
            lengths = arrays["target_length"][valid].astype(np.int64)
            loss = np.asarray(outputs["loss"], np.float64)[valid]
            return {**NOTHING, "loss_number": arrays["number"][valid], "loss": loss, "loss_tokens": lengths}
        counts = np.asarray(outputs["token_count"], np.int32)[valid]
        tokens = np.asarray(outputs["tokens"], np.int32)[valid]
        said = tokens[np.arange(tokens.shape[1]) < counts[:, None]]
        return {**NOTHING, "number": arrays["number"][valid], "token_count": counts, "token": said}

    def compute_metrics(self, results: Arrays) -> dict[str, float]:
        """BLEU of the test set, in points or as a fraction as the rules log it; the validation loss per token beside it.

        Raises ValueError unless every sentence was seen exactly once.
        """
        check_evaluation_coverage(results["number"], self.dataset_info.evaluation_samples, "translations")
        references = prepared.read_references(self.folder, self.dataset_info.evaluation_samples)
        quality = {METRIC: self.unit * bleu.score(self.translations(results), references, self.bleu_digits)}
        if self.has_validation_loss:
            check_evaluation_coverage(results["loss_number"], self.dataset_info.sizes["dev"], "validation losses")
            # In the order of the sentences: the sum does not depend on how they were dealt out.
            losses = results["loss"][np.argsort(results["loss_number"])]
            quality["validation_loss"] = math.fsum(losses.tolist()) / int(results["loss_tokens"].sum())
        return quality

    @property
    def unit(self) -> float:
        """What a point of BLEU is in the metric."""
        return self.round.bleu_scale

    def translations(self, results: Arrays) -> list[str]:
        """The text of all translations, in the order of the test set."""
        manifest = manifests.read(self.folder)
        assert manifest is not None, self.folder
        vocabulary = prepared.vocabulary_of(self.folder, manifest.options)
        text: Detokenise = str  # subtokens are those of the text itself
        if isinstance(vocabulary, Vocabulary):
            text = bleu.detokeniser(DETOKENISED_AS.get(self.settings.dataset, str(manifest.options["languages"][1])))
        stops = np.cumsum(results["token_count"], dtype=np.int64)
        starts = stops - results["token_count"]
        said = [results["token"][starts[row] : stops[row]].tolist() for row in np.argsort(results["number"])]
        return [text(vocabulary.decode(ids)) for ids in said]

    def metric_signatures(self) -> Mapping[str, Json]:
        """sacrebleu's signature."""
        return {METRIC: bleu.signature()}

    def log_keys(self) -> Mapping[str, Json]:
        """What the rules want of every translation workload, and what the batches leave out; subclasses add theirs."""
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
