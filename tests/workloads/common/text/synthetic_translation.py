"""Translation workload without a network, for any prepared data set."""

from dataclasses import dataclass

import numpy as np

from suite.catalog.rounds import find_round
from testing.synthetic import place
from workloads.api import Settings
from workloads.common.text.beam import Beam
from workloads.common.text.vocabulary import SHIFTED
from workloads.common.text.workload import TranslationOptions, TranslationWorkload


@dataclass(frozen=True)
class Values:
    max_sequence_length: int
    buckets: int
    learning_rate: float = 1e-3
    warmup_steps: int = 10
    beta1: float = 0.9
    beta2: float = 0.999
    epsilon: float = 1e-8
    dropout: float = 0.0
    label_smoothing: float = 0.0


class Translation(TranslationWorkload):
    name = "translation"
    Options = TranslationOptions
    Hyperparameters = Values
    beam = Beam(4)

    @classmethod
    def defaults(cls, profile, round, options):
        raise NotImplementedError

    def learning_rate(self, step):
        return 0.0

    def initial_weights(self, seed):
        return iter(())

    def longest_translation(self, batch):
        return np.full(len(batch.arrays["source"]), 50)


class Shifted(Translation):
    """Translation workload with the Transformer's framing and a loss that is a mean over tokens."""

    framing = SHIFTED
    weigh_tokens = True


def settings(
    folder, devices=1, batch=32, rules="v0.7", longest=50, buckets=5, mode="train", **options
):
    return Settings(
        workload="translation", devices=devices, global_batch_size=batch, rules=rules, mode=mode,
        round=find_round(rules).figures, profile="demo" if folder else "synthetic",
        data_dir=str(folder or ""), options=options,
        hyperparameters={"max_sequence_length": longest, "buckets": buckets},
    )  # fmt: skip


def make(folder, kind=Translation, **values):
    chosen = settings(folder, **values)
    return kind(chosen, kind.load_dataset_info(chosen))


def data_of(workload, seed=1):
    """Open the data of each process, with a replica per process."""
    total = workload.settings.devices
    return [
        workload.open_data(place(number, range(number, number + 1), total), seed)
        for number in range(total)
    ]
