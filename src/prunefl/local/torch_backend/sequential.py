"""Sequential models whose runs of sparse layers are computed together, without the user knowing."""

from torch import Tensor, nn

from prunefl.local.torch_backend import layout
from prunefl.local.torch_backend.chain import LayerChain, Link, Pool
from prunefl.local.torch_backend.layer import SparseLayer

LARGEST_WINDOW = 254  # the winner of a pooling window is kept in a byte


class FusedSequential(nn.Sequential):
    """An nn.Sequential that computes conv → ReLU → pool → ... → linear in one go where it can."""

    def forward(self, input: Tensor) -> Tensor:
        """Return what nn.Sequential returns."""
        x = input
        for step in self._steps():
            x = step(x)
        return x

    def _steps(self) -> list[nn.Module | LayerChain]:
        """Return what to call in turn; planned anew when modules were exchanged or given hooks."""
        modules = _leaves(self)
        signature = [(module, _has_hooks(module)) for module in modules]
        planned: tuple[object, list[nn.Module | LayerChain]] | None = self.__dict__.get("_planned")
        if planned is None or planned[0] != signature:
            planned = signature, _fused(modules)
            self.__dict__["_planned"] = planned
        return planned[1]

    def __getstate__(self) -> dict[str, object]:
        return {name: value for name, value in self.__dict__.items() if name != "_planned"}


def _leaves(module: nn.Module) -> list[nn.Module]:
    """Return the modules that a Sequential calls in turn, those of Sequentials within it too."""
    leaves: list[nn.Module] = []
    for child in module._modules.values():
        if type(child) is FusedSequential and not _has_hooks(child):
            leaves += _leaves(child)
        elif child is not None:
            leaves.append(child)
    return leaves


def _fused(modules: list[nn.Module]) -> list[nn.Module | LayerChain]:
    """Return the modules with every run of sparse layers, and what lies between them, made one."""
    steps: list[nn.Module | LayerChain] = []
    at = 0
    while at < len(modules):
        links, end = _run_from(modules, at)
        steps.append(LayerChain(links, modules[at:end]) if links else modules[at])
        at = end if links else at + 1
    return steps


def _run_from(modules: list[nn.Module], at: int) -> tuple[list[Link], int]:
    """Return the longest run that starts here, and where it ends."""
    links: list[Link] = []
    end = at
    while end < len(modules):
        module = modules[end]
        skipped = 1 if _is_flatten(module) and (links or at == end) else 0
        layer = modules[end + skipped] if end + skipped < len(modules) else None
        if not _extends(layer, links, flattened=skipped > 0):
            break
        assert isinstance(layer, SparseLayer)
        link = Link(layer)
        end = _attach(modules, end + skipped + 1, link)
        links.append(link)
    return links, end


def _extends(layer: nn.Module | None, links: list[Link], flattened: bool) -> bool:
    """Return whether a layer can go on with a run."""
    if not isinstance(layer, SparseLayer) or _has_hooks(layer):
        return False
    if not layer.is_linear:
        return not flattened and not (links and links[-1].layer.is_linear)
    return flattened or not links or links[-1].layer.is_linear


def _attach(modules: list[nn.Module], at: int, link: Link) -> int:
    """Give a link the ReLU and the pooling that follow it, in either order; return where they end."""
    while at < len(modules):
        module = modules[at]
        pool = None if link.pool or link.layer.is_linear else _pool_of(module)
        if type(module) in (nn.ReLU, layout.OrderedReLU) and not _has_hooks(module):
            link.relu = True
        elif pool is not None:
            link.pool = pool
        elif type(module) is not nn.Identity or _has_hooks(module):
            break
        at += 1
    return at


def _pool_of(module: nn.Module) -> Pool | None:
    """Return the window of a max-pooling layer that the kernels compute."""
    if type(module) not in (nn.MaxPool2d, layout.OrderedMaxPool2d) or _has_hooks(module):
        return None
    assert isinstance(module, nn.MaxPool2d)
    kernel, stride, padding = _pair(module.kernel_size), _pair(module.stride), _pair(module.padding)
    plain = _pair(module.dilation) == (1, 1) and not module.ceil_mode and not module.return_indices
    if not plain or kernel[0] * kernel[1] > LARGEST_WINDOW:
        return None
    return (*kernel, *stride, *padding)


def _pair(value: int | tuple[int, ...]) -> tuple[int, int]:
    """Return height and width of a setting that may be one number."""
    return (value, value) if isinstance(value, int) else (value[0], value[1])


def _is_flatten(module: nn.Module) -> bool:
    """Return whether this makes (batch, features) of images."""
    if type(module) not in (nn.Flatten, layout.OrderedFlatten) or _has_hooks(module):
        return False
    assert isinstance(module, nn.Flatten)
    return module.start_dim == 1 and module.end_dim == -1


def _has_hooks(module: nn.Module) -> bool:
    """Return whether somebody wants to see what goes through a module."""
    forward = module._forward_hooks or module._forward_pre_hooks
    return bool(forward or module._backward_hooks or module._backward_pre_hooks)
