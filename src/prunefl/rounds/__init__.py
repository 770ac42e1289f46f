"""A round, written once: what server and clients do, whichever engine carries their messages."""
