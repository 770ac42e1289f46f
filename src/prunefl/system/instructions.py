"""Which instruction set the kernels compute by, in words: whoever waits should not have to guess why."""


def spoken_kernels() -> str:
    """Return which instruction set computes, and whether it is the slow one that every CPU has."""
    from prunefl import _kernels  # after torch, where that is: they share its threads

    name = _kernels.path()
    slow = name == "plain" and _kernels.paths() == ["plain"]
    return f"kernels {name}" + (" (this CPU has no faster instruction set that they know)" if slow else "")
