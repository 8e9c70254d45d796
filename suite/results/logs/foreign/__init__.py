"""Logs of other programs: their dialects, attempts, epochs and targets are inferred. No log of this suite comes here."""
