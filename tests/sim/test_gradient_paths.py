"""Which operators' work comes before a weight group's synchronisation."""

from sim.gradient_paths import precedes_synchronisation
from sim.graph_builder import GraphBuilder
from sim.models.lenet import lenet
from sim.models.nmt import nmt


def test_all_work_of_a_chain_comes_before_its_first_layers_synchronisation() -> None:
    assert precedes_synchronisation(lenet(num_devices=2))[0].all()


def test_only_the_last_layer_comes_before_its_own_synchronisation() -> None:
    assert precedes_synchronisation(lenet(num_devices=2))[-1].tolist() == [False] * 5 + [True]


def test_a_part_of_a_concat_leads_to_one_branch_only_but_all_branches_lead_on() -> None:
    builder = GraphBuilder("branches")
    stem = builder.conv2d("stem", (4, 3, 8, 8), 4, 1)
    left, right = builder.conv2d("left", stem, 4, 1), builder.conv2d("right", stem, 4, 1)
    builder.concat("concat", [left, right])

    before_stem, before_left, _ = precedes_synchronisation(builder.build())

    assert (before_stem.all(), before_left.tolist()) == (True, [False, True, False, False])


def test_target_words_do_not_come_before_the_source_embeddings_synchronisation() -> None:
    graph = nmt(num_devices=2)
    groups = list(graph.weight_groups)

    before = precedes_synchronisation(graph)[groups.index("source_embed")]

    assert [o.name for o, is_before in zip(graph.operators, before, strict=True) if not is_before] == [
        f"target_embed_{i}" for i in range(5)
    ]
