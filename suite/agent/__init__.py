"""What runs beside the workers on each machine of a run over several: starts, watches and ends them, ships what they write.

`python -m suite.agent`, spoken to by the controller over one pair of streams (suite/agent/wire.py). Standard library only:
whatever Python a machine has will do. For the controller; workers know nothing of it.
"""
