"""A round and an evaluation with privacy.secure: what the sum says stands for the updates that nobody has seen."""

from collections.abc import Mapping
from dataclasses import replace

from prunefl import wire
from prunefl.core.state import Arrays, SparseState
from prunefl.methods import Received
from prunefl.privacy.noise_shares import Noising
from prunefl.rounds.bounds import bound_samples
from prunefl.rounds.collected import THE_SUM, Collected, SecureOutcome
from prunefl.rounds.cost import charge_scores
from prunefl.rounds.evaluation import Evaluation
from prunefl.rounds.messages import Order
from prunefl.rounds.noised_vectors import agree_on_noise, lay_out_noised, read_noised
from prunefl.rounds.private import WITHIN, count_cohort, follow_noised, spend
from prunefl.rounds.secure_attempt import Content, Upcoming
from prunefl.rounds.secure_server import SecureSums, Summed, find_cap
from prunefl.rounds.server import Outcome, ServerState, Setup, settle_round
from prunefl.rounds.vectors import SCORES, lay_out_update, read_scores, read_update


def name_round(round: int) -> str:
    """Return what the sum of a round is called."""
    return f"round {round}"


def name_evaluation(round: int) -> str:
    """Return what the sum of an evaluation is called."""
    return f"evaluation after round {round}"


def finish_secure_round(
    setup: Setup,
    before: ServerState,
    begun: ServerState,
    orders: Mapping[int, Order],
    sums: SecureSums,
    upcoming: Upcoming | None,
) -> tuple[ServerState, Outcome]:
    """Return the state after a round of which the server has seen the sum alone, and what it came to.

    Args:
        before, begun: the state before and after its orders were packed.
        upcoming: the sum that comes next, if it is known.
    """
    template, work = setup.network.template, next(iter(orders.values())).work
    # a statistic is there to choose masks by, and with new masks there are new keys
    following = replace(upcoming, renew=bool(work.report)) if upcoming else None
    noising = agree_on_noise(setup.config, before.spent.clip, len(orders))
    if noising is not None:
        return _finish_noised_round(setup, begun, orders, sums, following, noising)
    start = _received(setup, begun, orders)
    segments = lay_out_update(start, template, work, before.ranges, setup.config.wire.precision)
    content = Content(segments, _cap_samples(setup, orders))
    summed = sums.sum_up(before, orders, name_round(before.round + 1), content, following)
    mean = read_update(summed.values, start, template, signed=work.report == "gradient")
    got = _collect(summed, mean.state, mean.statistic, mean.loss)
    # a statistic is not reported in every round: what was usual then is kept
    state, outcome = settle_round(setup, replace(begun, ranges={**before.ranges, **mean.ranges}), orders, got)
    return state, replace(outcome, secure=_account(summed, mean.beyond))


def _finish_noised_round(
    setup: Setup,
    begun: ServerState,
    orders: Mapping[int, Order],
    sums: SecureSums,
    upcoming: Upcoming | None,
    noising: Noising,
) -> tuple[ServerState, Outcome]:
    """Return the same of a round whose sum has its clients' noise in it; the server adds none, and spends the same."""
    config, template = setup.config, setup.network.template
    work, start = next(iter(orders.values())).work, begun.sparse
    segments = lay_out_noised(start, template, work, noising, config.privacy.quantile > 0)
    summed = sums.sum_up(begun, orders, name_round(begun.round + 1), Content(segments, 1, noising), upcoming)
    cohort, clip = count_cohort(setup), noising.clip
    moved, statistic = read_noised(summed.values, start, template, work.report, cohort)
    if WITHIN in summed.values:
        clip = follow_noised(config, clip, float(summed.values[WITHIN][0]) / cohort)
    spent = replace(begun, spent=spend(setup, begun, work, clip))
    state, outcome = settle_round(setup, spent, orders, _collect(summed, moved, statistic, None))
    return state, replace(outcome, secure=_account(summed, 0.0))


def _collect(summed: Summed, mean: SparseState, statistic: Arrays | None, loss: float | None) -> Collected:
    """Return a sum as what came of a round: one update that stands for all."""
    return Collected(
        [Received(THE_SUM, 1.0, mean, {})],
        statistic,
        loss,
        summed.seconds,
        summed.traffic.up,
        summed.refused,
        down=summed.traffic.down,
        participants={client: {} for client in summed.alive},
    )


def _received(setup: Setup, begun: ServerState, orders: Mapping[int, Order]) -> SparseState:
    """Return the model as the clients have it: with wire.precision not quite the server's own."""
    if setup.config.wire.precision == "float32":
        return begun.sparse
    order = next(iter(orders.values()))
    return wire.unpack(order.model, setup.network.template, begun.past)


def _cap_samples(setup: Setup, orders: Mapping[int, Order]) -> int:
    training = setup.config.training
    if training.weighting == "uniform":
        return 1
    return find_cap(
        bound_samples([setup.num_samples[client] for client in sorted(orders)], training.weight_cap)
    )


def _account(summed: Summed, beyond: float) -> SecureOutcome:
    traffic = summed.traffic
    return SecureOutcome(len(summed.alive), traffic.exchanges, traffic.setup, summed.repeats, beyond)


def finish_secure_evaluation(
    setup: Setup,
    state: ServerState,
    orders: Mapping[int, Order],
    sums: SecureSums,
    upcoming: Upcoming | None,
) -> tuple[ServerState, Evaluation]:
    """Return the state with the cost of an evaluation, and what the sum of all scores says."""
    held_out = {client: _estimate_held_out(setup, client) for client in sorted(orders)}
    cap = find_cap(bound_samples(list(held_out.values()), setup.config.training.weight_cap))
    summed = sums.sum_up(state, orders, name_evaluation(state.round), Content(SCORES, cap), upcoming)
    mean, personal = read_scores(summed.values, cap)
    times = 2 if personal else 1
    samples = {client: times * held_out[client] for client in summed.alive}
    traffic = summed.traffic
    charge = charge_scores(setup, state, orders, samples, traffic.up, traffic.down)
    found = Evaluation({}, {}, summed.refused, charge, mean, personal)
    return replace(state, totals=state.totals.plus(charge)), found


def _estimate_held_out(setup: Setup, client: int) -> int:
    """Return how many samples a client holds out beside those that it said it trains on."""
    share = setup.config.evaluation.share
    return max(1, round(setup.num_samples[client] * share / (1 - share)))
