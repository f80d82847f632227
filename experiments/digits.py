"""digits: the images of handwritten digits that scikit-learn ships, for models that read larger ones."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

PIXELS, BRIGHTEST = 8, 16
"""Height and width of the images, and the value of a white pixel."""


@dataclass(frozen=True, slots=True)
class Digits:
    """Some of the images.

    Attributes:
        images: (count, 1, size, size), 0 to 1, float32.
        labels: (count,), 0 to 9, int64.
    """

    images: NDArray[np.float32]
    labels: NDArray[np.int64]


def load_digits(*, image_size: int, test_share: float, seed: int) -> tuple[Digits, Digits]:
    """All 1,797 images, for training and for testing; digits are as frequent in both.

    Args:
        image_size: height and width to which images are enlarged, bilinearly.
        test_share: of the images, more than 0 and less than 1.
        seed: of the split.
    """
    # Half a second each, which commands that train nothing need not wait for.
    from scipy.ndimage import zoom
    from sklearn.datasets import load_digits as load
    from sklearn.model_selection import train_test_split

    images, labels = load(return_X_y=True)
    images = (images.reshape(-1, 1, PIXELS, PIXELS) / BRIGHTEST).astype(np.float32)
    scale = image_size / PIXELS
    images = zoom(images, (1, 1, scale, scale), order=1, mode="nearest", grid_mode=True)
    split = train_test_split(images, labels.astype(np.int64), test_size=test_share, random_state=seed, stratify=labels)
    return Digits(split[0], split[2]), Digits(split[1], split[3])
