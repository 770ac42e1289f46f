"""The paper's networks by name: what people call them, and the samples of the task that each has in the paper."""

from dataclasses import dataclass

from prunefl.system.errors import PruneFLError
from prunefl.system.suggest import did_you_mean


@dataclass(frozen=True)
class KnownNetwork:
    """Facts about a network that can be told without building it."""

    label: str
    classes: int
    input_shape: tuple[int, int, int]


NETWORKS = {
    "conv2": KnownNetwork("Conv-2", 62, (1, 28, 28)),
    "vgg11": KnownNetwork("VGG-11", 10, (3, 32, 32)),
    "resnet18": KnownNetwork("ResNet-18", 100, (3, 168, 168)),
    "mobilenetv3_small": KnownNetwork("MobileNetV3-Small", 2, (3, 84, 84)),
    "lenet300100": KnownNetwork("LeNet-300-100", 10, (1, 28, 28)),
}
SHORT = {"lenet": "lenet300100", "mobilenetv3": "mobilenetv3_small"}


def find_network(setting: str, name: str, own: str = "") -> str:
    """Return the full name of a known network.

    Args:
        setting: the option or config key that holds the name, for the error message.
        own: what else may stand there, such as " or package.module:function".
    """
    full = SHORT.get(name, name)
    if full in NETWORKS:
        return full
    hint = did_you_mean(name, [*NETWORKS, *SHORT])
    raise PruneFLError(f"{setting}={name!r}, must be one of {', '.join(NETWORKS)}{own}{hint}")
