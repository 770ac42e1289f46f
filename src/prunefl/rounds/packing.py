"""The model as clients are sent it: packed once for all that hold the same masks."""

from typing import TYPE_CHECKING

from prunefl import wire

if TYPE_CHECKING:
    from prunefl.rounds.server import ServerState, Setup


def pack_by_known(
    setup: "Setup", state: "ServerState", digests: set[bytes]
) -> tuple[dict[bytes, bytes], wire.Residual | None]:
    """Return the model packed for holders of each of these masks (b"" for none), and the residual."""
    precision = setup.config.wire.precision
    made = {
        digest: wire.pack_with_feedback(
            state.sparse, state.residual, known=state.past.get(digest), precision=precision
        )
        for digest in sorted(digests)
    }
    residual = next(iter(made.values()))[1]
    return {digest: packed for digest, (packed, _) in made.items()}, residual
