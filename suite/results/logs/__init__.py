"""Reads logs of any program into typed records, and finds the logs below folders."""
