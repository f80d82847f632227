"""Generated models: random networks that are put together as real ones are, for training across many graphs."""

from collections.abc import Callable
from random import Random

from sim.errors import UnknownNameError
from sim.graph_builder import GraphBuilder
from sim.operator_graph import OperatorGraph
from sim.operator_writer import Source, Tensor

FAMILIES = ["convolutional", "recurrent"]


def generated(
    *, num_devices: int, seed: int = 0, family: str | None = None, batch_per_device: int | None = None
) -> OperatorGraph:
    """A random convolutional network (chains, branches, shortcuts, heavy heads) or recurrent one (towers of LSTMs).

    Sizes are drawn from the ranges that the paper's models span, so that none of these is among them but by chance.
    The same seed gives the same network on any machine.

    Args:
        num_devices: devices that the global batch is meant for.
        seed: of everything random.
        family: ``convolutional`` or ``recurrent``; None draws one.
        batch_per_device: samples for each device; None draws 16, 32, 64 or 128.

    Raises:
        UnknownNameError: there is no such family.
        IllegalGraphError: the sizes make no graph.
    """
    if family is not None and family not in FAMILIES:
        raise UnknownNameError("family", family, FAMILIES)
    draw = Random(seed)
    drawn_family, drawn_batch = draw.choice(FAMILIES), draw.choice((16, 32, 64, 128))
    write: Callable[[GraphBuilder, Random, int], None]
    write = _convolutional if (family or drawn_family) == "convolutional" else _recurrent
    builder = GraphBuilder(f"generated_{seed}")
    write(builder, draw, num_devices * (drawn_batch if batch_per_device is None else batch_per_device))
    return builder.build()


def _convolutional(builder: GraphBuilder, draw: Random, samples: int) -> None:
    """Stages of blocks of one style, each stage on a smaller image with more channels, and a head."""
    image = draw.choice((64, 96, 128, 224, 256))
    block = draw.choice((_chain, _branches, _shortcut))
    channels = draw.choice((32, 48, 64, 96))
    x = _conv(builder, "stem", (samples, 3, image, image), channels, draw.choice((3, 7)), stride=2)
    for stage in range(draw.randint(2, 4)):
        x = builder.pool2d(f"pool{stage}", x, 3, stride=2, pad=1)
        for number in range(draw.randint(1, 5)):
            x = block(builder, f"block{stage}_{number}", x, channels, draw)
        channels = min(512, channels * draw.choice((1, 2, 2)))
    has_heavy_head = draw.random() < 0.5
    if not has_heavy_head:
        x = builder.global_pool2d("mean", x)
    x = builder.flat("flat", x)
    for number in range(draw.randint(1, 3) if has_heavy_head else 0):
        x = builder.linear(f"linear{number}", x, draw.choice((1024, 2048, 4096)), relu=True)
    builder.softmax("softmax", x, draw.choice((128, 512, 1024, 4096)))


def _conv(builder: GraphBuilder, name: str, x: Source, channels: int, kernel: int, *, stride: int = 1) -> Tensor:
    return builder.conv2d(
        name, x, channels, kernel, stride=stride, pad=kernel // 2, bias=False, batch_norm=True, relu=True
    )


def _chain(builder: GraphBuilder, name: str, x: Tensor, channels: int, draw: Random) -> Tensor:
    for number in range(draw.randint(1, 2)):
        x = _conv(builder, f"{name}_{number}", x, channels, draw.choice((3, 3, 5)))
    return x


def _branches(builder: GraphBuilder, name: str, x: Tensor, channels: int, draw: Random) -> Tensor:
    """Two to four chains on the same image, side by side."""
    ends = []
    for branch in range(draw.randint(2, 4)):
        end = x
        for number in range(draw.randint(1, 3)):
            width = max(16, channels // draw.choice((2, 4)))
            end = _conv(builder, f"{name}_{branch}_{number}", end, width, draw.choice((1, 3, 5)))
        ends.append(end)
    return builder.concat(f"{name}_concat", ends)


def _shortcut(builder: GraphBuilder, name: str, x: Tensor, channels: int, draw: Random) -> Tensor:
    """A bottleneck whose input is added to its output."""
    y = _conv(builder, f"{name}_a", x, channels, 1)
    y = _conv(builder, f"{name}_b", y, channels, 3)
    y = _conv(builder, f"{name}_c", y, 4 * channels, 1)
    if x.sizes[1] != 4 * channels:
        x = _conv(builder, f"{name}_shortcut", x, 4 * channels, 1)
    return builder.add(f"{name}_add", x, y, relu=draw.random() < 0.5)


def _recurrent(builder: GraphBuilder, draw: Random, samples: int) -> None:
    """One tower of LSTMs, or an encoder whose states start a decoder; a label at the end, or a word at every step."""
    steps, num_ops = draw.choice((16, 24, 32, 40)), draw.choice((2, 4, 8))
    hidden, vocabulary = draw.choice((256, 512, 1024, 1536, 2048)), draw.choice((4_000, 8_000, 16_000, 40_000))
    num_layers, has_decoder = draw.randint(1, 4), draw.random() < 0.5

    def embed(name: str) -> list[Tensor]:
        return builder.unrolled_embedding(name, samples, steps, vocabulary, hidden, steps_per_op=steps // num_ops)

    source, target = embed("source_embed"), embed("target_embed") if has_decoder else []
    last = source[-1]
    for layer in range(num_layers):
        encoder = builder.unrolled_lstm(f"encoder{layer}", source, hidden, bias=False)
        source, last = [tensors.sequence for tensors in encoder], encoder[-1].hidden
        if has_decoder:
            decoder = builder.unrolled_lstm(f"decoder{layer}", target, hidden, state=encoder[-1], bias=False)
            target, last = [tensors.sequence for tensors in decoder], decoder[-1].hidden
    if draw.random() < 0.25:
        builder.softmax("label", last, draw.choice((2, 16, 128)))
        return
    for number, tensor in enumerate(target or source):
        builder.softmax(f"softmax_{number}", tensor, vocabulary, bias=False, group="softmax")
