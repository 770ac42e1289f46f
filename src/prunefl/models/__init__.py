"""The paper's networks by name, and anybody's own as `package.module:function`."""

from prunefl.models.build import BUILDERS, build, build_configured, check
from prunefl.models.chains import conv2, lenet300100, vgg11
from prunefl.models.dropout import SeededDropout, seed_dropout
from prunefl.models.mobilenet import mobilenetv3_small
from prunefl.models.resnet import resnet18

__all__ = [
    "BUILDERS",
    "SeededDropout",
    "build",
    "build_configured",
    "check",
    "conv2",
    "lenet300100",
    "mobilenetv3_small",
    "resnet18",
    "seed_dropout",
    "vgg11",
]
