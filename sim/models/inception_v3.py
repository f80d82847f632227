"""Inception-v3 without its auxiliary classifier: 94 convolutions in 11 modules, 121 operators."""

from sim.graph_builder import GraphBuilder, Pair
from sim.operator_graph import OperatorGraph
from sim.operator_writer import Source, Tensor


def inception_v3(
    *,
    num_devices: int,
    batch_per_device: int = 64,
    image_size: int = 299,
    classes: int = 1000,
    fused: bool = True,
) -> OperatorGraph:
    """Inception-v3 (Szegedy 2015, arXiv 1512.00567), 23,834,568 parameters, 5.713 G multiply-accumulates.

    Args:
        num_devices: devices that the global batch is meant for.
        batch_per_device: samples for each of them; 64 in the FlexFlow paper (section 8.1).
        image_size: height and width of the images, at least 75.
        classes: of the softmax.
        fused: batch norm and ReLU are part of the convolutions, else operators of their own.
    """
    builder = GraphBuilder("inception_v3", fused=fused)
    x = _stem(builder, (num_devices * batch_per_device, 3, image_size, image_size))
    for i, pool_channels in enumerate((32, 64, 64)):
        x = _Module(builder, f"a{i + 1}", x).a(pool_channels)
    x = _Module(builder, "b", x).b()
    for i, channels in enumerate((128, 160, 160, 192)):
        x = _Module(builder, f"c{i + 1}", x).c(channels)
    x = _Module(builder, "d", x).d()
    for i in range(2):
        x = _Module(builder, f"e{i + 1}", x).e()
    x = builder.global_pool2d("pool", x)
    builder.softmax("softmax", builder.flat("flat", x), classes)
    return builder.build()


def _stem(builder: GraphBuilder, images: tuple[int, ...]) -> Tensor:
    def conv(name: str, source: Source, channels: int, kernel: int, *, stride: int = 1, pad: int = 0) -> Tensor:
        return builder.conv2d(
            name, source, channels, kernel, stride=stride, pad=pad, bias=False, batch_norm=True, relu=True
        )

    x = conv("stem_conv1", images, 32, 3, stride=2)
    x = conv("stem_conv2", x, 32, 3)
    x = conv("stem_conv3", x, 64, 3, pad=1)
    x = builder.pool2d("stem_pool1", x, 3, stride=2)
    x = conv("stem_conv4", x, 80, 1)
    x = conv("stem_conv5", x, 192, 3)
    return builder.pool2d("stem_pool2", x, 3, stride=2)


class _Module:
    """Branches on one source; names of operators are numbered within the module."""

    def __init__(self, builder: GraphBuilder, name: str, source: Tensor) -> None:
        self.builder, self.name, self.source = builder, name, source
        self.num_operators = 0

    def a(self, pool_channels: int) -> Tensor:
        """5x5 and double 3x3 (figure 5 of the paper)."""
        one = self.chain((64, 1))
        five = self.chain((48, 1), (64, 5))
        double = self.chain((64, 1), (96, 3), (96, 3))
        pool = self.conv(self.average_pool(), pool_channels, 1)
        return self.concat(one, five, double, pool)

    def b(self) -> Tensor:
        """Halves the image (figure 10)."""
        three = self.halve(self.source, 384)
        double = self.halve(self.chain((64, 1), (96, 3)), 96)
        return self.concat(three, double, self.max_pool())

    def c(self, channels: int) -> Tensor:
        """7x7 in factors (figure 6)."""
        one = self.chain((192, 1))
        single = self.chain((channels, 1), (channels, (1, 7)), (192, (7, 1)))
        double = self.chain((channels, 1), (channels, (7, 1)), (channels, (1, 7)), (channels, (7, 1)), (192, (1, 7)))
        pool = self.conv(self.average_pool(), 192, 1)
        return self.concat(one, single, double, pool)

    def d(self) -> Tensor:
        """Halves the image."""
        three = self.halve(self.chain((192, 1)), 320)
        seven = self.halve(self.chain((192, 1), (192, (1, 7)), (192, (7, 1))), 192)
        return self.concat(three, seven, self.max_pool())

    def e(self) -> Tensor:
        """Branches that fork into 1x3 and 3x1, joined six ways (figure 7)."""
        one = self.chain((320, 1))
        three = self.chain((384, 1))
        forks = [self.conv(three, 384, (1, 3)), self.conv(three, 384, (3, 1))]
        double = self.chain((448, 1), (384, 3))
        forks += [self.conv(double, 384, (1, 3)), self.conv(double, 384, (3, 1))]
        pool = self.conv(self.average_pool(), 192, 1)
        return self.concat(one, *forks, pool)

    def chain(self, *convs: tuple[int, Pair]) -> Tensor:
        """Convolutions one after another from the source, given as (channels, kernel)."""
        x = self.source
        for channels, kernel in convs:
            x = self.conv(x, channels, kernel)
        return x

    def conv(self, source: Tensor, channels: int, kernel: Pair) -> Tensor:
        """A convolution that keeps the image's size."""
        pad = kernel // 2 if isinstance(kernel, int) else (kernel[0] // 2, kernel[1] // 2)
        return self.builder.conv2d(
            self.number("conv"), source, channels, kernel, pad=pad, bias=False, batch_norm=True, relu=True
        )

    def halve(self, source: Tensor, channels: int) -> Tensor:
        """A 3x3 convolution of stride 2."""
        return self.builder.conv2d(
            self.number("conv"), source, channels, 3, stride=2, bias=False, batch_norm=True, relu=True
        )

    def average_pool(self) -> Tensor:
        """A 3x3 mean of the source that keeps its size."""
        return self.builder.pool2d(self.number("pool"), self.source, 3, pad=1, average=True)

    def max_pool(self) -> Tensor:
        """A 3x3 maximum of the source with stride 2."""
        return self.builder.pool2d(self.number("pool"), self.source, 3, stride=2)

    def concat(self, *branches: Tensor) -> Tensor:
        """The module's output."""
        return self.builder.concat(f"{self.name}_concat", branches)

    def number(self, kind: str) -> str:
        """A name for the next operator."""
        self.num_operators += 1
        return f"{self.name}_{kind}{self.num_operators}"
