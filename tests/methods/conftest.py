"""The tiny network that the methods' tests share."""

from method_cases import network

__all__ = ["network"]
