"""What stands in the way of a run on this machine, or would make its times wrong.

For the controller, before each job, and `suite doctor`.
"""
