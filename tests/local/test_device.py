"""Another device than the CPU: what cannot be computed on is refused; what goes there stays there.

There is no GPU here. Tensors on torch's device "meta" have a shape but no numbers, and do not mix with the CPU's: a
step there shows that nothing of it is left behind on the CPU. What it computes is shown on the CPU, without kernels.
"""

import numpy as np
import pytest
import torch

from prunefl import data
from prunefl.config import Config, override
from prunefl.config.optimiser import OptimiserSettings
from prunefl.core.importance import empty_sums
from prunefl.core.objectives import Loss
from prunefl.local import Sums
from prunefl.local.choose import choose_backend
from prunefl.local.torch_backend.adam import make_optimiser
from prunefl.local.torch_backend.backend import TorchBackend
from prunefl.local.torch_backend.convert import pruned_layers, sparsify
from prunefl.local.torch_backend.device import find_device, moved
from prunefl.local.torch_backend.losses import criterion_of
from prunefl.local.torch_backend.masked import MaskedLayer
from prunefl.system.errors import PruneFLError
from tasks import BATCH_SHAPE, Usual, random_masks, small_data, small_model, small_network


@pytest.mark.parametrize("name", ["cuda", "meta", "nonsense"])
def test_a_device_that_is_not_there_is_refused_in_one_line(name: str) -> None:
    if name == "cuda" and torch.cuda.is_available():
        pytest.skip("there is one")
    with pytest.raises(
        PruneFLError, match=rf"^run.device='{name}', torch cannot compute on it here: "
    ) as refusal:
        find_device(name)
    assert "\n" not in str(refusal.value)


def test_a_plan_is_the_cpus() -> None:
    config = override(Config(), ["run.device=cuda", "run.backend=native"])
    with pytest.raises(PruneFLError, match=r"a plan is computed by the CPU, but run.device='cuda'"):
        choose_backend(small_network(), config, prunes=True)
    left_open = override(config, ["run.backend=auto"])
    assert choose_backend(small_network(), left_open, prunes=True).config.run.backend == "torch"


@pytest.mark.parametrize(
    "settings",
    [
        OptimiserSettings(),
        OptimiserSettings(momentum=0.9, nesterov=True, weight_decay=0.1),
        OptimiserSettings(name="adam"),
        OptimiserSettings(name="adamw", weight_decay=0.1),
    ],
    ids=["sgd", "momentum", "adam", "adamw"],
)
def test_a_step_on_another_device_leaves_nothing_behind_on_the_cpu(settings: OptimiserSettings) -> None:
    masks, elsewhere = random_masks(small_network(normalised=True), 0.3), torch.device("meta")
    model = sparsify(small_model(normalised=True).to(elsewhere), masks, choose="dense")
    assert all(isinstance(layer, MaskedLayer) for layer in pruned_layers(model).values())
    optimiser = make_optimiser(settings, model.parameters(), 0.1)
    criterion = criterion_of(Loss("cross_entropy", class_weights=(1.0, 1.0, 2.0, 1.0)), elsewhere)
    labels = torch.zeros(4, dtype=torch.int64)
    for _ in range(2):
        optimiser.zero_grad()
        outputs = model(moved(torch.zeros(4, 1, 8, 8), elsewhere))
        criterion(outputs, labels.to(elsewhere)).backward()
        optimiser.step()
    kept = [*model.parameters(), *(moment for slots in optimiser.state.values() for moment in slots.values())]
    assert {tensor.device.type for tensor in kept} == {"meta"}
    with pytest.raises(RuntimeError, match="device"):
        # what was left behind would be noticed
        _ = outputs + torch.zeros(4, 4)


def test_a_client_without_kernels_trains_as_one_with_them(monkeypatch: pytest.MonkeyPatch) -> None:
    network = small_network(normalised=True, dropout=True)
    masks = random_masks(network, 0.3)
    kept = []
    for kernels in (True, False):
        monkeypatch.setattr("prunefl.local.torch_backend.backend.has_kernels", lambda device, k=kernels: k)
        backend = TorchBackend(
            network.module,
            network.template,
            "cross_entropy",
            BATCH_SHAPE,
            Usual(),
            OptimiserSettings(momentum=0.9, proximal=0.1, clip_norm=1.0),
        )
        state = network.first.remask(masks)
        sums = empty_sums(network.template.layers)
        backend.seed(3)
        backend.begin(anchor=state)
        backend.load(state)
        batches = [data.wrap(small_data(20, seed)).batch(np.arange(20)) for seed in range(4)]
        trained = backend.steps(batches, 0.1, Sums(sums))
        judged = backend.judge(batches[0])
        moments = backend.moments().slots["momentum"].values
        kept.append((trained, judged, backend.state().values, sums, moments))
    (one, judged, *arrays), (other, judged_otherwise, *others) = kept
    assert one.right == other.right
    assert other.loss == pytest.approx(one.loss, rel=1e-5)
    assert judged_otherwise[0].tolist() == judged[0].tolist()
    for mine, theirs in zip(arrays, others, strict=True):
        for name in mine:
            np.testing.assert_allclose(theirs[name], mine[name], rtol=2e-4, atol=2e-6, err_msg=name)
