"""RNNTC: text classification with four LSTM layers."""

from sim.graph_builder import GraphBuilder
from sim.operator_graph import OperatorGraph


def rnntc(
    *,
    num_devices: int,
    batch_per_device: int = 64,
    steps: int = 40,
    steps_per_op: int = 8,
    layers: int = 4,
    hidden: int = 1024,
    vocabulary: int = 20_000,
    classes: int = 2,
    bias: bool = False,
) -> OperatorGraph:
    """RNNTC (FlexFlow, table 3): an embedding, LSTM layers, and a softmax after the last step.

    Args:
        num_devices: devices that the global batch is meant for.
        batch_per_device: samples for each of them; 64 in the paper (section 8.1).
        steps: unrolled steps; 40 in the paper.
        steps_per_op: steps in one operator; 8 in the paper's code.
        layers: LSTM layers.
        hidden: their units, and the width of the embedding.
        vocabulary: words; the paper does not give them.
        classes: of the softmax; movie reviews are good or bad.
        bias: whether LSTM and softmax have biases.

    Raises:
        IllegalGraphError: the sizes make no graph.
    """
    builder = GraphBuilder("rnntc")
    builder.require_positive("lstm", layers=layers)
    samples = num_devices * batch_per_device
    sequence = builder.unrolled_embedding("embed", samples, steps, vocabulary, hidden, steps_per_op=steps_per_op)
    last = sequence[-1]
    for layer in range(layers):
        states = builder.unrolled_lstm(f"lstm{layer + 1}", sequence, hidden, bias=bias)
        sequence, last = [state.sequence for state in states], states[-1].hidden
    builder.softmax("softmax", last, classes, bias=bias)
    return builder.build()
