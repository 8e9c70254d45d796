"""Measure beam search of GNMT and the Transformer in PyTorch on CPU cores.

    python -m benchmarks.decoding [--workloads gnmt,transformer] [--size full|demo]
        [--sentences 16] [--batches 1] [--cores 1] [--linear onednn|mkl]

The weights are random and never end a sentence, so every translation is two tokens longer than its
source sentence. The lengths of the 3,003 sentences are drawn from the length distribution of
newstest2014 (log-normal, median 22 subwords, at most 96). The sentences are sorted by length and
divided into batches of `--sentences` sentences. The benchmark decodes `--batches` evenly spaced
batches.

The output is JSON with tokens per second. `..._extrapolated` is the estimated time of all batches,
computed from the measured batches and the sentence lengths. `host_share` is the share of CPU
seconds spent outside the model. `anew` (Transformer) is a decoder without a key/value cache, which
decodes all previous tokens again in every step.
"""

from __future__ import annotations

import argparse
import json
import time
from typing import Any

import numpy as np

from benchmarks import gnmt_step, transformer_step
from benchmarks.measuring import in_environment, parser_with, show, trainer_of
from benchmarks.translation_step import Figures
from workloads.api import Batch

KINDS = {"gnmt": gnmt_step.KIND, "transformer": transformer_step.KIND}
SENTENCES, LOG_MEDIAN, LOG_DEVIATION, LONGEST = 3_003, 3.1, 0.54, 96
"""Number of sentences in newstest2014, and the log-normal distribution of sentence lengths in
subwords: median and standard deviation of the logarithm, and maximum length. The logarithm of the
number of words per sentence has the median 2.85 and the standard deviation 0.54 (counted). A word
has 1.3 subwords.
"""
MORE = 2
"""Number of tokens by which a translation is longer than its source."""


class Timed:
    """Wraps a decoder and sums the CPU seconds of all calls in `seconds`."""

    def __init__(self, decoder: Any) -> None:
        self.decoder, self.seconds = decoder, 0.0

    def start(self, batch: Batch) -> Any:
        """Call the decoder's `start`, and add the call's CPU seconds to `seconds`."""
        return self._timed(self.decoder.start, batch)

    def step(self, *arguments: Any) -> Any:
        """Call the decoder's `step`, and add the call's CPU seconds to `seconds`."""
        return self._timed(self.decoder.step, *arguments)

    def _timed(self, call: Any, *arguments: Any) -> Any:
        begin = time.process_time()
        found = call(*arguments)
        self.seconds += time.process_time() - begin
        return found


def anew(trainer: Any) -> Any:
    """Return a Transformer decoder without a key/value cache, for the trainer's model."""
    import torch

    from workloads.common.text.beam import Candidates
    from workloads.frameworks.pytorch.rows import Rows

    model, width, device = trainer.model, trainer.workload.beam.width, trainer.device

    class Anew:
        def start(self, batch: Batch) -> Any:
            source, lengths = batch.arrays["source"], batch.arrays["source_length"]
            rows = Rows.of(lengths, source.shape[1], device)
            words = torch.from_numpy(source[rows.sequence, rows.position]).long()
            memory = rows.padded(
                model.encode(model.placed(model.embed(words), rows, "source", None), rows, None)
            )
            of_all = Rows.of(np.repeat(lengths, width), source.shape[1], device)
            return of_all, of_all.packed(memory.repeat_interleave(width, 0)), None

        def step(self, state: Any, tokens: Any, parents: Any) -> Any:
            position, memory, generated = state
            new = torch.from_numpy(tokens).long()[:, None]
            generated = (
                new
                if generated is None
                else torch.cat([generated[torch.from_numpy(parents)], new], 1)
            )
            rows = Rows.of(np.full(len(generated), generated.shape[1]), generated.shape[1], device)
            x = model.placed(model.embed(generated.flatten()), rows, "target", None)
            for name, layer in model.layers("decoder"):
                x = model.attended(x, layer.self_attention, f"{name}/self", rows, rows, None, None)
                x = model.attended(
                    x, layer.cross_attention, f"{name}/cross", rows, position, memory, None
                )
                x = model.fed_forward(x, layer, name, rows, None)
            scores = model.classify(rows.padded(x)[:, -1]).log_softmax(-1)
            best = scores.topk(2 * width)
            return Candidates(best.values.numpy(), best.indices.int().numpy()), (
                position,
                memory,
                generated,
            )

    return Anew()


def lengths() -> Any:
    """Return the sorted lengths (3,003,) of all source sentences in subwords with EOS."""
    drawn = np.exp(np.random.default_rng(1).normal(LOG_MEDIAN, LOG_DEVIATION, SENTENCES))
    return np.sort(np.clip(drawn.round(), 2, LONGEST)).astype(np.int32)


def chosen(workload: Any, count: int, batches: int) -> list[Batch]:
    """Return `batches` evenly spaced batches of the sentences sorted by length.

    The sentences of a batch are padded to the next bucket length that evaluations use.
    """
    every, found = lengths(), []
    starts = range(0, SENTENCES - count + 1, count)
    for number in range(batches):
        start = starts[(2 * number + 1) * len(starts) // (2 * batches)]
        mine = every[start : start + count]
        edge = next(length for length in workload.batching.evaluation_edges if length >= mine.max())
        words = (
            np.random.default_rng(number)
            .integers(4, workload.vocabulary_size, (count, edge))
            .astype(np.int32)
        )
        words[np.arange(count), mine - 1] = workload.end
        source = np.where(np.arange(edge) < mine[:, None], words, 0).astype(np.int32)
        arrays = {
            "source": source,
            "source_length": mine,
            "number": np.arange(count),
            "valid": np.ones(count, bool),
        }
        found.append(Batch(arrays, float(count), float(count), count))
    return found


def decoded(workload: Any, decoder: Any, batches: list[Batch]) -> tuple[Figures, list[Any]]:
    """Return the measured rates of a decoder, and the tokens that it generated.

    Before the measurement, the first batch is decoded once as a warm-up.
    """
    import torch

    with torch.inference_mode():
        workload.translated(decoder, batches[0])
        timed, begin, used = Timed(decoder), time.perf_counter(), time.process_time()
        outputs = [workload.translated(timed, batch) for batch in batches]
        seconds, cpu = time.perf_counter() - begin, time.process_time() - used
    tokens = sum(int(output["token_count"].sum()) for output in outputs)
    share = (lengths() + MORE).sum() / sum(
        (batch.arrays["source_length"] + MORE).sum() for batch in batches
    )
    figures = {
        "tokens": tokens,
        "tokens_per_second": tokens / seconds, "tokens_per_cpu_second": tokens / cpu,
        "host_share": 1 - timed.seconds / cpu, "cpu_seconds_extrapolated": cpu * share,
        "seconds_extrapolated": seconds * share,
    }  # fmt: skip
    return {name: round(float(value), 3) for name, value in figures.items()}, [
        output["tokens"] for output in outputs
    ]


def measure(args: argparse.Namespace) -> dict[str, Any]:
    """Measure the decoding of a workload in PyTorch's environment.

    The Transformer is measured both with and without a key/value cache.
    """
    kind = KINDS[args.worker]
    workload: Any = kind.build(
        "pytorch", "fp32", argparse.Namespace(**vars(args), batch=32, length=25)
    )
    workload.longest_translation = lambda batch: batch.arrays["source_length"] + MORE
    trainer = trainer_of(workload, warmup=False)
    trainer.model.eval()
    batches = chosen(workload, args.sentences, args.batches)
    if args.worker == "gnmt":
        from workloads.gnmt.pytorch import Decoder

        found = {"suite": decoded(workload, Decoder(trainer), batches)[0]}
    else:
        from workloads.transformer.pytorch import Search

        cached, tokens = decoded(workload, Search(trainer), batches)
        plain, same = decoded(workload, anew(trainer), batches)
        equal = np.mean(
            [np.array_equal(first, second) for first, second in zip(tokens, same, strict=True)]
        )
        gain = {
            "cache_gain_cpu": plain["cpu_seconds_extrapolated"] / cached["cpu_seconds_extrapolated"]
        }
        found = {"suite": {**cached, **gain, "batches_equal_to_anew": float(equal)}, "anew": plain}
    trainer.close()
    return found


def main() -> None:
    """Run the benchmark and print its results."""
    parser = parser_with(__doc__, workloads="gnmt,transformer", sentences=16, batches=1, cores=1)
    parser.add_argument("--worker", default="", help=argparse.SUPPRESS)
    parser.add_argument("--size", default="full", choices=("full", "demo"))
    parser.add_argument("--linear", default="onednn", choices=("mkl", "onednn"))
    args = parser.parse_args()
    if args.worker:
        print(json.dumps(measure(args)))
        return
    options = {
        name: getattr(args, name) for name in ("size", "sentences", "batches", "cores", "linear")
    }
    words = [
        "benchmarks.decoding",
        *(word for name, value in options.items() for word in (f"--{name}", value)),
    ]
    names = args.workloads.split(",")
    results = {
        name: in_environment("pytorch", [*words, "--worker", name], args.cores) for name in names
    }
    show("decoding", args.cores, **options, results=results)


if __name__ == "__main__":
    main()
