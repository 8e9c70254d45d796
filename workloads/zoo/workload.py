"""Networks of different sizes on images of different sizes, to compare throughput.

No benchmark round includes these networks.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np

from workloads.api import (
    Array,
    Arrays,
    ArraySpec,
    Batch,
    DataPipeline,
    DatasetInfo,
    Defaults,
    Json,
    ParameterRule,
    Round,
    Settings,
    WorkerContext,
)
from workloads.common import dropout
from workloads.common.images.batches.classifier import ClassifierWorkload
from workloads.common.images.counts import IMAGENET, ImageFacts
from workloads.common.networks import layer_lists
from workloads.common.networks.layer_lists import Network
from workloads.zoo import networks, stock
from workloads.zoo.settings import ZooOptions, profile_defaults

CIFAR10 = ImageFacts("an image", "cifar10")
"""Published sizes of CIFAR-10 (Krizhevsky 2009)."""


class Zoo(ClassifierWorkload):
    """Image classification with a selectable network.

    Training batches have an additional array `dropout_key`, int64 (B,).
    """

    name = "zoo"
    mlperf_name = "zoo"
    # On GPUs, `precision=auto` selects fp32, because the measurements in the scaling article use
    # fp32.
    gpu_precisions = ()
    Options = ZooOptions
    options: ZooOptions

    def __init__(self, settings: Settings, dataset_info: DatasetInfo) -> None:
        super().__init__(settings, dataset_info)
        self.network = _network(settings.model, dataset_info.sizes["classes"])
        self._norms = layer_lists.norms(self.network)

    @classmethod
    def defaults(cls, profile: str, round: Round, options: Mapping[str, Json]) -> Defaults:
        """Return the defaults of a profile.

        Only LittleCNN has targets. Runs of all other networks only measure throughput.
        """
        return profile_defaults(profile, options)

    @classmethod
    def load_dataset_info(cls, settings: Settings) -> DatasetInfo:
        """Return the sizes of the prepared data set.

        With `profile=synthetic`, the method returns the published sizes of CIFAR-10 or ImageNet.

        Raises:
            ValueError: The images are too small for the network, the batch cannot be divided
                equally among the devices, or the settings do not support the network.
        """
        published = CIFAR10 if settings.model["name"] == "littlecnn" else IMAGENET
        dataset_info = published.for_settings(settings)
        model, size = settings.model["name"], int(settings.model["image_size"])
        network = _network(settings.model, dataset_info.sizes["classes"])
        if settings.asynchronous and layer_lists.statistics(network):
            raise ValueError(
                f"update=async: {model} has batch norm, and parameter servers do not hold running"
                " statistics. Set update=sync or workload.model=littlecnn"
            )
        if settings.model["implementation"] == "stock":
            stock.check(
                settings.framework,
                model,
                size,
                networks.KINDS[model].image_size,
                settings.precision,
            )
        return dataset_info

    @classmethod
    def activation_values(cls, settings: Settings) -> int:
        """Return the number of output elements of convolutions and fully connected layers.

        For an image of 224 pixels, VGG-16 has 13.6 million output elements.
        """
        return layer_lists.activation_values(
            _network(settings.model, int(settings.model["classes"]))
        )

    # -- schedule
    # ----------------------------------------------------------------------------------------------

    def learning_rate(self, step: int) -> float:
        return self.options.learning_rate

    def parameter_rule(self, parameter: str) -> ParameterRule:
        """Return the update rule of a parameter.

        Weight decay applies to weights, but not to biases, scales, and shifts.
        """
        owner, _, kind = parameter.rpartition(".")
        decays = kind == "weight" and owner not in self._norms
        return ParameterRule(self.options.weight_decay if decays else 0.0)

    # -- weights and data
    # -----------------------------------------------------------------------------------------

    def target_shapes(self, count: int) -> Mapping[str, ArraySpec]:
        """Return the shapes of `label` and `dropout_key` (B,)."""
        return {**super().target_shapes(count), "dropout_key": ArraySpec((count,), "int64")}

    def eval_batch_metrics(self, batch: Batch, outputs: Arrays) -> Arrays:
        """Return whether each image is classified correctly, and its cross-entropy in nats."""
        valid = batch.arrays["valid"]
        logits = np.asarray(outputs["logits"], np.float64)[valid]
        logits -= logits.max(axis=1, keepdims=True)
        label_logits = np.take_along_axis(
            logits, batch.arrays["label"][valid][:, None].astype(np.int64), axis=1
        )[:, 0]
        return {
            **super().eval_batch_metrics(batch, outputs),
            "loss": np.log(np.exp(logits).sum(axis=1)) - label_logits,
        }

    def compute_metrics(self, results: Arrays) -> dict[str, float]:
        """Return the top-1 accuracy, and `eval_loss`, the mean cross-entropy.

        The mean cross-entropy has no target.
        """
        return {**super().compute_metrics(results), "eval_loss": float(np.mean(results["loss"]))}

    def dropout_masks(self, batch: Batch) -> Arrays:
        """Return the dropout masks by layer label.

        The masks are float32 (B, *map) and identical in every framework.
        """
        keys, masks = batch.arrays["dropout_key"], {}
        for layer in self.network.dropouts:
            (mask,) = dropout.multipliers(keys, layer.label, 1, layer.width, layer.rate)
            masks[layer.label] = mask.reshape(len(keys), *layer.map)
        return masks

    def initial_weights(self, seed: int) -> Iterator[tuple[str, Array]]:
        return layer_lists.initial_weights(self.network, seed)

    def open_data(self, worker: WorkerContext, seed: int) -> DataPipeline:
        from workloads.common import manifest
        from workloads.zoo import data

        if self.settings.profile == "synthetic":
            return data.SyntheticZooData(self.settings, self.dataset_info, worker, seed)
        prepared = manifest.read(Path(self.settings.data_dir))
        arrays = prepared is not None and prepared.options.get("form") == data.FORM
        return (data.ZooArrays if arrays else data.ZooImages)(
            self.settings, self.dataset_info, worker, seed
        )

    def log_keys(self) -> Mapping[str, Json]:
        values, model = self.options, self.settings.model
        is_stock = model["implementation"] == "stock"
        difference = (
            stock.DIFFERENCES.get((self.settings.framework, model["name"])) if is_stock else None
        )
        return {
            "opt_name": values.optimizer,
            "opt_base_learning_rate": values.learning_rate,
            "opt_weight_decay": values.weight_decay,
            **({"opt_momentum": values.momentum} if values.optimizer == "sgd" else {}),
            **(
                {"opt_rho": values.rho, "opt_epsilon": values.epsilon}
                if values.optimizer == "rmsprop"
                else {}
            ),
            "model_name": model["name"],
            "model_implementation": model["implementation"],
            "model_parameters": layer_lists.parameter_count(self.network),
            "model_multiply_adds": layer_lists.multiply_adds(self.network),
            "input_image_size": model["image_size"],
            **({"model_difference": difference} if difference else {}),
        }


def _network(model: Mapping[str, Json], classes: int) -> Network:
    """Return the network of a run's `model`.

    The function raises ValueError if the images are too small for the network.
    """
    return networks.build(model["name"], int(model["image_size"]), classes, model["padding"])
