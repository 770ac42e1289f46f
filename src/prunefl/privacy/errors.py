"""What a client does not do for any server, and what a round lacks to be unmasked."""

from prunefl.system.errors import PruneFLError


class Refused(PruneFLError):
    """A message that a client does not follow: it would tell more than a sum, or is not what was agreed."""


class TooFew(PruneFLError):
    """Fewer clients are left than the threshold: nothing of the round can be unmasked, and it has to be repeated."""


def require_packages() -> None:
    """Say in one line what has to be installed."""
    try:
        import cryptography.hazmat.primitives.ciphers  # noqa: F401
        import shamirs  # noqa: F401
    except ModuleNotFoundError as error:
        raise PruneFLError(
            f"privacy.secure=true needs {error.name}, which is not installed here: pip install 'prunefl[secure]'"
        ) from None
