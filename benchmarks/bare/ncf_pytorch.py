"""Train NeuMF in a plain PyTorch loop for `benchmarks.overhead`.

    python -m benchmarks.bare.ncf_pytorch BATCHES.npz '{"users": 10, "items": 10, "mf_dim": 64,
        "mlp_layer_sizes": [256, 256, 128, 64], "steps": 20, "warmup": 3, "cores": 1,
        "learning_rate": 0.001}'

batches.py describes BATCHES.npz. This program does not import the suite.
"""

import json
import os
import sys
import time

import torch
from torch import nn

from benchmarks.bare.batches import stream


class NeuMF(nn.Module):
    def __init__(self, users, items, mf_dim, sizes):
        super().__init__()
        self.gmf_user, self.gmf_item = nn.Embedding(users, mf_dim), nn.Embedding(items, mf_dim)
        self.mlp_user, self.mlp_item = (
            nn.Embedding(users, sizes[0] // 2),
            nn.Embedding(items, sizes[0] // 2),
        )
        layers = [part for a, b in zip(sizes, sizes[1:]) for part in (nn.Linear(a, b), nn.ReLU())]
        self.mlp = nn.Sequential(*layers)
        self.output = nn.Linear(mf_dim + sizes[-1], 1)

    def forward(self, user, item):
        gmf = self.gmf_user(user) * self.gmf_item(item)
        mlp = self.mlp(torch.cat([self.mlp_user(user), self.mlp_item(item)], dim=1))
        return self.output(torch.cat([gmf, mlp], dim=1)).squeeze(1)


def main():
    options = json.loads(sys.argv[2])
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: options["cores"]])
    torch.set_num_threads(options["cores"])
    torch.manual_seed(1)
    batches = stream(sys.argv[1])
    model = NeuMF(options["users"], options["items"], options["mf_dim"], options["mlp_layer_sizes"])
    adam = torch.optim.Adam(model.parameters(), lr=options["learning_rate"], fused=True)
    loss_of = nn.BCEWithLogitsLoss()
    samples = 0
    for step in range(options["warmup"] + options["steps"]):
        if step == options["warmup"]:
            begin, samples = time.perf_counter(), 0
        user, item, label = map(torch.from_numpy, next(batches))
        adam.zero_grad(set_to_none=True)
        loss = loss_of(model(user.long(), item.long()), label)
        loss.backward()
        adam.step()
        samples += len(user)
    print(
        json.dumps(
            {"samples_per_second": samples / (time.perf_counter() - begin), "loss": loss.item()}
        )
    )


if __name__ == "__main__":
    main()
