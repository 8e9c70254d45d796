"""The subcommands of `suite`: one module each, with configure(parser) and run(args)."""
