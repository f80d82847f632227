"""ResNet-101 without shortcuts, as FlexFlow's code has it: a chain."""

from sim.graph_builder import GraphBuilder
from sim.models.resnet101 import EXPANSION, STAGES
from sim.operator_graph import OperatorGraph


def resnet101_linear(
    *,
    num_devices: int,
    batch_per_device: int = 64,
    image_size: int = 224,
    classes: int = 1000,
    fused: bool = True,
) -> OperatorGraph:
    """The 100 convolutions of ResNet-101 in a row, 41,673,920 parameters, 7.44 G multiply-accumulates.

    No shortcuts, norms or biases: FlexFlow's simulator of 2018, which is why the paper calls ResNet linear.

    Args:
        num_devices: devices that the global batch is meant for.
        batch_per_device: samples for each of them; 64 in the FlexFlow paper (section 8.1).
        image_size: height and width of the images.
        classes: of the softmax.
        fused: ReLU is part of the convolutions, else an operator of its own.
    """
    builder = GraphBuilder("resnet101_linear", fused=fused)
    images = (num_devices * batch_per_device, 3, image_size, image_size)
    x = builder.conv2d("conv1", images, 64, 7, stride=2, pad=3, bias=False, relu=True)
    x = builder.pool2d("pool1", x, 3, stride=2, pad=1)
    number = 1
    for stage, (num_blocks, channels) in enumerate(STAGES):
        for block in range(num_blocks):
            stride = 2 if stage > 0 and block == 0 else 1
            for kernel, width, step in ((1, channels, 1), (3, channels, stride), (1, EXPANSION * channels, 1)):
                number += 1
                x = builder.conv2d(
                    f"conv{number}", x, width, kernel, stride=step, pad=kernel // 2, bias=False, relu=True
                )
    x = builder.global_pool2d("pool5", x)
    builder.softmax("softmax", builder.flat("flat", x), classes, bias=False)
    return builder.build()
