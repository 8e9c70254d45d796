"""Subcommands of `suite`. Each module defines configure(parser) and run(args)."""
