"""A client's half of a secure sum. It believes nothing that the server says of others, and answers nothing twice."""

import secrets as system_random
from collections.abc import Mapping
from dataclasses import dataclass, replace

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from prunefl.privacy import graph, keys, shares
from prunefl.privacy.errors import Refused
from prunefl.privacy.fixed_point import Layout, Words
from prunefl.privacy.holdings import Channel, Held, Member, OpenSum, Peer, Secrets
from prunefl.privacy.masks import add_mask, take_mask
from prunefl.privacy.messages import (
    Plan,
    Terms,
    Verdict,
    pack_parts,
    pack_table,
    parse_plan,
    parse_terms,
    parse_verdict,
    unpack_parts,
    unpack_table,
)

CIPHERTEXT_BYTES = keys.KEY_BYTES + 2 * shares.SHARE_BYTES + 16
"""A public key, two shares, and the tag."""

MOST_SPARES = 2
"""Keys made ahead that are kept: who is not in a sum of the present epoch has one for it, and one for the next."""


def statement(run: str, epoch: int, client: int, public: bytes) -> bytes:
    """Return what a client signs of its channel key."""
    return b"prunefl secure aggregation 1\n" + pack_parts(run.encode(), b"%d" % epoch, b"%d" % client, public)


def _direction(plan: Plan, sender: int, receiver: int) -> bytes:
    return pack_parts(plan.run.encode(), b"%d" % plan.epoch, b"%d" % sender, b"%d" % receiver)


def introduce(secrets: Secrets, member: Member, epoch: int) -> tuple[Secrets, bytes]:
    """Return this client's channel key for an epoch, signed: ahead of it, for it begins with its first sum.

    It makes one for each epoch, and each is later than the last.
    """
    if secrets.channel is not None and epoch == secrets.epoch:
        return secrets, secrets.channel.introduction
    if epoch in secrets.spares:
        return secrets, secrets.spares[epoch].introduction
    latest = max([secrets.epoch, *secrets.spares])
    if epoch <= latest:
        raise Refused(f"a key for epoch {epoch}, but there was one for epoch {latest} before")
    channel = X25519PrivateKey.generate()
    public = keys.public_bytes(channel)
    signature = member.signer.sign(statement(member.run, epoch, member.client, public))
    made = Channel(channel, public + signature)
    kept = dict(sorted(secrets.spares.items())[1 - MOST_SPARES :])
    return replace(secrets, spares={**kept, epoch: made}), made.introduction


def _enter_epoch(secrets: Secrets, epoch: int) -> Secrets:
    """Return the secrets in an epoch for which there is a spare key; what was before is forgotten with its keys."""
    if epoch not in secrets.spares:
        return secrets
    later = {number: spare for number, spare in secrets.spares.items() if number > epoch}
    return replace(secrets, epoch=epoch, channel=secrets.spares[epoch], spares=later, peers={}, current=None)


def share(secrets: Secrets, member: Member, message: bytes) -> tuple[Secrets, bytes]:
    """Return a new round key, and shares of its seed and of a mask's for the neighbours, encrypted for each."""
    plan_bytes, introductions = unpack_parts(message, 2)
    plan = parse_plan(plan_bytes)
    secrets = _enter_epoch(secrets, plan.epoch)
    _check_plan(secrets, member, plan)
    peers = _meet(secrets, member, unpack_table(introductions))
    near = sorted(member.draw_graph(plan)[member.client])
    for client in near:
        if client not in peers:
            raise Refused(f"shares for client {client}, whose key was not shown")
    key_seed, mask_seed = (system_random.token_bytes(shares.SECRET_BYTES) for _ in range(2))
    public, needed = keys.public_bytes(keys.key_of_seed(key_seed)), member.count_shares(plan)
    of_key, of_mask = (shares.split(seed, near, needed) for seed in (key_seed, mask_seed))
    sealed = {
        client: keys.encrypt(
            peers[client].agreed,
            _direction(plan, member.client, client),
            plan.serial,
            public + of_key[client] + of_mask[client],
        )
        for client in near
    }
    opened = OpenSum(plan, key_seed, mask_seed)
    after = replace(secrets, peers=peers, serial=plan.serial, current=opened)
    return after, pack_parts(public, keys.commit(mask_seed), pack_table(sealed))


def _check_plan(secrets: Secrets, member: Member, plan: Plan) -> None:
    if secrets.channel is None or plan.epoch != secrets.epoch:
        raise Refused(f"a sum of epoch {plan.epoch}, but this client's key is of epoch {secrets.epoch}")
    if plan.run != member.run:
        raise Refused(f"a sum of run {plan.run!r}, but this is run {member.run!r}")
    if plan.serial <= secrets.serial:
        raise Refused(f"sum {plan.serial}, but sum {secrets.serial} was there before: none comes twice")
    if member.client not in plan.cohort:
        raise Refused("a sum in which this client has no part")
    if len(plan.cohort) < graph.LEAST:
        raise Refused(
            f"a sum of {len(plan.cohort)} clients, must be >= {graph.LEAST}: of two, each knows the other's"
        )


def _meet(secrets: Secrets, member: Member, introductions: Mapping[int, bytes]) -> dict[int, Peer]:
    """Return all peers with these; one that its owner signed for this run and epoch is believed, and stays."""
    assert secrets.channel is not None
    peers = dict(secrets.peers)
    for client, entry in introductions.items():
        if client == member.client:
            continue
        public, signature = entry[: keys.KEY_BYTES], entry[keys.KEY_BYTES :]
        member.signer.verify(client, statement(member.run, secrets.epoch, client, public), signature)
        if client in peers and peers[client].public != public:
            raise Refused(f"a second key of client {client} in epoch {secrets.epoch}")
        if client not in peers:
            peers[client] = Peer(public, keys.agree(secrets.channel.key, public))
    return peers


@dataclass(frozen=True)
class Masking:
    """All that masks a client's vector, found right before anything is computed.

    Attributes:
        pairs: other client -> key of the mask that both have.
        after: the secrets once the vector was masked.
    """

    client: int
    serial: int
    terms: Terms
    layout: Layout
    own: bytes
    pairs: Mapping[int, bytes]
    after: Secrets


def prepare_mask(secrets: Secrets, member: Member, message: bytes) -> Masking:
    """Return what will mask the vector that the server asks for; refuses terms under which it would not be safe."""
    opened = secrets.current
    terms_bytes, sealed_bytes = unpack_parts(message, 2)
    terms, sealed = parse_terms(terms_bytes), unpack_table(sealed_bytes, [CIPHERTEXT_BYTES])
    if opened is None or opened.terms is not None:
        raise Refused("a vector without new keys for it: two under one mask would tell their difference")
    plan = opened.plan
    _check_present(member, plan, terms)
    near = member.draw_graph(plan)[member.client] & set(terms.present)
    if sealed.keys() != near:
        raise Refused("shares that are not those of this client's neighbours")
    key, context = keys.key_of_seed(opened.key_seed), terms.context(plan)
    held, pairs = {}, {}
    for client, content in sealed.items():
        direction = _direction(plan, client, member.client)
        plain = keys.decrypt(secrets.peers[client].agreed, direction, plan.serial, content)
        public, end = plain[: keys.KEY_BYTES], keys.KEY_BYTES + shares.SHARE_BYTES
        held[client] = Held(plain[keys.KEY_BYTES : end], plain[end:])
        pairs[client] = keys.mask_key(keys.agree(key, public), context)
    after = replace(secrets, current=replace(opened, terms=terms, held=held))
    own = keys.own_mask_key(opened.mask_seed, context)
    return Masking(member.client, plan.serial, terms, terms.layout(plan), own, pairs, after)


def _count_needed(member: Member, plan: Plan, terms: Terms) -> int:
    """Return how many must remain: what this client insists on, and as many as make enough noise."""
    needed = graph.count_needed(len(plan.cohort), member.threshold)
    return max(needed, terms.noising.enough) if terms.noising else needed


def _check_present(member: Member, plan: Plan, terms: Terms) -> None:
    present = terms.present
    if not set(present) <= set(plan.cohort) or member.client not in present:
        raise Refused("a sum with others than were said, or without this client")
    if terms.noising and terms.noising.enough < graph.LEAST:
        raise Refused(f"noise that {terms.noising.enough} clients make enough of, must be >= {graph.LEAST}")
    needed = _count_needed(member, plan, terms)
    if len(present) < needed:
        raise Refused(
            f"a sum of {len(present)} of {len(plan.cohort)} clients, this client insists on {needed}"
        )
    _refuse_lonely(member, plan, set(present))


def _refuse_lonely(member: Member, plan: Plan, there: set[int]) -> None:
    needed = member.count_shares(plan)
    lonely = graph.find_lonely(there, member.draw_graph(plan), needed)
    if lonely:
        raise Refused(f"a sum in which client {lonely[0]} has fewer than {needed} neighbours left")


def mask(masking: Masking, words: Words) -> bytes:
    """Return the vector under its masks, as bytes; it is changed in place."""
    add_mask(words, masking.own)
    for client, key in masking.pairs.items():
        # of two, the one with the smaller number adds what the other takes away
        (add_mask if masking.client < client else take_mask)(words, key)
    return words.tobytes()


def unmask(secrets: Secrets, member: Member, message: bytes) -> tuple[Secrets, bytes]:
    """Return the shares that take masks away: of a living client its own mask's, of a dead one its key's; never both.

    It is answered once for a sum, then all secrets of it are forgotten; and for one purpose always the same.
    """
    verdict, opened = parse_verdict(message), secrets.current
    if opened is None or opened.terms is None or verdict.serial != opened.plan.serial:
        raise Refused(f"sum {verdict.serial} cannot be unmasked: it is not under way, or was unmasked before")
    alive, dead, plan = set(verdict.alive), set(verdict.dead), opened.plan
    if alive & dead:
        raise Refused(f"client {min(alive & dead)} is said to be alive and dead")
    if alive | dead != set(opened.terms.present):
        raise Refused("alive and dead are others than those who masked")
    if member.client not in alive:
        raise Refused("this client is alive, and said to be dead")
    needed = _count_needed(member, plan, opened.terms)
    if len(alive) < needed:
        raise Refused(f"{len(alive)} of {len(plan.cohort)} clients are left, this client insists on {needed}")
    _refuse_lonely(member, plan, alive)
    release = opened.terms.name_release(plan, verdict.alive)
    if secrets.unmasked.get(plan.purpose, release) != release:
        raise Refused(f"{plan.purpose} was unmasked before, as the sum of other clients or under other noise")
    given = {client: one.of_mask if client in alive else one.of_key for client, one in opened.held.items()}
    unmasked = {**secrets.unmasked, plan.purpose: release}
    answer = _lock(pack_table(given), secrets.peers, member, plan, verdict)
    return replace(secrets, current=None, unmasked=unmasked), answer


def _lock(content: bytes, peers: Mapping[int, Peer], member: Member, plan: Plan, verdict: Verdict) -> bytes:
    """Return an answer that opens only if enough neighbours were told the same of who is left.

    Its key is shared among them, each share sealed under a key that the two of them have for this verdict, and each
    gives away the keys for what the others handed it. A server that tells some one thing and some another opens
    nothing: both would need more than half.
    """
    view, holders = verdict.view(plan), sorted(member.draw_graph(plan)[member.client] & set(verdict.alive))
    lock = system_random.token_bytes(shares.SECRET_BYTES)
    split = shares.split(lock, holders, member.count_shares(plan))
    sealed, given_away = {}, {}
    for other in holders:
        agreed = peers[other].agreed
        sealed[other] = keys.seal_once(keys.lock_key(agreed, view, member.client, other), split[other])
        given_away[other] = keys.lock_key(agreed, view, other, member.client)
    locked = keys.seal_once(keys.answer_key(lock, view), content)
    return pack_parts(locked, pack_table(sealed), pack_table(given_away))
