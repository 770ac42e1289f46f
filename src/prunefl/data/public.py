"""The server's own samples, on which it may prune first: public ones, or its own."""

from pathlib import Path

from prunefl.config import Config
from prunefl.data.federation import Federation
from prunefl.data.listed import ImageOptions
from prunefl.data.mine import bring
from prunefl.data.recipe import transform
from prunefl.data.samples import Samples
from prunefl.data.task import Task
from prunefl.system.errors import PruneFLError


def load_public(config: Config, federation: Federation) -> Samples | None:
    """Return the samples that privacy.public names, as the run's clients have theirs; None if it names none."""
    path = config.privacy.public
    if not path:
        return None
    task = Task(federation.names, federation.input_shape, config.data.scaling)
    options = ImageOptions(config.data.size, (), Path(config.data.cache) if config.data.cache else None)
    try:
        brought = bring(Path(path), task, options)
    except PruneFLError as error:
        raise PruneFLError(f"privacy.public={path!r}: {error}") from None
    return transform(brought.samples, config.transforms, federation.input_shape)
