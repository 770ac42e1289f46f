"""Ways to carry messages between server and clients."""
