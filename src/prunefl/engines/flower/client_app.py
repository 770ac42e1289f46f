"""The ClientApp, for Flower's simulation and SuperNodes: a message is answered in the process that has it."""

from flwr.app import Context, Message
from flwr.clientapp import ClientApp

from prunefl.engines.flower.chunks import from_records, to_records
from prunefl.engines.flower.sockets import MAX_FRAME

app = ClientApp()


@app.query()
@app.train()
def relay(message: Message, context: Context) -> Message:
    """Return the answer to a message. `prunefl client` has a resident worker instead, which node.py asks."""
    from prunefl.engines.flower.simulated import answer_here

    data = from_records(message.content, MAX_FRAME)
    return Message(to_records(answer_here(data, context)), reply_to=message)
