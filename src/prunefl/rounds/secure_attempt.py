"""One attempt at a secure sum, at the server: its steps as orders that any engine carries."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from prunefl.privacy import server as protocol
from prunefl.privacy.errors import Refused
from prunefl.privacy.fixed_point import Floats, Segment, Words, decode
from prunefl.privacy.messages import Plan, Terms, Verdict, pack_parts, pack_table, unpack_parts
from prunefl.privacy.noise_shares import Noising
from prunefl.privacy.server import Shared
from prunefl.rounds.messages import Order, SecureWork
from prunefl.rounds.secure_keys import Keyring
from prunefl.rounds.secure_steps import Carry, Traffic, carry_step
from prunefl.rounds.server import ServerState


@dataclass(frozen=True)
class Upcoming:
    """The sum after this one, as far as it is known: its clients can share keys for it when they unmask this one."""

    purpose: str
    cohort: tuple[int, ...]


@dataclass(frozen=True)
class Content:
    """What a sum is of.

    Attributes:
        cap: samples that count fully.
        noising: how much noise is in it, with privacy.noise.
    """

    segments: tuple[Segment, ...]
    cap: int
    noising: Noising | None = None


@dataclass(frozen=True)
class Ahead:
    """A sum for which all of its cohort have shared keys."""

    plan: Plan
    shared: Mapping[int, Shared]


@dataclass
class Attempt:
    """One attempt at a sum."""

    keyring: Keyring
    carry: Carry
    state: ServerState
    orders: Mapping[int, Order]
    plan: Plan
    traffic: Traffic
    refused: dict[int, str]
    following: Ahead | None = None

    def sum_up(
        self, content: Content, ahead: Ahead | None, upcoming: Upcoming | None
    ) -> tuple[dict[str, Floats], tuple[int, ...], dict[int, float]]:
        """Return the sum, who is in it, and each one's seconds."""
        rules, plan = self.keyring.rules, self.plan
        least = content.noising.enough if content.noising else 0
        shared = dict(ahead.shared) if ahead else self._collect_shares()
        protocol.check_there(plan, rules, set(shared), "exchanging keys", least)
        terms = Terms(tuple(shared), content.cap, content.segments, content.noising)
        total, seconds = self._collect_vectors(shared, terms)
        protocol.check_there(plan, rules, set(seconds), "training", least)
        alive = tuple(sorted(seconds))
        verdict = Verdict(plan.serial, alive, tuple(sorted(shared.keys() - seconds.keys())))
        answers, self.following = self._collect_answers(verdict, upcoming)
        found = protocol.unmask_sum(plan, rules, terms, shared, total, verdict, answers)
        return decode(found, terms.layout(plan)), alive, seconds

    def _order(self, step: str, serial: int, message: bytes) -> Order:
        work = SecureWork(step=step, purpose=self.plan.purpose)
        return Order(next(iter(self.orders.values())).round, 0.0, b"", work, serial, message)

    def _carry(self, orders: Mapping[int, Order], refused: dict[int, str]) -> dict[int, bytes]:
        return carry_step(self.carry, self.state, orders, self.traffic, refused)[0]

    def _ask_to_share(self, client: int, plan: Plan) -> bytes:
        """Return what a client needs to share keys for a sum: the plan, and neighbours' keys that it has not seen."""
        keyring = self.keyring
        new = keyring.rules.draw_graph(plan)[client] - keyring.shown.get(client, set())
        return pack_parts(plan.pack(), pack_table({other: keyring.keys[other] for other in new}))

    def _read_shared(
        self, plan: Plan, answers: Mapping[int, bytes], refused: dict[int, str]
    ) -> dict[int, Shared]:
        """Return what each client sealed for its neighbours."""
        keyring, shared = self.keyring, {}
        for client, answer in answers.items():
            try:
                shared[client] = self._check_shared(client, plan, answer)
            except Refused as error:
                refused[client] = str(error)
                continue
            keyring.shown.setdefault(client, set()).update(keyring.rules.draw_graph(plan)[client])
        for client in set(plan.cohort) - shared.keys():
            # it may have begun anew, or not have read what it was shown
            keyring.keys.pop(client, None)
            keyring.shown.pop(client, None)
        return shared

    def _collect_shares(self) -> dict[int, Shared]:
        plan = self.plan
        orders = {c: self._order("share", plan.serial, self._ask_to_share(c, plan)) for c in plan.cohort}
        return self._read_shared(plan, self._carry(orders, self.refused), self.refused)

    def _check_shared(self, client: int, plan: Plan, answer: bytes) -> Shared:
        shared = protocol.parse_shared(answer)
        if not protocol.seals_for_all(client, plan, self.keyring.rules, shared):
            raise Refused("it did not seal shares for each of its neighbours")
        return shared

    def _collect_vectors(self, shared: Mapping[int, Shared], terms: Terms) -> tuple[Words, dict[int, float]]:
        """Return the sum of all vectors that came, under their masks, and the seconds of whom they are."""
        plan, rules, layout = self.plan, self.keyring.rules, terms.layout(self.plan)
        total = Words.zeros(layout)

        def add(vector: bytes) -> bytes:
            if len(vector) != layout.num_bytes:
                raise Refused(f"a vector of {len(vector)} bytes, must be {layout.num_bytes}")
            total.add(Words.parse(vector, layout))
            return b""

        orders = {
            client: replace(
                self.orders[client],
                serial=plan.serial,
                secure=protocol.ask_to_mask(client, plan, rules, terms, shared),
            )
            for client in shared
        }
        return total, carry_step(self.carry, self.state, orders, self.traffic, self.refused, add)[1]

    def _plan_ahead(self, upcoming: Upcoming | None) -> Plan | None:
        """Return the next sum, if all of its cohort have keys."""
        if upcoming is None or not set(upcoming.cohort) <= self.keyring.keys.keys():
            return None
        return self.keyring.plan(sorted(upcoming.cohort), upcoming.purpose)

    def _collect_answers(
        self, verdict: Verdict, upcoming: Upcoming | None
    ) -> tuple[dict[int, bytes], Ahead | None]:
        """Return the shares that came, and what was shared for the sum that comes next.

        Who did not answer has its vector in this sum all the same.
        """
        after = self._plan_ahead(upcoming)
        shares = {client: self._ask_to_share(client, after) for client in after.cohort} if after else {}
        orders = {
            client: self._order("unmask", verdict.serial, pack_parts(verdict.pack(), shares.get(client, b"")))
            for client in verdict.alive
        }
        if after:
            orders |= {c: self._order("share", after.serial, shares[c]) for c in shares if c not in orders}
        found = self._carry(orders, {})
        answers, ahead = {}, {}
        for client, answer in found.items():
            answers[client], shared = self._split_answer(answer, client in verdict.alive)
            if client in shares:
                ahead[client] = shared
        if after is None:
            return answers, None
        sealed = self._read_shared(after, ahead, {})
        return answers, Ahead(after, sealed) if sealed.keys() == set(after.cohort) else None

    def _split_answer(self, answer: bytes, unmasks: bool) -> tuple[bytes, bytes]:
        """Return the shares that unmask, and those for the next sum; what is not readable is none."""
        if not unmasks:
            return b"", answer
        try:
            given, shared = unpack_parts(answer, 2)
        except Refused:
            return b"", b""
        return given, shared
