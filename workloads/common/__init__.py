"""What several workloads share: hashed randomness, background reading, manifests of prepared data."""
