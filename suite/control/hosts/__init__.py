"""The machines of a run: this one, or others through agents; finding them, starting agents there, and what must agree on all.

For the controller and its supervisor.
"""
