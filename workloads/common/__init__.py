"""Code that several workloads share: randomness, schedules, optimizers, prepared data."""
