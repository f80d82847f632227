"""Figure 13: the best strategy found for NMT on four P100s."""

from collections.abc import Mapping, Sequence

from experiments.archive import Archive
from experiments.figures.case_study import Found, has_split, is_on_fewer_devices, study
from experiments.figures.reproduction import Reproduction

PAPER = {"share_of_embeddings_on_one_device": 1.0, "share_of_softmax_split_by_parameters": 1.0}
"""Section 8.4 in words: embeddings on one GPU, softmax split by parameters, LSTM layers side by side and split."""


def fig13(
    *,
    syncs: Mapping[str, Sequence[str]],
    agents: Sequence[str],
    simulations: int,
    seeds: Sequence[int],
    archive: Archive,
) -> Reproduction:
    """Draw the best strategy found for NMT on four P100s (FlexFlow, figure 13 and section 8.4).

    Args:
        syncs: names of synchronisations, and the overrides of run.py that they stand for.
        agents: searchers; mcmc is FlexFlow's.
        simulations: budget of each search.
        seeds: of each search; the best of all is drawn.
        archive: keeps the searches.
    """
    return study(
        "nmt",
        syncs=syncs,
        agents=agents,
        simulations=simulations,
        seeds=seeds,
        archive=archive,
        paper=PAPER,
        shares={
            "of_embeddings_on_one_device": lambda o, c: len(set(c.devices)) == 1 if o.kind == "embedding" else None,
            "of_embeddings_split_by_samples": lambda o, c: has_split(o, c, "S") if o.kind == "embedding" else None,
            "of_softmax_split_by_parameters": lambda o, c: has_split(o, c, "P") if o.kind == "softmax" else None,
            "of_lstm_on_fewer_devices": lambda o, c: is_on_fewer_devices(o, c) if o.kind == "lstm" else None,
            "of_lstm_split": lambda o, c: len(set(c.devices)) > 1 if o.kind == "lstm" else None,
        },
        sentence=_sentence,
    )


def _sentence(sync: str, found: Found) -> str:
    ours = found.quantities
    return (
        f"With sync={sync} the strategy takes {1 - ours['iteration_ratio']:.0%} less time than data parallelism and "
        f"{1 - ours['synchronisation_time_ratio']:.0%} less synchronisation; "
        f"{ours['share_of_embeddings_on_one_device']:.0%} of the embeddings are on one GPU (paper: they are), "
        f"{1 - ours['share_of_embeddings_split_by_samples']:.0%} need no synchronisation of their own, "
        f"{ours['share_of_softmax_split_by_parameters']:.0%} of the softmax operators are split by parameters (paper: "
        f"they are), and of the LSTM operators {ours['share_of_lstm_on_fewer_devices']:.0%} leave GPUs to other layers "
        f"and {ours['share_of_lstm_split']:.0%} are split (paper: both)."
    )
