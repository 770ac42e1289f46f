"""The resident worker: the network and the data stay loaded here while messages come and go."""

import logging
import os
import sys
import time
from pathlib import Path

from prunefl.core.state import SparseState
from prunefl.engines.flower import Say, sockets
from prunefl.engines.flower.codec import decode_order, encode_reply, read_run, read_text
from prunefl.engines.flower.describe import describe_reply
from prunefl.engines.flower.envelope import Envelope, EnvelopeError, one_line, seal, unseal, without_paths
from prunefl.engines.flower.forks import die_with_parent
from prunefl.engines.flower.handshake import find_difference
from prunefl.engines.flower.identity import read_identity
from prunefl.engines.flower.limits import check_order, limit_memory, limit_seconds, read_limits
from prunefl.engines.flower.long_work import LongWork, choose_report_seconds
from prunefl.engines.flower.own_data import Share
from prunefl.engines.flower.personal import Personal, add_steps, save_personal
from prunefl.engines.flower.processes import REFUSAL, REFUSED
from prunefl.engines.flower.secure_worker import SecureWorker
from prunefl.engines.flower.session import Session, SessionError, WorkerOptions, open_session
from prunefl.engines.flower.signing import SignatureError
from prunefl.local.measured import write_measured
from prunefl.rounds.client import Client, ClientState, evaluate, handle
from prunefl.rounds.messages import EvaluationWork, Order, Reply
from prunefl.rounds.private import is_private
from prunefl.system.errors import PruneFLError
from prunefl.system.files import write_atomically, write_private
from prunefl.system.instructions import spoken_kernels
from prunefl.system.memory import keep_freed_memory
from prunefl.wire import WireError

log = logging.getLogger(__name__)


ACKNOWLEDGED_SECONDS = 30.0
"""How long a worker that cannot take part waits until the server has heard so."""


class Worker:
    """Answers envelopes.

    Attributes:
        ended: the server says that the run is over, or has heard that this client cannot take part.
        refusal: why it cannot, "" if it can.
    """

    def __init__(self, options: WorkerOptions, say: Say) -> None:
        self.options, self._say = options, say
        keys = options.keys
        self._identity = read_identity(options.client, keys, options.folder) if keys else None
        self._secure = SecureWorker(self._identity, keys, options.resident)
        self._session: Session | None = None
        self._long: LongWork | None = None
        self._kept, self._kept_plan = options.folder / "run.toml", options.folder / "plan.json"
        self.ended, self.refusal = False, ""
        self._reopen_session()

    def answer(self, data: bytes) -> bytes:
        """Return the answer to a message; where there are keys, to the server's own signed ones alone."""
        if self._identity is None:
            return self._answer(data)
        try:
            return self._identity.answer(data, self._answer)
        except SignatureError as error:
            # not by the server, or not for us: nobody to sign an answer to
            return self._complain(f"a message was refused: {error}")

    def _answer(self, data: bytes) -> bytes:
        """Return the sealed answer to a sealed envelope; whatever goes wrong is told to the server in one line."""
        try:
            return seal(self._handle(unseal(data)))
        except SessionError as error:
            self.refusal = one_line(str(error))
            return self._seal_error(self.refusal, leaves=True)
        except (EnvelopeError, WireError, PruneFLError) as error:
            what = one_line(str(error))
        except Exception as error:
            # not the server's doing: the traceback stays here, where it can be looked into
            log.exception("internal error")
            what = one_line(f"internal error of this client, see its log: {type(error).__name__}: {error}")
        return self._complain(what)

    def _complain(self, what: str) -> bytes:
        self._say(f"error: {what}")
        return self._seal_error(what)

    def _seal_error(self, what: str, leaves: bool = False) -> bytes:
        about = {"what": without_paths(what), "client": self.options.client}
        return seal(Envelope("error", about | ({"leaves": True} if leaves else {})))

    def _handle(self, envelope: Envelope) -> Envelope:
        handlers = {
            "hello": self._join_run,
            "order": self._follow_order,
            "go_on": self._go_on,
            "end": self._end_run,
            "refused": self._leave_run,
        }
        if envelope.kind not in handlers:
            raise EnvelopeError(f"{envelope.kind!r} is not known here; are both sides of the same version?")
        return handlers[envelope.kind](envelope)

    def _join_run(self, envelope: Envelope) -> Envelope:
        """Get ready for a run and say who we are."""
        run = read_run(envelope.values)
        session = self._open_session(run, *_read_task(envelope))
        split = session.client.split
        samples = len(split.train)
        problem = find_difference(envelope.values.get("facts"), session.facts)
        if problem:
            self._session = None
            raise SessionError(problem)
        self.refusal = ""
        held_out = f", {split.num_held_out} more held out" if split.held_out else ""
        trains = f"{session.client.backend.name} backend, {spoken_kernels()}"
        self._say(
            f"joined run {run} as client {self.options.client} with {samples} samples{held_out}; {trains}"
        )
        for note in session.notes:
            self._say(f"note: {note}")
        private = is_private(session.client.config)
        # how many samples there are would leave without noise; all clients count the same then
        told_samples = 1 if private else samples
        about = {"client": self.options.client, "num_samples": told_samples, "held_out": split.num_held_out}
        told = {"by_class": list(session.by_class)} if self.options.tell_classes and not private else {}
        return self._secure.introduce(session, envelope, Envelope("joined", {**about, **told}))

    def _follow_order(self, envelope: Envelope) -> Envelope:
        """Train or evaluate as ordered; ask for the whole state if the order speaks of what we do not have."""
        run, (config_text, plan_text) = read_run(envelope.values), _read_task(envelope)
        session = self._session
        if session is None or session.run != run:
            if not config_text:
                return Envelope("state_wanted")
            session = self._open_session(run, config_text, plan_text)
        try:
            session.watch.refuse_change()
        except PruneFLError as error:
            raise SessionError(str(error)) from None
        order = decode_order(envelope, session.client.method)
        check_order(order, self.options.limits)
        if self._long is not None:
            self._long.stop()
            self._long = None
        secure = session.client.config.privacy.secure
        if not order.round and not isinstance(order.work, EvaluationWork) and not secure:
            before = session.store.before(order.round)
            self._long = LongWork(order, session.client, before, self.options.limits.seconds)
            return self._report_progress(session, self._long)
        try:
            with limit_seconds(self.options.limits):
                reply = self._train_or_evaluate(session, order)
        except WireError as error:
            return self._want_state(order, error)
        return self._reply(session, order, reply)

    def _reply(self, session: Session, order: Order, reply: Reply) -> Envelope:
        write_measured(self.options.folder, session.measured, session.run)
        if words := describe_reply(order, reply):
            self._say(words)
        return encode_reply(reply)

    def _want_state(self, order: Order, error: WireError) -> Envelope:
        """Return the wish for the whole state where it is that which is lacking."""
        if error.reason != "digest":
            raise error
        self._say(f"round {order.round}: {error}; asking for the whole state")
        return Envelope("state_wanted")

    def _go_on(self, envelope: Envelope) -> Envelope:
        """Say how far the long work is, or give what came of it; without any, ask for its order."""
        session = self._session
        if self._long is None or session is None or session.run != read_run(envelope.values):
            return Envelope("state_wanted")
        return self._report_progress(session, self._long)

    def _report_progress(self, session: Session, long: LongWork) -> Envelope:
        wait = choose_report_seconds(session.client.config.server.deadline) if self.options.resident else None
        if not long.is_done(wait):
            return Envelope("working", {"passes": long.passes})
        self._long = None
        try:
            reply, after = long.result()
        except WireError as error:
            return self._want_state(long.order, error)
        session.store.save(long.order.round, after)
        return self._reply(session, long.order, reply)

    def _train_or_evaluate(self, session: Session, order: Order) -> Reply:
        """Return the reply to an order; training leaves a state behind, evaluation perhaps a personal model."""
        if session.client.config.privacy.secure:
            return self._secure.follow(session, order, self._evaluate)
        if isinstance(order.work, EvaluationWork):
            # the model after a round is sent to who may have taken part in it
            return self._evaluate(order, order.work, session.client, session.store.before(order.round + 1))[0]
        reply, after = handle(order, session.client, session.store.before(order.round))
        session.store.save(order.round, after)
        return reply

    def _evaluate(
        self, order: Order, work: EvaluationWork, client: Client, state: ClientState
    ) -> tuple[Reply, SparseState | None]:
        personal = self.options.personal
        reply, model = evaluate(order, add_steps(work, personal), client, state)
        if place := save_personal(personal, client, model):
            self._say(f"personal model written to {place}")
        return reply, model

    def _end_run(self, envelope: Envelope) -> Envelope:
        self.ended = True
        self._say("the run is over")
        return Envelope("end")

    def _leave_run(self, envelope: Envelope) -> Envelope:
        """The server has heard that this client cannot take part, or says so itself; an internal error may pass."""
        self.refusal = self.refusal or one_line(str(envelope.values.get("why", "")))
        self.ended = bool(self.refusal)
        return Envelope("refused")

    def _open_session(self, run: str, config_text: str, plan_text: str) -> Session:
        """Load data and network for a run, unless they are; config and plan are kept for a restart."""
        if self._session is not None and self._session.run == run:
            return self._session
        session = open_session(self.options, run, config_text, plan_text)
        self._secure.refuse_misfit(session)
        if not self._kept.exists() or _read_run(self._kept.read_text(errors="replace")) != run:
            session.store.clear()
        write_private(self._kept_plan, plan_text.encode())
        write_private(self._kept, f"# run {run}\n{config_text}".encode())
        self._session = session
        return session

    def _reopen_session(self) -> None:
        """After a restart, be ready before the first message."""
        if not self._kept.exists():
            return
        try:
            text = self._kept.read_text()
            plan = self._kept_plan.read_text() if self._kept_plan.exists() else ""
            self._session = open_session(self.options, _read_run(text), text, plan)
        except (SessionError, UnicodeDecodeError) as error:
            self._say(f"{self._kept}: {error}; waiting for the server's config")


def _read_task(envelope: Envelope) -> tuple[str, str]:
    """Return the config and the plan that an envelope brings, "" for what it does not."""
    return read_text(envelope.values, "config"), read_text(envelope.values, "plan")


def _read_run(text: str) -> str:
    return text.partition("\n")[0].removeprefix("# run ").strip()


def serve(worker: Worker, socket_path: Path) -> None:
    """Answer messages one at a time until the run is over."""
    with sockets.listen(socket_path) as server:
        limit = None
        while not worker.ended:
            limit = (limit or time.monotonic() + ACKNOWLEDGED_SECONDS) if worker.refusal else None
            server.settimeout(None if limit is None else max(0.01, limit - time.monotonic()))
            try:
                line, _ = server.accept()
            except TimeoutError:
                return
            with line:
                try:
                    sockets.send(line, worker.answer(sockets.receive(line)))
                except (OSError, ValueError) as error:
                    log.warning("a message was lost on the way: %s", error)


def main() -> None:
    """Run as `python -m [this module] FOLDER CLIENT SOCKET KEYS LIMITS DATA SHARE STEPS OUT TELL [FUNCTION ...]`."""
    die_with_parent()
    logging.basicConfig(format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    keep_freed_memory()
    folder, client, socket_path, key_folder, limits_file, data, *rest = sys.argv[1:]
    share, steps, out, tell, *allowed = rest
    chosen = Share.parse(share) if share else None
    personal = Personal(int(steps), Path(out)) if out else None
    keys = Path(key_folder) if key_folder else None
    limits = read_limits(Path(limits_file) if limits_file else None)
    limit_memory(limits)
    own = (data, chosen, tuple(allowed), personal)
    options = WorkerOptions(Path(folder), int(client), *own, keys, limits, bool(tell))
    # standard output is what `prunefl client` shows; the log is standard error
    worker = Worker(options, lambda words: print(one_line(words), flush=True))
    serve(worker, Path(socket_path))
    sys.stdout.flush()
    if worker.refusal:
        write_atomically(options.folder / REFUSAL, worker.refusal.encode())
    os._exit(REFUSED if worker.refusal else 0)


if __name__ == "__main__":
    main()
