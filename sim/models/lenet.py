"""LeNet: Caffe's variant for MNIST, the six layers that OptCNN and FlexFlow search exhaustively."""

from sim.graph_builder import GraphBuilder
from sim.operator_graph import OperatorGraph


def lenet(
    *, num_devices: int, batch_per_device: int = 64, image_size: int = 28, hidden: int = 500, classes: int = 10
) -> OperatorGraph:
    """LeNet of Caffe's MNIST example, 431,080 parameters, 6 operators: the linear layer reads the image itself.

    Args:
        num_devices: devices that the global batch is meant for.
        batch_per_device: samples for each of them.
        image_size: height and width of the images.
        hidden: units of the first linear layer.
        classes: of the softmax.
    """
    builder = GraphBuilder("lenet")
    x = builder.conv2d("conv1", (num_devices * batch_per_device, 1, image_size, image_size), 20, 5)
    x = builder.pool2d("pool1", x, 2, stride=2)
    x = builder.conv2d("conv2", x, 50, 5)
    x = builder.pool2d("pool2", x, 2, stride=2)
    x = builder.linear("linear", x, hidden, relu=True)
    builder.softmax("softmax", x, classes)
    return builder.build()
