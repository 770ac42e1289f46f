"""A secure sum among clients in one process, of which any may be gone before any step."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from prunefl.privacy import client as half
from prunefl.privacy import server
from prunefl.privacy.fixed_point import Layout, Segment, Words, decode, encode
from prunefl.privacy.holdings import Member, Secrets
from prunefl.privacy.messages import Plan, Terms, Verdict, pack_parts, pack_table
from prunefl.privacy.server import Rules, Shared
from prunefl.privacy.signers import SimulatedKeys, SimulatedSigner

RUN = "a-run"


@dataclass
class Federation:
    """Clients with their secrets; each step gives what the living ones answer."""

    clients: Sequence[int]
    threshold: float = 2 / 3
    neighbours: int = 0
    segments: tuple[Segment, ...] = (Segment("values", 50, 4.0),)
    keys: SimulatedKeys = field(default_factory=SimulatedKeys)
    secrets: dict[int, Secrets] = field(default_factory=dict)
    introductions: dict[int, bytes] = field(default_factory=dict)
    epoch: int = 1
    serial: int = 0

    @property
    def rules(self) -> Rules:
        return Rules(self.threshold, self.neighbours)

    def member(self, client: int) -> Member:
        signer = SimulatedSigner(client, self.keys)
        return Member(client, RUN, self.threshold, self.neighbours, signer)

    def introduce(self) -> None:
        for client in self.clients:
            before = self.secrets.get(client, Secrets())
            self.secrets[client], self.introductions[client] = half.introduce(
                before, self.member(client), self.epoch
            )

    def plan(self, purpose: str = "round 1") -> Plan:
        self.serial += 1
        return Plan(RUN, self.epoch, self.serial, purpose, tuple(sorted(self.clients)))

    def ask_for_shares(self, plan: Plan) -> bytes:
        return pack_parts(plan.pack(), pack_table(self.introductions))

    def share(self, plan: Plan, asked: Sequence[int]) -> dict[int, Shared]:
        sent = {}
        for client in asked:
            self.secrets[client], reply = half.share(
                self.secrets[client], self.member(client), self.ask_for_shares(plan)
            )
            sent[client] = server.parse_shared(reply)
        return sent

    def terms(self, sent: Mapping[int, Shared]) -> Terms:
        return Terms(tuple(sorted(sent)), 1, self.segments)

    def mask(
        self,
        client: int,
        plan: Plan,
        terms: Terms,
        sent: Mapping[int, Shared],
        values: np.ndarray,
        weight: float = 1.0,
    ) -> bytes:
        message = server.ask_to_mask(client, plan, self.rules, terms, sent)
        masking = half.prepare_mask(self.secrets[client], self.member(client), message)
        self.secrets[client] = masking.after
        return half.mask(masking, encode({"values": values}, weight, masking.layout))

    def unmask(self, client: int, verdict: Verdict) -> bytes:
        self.secrets[client], reply = half.unmask(self.secrets[client], self.member(client), verdict.pack())
        return reply


def add_up(masked: Mapping[int, bytes], layout: Layout) -> Words:
    total = Words.zeros(layout)
    for data in masked.values():
        total.add(Words.parse(data, layout))
    return total


def sum_securely(
    federation: Federation,
    values: Mapping[int, np.ndarray],
    weights: Mapping[int, float],
    gone: Mapping[int, str] | None = None,
    purpose: str = "round 1",
) -> tuple[np.ndarray, Verdict]:
    """Return the decoded sum, and who is in it; `gone` says before which step (share, mask, unmask) one leaves."""
    gone, rules = gone or {}, federation.rules
    plan = federation.plan(purpose)
    sent = federation.share(plan, [c for c in federation.clients if gone.get(c) != "share"])
    server.check_there(plan, rules, set(sent), "shares")
    terms = federation.terms(sent)
    masked = {
        client: federation.mask(client, plan, terms, sent, values[client], weights[client])
        for client in sent
        if gone.get(client) != "mask"
    }
    server.check_there(plan, rules, set(masked), "vectors")
    dead = tuple(sorted(sent.keys() - masked.keys()))
    verdict = Verdict(plan.serial, tuple(sorted(masked)), dead)
    answers = {
        client: federation.unmask(client, verdict) for client in masked if gone.get(client) != "unmask"
    }
    layout = terms.layout(plan)
    total = server.unmask_sum(plan, rules, terms, sent, add_up(masked, layout), verdict, answers)
    return decode(total, layout)["values"], verdict
