"""A client's own model: the run's, trained on for some steps on samples that never leave, kept in a file here."""

from dataclasses import dataclass, replace
from pathlib import Path

from prunefl.config import Config
from prunefl.core.state import SparseState
from prunefl.rounds.client import Client
from prunefl.rounds.messages import EvaluationWork
from prunefl.system.errors import PruneFLError
from prunefl.wire.model_file import About, save_model


@dataclass(frozen=True)
class Personal:
    """What `prunefl client --personal-steps STEPS --out FILE` asks for."""

    steps: int
    out: Path


def refuse_without_evaluation(personal: Personal | None, config: Config) -> None:
    """Refuse a run whose final model will not be sent to clients."""
    if personal is not None and not config.evaluation.share:
        raise PruneFLError(
            f"--personal-steps {personal.steps}: the server's config has evaluation.share=0, so clients are not sent "
            "the final model; set evaluation.share there, or leave the option out here"
        )


def add_steps(work: EvaluationWork, personal: Personal | None) -> EvaluationWork:
    """Return the work with this client's own wish for the final model, which goes before the server's."""
    return replace(work, personal_steps=personal.steps) if personal is not None and work.final else work


def save_personal(personal: Personal | None, client: Client, state: SparseState | None) -> str:
    """Write the personal model, if one was made and is wanted; return where it is, or ""."""
    if personal is None or state is None:
        return ""
    network = client.network
    about = About(client.config.model.name, network.classes, network.input_shape, network.template.layers)
    personal.out.parent.mkdir(parents=True, exist_ok=True)
    save_model(personal.out, state, about)
    return str(personal.out)
