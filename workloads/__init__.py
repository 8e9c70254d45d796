"""Workloads.

Each workload has framework-independent code and a trainer for each framework.
"""
