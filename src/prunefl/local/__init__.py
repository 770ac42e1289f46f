"""Training at a client."""
