"""What a user can mend: the command line says it in one line and ends with code 2."""


class PruneFLError(ValueError):
    """A setting, a file or a folder that is not as it must be; the message says what, and how to mend it."""
