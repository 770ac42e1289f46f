"""One attempt at a secure sum, at the server: its steps as orders that any engine carries."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from prunefl.privacy import server as protocol
from prunefl.privacy.errors import Refused
from prunefl.privacy.fixed_point import Floats, Segment, Words, decode
from prunefl.privacy.messages import Plan, Terms, Verdict, pack_parts, pack_table
from prunefl.privacy.noise_shares import Noising
from prunefl.privacy.server import Shared
from prunefl.rounds.messages import Order
from prunefl.rounds.secure_keys import Keyring
from prunefl.rounds.secure_steps import Carry, Given, Request, Traffic, carry_step, parse_given
from prunefl.rounds.server import ServerState


@dataclass(frozen=True)
class Upcoming:
    """The sum after this one, as far as it is known: its clients can share keys for it when they unmask this one.

    Attributes:
        renew: whether masks will have changed by then, and keys are to change with them.
    """

    purpose: str
    cohort: tuple[int, ...]
    renew: bool = False


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

    def _carry(
        self, requests: Mapping[int, Request], serial: int, refused: dict[int, str]
    ) -> dict[int, Given]:
        """Return what each client gives; keys of the next epoch are entered here."""
        round, purpose = next(iter(self.orders.values())).round, self.plan.purpose
        orders = {client: one.order(round, serial, purpose) for client, one in requests.items()}
        answers = carry_step(self.carry, self.state, orders, self.traffic, refused)[0]
        given = {client: parse_given(answer) for client, answer in answers.items()}
        for client, one in given.items():
            if requests[client].epoch:
                self.keyring.enter(client, one.introduction, self.traffic)
        return given

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
            keyring.forget(client)
        return shared

    def _collect_shares(self) -> dict[int, Shared]:
        plan = self.plan
        requests = {client: Request(plan=self._ask_to_share(client, plan)) for client in plan.cohort}
        found = self._carry(requests, plan.serial, self.refused)
        return self._read_shared(plan, {c: given.shared for c, given in found.items()}, self.refused)

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
        """Return the next sum, if all of its cohort have keys of this epoch, or of the next, which begins then."""
        if upcoming is None:
            return None
        keyring, cohort = self.keyring, set(upcoming.cohort)
        if upcoming.renew or not cohort <= keyring.keys.keys():
            if not cohort <= keyring.ahead.keys():
                return None
            keyring.begin_epoch()
        return keyring.plan(sorted(cohort), upcoming.purpose)

    def _collect_answers(
        self, verdict: Verdict, upcoming: Upcoming | None
    ) -> tuple[dict[int, bytes], Ahead | None]:
        """Return the shares that came, and what was shared for the sum that comes next.

        Who did not answer has its vector in this sum all the same. Whoever has no key for the next epoch makes one.
        """
        after, told = self._plan_ahead(upcoming), verdict.pack()
        plans = {client: self._ask_to_share(client, after) for client in after.cohort} if after else {}
        near = {*self.orders, *(upcoming.cohort if upcoming else ())}
        without = set(self.keyring.list_to_ask(near))
        requests = {
            client: Request(
                told if client in verdict.alive else b"",
                plans.get(client, b""),
                self.keyring.coming if client in without else 0,
            )
            for client in sorted({*verdict.alive, *plans, *without})
        }
        found = self._carry(requests, verdict.serial, {})
        answers = {client: given.shares for client, given in found.items()}
        if after is None:
            return answers, None
        shared = {client: given.shared for client, given in found.items() if client in plans}
        sealed = self._read_shared(after, shared, {})
        return answers, Ahead(after, sealed) if sealed.keys() == set(after.cohort) else None
