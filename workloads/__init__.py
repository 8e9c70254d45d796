"""The workloads: framework-free facts and data beside one trainer file per framework."""
