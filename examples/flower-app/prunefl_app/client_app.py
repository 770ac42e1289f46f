"""The client's half: prunefl answers each message; what a client remembers travels in Flower's context."""

from prunefl.engines.flower.client_app import app

__all__ = ["app"]
