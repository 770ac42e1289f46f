"""The server's half of a secure sum: passes on what it cannot read, and takes away masks when enough help."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass

from prunefl.privacy import graph, keys, shares
from prunefl.privacy.errors import Refused, TooFew
from prunefl.privacy.fixed_point import Words
from prunefl.privacy.masks import add_mask, take_mask
from prunefl.privacy.messages import Plan, Terms, Verdict, pack_parts, pack_table, unpack_parts, unpack_table


@dataclass(frozen=True)
class Rules:
    """privacy.threshold and privacy.neighbours: the same that every client insists on."""

    threshold: float
    neighbours: int

    def needed(self, plan: Plan) -> int:
        """Return how many clients must remain."""
        return graph.count_needed(len(plan.cohort), self.threshold)

    def shares(self, plan: Plan) -> int:
        """Return how many shares bring a secret back."""
        return graph.count_shares(len(plan.cohort), self.neighbours, self.threshold)

    def find_neighbours(self, client: int, plan: Plan) -> list[int]:
        """Return with whom a client of this sum masks, in ascending order: holders of its shares are numbered so."""
        return sorted(self.draw_graph(plan)[client])

    def draw_graph(self, plan: Plan) -> Mapping[int, frozenset[int]]:
        """Return with whom each client of this sum masks."""
        return graph.draw_graph(plan.cohort, self.neighbours, plan.digest)


@dataclass(frozen=True)
class Shared:
    """What a client sent first: its public key of the round, what its mask's seed will be known by, sealed shares."""

    public: bytes
    commitment: bytes
    sealed: Mapping[int, bytes]


def parse_shared(message: bytes) -> Shared:
    """Return what a client's shares are, or refuse them."""
    public, commitment, sealed = unpack_parts(message, 3)
    if len(public) != keys.KEY_BYTES:
        raise Refused("a public key that is none")
    return Shared(public, commitment, unpack_table(sealed))


def check_there(plan: Plan, rules: Rules, there: set[int], step: str, least: int = 0) -> None:
    """Raise TooFew where a sum of these could not be unmasked, or would not be by any client; `least` make noise."""
    needed = max(rules.needed(plan), least)
    if len(there) < needed:
        raise TooFew(f"{len(there)} of {len(plan.cohort)} clients are left after {step}, {needed} are needed")
    lonely = graph.find_lonely(there, rules.draw_graph(plan), rules.shares(plan))
    if lonely:
        raise TooFew(f"client {lonely[0]} has too few neighbours left after {step}")


def ask_to_mask(client: int, plan: Plan, rules: Rules, terms: Terms, sent: Mapping[int, Shared]) -> bytes:
    """Return what one client needs to mask: the terms, and what its neighbours sealed for it."""
    near = [other for other in rules.find_neighbours(client, plan) if other in sent]
    return pack_parts(terms.pack(), pack_table({other: sent[other].sealed[client] for other in near}))


def seals_for_all(client: int, plan: Plan, rules: Rules, sent: Shared) -> bool:
    """Return whether a client has sealed shares for each of its neighbours."""
    return set(sent.sealed) == set(rules.find_neighbours(client, plan))


def unmask_sum(
    plan: Plan,
    rules: Rules,
    terms: Terms,
    sent: Mapping[int, Shared],
    total: Words,
    verdict: Verdict,
    answers: Mapping[int, bytes],
) -> Words:
    """Return the sum of the living clients' vectors.

    Args:
        total: the sum of what they sent, which is changed in place.
        answers: client -> the shares that it gave.

    Raises:
        TooFew: not enough shares came, or they do not fit together.
    """
    found = _sort_shares(plan, rules, verdict, answers)
    context, alive = terms.context(plan), set(verdict.alive)
    for client in verdict.alive:
        seed = _join(client, plan, rules, found.get(client, {}))
        if keys.commit(seed) != sent[client].commitment:
            raise TooFew(f"the shares of client {client}'s mask do not fit together")
        take_mask(total, keys.own_mask_key(seed, context))
    for client in verdict.dead:
        seed = _join(client, plan, rules, found.get(client, {}))
        key = keys.key_of_seed(seed)
        if keys.public_bytes(key) != sent[client].public:
            raise TooFew(f"the shares of client {client}'s key do not fit together")
        for other in alive & set(rules.find_neighbours(client, plan)):
            # what `other` added for the pair is taken away, and the other way round
            (take_mask if other < client else add_mask)(
                total, keys.mask_key(keys.agree(key, sent[other].public), context)
            )
    return total


@dataclass(frozen=True)
class Locked:
    """A client's answer under its lock, shares of it for the neighbours, and the keys to what they handed it."""

    content: bytes
    sealed: Mapping[int, bytes]
    keys: Mapping[int, bytes]


def _parse_locked(answer: bytes) -> Locked:
    content, sealed, given_away = unpack_parts(answer, 3)
    return Locked(content, unpack_table(sealed), unpack_table(given_away, [keys.KEY_BYTES]))


def _sort_shares(
    plan: Plan, rules: Rules, verdict: Verdict, answers: Mapping[int, bytes]
) -> dict[int, dict[int, bytes]]:
    """Return owner -> holder -> share of what the living gave; what is not readable is none."""
    locked: dict[int, Locked] = {}
    for holder in sorted(answers.keys() & set(verdict.alive)):
        with suppress(Refused):
            locked[holder] = _parse_locked(answers[holder])
    found: dict[int, dict[int, bytes]] = {}
    for holder in locked:
        with suppress(Refused):
            content = _open(holder, plan, rules, verdict, locked)
            for owner, piece in unpack_table(content, [shares.SHARE_BYTES]).items():
                found.setdefault(owner, {})[holder] = piece
    return found


def _open(client: int, plan: Plan, rules: Rules, verdict: Verdict, locked: Mapping[int, Locked]) -> bytes:
    """Return a client's answer, by what its neighbours gave away; Refused if too few did."""
    holders, needed = sorted(rules.draw_graph(plan)[client] & set(verdict.alive)), rules.shares(plan)
    pieces = {}
    for other in holders:
        if other in locked and client in locked[other].keys and other in locked[client].sealed:
            with suppress(Refused):
                pieces[other] = keys.open_once(locked[other].keys[client], locked[client].sealed[other])
    if len(pieces) < needed:
        raise Refused("too few neighbours were told the same")
    lock = shares.join(pieces, holders, needed)
    return keys.open_once(keys.answer_key(lock, verdict.view(plan)), locked[client].content)


def _join(client: int, plan: Plan, rules: Rules, found: Mapping[int, bytes]) -> bytes:
    holders, needed = rules.find_neighbours(client, plan), rules.shares(plan)
    mine = {holder: piece for holder, piece in found.items() if holder in holders}
    if len(mine) < needed:
        raise TooFew(f"{len(mine)} of the {needed} shares that unmask client {client} have come")
    return shares.join(mine, holders, needed)
