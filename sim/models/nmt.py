"""NMT: translation with an LSTM encoder, an LSTM decoder and attention; the paper's hardest graph."""

from sim.errors import UnknownNameError
from sim.graph_builder import GraphBuilder, LstmTensors
from sim.operator_graph import OperatorGraph
from sim.operator_writer import Tensor

ATTENTIONS = ["lstm", "luong"]
STATE_HANDOFFS = ["exact", "code2018"]


def nmt(
    *,
    num_devices: int,
    batch_per_device: int = 64,
    steps: int = 40,
    steps_per_op: int = 8,
    layers: int = 2,
    hidden: int = 1024,
    vocabulary: int = 32_000,
    bias: bool = False,
    attention: str = "lstm",
    state_handoff: str = "exact",
) -> OperatorGraph:
    """NMT (FlexFlow, table 3), 140,247,040 parameters in 8 weight groups, 40 operators.

    The order is source and target embedding, then encoder and decoder of each layer, attention, softmax. The
    decoder starts from the encoder's last h and c, layer by layer.

    Args:
        num_devices: devices that the global batch is meant for.
        batch_per_device: samples for each of them; 64 in the paper (section 8.1).
        steps: unrolled steps of each side; 40 in the paper.
        steps_per_op: steps in one operator; 8 in the paper's code.
        layers: LSTM layers of each side.
        hidden: their units, and the width of the embeddings.
        vocabulary: words of each language; 32,000 reproduces the paper's figure 7b.
        bias: whether LSTM, attention and softmax have biases; figure 7b has none.
        attention: ``lstm``, one more LSTM layer on top of the decoder, as in the paper's code and figures, or
            ``luong``, which attends to the encoder's last layer.
        state_handoff: ``exact``, or ``code2018``: h and c count once for every step of an operator, as the
            paper's code had it (and its figure 7b).

    Raises:
        UnknownNameError: attention or state_handoff is none of these.
        IllegalGraphError: the sizes make no graph.
    """
    if attention not in ATTENTIONS:
        raise UnknownNameError("attention", attention, ATTENTIONS)
    if state_handoff not in STATE_HANDOFFS:
        raise UnknownNameError("state_handoff", state_handoff, STATE_HANDOFFS)
    builder = GraphBuilder("nmt")
    builder.require_positive("lstm", layers=layers)
    rows = 1 if state_handoff == "exact" else steps_per_op

    def embed(name: str) -> list[Tensor]:
        samples = num_devices * batch_per_device
        return builder.unrolled_embedding(name, samples, steps, vocabulary, hidden, steps_per_op=steps_per_op)

    def lstm(name: str, sources: list[Tensor], state: LstmTensors | None = None) -> list[LstmTensors]:
        return builder.unrolled_lstm(name, sources, hidden, state=state, bias=bias, state_rows=rows)

    source, target = embed("source_embed"), embed("target_embed")
    for layer in range(1, layers + 1):
        encoder = lstm(f"encoder{layer}", source)
        decoder = lstm(f"decoder{layer}", target, encoder[-1])
        source, target = _sequences(encoder), _sequences(decoder)
    if attention == "lstm":
        attended = _sequences(lstm("attention", target))
    else:
        attended = [
            builder.luong_attention(f"attention_{i}", query, source, bias=bias, group="attention")
            for i, query in enumerate(target)
        ]
    for i, tensor in enumerate(attended):
        builder.softmax(f"softmax_{i}", tensor, vocabulary, bias=bias, group="softmax")
    return builder.build()


def _sequences(layer: list[LstmTensors]) -> list[Tensor]:
    return [tensors.sequence for tensors in layer]
