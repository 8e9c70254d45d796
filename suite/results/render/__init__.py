"""Render views as Markdown, CSV, JSON, Parquet, and HTML pages with figures."""
