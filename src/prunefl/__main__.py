"""`python -m prunefl`: the command line."""

from prunefl.commands.main import main

main()
