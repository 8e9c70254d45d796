"""Small batches of sentence pairs for translation tests, equal in all environments."""

import numpy as np

from workloads.api import Batch
from workloads.common.dropout import keys
from workloads.common.randomness import bits, integers, stream
from workloads.common.text.beam import Candidates
from workloads.common.text.workload import TranslationWorkload

WORDS = 45
SENTENCES = 6
EDGES = (9, 14)
"""Maximum sentence lengths of the two buckets. Successive steps alternate between the buckets."""
PAIRS = 600
"""Number of training pairs, which is large enough for batches from both buckets."""


def sides(workload: TranslationWorkload, step: int) -> dict[str, np.ndarray]:
    """Return the global batch of a step: `source`, `target`, `label`, and their lengths.

    The sentence lengths range from the minimum to the maximum length of the bucket.
    """
    begins, edge, rows = workload.framing.begin is not None, EDGES[step % 2], np.arange(SENTENCES)
    least = 2 if begins else 1
    found: dict[str, np.ndarray] = {}
    for number, (side, width) in enumerate((("source", edge), ("label", edge - begins))):
        key = stream(5, "lengths", step, number)
        length = least + integers(bits(key, rows), width - least + 1)
        length[:2] = (width, least) if number else (least, width)
        tokens = (
            workload.end
            + 1
            + integers(bits(key, 1, rows[:, None], np.arange(width)), WORDS - workload.end - 1)
        )
        tokens[rows, length - 1] = workload.end
        found[side] = np.where(np.arange(width) < length[:, None], tokens, 0).astype(np.int32)
        found["target_length" if number else "source_length"] = length.astype(np.int32)
    if begins:
        found["source"][:, 0] = workload.framing.begin
    shifted = np.concatenate(
        [np.full((SENTENCES, 1), workload.framing.start), found["label"][:, :-1]], 1
    )
    within = np.arange(shifted.shape[1]) < found["target_length"][:, None]
    found["target"] = np.where(within, shifted, 0).astype(np.int32)
    return found


def batch(workload: TranslationWorkload, step: int, replica: int = 0) -> Batch:
    """Return a replica's shard of a step's batch.

    The shards of the replicas contain different numbers of tokens.
    """
    share = SENTENCES // workload.settings.devices
    mine, whole = slice(replica * share, (replica + 1) * share), sides(workload, step)
    arrays = {name: value[mine] for name, value in whole.items()}
    arrays["dropout_key"] = keys(3, 0, np.arange(step * SENTENCES, (step + 1) * SENTENCES))[mine]
    if workload.weigh_tokens:
        weights = [float(part["target_length"].sum()) for part in (arrays, whole)]
    else:
        weights = [float(share), float(SENTENCES)]
    return Batch(arrays, *weights, SENTENCES)


def evaluation(workload: TranslationWorkload) -> list[Batch]:
    """Return two evaluation batches: one with only source sentences, one with labels.

    The first batch is for tests of translation, and the second batch is for tests of the loss. The
    last sentence of each batch is marked as invalid.
    """
    arrays = sides(workload, 1)
    number = {"number": np.arange(SENTENCES), "valid": np.arange(SENTENCES) < SENTENCES - 1}
    sources = {name: arrays[name] for name in ("source", "source_length")}
    return [
        Batch({**some, **number}, SENTENCES, SENTENCES, SENTENCES) for some in (sources, arrays)
    ]


class Copies:
    """Decoder stub that copies the source sentence token by token.

    `begin` is the index of the first copied token. `first` is the set of tokens in the first call
    of `step`.
    """

    def __init__(self, begin):
        self.begin, self.steps, self.first = begin, 0, None

    def start(self, batch):
        return batch.arrays["source"], self.begin

    def step(self, state, tokens, parents):
        source, place = state
        self.first = self.first or set(tokens.tolist())
        self.steps += 1
        scores = np.full((len(tokens), WORDS), -20.0)
        copied = source[:, min(place, source.shape[1] - 1)]
        scores[np.arange(len(tokens)), np.repeat(copied, len(tokens) // len(source))] = -0.1
        attention = np.full((len(tokens), source.shape[1]), 1 / source.shape[1])
        return Candidates(scores, np.tile(np.arange(WORDS), (len(tokens), 1)), attention), (
            source,
            place + 1,
        )
