"""Code shared by several workloads: randomness, schedules, optimizers, prepared data."""
