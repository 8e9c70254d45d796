"""What a user can choose and set: Hydra, its schema, overrides and help.

The only room that imports Hydra; for the controller.
"""
