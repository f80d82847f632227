"""ResNet-101 with shortcuts and batch norm."""

from sim.graph_builder import GraphBuilder
from sim.operator_graph import OperatorGraph
from sim.operator_writer import Tensor

STAGES = ((3, 64), (4, 128), (23, 256), (3, 512))
"""Bottleneck blocks of each stage, and channels of their 3x3 convolutions."""

EXPANSION = 4
"""Output channels of a block for each of these."""


def resnet101(
    *,
    num_devices: int,
    batch_per_device: int = 64,
    image_size: int = 224,
    classes: int = 1000,
    fused: bool = True,
) -> OperatorGraph:
    """ResNet-101 (He 2015, arXiv 1512.03385), 44,549,160 parameters, 7.80 G multiply-accumulates.

    Blocks halve the image in their 3x3 convolution, as all present implementations do.

    Args:
        num_devices: devices that the global batch is meant for.
        batch_per_device: samples for each of them; 64 in the FlexFlow paper (section 8.1).
        image_size: height and width of the images.
        classes: of the softmax.
        fused: batch norm and ReLU are part of the operators that they follow, else operators of their own.
    """
    builder = GraphBuilder("resnet101", fused=fused)
    images = (num_devices * batch_per_device, 3, image_size, image_size)
    x = builder.conv2d("conv1", images, 64, 7, stride=2, pad=3, bias=False, batch_norm=True, relu=True)
    x = builder.pool2d("pool1", x, 3, stride=2, pad=1)
    for stage, (num_blocks, channels) in enumerate(STAGES, start=2):
        for block in range(num_blocks):
            x = _block(builder, f"conv{stage}_{block + 1}", x, channels, stride=2 if stage > 2 and block == 0 else 1)
    x = builder.global_pool2d("pool5", x)
    builder.softmax("softmax", builder.flat("flat", x), classes)
    return builder.build()


def _block(builder: GraphBuilder, name: str, source: Tensor, channels: int, *, stride: int) -> Tensor:
    def conv(part: str, x: Tensor, channels: int, kernel: int, *, stride: int = 1, relu: bool = True) -> Tensor:
        pad = kernel // 2
        return builder.conv2d(
            f"{name}_{part}", x, channels, kernel, stride=stride, pad=pad, bias=False, batch_norm=True, relu=relu
        )

    width = EXPANSION * channels
    x = conv("a", source, channels, 1)
    x = conv("b", x, channels, 3, stride=stride)
    x = conv("c", x, width, 1, relu=False)
    if source.sizes[1] != width:
        source = conv("shortcut", source, width, 1, stride=stride, relu=False)
    return builder.add(f"{name}_add", x, source, relu=True)
