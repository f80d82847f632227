"""Parts of an LSTM."""

import torch
from torch import Tensor
from torch.nn import functional

from runtime.exchange import Steps, all_gather
from runtime.parts.part import Part


def lstm(part: Part) -> Steps[tuple[Tensor, ...]]:
    """All of h, step by step, and h and c after the last one, for the part's hidden units.

    A part with all hidden units is PyTorch's kernel. Parts along the hidden units run step by step and gather each
    other's h after every step but the last. h and c are handed over once for each row of the state.
    """
    source, hidden, cell = _sources(part)
    weights = [weight.flatten(0, 1) for weight in part.weights]
    if len(weights) > 2:
        # Both biases have the same gradient, and behind views autograd would give both leaves one storage for it, in
        # which the gradients of a second operator of the group were added up twice.
        weights[3] = weights[3] * 1.0
    if part.is_whole_group and part.span[2] == (0, part.operator.sizes[2]):
        state = (hidden[None], cell[None])
        has_bias = bool(part.operator.attribute("bias"))
        sequence, last, cells = torch.lstm(source, state, weights, has_bias, 1, 0.0, True, False, True)
        return sequence, _rows(part, last[0]), _rows(part, cells[0])
    gates = functional.linear(source, weights[0], weights[2] + weights[3] if len(weights) > 2 else None)
    outputs = []
    num_steps = source.shape[1]
    for step in range(num_steps):
        ingate, forget, candidate, outgate = (gates[:, step] + functional.linear(hidden, weights[1])).chunk(4, -1)
        cell = forget.sigmoid() * cell + ingate.sigmoid() * candidate.tanh()
        outputs.append(outgate.sigmoid() * cell.tanh())
        if step < num_steps - 1:
            hidden = yield from all_gather(outputs[-1], 1)
    return torch.stack(outputs, 1), _rows(part, outputs[-1]), _rows(part, cell)


def _sources(part: Part) -> tuple[Tensor, Tensor, Tensor]:
    """The sequence, all of h and the part's own c before the first step."""
    inputs = list(part.inputs)
    source = inputs.pop(0) if len(inputs) % 2 else part.data[0]
    if inputs:
        return source, inputs[0][:, -1], inputs[1][:, -1]
    samples, _, units = part.sizes
    return source, source.new_zeros(samples, part.operator.sizes[2]), source.new_zeros(samples, units)


def _rows(part: Part, state: Tensor) -> Tensor:
    """The state (samples, units) once for each row that it is counted as."""
    return state[:, None].expand(-1, part.operator.outputs[1].sizes[1], -1)
