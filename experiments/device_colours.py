"""device_colours: colours that tell devices apart, also for readers who see few hues."""

import colorsys
from collections.abc import Sequence

from matplotlib.colors import to_hex, to_rgb

from sim.topology import Device

HUES = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#f0e442", "#8a8f98")
"""Okabe and Ito's, distinct for all common kinds of colour blindness; a grey for black, which dark pages swallow."""

DARKEST, LIGHTEST = -0.35, 0.6
"""Shades of a hue: towards black, towards white."""

DARK_TEXT, LIGHT_TEXT = "#111418", "#ffffff"


def device_colours(devices: Sequence[Device]) -> list[str]:
    """A colour (#rrggbb) for each device.

    Up to eight devices of one node have a hue each; else each node has one, and its devices are shades of it. Beyond
    eight nodes hues come from around the colour circle: neighbours differ, but pictures also number the devices.
    """
    nodes = list(dict.fromkeys(device.node for device in devices))
    if len(nodes) == 1 and len(devices) <= len(HUES):
        return list(HUES[: len(devices)])
    members = {node: [p for p, device in enumerate(devices) if device.node == node] for node in nodes}
    if len(nodes) == 1:  # a large node: neighbours share a hue
        width = -(-len(devices) // len(HUES))
        places = range(len(devices))
        members = {first: list(places[first : first + width]) for first in places[::width]}
    colours = [""] * len(devices)
    for hue, positions in zip(_hues(len(members)), members.values(), strict=True):
        for rank, position in enumerate(positions):
            colours[position] = _shade(hue, rank, len(positions))
    return colours


def text_on(colour: str) -> str:
    """A readable text colour, by the luminance behind it."""
    red, green, blue = to_rgb(colour)
    return DARK_TEXT if 0.299 * red + 0.587 * green + 0.114 * blue > 0.5 else LIGHT_TEXT


def _hues(number: int) -> list[str]:
    if number <= len(HUES):
        return list(HUES[:number])
    # Steps of the golden angle keep neighbours far apart.
    return [to_hex(colorsys.hls_to_rgb(0.6 + 0.381966 * k % 1, 0.45, 0.65)) for k in range(number)]


def _shade(hue: str, rank: int, number: int) -> str:
    amount = DARKEST + (LIGHTEST - DARKEST) * rank / (number - 1) if number > 1 else 0.0
    target = 1.0 if amount > 0 else 0.0
    red, green, blue = (channel + (target - channel) * abs(amount) for channel in to_rgb(hue))
    return to_hex((red, green, blue))
