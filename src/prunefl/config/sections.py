"""Every setting of a run: its meaning, its default and its rule, in one place."""

from dataclasses import dataclass

from prunefl.config.evaluation import NOWHERE, EvaluationSettings
from prunefl.config.losses import LOSSES, METRICS
from prunefl.config.optimiser import PLAIN_AVERAGE, PLAIN_SGD, OptimiserSettings, ServerOptimiserSettings
from prunefl.config.privacy import OPEN, PrivacySettings
from prunefl.config.server import USUAL_SERVER, ServerSettings
from prunefl.config.settings import (
    at_least,
    below_one,
    between,
    distinct,
    one_of,
    own_or_one_of,
    positive,
    setting,
    share,
    sides,
    window,
)
from prunefl.config.together import check_together
from prunefl.config.transforms import AS_RECIPE, TransformSettings


@dataclass(frozen=True)
class RunSettings:
    """The run as a whole."""

    method: str = setting(
        "prunefl-fisher",
        "pruning method: prunefl-fisher, prunefl (the paper's), conventional, snip, ...",
        free="to compare",
    )
    seed: int = setting(0, "every source of randomness derives from it", at_least(0), free="to compare")
    rounds: int = setting(300, "rounds of federated training", at_least(1))
    eval_every: int = setting(
        10, "rounds between evaluations, on the test set and at the clients", at_least(1)
    )
    eval_batch: int = setting(200, "test samples in one forward pass", at_least(1), free="to compare")
    workers: int = setting(
        0,
        "clients trained, or test batches evaluated, at once; 0 takes every core; the result is the same",
        at_least(0),
        free="to resume",
    )
    threads: int = setting(1, "threads that one client computes with", at_least(1), free="to compare")
    backend: str = setting(
        "auto",
        "what trains: torch, native (our own kernels by plan, without torch), or auto: native where the network can be "
        "compiled and is faster so; a run's folder says which it was",
        one_of("torch", "native", "auto"),
        free="to compare",
    )
    device: str = setting(
        "cpu", "what torch computes on; cuda: on a GPU, pruned layers dense under a mask", free="to compare"
    )
    keep_best: bool = setting(
        False, "also keep the model of the best evaluation, as best-ROUND.safetensors", free="to compare"
    )
    checkpoint_every: int = setting(1, "rounds between checkpoints", at_least(1), free="to resume")
    target_accuracy: float = setting(
        0.0, "report the cost of reaching this accuracy; 0: none", share(), free="to resume"
    )
    target_score: float = setting(
        0.0, "the same of the metric of a task that has no accuracy; 0: none", at_least(0), free="to resume"
    )
    loggers: tuple[str, ...] = setting((), "also log to: tensorboard, mlflow, wandb", free="to resume")


@dataclass(frozen=True)
class DataSettings:
    """Which data, and how it is divided among clients."""

    name: str = setting(
        "digits",
        "digits, mnist, femnist, cifar10, imagenet100, celeba, your own (see docs/data.md), or at-clients: "
        "each brings its own, the server has none",
    )
    dir: str = setting("", "folder that holds the files; '': data/NAME", free="to resume")
    partition: str = setting(
        "",
        "how clients are cut: iid, dirichlet, shards, or by writer, person, client; '': the data's own way",
    )
    clients: int = setting(0, "number of clients; 0: as many as the data names, or else 10", at_least(0))
    alpha: float = setting(0.5, "concentration of the Dirichlet partition; small is uneven", positive())
    size: int = setting(0, "own images are resized to this many pixels a side; 0: as they are", at_least(0))
    cache: str = setting(
        "", "folder for decoded images; '': beside the data, or $PRUNEFL_CACHE", free="to resume"
    )
    shards: int = setting(2, "label shards a client, for the shards partition", at_least(1))
    classes: tuple[str, ...] = setting(
        (), "names of all classes, in order; []: those of the data", distinct()
    )
    shape: tuple[int, ...] = setting(
        (), "of a sample: [channels, height, width]; []: that of the data", sides()
    )
    scaling: str = setting(
        "",
        "what becomes of stored numbers: unit (0..255 become 0..1), none, or a data set's name; '': not agreed",
    )
    test: str = setting(
        "", "folder or file whose samples are all for testing; '': the data's own test set, if any"
    )


@dataclass(frozen=True)
class ModelSettings:
    """The network."""

    name: str = setting(
        "conv2", "conv2, vgg11, resnet18, mobilenetv3_small, lenet300100, or package.module:function"
    )
    init: str = setting(
        "default",
        "first weights: as the network itself draws them, or as the paper's authors do (docs/results.md)",
        one_of("default", "authors"),
    )
    init_seed: int = setting(
        -1, "seed of the first weights; -1: they follow run.seed", at_least(-1), free="to compare"
    )


@dataclass(frozen=True)
class TrainingSettings:
    """Local training at a client; how a gradient becomes a step is in [optimiser]."""

    local_steps: int = setting(5, "mini-batches a client trains in a round (I)", at_least(1))
    local_epochs: int = setting(
        0, "passes over its own samples instead; 0: training.local_steps mini-batches", at_least(0)
    )
    batch_size: int = setting(20, "samples in a mini-batch", at_least(1))
    learning_rate: float = setting(0.1, "learning rate of round 0", positive())
    pace: float = setting(
        0.0, "from round 1 on, a model of density d learns at the rate times d^-pace; 0: at the rate", share()
    )
    pace_rounds: int = setting(20, "rounds in which pace grows from 0", at_least(0))
    decay: float = setting(1.0, "the rate is multiplied by decay^(r / decay_rounds)", between(0.0, 1.0))
    decay_rounds: int = setting(10000, "see decay", at_least(1))
    decay_stairs: int = setting(1, "rounds for which the rate stays the same", at_least(1))
    schedule: str = setting(
        "decay", "decay, see there, or cosine: half a cosine over run.rounds", one_of("decay", "cosine")
    )
    final_rate: float = setting(0.0, "of cosine: the share of the rate that it falls to", share())
    warmup_rounds: int = setting(0, "rounds in which the rate grows to learning_rate", at_least(0))
    loss: str = setting(
        "cross_entropy",
        "or onehot_bce, the authors'; multilabel_bce, mse, pixel_cross_entropy, token_cross_entropy, or "
        "package.module:function",
        own_or_one_of(*LOSSES),
    )
    metric: str = setting(
        "",
        "by which the model is judged; '': that of the loss; an own loss says its own",
        one_of("", *METRICS),
    )
    label_smoothing: float = setting(0.0, "of the cross-entropies, as in torch", below_one())
    class_weights: tuple[float, ...] = setting((), "of the loss, one for each class; []: none")
    participants: int = setting(0, "clients drawn for a round; 0: all of them", at_least(0))
    weighting: str = setting("samples", "p_n = D_n / D, or uniform", one_of("samples", "uniform"))
    weight_cap: float = setting(
        3.0,
        "a client's samples count for at most so many times the median of its round; 0: for any",
        at_least(0),
    )


@dataclass(frozen=True)
class PruningSettings:
    """Choosing which weights live."""

    interval: int = setting(20, "rounds between reconfigurations", at_least(1))
    fraction: float = setting(0.4, "share of the live weights that may be pruned, at round 0", share())
    half_life: int = setting(50, "rounds in which that share halves", at_least(1))
    lenience: float = setting(
        1.0,
        "prunefl-fisher: as that share falls, a round counts up to so many times as long, and more weights come back; "
        "1: never",
        at_least(1),
    )
    scope: str = setting(
        "layer", "prunefl: the smallest |w| of each layer, or of all", one_of("layer", "global")
    )
    regrow: str = setting("zero", "value of a weight that is added back", one_of("zero", "perturb"))
    perturbation: float = setting(0.001, "standard deviation for regrow = perturb", positive())
    exclude: tuple[str, ...] = setting(("*downsample*",), "weights that are never pruned, as shell patterns")
    density: float = setting(
        0.0, "density of the fixed-size methods; 0: not given", share(), free="to compare"
    )
    density_limit: float = setting(0.0, "d_l: never more live weights than this; 0: no limit", share())
    density_target: float = setting(0.0, "d_t: the limit at the last round; 0: no target", share())
    horizon: int = setting(0, "rounds for which methods lay out their schedules; 0: run.rounds", at_least(0))
    masks: str = setting("", "run folder whose final masks the method 'ticket' trains", free="to compare")


@dataclass(frozen=True)
class InitialSettings:
    """Pruning at one client before the first round."""

    client: int = setting(-1, "which client, alone; -1: the fastest that have enough samples", at_least(-1))
    clients: int = setting(
        3,
        "how many do it, each by itself; of three or more, the one most like the others counts",
        at_least(1),
    )
    samples: int = setting(200, "samples of a pass; who has fewer does not prune first", at_least(1))
    fresh: bool = setting(
        True,
        "each pass takes others of its samples, until all have had their turn; false: the same again, as in the paper",
    )
    interval: int = setting(2, "passes between reconfigurations", at_least(1))
    start_factor: float = setting(
        1.5,
        "start once the accuracy exceeds this multiple of chance, and the share of the commonest class; 0: at once",
        at_least(0),
    )
    tolerance: float = setting(0.1, "a density change below this share counts as stable", share())
    patience: int = setting(5, "stop after so many stable reconfigurations in a row", at_least(1))
    max_passes: int = setting(12, "stop after so many passes at the latest", at_least(1))
    warmup_passes: int = setting(
        -1, "passes in which the rate grows to learning_rate; -1: a third of max_passes", at_least(-1)
    )
    threads: int = setting(0, "threads that the client computes with meanwhile; 0: run.threads", at_least(0))
    deadline: float = setting(
        86400.0,
        "seconds that a real client has for it; then the next fastest is asked",
        positive(),
        free="to resume",
    )

    @property
    def warm_up(self) -> int:
        """Passes in which the rate grows."""
        return self.max_passes // 3 if self.warmup_passes < 0 else self.warmup_passes


@dataclass(frozen=True)
class ImportanceSettings:
    """The statistic g*g."""

    window: int | str = setting(
        1, 'rounds (initial pruning: passes) before a reconfiguration that collect it, or "all"', window()
    )


@dataclass(frozen=True)
class WireSettings:
    """What the bytes carry."""

    precision: str = setting("float32", "of weights sent", one_of("float32", "bfloat16", "float16", "int8"))
    importance: str = setting("float32", "of importance sent", one_of("float32", "log8"))


@dataclass(frozen=True)
class TimeSettings:
    """The clock and the time model T(M)."""

    device: str = setting(
        "raspberry-pi-4", "device of every client, unless [[fleet]] is given: a preset or a file"
    )
    refit: bool = setting(False, "correct c and t from the round times that clients report")
    memory_limit: int = setting(
        0, "bytes a client may use, turned into a density limit; 0: none", at_least(0)
    )


@dataclass(frozen=True)
class FleetSettings:
    """A group of equal devices; [[fleet]] may stand several times."""

    device: str = setting("raspberry-pi-4", "a preset or a device file")
    count: int = setting(1, "how many clients have it; 0: all that the other groups leave", at_least(0))
    bandwidth: float = setting(0.0, "bytes a second in each direction; 0: the device's own", at_least(0))
    latency: float = setting(0.0, "seconds added to each message", at_least(0))
    jitter: float = setting(0.0, "standard deviation of log(compute time)", at_least(0))


@dataclass(frozen=True)
class Config:
    """All settings of one run."""

    run: RunSettings = RunSettings()
    data: DataSettings = DataSettings()
    transforms: TransformSettings = AS_RECIPE
    model: ModelSettings = ModelSettings()
    training: TrainingSettings = TrainingSettings()
    optimiser: OptimiserSettings = PLAIN_SGD
    pruning: PruningSettings = PruningSettings()
    initial: InitialSettings = InitialSettings()
    importance: ImportanceSettings = ImportanceSettings()
    evaluation: EvaluationSettings = NOWHERE
    wire: WireSettings = WireSettings()
    time: TimeSettings = TimeSettings()
    server: ServerSettings = USUAL_SERVER
    server_optimiser: ServerOptimiserSettings = PLAIN_AVERAGE
    privacy: PrivacySettings = OPEN
    fleet: tuple[FleetSettings, ...] = ()

    def __post_init__(self) -> None:
        check_together(self)

    def fleet_counts(self) -> list[int]:
        """Return how many clients each [[fleet]] group has; the first with count 0 has those left over."""
        counts = [entry.count for entry in self.fleet]
        if 0 in counts:
            counts[counts.index(0)] = max(0, self.data.clients - sum(counts))
        return counts
