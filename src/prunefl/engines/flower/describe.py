"""What a worker tells its user of the orders that it has followed."""

from prunefl.rounds.messages import EvaluationWork, Order, Reply, SecureWork
from prunefl.rounds.scores import SCORE_BYTES, unpack_scores


def describe_reply(order: Order, reply: Reply) -> str:
    """Return one line: what came of an order; "" for a step that computes nothing."""
    if isinstance(order.work, SecureWork):
        return ""
    if order.serial:
        what = "model after round" if isinstance(order.work, EvaluationWork) else "round"
        return f"{what} {order.round}: {reply.seconds:.2f} s, {len(reply.secure)} bytes under masks"
    if not isinstance(order.work, EvaluationWork):
        spoken = f"change of norm {order.clip:.3g} at most" if order.clip else f"loss {reply.loss:.4f}"
        return f"round {order.round}: {spoken}, {reply.seconds:.2f} s, {len(reply.model)} bytes"
    score, *personal = unpack_scores(reply.scores, len(reply.scores) // SCORE_BYTES)
    own = f"; personal model: accuracy {personal[0].accuracy:.4f}" if personal else ""
    return (
        f"model after round {order.round}: accuracy {score.accuracy:.4f} on {score.samples} samples held out here, "
        f"loss {score.loss:.4f}{own}"
    )
