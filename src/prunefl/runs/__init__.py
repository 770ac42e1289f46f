"""A run from its first round to its last, and what it leaves."""
