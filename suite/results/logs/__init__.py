"""Reads logs of any writer into typed records, and finds the logs of runs below folders."""
