"""One source a module: each reads, none judges."""
