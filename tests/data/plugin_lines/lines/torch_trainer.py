"""The PyTorch half: two parameters and a step; the rest is PyTorchTrainer's."""

import torch
import torch.distributed as dist

from workloads.frameworks.pytorch.trainer import PyTorchTrainer


class LinesTrainer(PyTorchTrainer):
    def setup(self, weights, warmup=True):
        self.open_device()
        self.load_state_dict(dict(weights))

    def run_loss(self, batch):
        error = self.line[0] * self.to_device(batch.arrays["x"]) + self.line[1] - self.to_device(batch.arrays["y"])
        return error.square().sum() / batch.global_weight_sum

    def step(self, batch, learning_rate):
        loss = self.run_loss(batch)
        (gradient,) = torch.autograd.grad(loss, self.line)
        dist.all_reduce(gradient)
        self.line.data -= learning_rate * gradient
        return loss.detach()

    def predict(self, batches):
        slope, offset = self.line.tolist()
        return ((batch, {"y": slope * batch.arrays["x"] + offset}) for (batch,) in batches)

    def state_dict(self):
        return {"line": self.line.detach().cpu().numpy().copy()}

    def load_state_dict(self, state):
        self.line = torch.tensor(state["line"], device=self.device, requires_grad=True)
