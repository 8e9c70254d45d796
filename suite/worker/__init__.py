"""What runs inside a framework's environment: the loop, its log, its heartbeat.

Never Hydra, pandas, rich or vl_convert.
"""
