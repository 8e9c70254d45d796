"""Train a small Llama in a plain PyTorch loop for `benchmarks.llama_step`.

    python -m benchmarks.bare.llama_pytorch bare|transformers '{"vocabulary": 256, "layers": 2,
        "hidden": 128, "feed_forward": 384, "heads": 4, "key_value_heads": 2, "length": 128,
        "batch": 8, "steps": 20, "packages": ""}'

With `transformers`, the model is `LlamaForCausalLM`, which is imported from the folder `packages`.
This program does not import the suite. It prints the least time of a step as JSON.
"""

import json
import sys
import time
from types import SimpleNamespace

import torch
import torch.nn.functional as F
from torch import nn


class Layer(nn.Module):
    """Attention and feed-forward layer."""

    def __init__(self, sizes):
        super().__init__()
        self.size, self.kv = sizes.hidden // sizes.heads, sizes.key_value_heads
        self.norms = nn.ModuleList(nn.RMSNorm(sizes.hidden, 1e-5) for _ in range(2))
        rows = (sizes.heads + 2 * self.kv) * self.size
        self.qkv = nn.Linear(sizes.hidden, rows, bias=False)
        self.out = nn.Linear(sizes.hidden, sizes.hidden, bias=False)
        self.gate_up = nn.Linear(sizes.hidden, 2 * sizes.feed_forward, bias=False)
        self.down = nn.Linear(sizes.feed_forward, sizes.hidden, bias=False)

    def forward(self, x, cos, sin):
        parts = self.qkv(self.norms[0](x)).unflatten(-1, (-1, self.size)).transpose(1, 2)
        q, k, v = parts.split([parts.shape[1] - 2 * self.kv, self.kv, self.kv], 1)
        q, k = (
            t * cos + torch.cat([-t.chunk(2, -1)[1], t.chunk(2, -1)[0]], -1) * sin for t in (q, k)
        )
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        x = x + self.out(y.transpose(1, 2).flatten(2))
        gate, up = self.gate_up(self.norms[1](x)).chunk(2, -1)
        return x + self.down(F.silu(gate) * up)


class Llama(nn.Module):
    """Language model that returns logits."""

    def __init__(self, sizes):
        super().__init__()
        self.embedding = nn.Embedding(sizes.vocabulary, sizes.hidden)
        self.layers = nn.ModuleList(Layer(sizes) for _ in range(sizes.layers))
        self.norm = nn.RMSNorm(sizes.hidden, 1e-5)
        self.classifier = nn.Linear(sizes.hidden, sizes.vocabulary, bias=False)
        half = sizes.hidden // sizes.heads // 2
        frequencies = 10_000.0 ** (-torch.arange(half) / half)
        angles = (torch.arange(sizes.length)[:, None] * frequencies).repeat(1, 2)
        self.cos, self.sin = angles.cos(), angles.sin()

    def forward(self, tokens):
        x = self.embedding(tokens)
        for layer in self.layers:
            x = layer(x, self.cos, self.sin)
        return self.classifier(self.norm(x))


def stock(sizes):
    """Return a function from tokens to logits by transformers, and its model."""
    sys.path.insert(0, sizes.packages)
    from transformers import LlamaConfig, LlamaForCausalLM

    model = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=sizes.vocabulary, hidden_size=sizes.hidden, rms_norm_eps=1e-5,
            intermediate_size=sizes.feed_forward, num_hidden_layers=sizes.layers,
            num_attention_heads=sizes.heads, num_key_value_heads=sizes.key_value_heads,
            max_position_embeddings=sizes.length, attn_implementation="sdpa", use_cache=False,
        )
    )  # fmt: skip
    return (lambda tokens: model(tokens).logits), model


def main():
    sizes = SimpleNamespace(**json.loads(sys.argv[2]))
    torch.manual_seed(1)
    if sys.argv[1] == "transformers":
        forward, model = stock(sizes)
    else:
        forward = model = Llama(sizes)
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3, (0.9, 0.95), 1e-5, 0.1, foreach=True)
    tokens = torch.randint(sizes.vocabulary, (sizes.batch, sizes.length + 1))
    least = [float("inf"), float("inf")]
    for _ in range(sizes.steps):
        start, cpu = time.perf_counter(), time.process_time()
        logits = forward(tokens[:, :-1])
        F.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten()).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        spent = time.perf_counter() - start, time.process_time() - cpu
        least = [min(pair) for pair in zip(least, spent, strict=True)]
    print(json.dumps({"step_seconds": least[0], "step_cpu_seconds": least[1]}))


if __name__ == "__main__":
    main()
