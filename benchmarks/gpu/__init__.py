"""GPU benchmarks in five stages: right, learns, fast, fed, why.

`make gpu` starts all stages.
"""
