"""The command line: one small module a command, no logic of its own."""
