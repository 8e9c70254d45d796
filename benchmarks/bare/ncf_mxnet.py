"""Train NeuMF in a plain MXNet loop for `benchmarks.overhead`.

    python -m benchmarks.bare.ncf_mxnet BATCHES.npz '{"users": 10, "items": 10, "mf_dim": 64,
        "mlp_layer_sizes": [256, 256, 128, 64], "steps": 20, "warmup": 3, "cores": 1,
        "learning_rate": 0.001}'

batches.py describes BATCHES.npz. This program does not import the suite.
"""

import json
import os
import sys
import time

options = json.loads(sys.argv[2])
os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: options["cores"]])
# MXNet reads OMP_NUM_THREADS when it is imported
os.environ["OMP_NUM_THREADS"] = str(options["cores"])

import mxnet as mx  # noqa: E402
from mxnet.gluon import nn  # noqa: E402

from benchmarks.bare.batches import stream  # noqa: E402


class NeuMF(nn.HybridBlock):
    def __init__(self, users, items, mf_dim, sizes):
        super().__init__()
        self.gmf_user, self.gmf_item = nn.Embedding(users, mf_dim), nn.Embedding(items, mf_dim)
        self.mlp_user, self.mlp_item = (
            nn.Embedding(users, sizes[0] // 2),
            nn.Embedding(items, sizes[0] // 2),
        )
        self.mlp = nn.HybridSequential()
        self.mlp.add(
            *[nn.Dense(b, in_units=a, activation="relu") for a, b in zip(sizes, sizes[1:])]
        )
        self.output = nn.Dense(1, in_units=mf_dim + sizes[-1])

    def hybrid_forward(self, F, user, item):
        gmf = self.gmf_user(user) * self.gmf_item(item)
        mlp = self.mlp(F.concat(self.mlp_user(user), self.mlp_item(item), dim=1))
        return self.output(F.concat(gmf, mlp, dim=1)).reshape((-1,))


batches = stream(sys.argv[1])
model = NeuMF(options["users"], options["items"], options["mf_dim"], options["mlp_layer_sizes"])
model.initialize(mx.init.Normal(0.01))
model.hybridize(static_alloc=True, static_shape=True)
loss_of = mx.gluon.loss.SigmoidBCELoss()
adam = mx.gluon.Trainer(model.collect_params(), "adam", {"learning_rate": options["learning_rate"]})
samples = 0
for step in range(options["warmup"] + options["steps"]):
    if step == options["warmup"]:
        mx.nd.waitall()
        begin, samples = time.perf_counter(), 0
    user, item, label = [mx.nd.array(array, dtype=array.dtype) for array in next(batches)]
    with mx.autograd.record():
        loss = loss_of(model(user, item), label)
    loss.backward()
    adam.step(len(user))
    samples += len(user)
mx.nd.waitall()
print(
    json.dumps(
        {
            "samples_per_second": samples / (time.perf_counter() - begin),
            "loss": float(loss.mean().asscalar()),
        }
    )
)
