"""The agent: a process on each machine of a multi-node run.

It starts, watches, and ends workers, and sends their files.

The controller starts it as `python -m suite.agent` and exchanges messages with it over one pair of
streams (suite/agent/message_stream.py). The agent runs in the controller's Python. Workers never
communicate with it.
"""
