"""Figure 12: the best strategy found for Inception-v3 on four P100s."""

from collections.abc import Mapping, Sequence

from experiments.archive import Archive
from experiments.figures.case_study import Found, has_split, is_on_fewer_devices, study
from experiments.figures.reproduction import Reproduction
from sim.operator_graph import Operator
from sim.strategy import ParallelConfig

PAPER = {"iteration_ratio": 0.88, "synchronisation_time_ratio": 0.25}
"""Section 8.4: 12 % less time for an iteration and 75 % less synchronisation costs than data parallelism."""


def fig12(
    *,
    syncs: Mapping[str, Sequence[str]],
    agents: Sequence[str],
    simulations: int,
    seeds: Sequence[int],
    archive: Archive,
) -> Reproduction:
    """Draw the best strategy found for Inception-v3 on four P100s (FlexFlow, figure 12 and section 8.4).

    Args:
        syncs: names of synchronisations, and the overrides of run.py that they stand for.
        agents: searchers; mcmc is FlexFlow's.
        simulations: budget of each search.
        seeds: of each search; the best of all is drawn.
        archive: keeps the searches.
    """
    return study(
        "inception_v3",
        syncs=syncs,
        agents=agents,
        simulations=simulations,
        seeds=seeds,
        archive=archive,
        paper=PAPER,
        shares={
            "split_by_samples": lambda operator, config: has_split(operator, config, "S"),
            "split_by_attributes": lambda operator, config: has_split(operator, config, "A"),
            "split_by_parameters": lambda operator, config: has_split(operator, config, "P"),
            "of_branches_on_fewer_devices": _on_fewer_devices,
        },
        sentence=_sentence,
    )


def _on_fewer_devices(operator: Operator, config: ParallelConfig) -> bool | None:
    """Of the operators in modules, which have branches."""
    is_in_branch = operator.name[0] in "abcde" and operator.kind != "concat"
    return is_on_fewer_devices(operator, config) if is_in_branch else None


def _sentence(sync: str, found: Found) -> str:
    ours = found.quantities
    share = ours["share_of_branches_on_fewer_devices"]
    return (
        f"With sync={sync} the strategy takes {1 - ours['iteration_ratio']:.0%} less time than data parallelism and "
        f"{1 - ours['synchronisation_time_ratio']:.0%} less synchronisation (paper: 12% and 75%); {share:.0%} of the "
        "operators on branches run on fewer than 4 GPUs and leave the others to other branches (paper: some do, while "
        "operators on the critical path are split over all)."
    )
