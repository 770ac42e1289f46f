"""PruneFL as a Flower app."""
