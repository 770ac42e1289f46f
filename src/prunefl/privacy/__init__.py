"""Secure aggregation: the server learns the sum of a round's vectors, and no vector (docs/architecture.md).

Bonawitz et al. (2017) with the graph of Bell et al. (2020): pairwise masks that cancel in the sum, a mask of one's own
that only enough others can take away, and shares of both secrets in case a client is gone. Plain functions from state
and message to state and message: `client` is one half, `server` the other, engines carry what they say.
"""
