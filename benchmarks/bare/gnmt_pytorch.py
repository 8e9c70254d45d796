"""A training step of GNMT in plain PyTorch, in which every LSTM is an nn.LSTM.

    python -m benchmarks.bare.gnmt_pytorch bare|bare_onednn fp32|bf16 full|demo
        BATCH LENGTH CORES STEPS

This program does not import the suite.
"""

import torch
from torch import nn

from benchmarks.bare.linear import Linear
from benchmarks.bare.translation import GNMT as SIZES
from benchmarks.bare.translation import pytorch

DROPOUT = 0.2


class GNMT(nn.Module):
    def __init__(self, words, hidden, layers):
        super().__init__()
        self.embedding = nn.Embedding(words, hidden)
        self.first = nn.LSTM(hidden, hidden, bidirectional=True)
        self.encoder = nn.ModuleList(
            nn.LSTM(hidden * (2 if not n else 1), hidden) for n in range(layers - 1)
        )
        self.decoder = nn.ModuleList(
            nn.LSTM(hidden * (2 if n else 1), hidden) for n in range(layers)
        )
        self.query, self.key = Linear(hidden, hidden, bias=False), Linear(hidden, hidden)
        self.vector, self.scale = (
            nn.Parameter(torch.ones(hidden)),
            nn.Parameter(torch.full((1,), hidden**-0.5)),
        )
        self.classifier = Linear(hidden, words)
        self.dropout = nn.Dropout(DROPOUT)

    def attend(self, x, memory):
        query, memory = x.transpose(0, 1), memory.transpose(0, 1)
        sums = torch.tanh(self.query(query)[:, :, None] + self.key(memory)[:, None])
        scores = sums @ (self.scale * self.vector / self.vector.norm()).to(sums.dtype)
        return (scores.softmax(-1).to(memory.dtype) @ memory).transpose(0, 1)

    def forward(self, source, target):
        memory = self.first(self.dropout(self.embedding(source.t())))[0]
        for number, lstm in enumerate(self.encoder):
            y = lstm(self.dropout(memory))[0]
            memory = memory + y if number else y
        x = self.decoder[0](self.dropout(self.embedding(target.t())))[0]
        context = self.attend(x, memory)
        for number, lstm in enumerate(self.decoder[1:]):
            y = lstm(self.dropout(torch.cat([x, context], 2)))[0]
            x = x + y if number else y
        return self.classifier(x).transpose(0, 1)


if __name__ == "__main__":
    pytorch(lambda model, *sizes: GNMT(*sizes), SIZES)
