"""A user's function that gives the samples of a client by its number: called for one client after another."""

from prunefl.data.federation import Federation
from prunefl.data.mine import bring_by_function
from prunefl.data.task import Task
from prunefl.system.errors import PruneFLError

NAME = "function-per-client"


def client_functions(spec: str, clients: int, task: Task) -> Federation:
    """Return what the function gives for each client, as `prunefl client --data SPEC` would bring it.

    Args:
        spec: package.module:function, from a client's number to a data set.
    """
    for key, given in (("clients", clients), ("classes", task.classes)):
        if not given:
            raise PruneFLError(f"data.{key} is not set, must be given with data.name={NAME!r}")
    if ":" not in spec:
        raise PruneFLError(f"data.dir={spec!r}, must be package.module:function with data.name={NAME!r}")
    shares, shape = [], task.shape
    for client in range(clients):
        brought = bring_by_function(spec, client, Task(task.classes, shape))
        shares.append(brought.samples)
        shape = brought.shape
    words = f"{clients} clients, as {spec} gives them"
    return Federation(shares, None, len(task.classes), shape, NAME, words, task.classes)
