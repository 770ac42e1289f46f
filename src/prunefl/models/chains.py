"""Conv-2, VGG-11 and LeNet-300-100: networks that are one chain of layers."""

from math import prod

from torch import nn

VGG11_LAYERS = (64, "M", 128, "M", 256, 256, "M", 512, 512, "M", 512, 512, "M")


def conv2(classes: int = 62, channels: int = 1, size: int = 28) -> nn.Sequential:
    """Return the paper's FEMNIST network for square images; 6,601,504 prunable weights as it stands."""
    layers = (
        nn.Conv2d(channels, 32, 5, padding=2),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 5, padding=2),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(64 * (size // 4) ** 2, 2048),
        nn.ReLU(),
        nn.Linear(2048, classes),
    )
    return _keep_variance(nn.Sequential(*layers))


def vgg11(classes: int = 10, channels: int = 3) -> nn.Sequential:
    """Return the paper's CIFAR-10 network for 32×32 images; 9,747,136 prunable weights as it stands."""
    layers: list[nn.Module] = []
    for width in VGG11_LAYERS:
        if isinstance(width, str):
            layers.append(nn.MaxPool2d(2))
        else:
            layers += [nn.Conv2d(channels, width, 3, padding=1), nn.ReLU()]
            channels = width
    layers += [nn.Flatten(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU()]
    return _keep_variance(nn.Sequential(*layers, nn.Linear(512, classes)))


def lenet300100(classes: int = 10, input_shape: tuple[int, ...] = (1, 28, 28)) -> nn.Sequential:
    """Return LeCun's fully connected 784-300-100-10; 266,200 prunable weights as it stands."""
    layers = (
        nn.Flatten(),
        nn.Linear(prod(input_shape), 300),
        nn.ReLU(),
        nn.Linear(300, 100),
        nn.ReLU(),
        nn.Linear(100, classes),
    )
    return _keep_variance(nn.Sequential(*layers))


def _keep_variance(model: nn.Sequential) -> nn.Sequential:
    """Return the model with He's initialisation, drawn in place.

    torch's default shrinks the signal by √6 a layer, and no normalisation makes up for it: with the paper's loss
    Conv-2 then stands still for its first 250 rounds on FEMNIST.
    """
    for module in model:
        if isinstance(module, nn.Conv2d | nn.Linear):
            nn.init.kaiming_normal_(module.weight, nonlinearity="relu")
            assert module.bias is not None
            nn.init.zeros_(module.bias)
    return model
