"""Passes: a kernel in, a kernel (or facts about it) out. One a file."""
