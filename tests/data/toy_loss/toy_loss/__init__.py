"""Plugin for tests: the toy workload with a metric that improves as it falls."""
