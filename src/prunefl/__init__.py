"""PruneFL: federated learning in which the model shrinks while it trains."""
