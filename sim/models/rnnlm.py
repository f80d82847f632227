"""RNNLM: a language model with two wide LSTM layers."""

from sim.graph_builder import GraphBuilder
from sim.operator_graph import OperatorGraph


def rnnlm(
    *,
    num_devices: int,
    batch_per_device: int = 64,
    steps: int = 40,
    steps_per_op: int = 8,
    layers: int = 2,
    hidden: int = 2048,
    vocabulary: int = 10_000,
    bias: bool = False,
) -> OperatorGraph:
    """RNNLM (FlexFlow, table 3): an embedding, LSTM layers, and a softmax at every step.

    Args:
        num_devices: devices that the global batch is meant for.
        batch_per_device: samples for each of them; 64 in the paper (section 8.1).
        steps: unrolled steps; 40 in the paper, 2 in its exhaustive search.
        steps_per_op: steps in one operator; 8 in the paper's code.
        layers: LSTM layers.
        hidden: their units, and the width of the embedding.
        vocabulary: words; 10,000 in the Penn Treebank.
        bias: whether LSTM and softmax have biases.

    Raises:
        IllegalGraphError: the sizes make no graph.
    """
    builder = GraphBuilder("rnnlm")
    builder.require_positive("lstm", layers=layers)
    samples = num_devices * batch_per_device
    sequence = builder.unrolled_embedding("embed", samples, steps, vocabulary, hidden, steps_per_op=steps_per_op)
    for layer in range(layers):
        states = builder.unrolled_lstm(f"lstm{layer + 1}", sequence, hidden, bias=bias)
        sequence = [state.sequence for state in states]
    for i, tensor in enumerate(sequence):
        builder.softmax(f"softmax_{i}", tensor, vocabulary, bias=bias, group="softmax")
    return builder.build()
