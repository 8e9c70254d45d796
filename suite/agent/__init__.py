"""The agent: a process on each machine of a multi-node run.

The agent starts, monitors, and ends workers, and sends the workers' output files to the controller.

The controller starts the agent as `python -m suite.agent` and exchanges messages with it over a
pair of streams (suite/agent/message_stream.py). The agent uses the same Python installation as the
controller. Workers never communicate with the agent.
"""
