"""JAX for the suite: how its processes are started, what its trainers share, and the trainers."""
