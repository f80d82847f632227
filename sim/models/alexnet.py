"""AlexNet: the single-tower network of "One weird trick" that FlexFlow's code trains, 12 operators."""

from sim.graph_builder import GraphBuilder
from sim.operator_graph import OperatorGraph


def alexnet(
    *,
    num_devices: int,
    batch_per_device: int = 256,
    image_size: int = 224,
    classes: int = 1000,
    fused: bool = True,
) -> OperatorGraph:
    """AlexNet (Krizhevsky 2014, arXiv 1404.5997), 61,100,840 parameters, 0.714 G multiply-accumulates.

    Args:
        num_devices: devices that the global batch is meant for.
        batch_per_device: samples for each of them; 256 in the FlexFlow paper (section 8.1).
        image_size: height and width of the images.
        classes: of the softmax.
        fused: ReLU is part of the convolutions and linear layers, else an operator of its own.
    """
    builder = GraphBuilder("alexnet", fused=fused)
    images = (num_devices * batch_per_device, 3, image_size, image_size)
    x = builder.conv2d("conv1", images, 64, 11, stride=4, pad=2, relu=True)
    x = builder.pool2d("pool1", x, 3, stride=2)
    x = builder.conv2d("conv2", x, 192, 5, pad=2, relu=True)
    x = builder.pool2d("pool2", x, 3, stride=2)
    x = builder.conv2d("conv3", x, 384, 3, pad=1, relu=True)
    x = builder.conv2d("conv4", x, 256, 3, pad=1, relu=True)
    x = builder.conv2d("conv5", x, 256, 3, pad=1, relu=True)
    x = builder.pool2d("pool5", x, 3, stride=2)
    x = builder.flat("flat", x)
    x = builder.linear("linear6", x, 4096, relu=True)
    x = builder.linear("linear7", x, 4096, relu=True)
    builder.softmax("softmax", x, classes)
    return builder.build()
