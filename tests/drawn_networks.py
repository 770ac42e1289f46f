"""Networks drawn at random from all that a plan can say: layers, branches that join, every kind of operation."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from hypothesis import strategies as st
from torch import Tensor, nn

from prunefl.core.network import Network
from prunefl.local import Batch
from prunefl.local.torch_backend.network import network_of
from prunefl.models.transformer import Block

ACTIVATIONS = (nn.ReLU, nn.ReLU6, nn.Hardswish, nn.Hardsigmoid, nn.Sigmoid, nn.GELU)


@dataclass(frozen=True)
class Drawn:
    """A network with the shape of its samples; of tokens, how many kinds there are."""

    module: nn.Module
    input_shape: tuple[int, ...]
    classes: int
    seed: int
    kinds: int = 0

    @property
    def network(self) -> Network:
        """What the core knows of it; all its layers can be pruned."""
        example = np.zeros((1, *self.input_shape), np.int64) if self.kinds else None
        return network_of(self.module, self.input_shape, self.classes, (), example)

    @property
    def fewest(self) -> int:
        """How many samples a batch needs: BatchNorm cannot train on one."""
        return 1 + any(isinstance(layer, nn.BatchNorm1d | nn.BatchNorm2d) for layer in self.module.modules())


class Excited(nn.Module):
    """Channels times what the whole image says of them."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.pool, self.conv, self.gate = (
            nn.AdaptiveAvgPool2d(1),
            nn.Conv2d(channels, channels, 1),
            nn.Hardsigmoid(),
        )

    def forward(self, x: Tensor) -> Tensor:
        return x * self.gate(self.conv(self.pool(x)))


class Joined(nn.Module):
    """Two ways from one value, added, multiplied or one after the other."""

    def __init__(self, how: str, one: nn.Module, other: nn.Module, after: nn.Module) -> None:
        super().__init__()
        self.how, self.one, self.other, self.after = how, one, other, after

    def forward(self, x: Tensor) -> Tensor:
        a, b = self.one(x), self.other(x)
        joined = {"add": lambda: a + b, "multiply": lambda: a * b, "cat": lambda: torch.cat((a, b), 1)}[
            self.how
        ]()
        return self.after(joined)  # type: ignore[no-any-return]


class Encoder(nn.Module):
    """Tokens of a text or of an image through blocks of attention; the mean of them is classified."""

    def __init__(
        self, cut: nn.Module, tokens: int, width: int, blocks: list[nn.Module], classes: int
    ) -> None:
        super().__init__()
        self.cut, self.places = cut, nn.Parameter(torch.randn(1, tokens, width))
        self.blocks, self.out = nn.Sequential(*blocks), nn.Linear(width, classes)

    def forward(self, x: Tensor) -> Tensor:
        tokens = self.cut(x)
        if isinstance(self.cut, nn.Conv2d):
            tokens = tokens.flatten(2).transpose(1, 2)
        return self.out(self.blocks(tokens + self.places).mean(1))  # type: ignore[no-any-return]


class Apart(nn.Module):
    """Attention whose queries, keys and values are layers apart."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value = (nn.Linear(width, width) for _ in range(3))

    def forward(self, x: Tensor) -> Tensor:
        parts = [
            layer(x).unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for layer in (self.query, self.key, self.value)
        ]
        mixed = nn.functional.scaled_dot_product_attention(*parts)
        return x + mixed.transpose(1, 2).flatten(2)


def _encoder(draw: Any, classes: int, seed: int) -> Drawn:
    heads = draw(st.integers(1, 3))
    width = heads * draw(st.integers(1, 9))
    causal, apart = draw(st.booleans()), draw(st.booleans())
    blocks: list[nn.Module] = [Apart(width, heads)] if apart else [Block(width, heads, causal)]
    blocks += [nn.LayerNorm(width)] if draw(st.booleans()) else []
    if draw(st.booleans()):
        tokens, kinds = draw(st.integers(1, 11)), draw(st.integers(1, 9))
        model = Encoder(nn.Embedding(kinds, width), tokens, width, blocks, classes)
        return Drawn(_stirred(model), (tokens,), classes, seed, kinds)
    size, patch, channels = draw(st.integers(3, 9)), draw(st.integers(1, 3)), draw(st.integers(1, 3))
    model = Encoder(nn.Conv2d(channels, width, patch, patch), (size // patch) ** 2, width, blocks, classes)
    return Drawn(_stirred(model), (channels, size, size), classes, seed)


@st.composite
def drawn_network(draw: Any) -> Drawn:
    """A network for small images, or for rows of features."""
    seed, classes = draw(st.integers(0, 2**31)), draw(st.integers(2, 7))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        if draw(st.integers(0, 3)) == 0:
            return _encoder(draw, classes, seed)
        if draw(st.booleans()):
            features = draw(st.integers(1, 40))
            return Drawn(_stirred(nn.Sequential(*_tail(draw, features, classes))), (features,), classes, seed)
        shape = (draw(st.integers(1, 4)), draw(st.integers(3, 12)), draw(st.integers(3, 12)))
        layers, at = [], shape
        for _ in range(draw(st.integers(1, 4))):
            layer = _block(draw, at)
            at = tuple(layer.eval()(torch.zeros(2, *at)).shape[1:])
            layers.append(layer.train())
        layers += [nn.Flatten(), *_tail(draw, int(np.prod(at)), classes)]
        return Drawn(_stirred(nn.Sequential(*layers)), shape, classes, seed)


def _stirred(model: nn.Module) -> nn.Module:
    """Return the model with normalisation as in use: a pruned channel, which is constant, must not be blown up."""
    for module in model.modules():
        if isinstance(module, nn.BatchNorm1d | nn.BatchNorm2d | nn.GroupNorm | nn.LayerNorm):
            module.eps = 0.1
            nn.init.normal_(module.weight)
            nn.init.normal_(module.bias)
    return model


def _tail(draw: Any, features: int, classes: int) -> list[nn.Module]:
    layers: list[nn.Module] = []
    for _ in range(draw(st.integers(0, 2))):
        width = draw(st.integers(1, 24))
        layers.append(nn.Linear(features, width, bias=draw(st.booleans())))
        layers += draw(st.sampled_from([[], [nn.BatchNorm1d(width)], [nn.LayerNorm(width)]]))
        if draw(st.booleans()):
            layers.append(draw(st.sampled_from(ACTIVATIONS))())
        features = width
    return [*layers, nn.Linear(features, classes)]


def _conv(draw: Any, at: tuple[int, ...], width: int, same: bool = False) -> nn.Module:
    channels, kernel = at[0], draw(st.sampled_from([1, 2, 3])) if not same else draw(st.sampled_from([1, 3]))
    groups = draw(st.sampled_from([1, channels])) if width % channels == 0 else 1
    stride = 1 if same else draw(st.sampled_from([1, 2, (1, 2), 3]))
    padding = kernel // 2 if same else draw(st.integers(0, 2))
    kernel = min(kernel, *(side + 2 * padding for side in at[1:])) if not same else kernel
    conv = nn.Conv2d(channels, width, kernel, stride, padding, groups=groups, bias=draw(st.booleans()))
    layers: list[nn.Module] = [conv]
    groups = draw(st.sampled_from([each for each in range(1, width + 1) if width % each == 0]))
    norms: list[list[nn.Module]] = [[], [nn.BatchNorm2d(width)]]
    if conv(torch.zeros(1, *at)).numel() > groups:  # torch refuses a group of a single value
        norms.append([nn.GroupNorm(groups, width)])
    layers += draw(st.sampled_from(norms))
    return nn.Sequential(*layers)


def _block(draw: Any, at: tuple[int, ...]) -> nn.Module:
    act: nn.Module = draw(st.sampled_from([nn.Identity, *ACTIVATIONS]))()
    kind = draw(st.sampled_from(["conv", "conv", "join", "shortcut", "excite", "pool"]))
    width = draw(st.integers(1, 9))
    if kind == "join":
        one, other = _conv(draw, at, width, same=True), _conv(draw, at, width, same=True)
        return Joined(draw(st.sampled_from(["add", "multiply", "cat"])), one, other, act)
    if kind == "shortcut":
        return Joined("add", _conv(draw, at, at[0], same=True), nn.Identity(), act)
    if kind == "excite":
        return nn.Sequential(Excited(at[0]), act)
    kernel = draw(st.integers(1, min(3, *at[1:])))
    stride, padding = draw(st.integers(1, 3)), draw(st.integers(0, kernel // 2))
    pools = [
        nn.MaxPool2d(kernel, stride, padding),
        nn.AvgPool2d(kernel, stride, padding, count_include_pad=draw(st.booleans())),
        nn.MaxPool2d(kernel),
    ]
    pool = draw(st.sampled_from(pools))
    if kind == "pool":
        return nn.Sequential(pool, act)
    conv = _conv(draw, at, width)
    small = min(conv.eval()(torch.zeros(2, *at)).shape[2:]) < kernel
    return nn.Sequential(conv.train(), act, nn.Identity() if small else pool)


def random_batches(drawn: Drawn, batch: int, count: int = 2) -> list[Batch]:
    """Return mini-batches of noise."""
    source, shape = np.random.default_rng(drawn.seed), (batch, *drawn.input_shape)
    batches = []
    for _ in range(count):
        inputs = (
            source.integers(0, drawn.kinds, shape)
            if drawn.kinds
            else source.standard_normal(shape, np.float32)
        )
        batches.append((inputs, source.integers(0, drawn.classes, batch)))
    return batches
