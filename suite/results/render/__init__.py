"""How views look: one renderer of tables for terminals, Markdown and pages; CSV, JSON and parquet; figures."""
