"""A client's half of a round with privacy.secure: what it computes leaves it under masks, or not at all."""

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from prunefl.core.randomness import Normal, SystemStream
from prunefl.core.state import SparseState
from prunefl.privacy import client as protocol
from prunefl.privacy.client import Masking
from prunefl.privacy.errors import Refused
from prunefl.privacy.fixed_point import Layout, Values, Words, encode
from prunefl.privacy.holdings import Member, Secrets
from prunefl.privacy.messages import stamp
from prunefl.privacy.noise_shares import Noising
from prunefl.rounds.client import Client, ClientState, evaluate, train
from prunefl.rounds.messages import EvaluationWork, Order, Reply, SecureWork
from prunefl.rounds.noised_vectors import make_noised_vector, noise_vector, refuse_other_noise
from prunefl.rounds.private import is_private
from prunefl.rounds.scores import SCORE_BYTES, unpack_scores
from prunefl.rounds.secure_steps import Given, parse_request
from prunefl.rounds.vectors import find_residual, make_score_vector, make_update_vector

Evaluate = Callable[[Order, EvaluationWork, Client, ClientState], tuple[Reply, SparseState | None]]
DrawNoise = Callable[[int], Normal]
"""From a round to the noise of a client in it."""


def draw_secret_noise(round: int) -> Normal:
    """Return noise that nobody can draw again."""
    return SystemStream().normal


@dataclass(frozen=True)
class Noised:
    """An update with its noise, on the grid of a sum: where that is the same, a repeated round tells the same."""

    layout: Layout
    noising: Noising
    words: Words


@dataclass(frozen=True)
class Made:
    """An update that was made: a round that is repeated does not train anew, and its clients' states stay as they are.

    Attributes:
        order: digest of what it was made for.
        noised: the vector with its noise, once there is some.
    """

    order: bytes
    vector: Mapping[str, Values]
    seconds: float
    after: ClientState
    noised: Noised | None = None


@dataclass(frozen=True)
class Vault:
    """What a client of secure sums keeps in memory."""

    secrets: Secrets = field(default_factory=Secrets)
    made: Made | None = None


def introduce_ahead(vault: Vault, member: Member, epoch: int) -> tuple[Vault, bytes]:
    """Return a client's signed key for an epoch, as it gives it when it joins."""
    secrets, introduction = protocol.introduce(vault.secrets, member, epoch)
    return replace(vault, secrets=secrets), introduction


def follow_securely(
    order: Order,
    client: Client,
    state: ClientState,
    vault: Vault,
    member: Member,
    evaluate: Evaluate = evaluate,
    draw_noise: DrawNoise = draw_secret_noise,
) -> tuple[Reply, ClientState, Vault]:
    """Return the answer to any order, and what the client keeps.

    Args:
        draw_noise: this client's share of it, with privacy.noise.

    Raises:
        Refused: the order would tell the server more than a sum.
        wire.WireError: as `prunefl.rounds.client.handle`.
    """
    private = is_private(client.config)
    empty = Reply(client.number, order.round, 1 if private else len(client.split.train), 0.0, b"")
    if isinstance(order.work, SecureWork):
        secrets, answer = _take_step(order.secure, vault.secrets, member)
        return replace(empty, secure=stamp(order.serial, answer)), state, replace(vault, secrets=secrets)
    if not order.secure:
        raise Refused(f"round {order.round}: an update without a mask, but privacy.secure=true")
    masking = protocol.prepare_mask(vault.secrets, member, order.secure)
    if masking.serial != order.serial:
        raise Refused(f"sum {order.serial}, but sum {masking.serial} is under way")
    if isinstance(order.work, EvaluationWork):
        scored, _ = evaluate(order, order.work, client, state)
        scores = unpack_scores(scored.scores, len(scored.scores) // SCORE_BYTES)
        vector = make_score_vector(scores, masking.terms.cap)
        masked = protocol.mask(masking, encode(vector, 1.0, masking.layout))
        reply = replace(empty, seconds=scored.seconds, held_out=scored.held_out)
        return (
            replace(reply, secure=stamp(order.serial, masked)),
            state,
            replace(vault, secrets=masking.after),
        )
    refuse_other_noise(client.config, order, masking.terms.noising)
    made = _make_update(order, client, state, vault, masking)
    if masking.terms.noising:
        made = _add_noise(made, masking, masking.terms.noising, draw_noise(order.round))
    masked, after = _mask_update(made, client, masking)
    seconds = 0.0 if private else made.seconds
    return (
        replace(empty, seconds=seconds, secure=stamp(order.serial, masked)),
        after,
        Vault(masking.after, made),
    )


def _take_step(message: bytes, secrets: Secrets, member: Member) -> tuple[Secrets, bytes]:
    """Return what a client gives for a request; it does all of it, or nothing."""
    request = parse_request(message)
    shares = shared = introduction = b""
    if request.verdict:
        secrets, shares = protocol.unmask(secrets, member, request.verdict)
    if request.plan:
        secrets, shared = protocol.share(secrets, member, request.plan)
    if request.epoch:
        secrets, introduction = protocol.introduce(secrets, member, request.epoch)
    return secrets, Given(shares, shared, introduction).pack()


def _make_update(order: Order, client: Client, state: ClientState, vault: Vault, masking: Masking) -> Made:
    about = f"{order.round} {order.learning_rate!r} {order.clip!r} {order.work!r}".encode()
    digest = hashlib.sha256(about + b"\0" + order.model).digest()
    if vault.made is not None and vault.made.order == digest:
        return vault.made
    trained = train(order, client, state)
    vector = (
        make_noised_vector(trained.update, trained.received, masking.layout, order.clip)
        if masking.terms.noising
        else make_update_vector(trained.update, trained.received, state.residual, masking.layout)
    )
    return Made(digest, vector, trained.seconds, trained.after)


def _add_noise(made: Made, masking: Masking, noising: Noising, normal: Normal) -> Made:
    """Return the update with noise: that which it has, if it is for the same grid. Two would be less than one."""
    before = made.noised
    if before is not None and (before.layout, before.noising) == (masking.layout, noising):
        return made
    words = noise_vector(made.vector, noising, masking.layout, normal)
    return replace(made, noised=Noised(masking.layout, noising, words))


def _mask_update(made: Made, client: Client, masking: Masking) -> tuple[bytes, ClientState]:
    """Return the update under its masks, and the state with what rounding has kept back."""
    if made.noised is not None:
        # a copy: masks are added in place, and noise is drawn once
        words = Words(made.noised.words.wide.copy(), made.noised.words.narrow.copy())
        return protocol.mask(masking, words), made.after
    cap, masks = masking.terms.cap, made.after.masks
    weight = min(len(client.split.train), cap) / cap
    words = encode(made.vector, weight, masking.layout)
    assert masks is not None
    residual = find_residual(made.vector, words, weight, masking.layout, masks)
    return protocol.mask(masking, words), replace(made.after, residual=residual)
