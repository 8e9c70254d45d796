"""A training step of the Transformer (big) in plain PyTorch.

    python -m benchmarks.bare.transformer_pytorch bare|bare_onednn|stock fp32|bf16 full|demo
        BATCH LENGTH CORES STEPS

The model `stock` is based on torch.nn.Transformer. This program does not import the suite.
"""

import math

import torch
from torch import nn
from torch.nn import functional

from benchmarks.bare.linear import Linear, product
from benchmarks.bare.translation import TRANSFORMER, pytorch

DROPOUT = 0.1


def positions(length, hidden):
    angles = torch.arange(length)[:, None] * torch.exp(
        torch.arange(hidden // 2) * (-math.log(1e4) / (hidden // 2 - 1))
    )
    return torch.cat([angles.sin(), angles.cos()], 1)


class Attention(nn.Module):
    def __init__(self, hidden, heads):
        super().__init__()
        self.heads = heads
        self.query, self.output = (Linear(hidden, hidden, bias=False) for _ in range(2))
        self.key_value = Linear(hidden, 2 * hidden, bias=False)

    def forward(self, x, memory, causal):
        query = self.query(x).unflatten(-1, (self.heads, -1)).transpose(1, 2)
        key, value = (
            self.key_value(memory).unflatten(-1, (2, self.heads, -1)).permute(2, 0, 3, 1, 4)
        )
        found = functional.scaled_dot_product_attention(
            query, key, value, dropout_p=DROPOUT, is_causal=causal
        )
        return self.output(found.transpose(1, 2).flatten(2))


class Layer(nn.Module):
    def __init__(self, hidden, inner, heads, decoder):
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(hidden, 1e-6) for _ in range(3 if decoder else 2))
        self.attentions = nn.ModuleList(
            Attention(hidden, heads) for _ in range(2 if decoder else 1)
        )
        self.inner, self.outer = Linear(hidden, inner), Linear(inner, hidden)
        self.dropout = nn.Dropout(DROPOUT)

    def forward(self, x, memory=None):
        y = self.norms[0](x)
        x = x + self.dropout(self.attentions[0](y, y, memory is not None))
        if memory is not None:
            x = x + self.dropout(self.attentions[1](self.norms[1](x), memory, False))
        y = self.dropout(functional.relu(self.inner(self.norms[-1](x))))
        return x + self.dropout(self.outer(y))


class Bare(nn.Module):
    def __init__(self, words, hidden, inner, layers, heads):
        super().__init__()
        self.embedding = nn.Embedding(words, hidden)
        nn.init.normal_(self.embedding.weight, std=hidden**-0.5)
        self.encoder, self.decoder = (
            nn.ModuleList(Layer(hidden, inner, heads, decoder) for _ in range(layers))
            for decoder in (False, True)
        )
        self.norms = nn.ModuleList(nn.LayerNorm(hidden, 1e-6) for _ in range(2))
        self.dropout = nn.Dropout(DROPOUT)

    def embed(self, words):
        hidden = self.embedding.embedding_dim
        return self.dropout(
            self.embedding(words) * math.sqrt(hidden) + positions(words.shape[1], hidden)
        )

    def forward(self, source, target):
        memory, x = self.embed(source), self.embed(target)
        for layer in self.encoder:
            memory = layer(memory)
        memory = self.norms[0](memory)
        for layer in self.decoder:
            x = layer(x, memory)
        return product(self.norms[1](x), self.embedding.weight, None, Linear.onednn)


class Stock(Bare):
    def __init__(self, words, hidden, inner, layers, heads):
        super().__init__(words, hidden, inner, 0, heads)
        self.library = nn.Transformer(
            hidden,
            heads,
            layers,
            layers,
            inner,
            DROPOUT,
            layer_norm_eps=1e-6,
            batch_first=True,
            norm_first=True,
        )

    def forward(self, source, target):
        later = nn.Transformer.generate_square_subsequent_mask(target.shape[1])
        found = self.library(
            self.embed(source), self.embed(target), tgt_mask=later, tgt_is_causal=True
        )
        return functional.linear(found, self.embedding.weight)


if __name__ == "__main__":
    pytorch(lambda model, *sizes: (Stock if model == "stock" else Bare)(*sizes), TRANSFORMER)
