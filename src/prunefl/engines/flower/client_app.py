"""The ClientApp: hands a message to the resident worker and its answer back. It must stay quick to import."""

import os
from pathlib import Path

from flwr.app import Context, Message
from flwr.clientapp import ClientApp

from prunefl.engines.flower.chunks import from_records, to_records
from prunefl.engines.flower.processes import SOCKET
from prunefl.engines.flower.sockets import MAX_FRAME, call

PATIENCE = 60.0
"""Seconds for which a message waits for a worker that is just being started again."""

app = ClientApp()


@app.query()
@app.train()
def relay(message: Message, context: Context) -> Message:
    """Return what the worker answers; under Flower's simulation, where none is resident, answer here."""
    data = from_records(message.content, MAX_FRAME)
    path = os.environ.get(SOCKET)
    if path:
        answer = call(Path(path), data, patience=PATIENCE)
    else:
        from prunefl.engines.flower.simulated import answer_here

        answer = answer_here(data, context)
    return Message(to_records(answer), reply_to=message)
