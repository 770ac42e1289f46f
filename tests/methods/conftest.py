"""The tiny network that the pruners' tests share."""

from pruner_cases import net

__all__ = ["net"]
