"""The same rounds across machines: Flower carries the messages. Importing this loads no Flower, no torch."""
