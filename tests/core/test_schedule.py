"""What changes with the round number, against the formulas of the paper's table."""

import pytest

from prunefl.core import importance, schedule
from prunefl.core.randomness import derived_seed, draw_clients
from tasks import small_config


def test_the_learning_rate_is_cifars():
    config = small_config(training={"learning_rate": 0.1, "decay": 0.5})
    assert schedule.learning_rate(1, config) == 0.1
    assert schedule.learning_rate(5001, config) == pytest.approx(0.1 * 0.5**0.5)


def test_the_learning_rate_is_imagenets_staircase():
    config = small_config(training={"learning_rate": 0.05, "decay": 0.5, "decay_stairs": 1000})
    for r in (0, 999, 1000, 2500):
        assert schedule.learning_rate(r + 1, config) == pytest.approx(0.05 * 0.5 ** (0.1 * (r // 1000)))


def test_a_model_of_fewer_weights_takes_larger_steps_where_that_is_asked_for():
    """Also while the rate warms up and on a curve: a factor for the model, whatever the round."""
    for settings in ({}, {"warmup_rounds": 4}, {"schedule": "cosine"}):
        plain = small_config(training={"learning_rate": 0.2, **settings})
        paced = small_config(training={"learning_rate": 0.2, "pace": 0.5, "pace_rounds": 0, **settings})
        for round in (1, 3, 7):
            rate = schedule.learning_rate(round, plain)
            assert schedule.learning_rate(round, plain, 0.04) == rate
            assert schedule.learning_rate(round, paced, 1.0) == rate
            assert schedule.learning_rate(round, paced, 0.04) == pytest.approx(5 * rate)


def test_the_pace_may_grow_and_is_none_before_the_first_round():
    """A sixteenth of the weights and pace 0.5: four times the rate, of which the second of four rounds has the root."""
    for rounds, factors in ((0, [1, 4, 4, 4, 4, 4]), (4, [1, 2**0.5, 2, 2**1.5, 4, 4])):
        paced = small_config(training={"learning_rate": 0.2, "pace": 0.5, "pace_rounds": rounds})
        rates = [schedule.learning_rate(round, paced, 1 / 16) for round in range(6)]
        assert rates == pytest.approx([0.2 * factor for factor in factors])


def test_a_model_of_hardly_any_weights_does_not_leap():
    paced = small_config(training={"learning_rate": 0.2, "pace": 0.5, "pace_rounds": 0})
    assert schedule.learning_rate(1, paced, 0.0) == schedule.learning_rate(1, paced, 1e-3) < 7


def test_the_size_limit_holds_until_the_next_reconfiguration_and_ends_at_the_target():
    config = small_config(
        run={"rounds": 1000}, pruning={"interval": 50, "density_limit": 0.1, "density_target": 0.05}
    )

    def d_max(r):
        return (r * 0.05 + (1000 - r) * 0.1) / 1000

    for chosen_after in range(0, 1000, 50):
        assert schedule.max_density(chosen_after, config) == pytest.approx(d_max(chosen_after + 50))
    assert schedule.max_density(950, config) == pytest.approx(0.05)


def test_no_limit_means_none():
    assert schedule.max_density(3, small_config()) is None


def test_masks_are_not_chosen_after_the_last_round():
    config = small_config(run={"rounds": 9}, pruning={"interval": 3})
    assert [r for r in range(1, 10) if schedule.reconfigures(r, config)] == [3, 6]


def test_importance_is_collected_in_the_last_rounds_before_a_reconfiguration():
    assert [r for r in range(1, 11) if importance.in_window(r, 5, 2)] == [4, 5, 9, 10]
    assert all(importance.in_window(r, 5, "all") for r in range(1, 11))


def test_cohorts_depend_on_seed_and_round_alone_and_hold_no_client_twice():
    first = draw_clients(1, 7, 100, 10)
    assert first == draw_clients(1, 7, 100, 10)
    assert first != draw_clients(1, 8, 100, 10)
    assert first != draw_clients(2, 7, 100, 10)
    assert len(set(first)) == 10
    assert draw_clients(1, 7, 4, 0) == [0, 1, 2, 3]


def test_derived_seeds_do_not_collide_for_neighbouring_numbers():
    seeds = {
        derived_seed(s, p, a, b) for s in range(3) for p in ("x", "y") for a in range(12) for b in range(12)
    }
    assert len(seeds) == 3 * 2 * 12 * 12


def test_cosine_after_a_warm_up_is_torchs():
    import torch

    config = small_config(
        run={"rounds": 20},
        training={"learning_rate": 0.1, "schedule": "cosine", "warmup_rounds": 4, "final_rate": 0.05},
    )
    weight = torch.nn.Parameter(torch.zeros(1))
    optimiser = torch.optim.SGD([weight], lr=0.1)
    warm = torch.optim.lr_scheduler.LinearLR(optimiser, start_factor=1 / 5, total_iters=4)
    cosine = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, T_max=16, eta_min=0.005)
    both = torch.optim.lr_scheduler.SequentialLR(optimiser, [warm, cosine], milestones=[4])
    for round in range(1, 21):
        assert schedule.learning_rate(round, config) == pytest.approx(optimiser.param_groups[0]["lr"])
        optimiser.step()
        both.step()


def test_what_comes_before_the_first_round_does_not_warm_up():
    config = small_config(training={"learning_rate": 0.1, "warmup_rounds": 4})
    rates = [schedule.learning_rate(round, config) for round in range(6)]
    assert rates == pytest.approx([0.1, 0.02, 0.04, 0.06, 0.08, 0.1])
