"""The words of the `suite` command: one module each, with SUMMARY, configure(parser) and run(args)."""
