"""GraphNetwork: scores the candidate configs of a state, for any graph, topology and number of devices."""

from collections.abc import Mapping
from typing import Any, NamedTuple, TypeAlias

import torch
from numpy.typing import NDArray
from torch import nn

from agents.errors import AgentError
from envs.config_table import CONFIG_FEATURES
from envs.graph_facts import DEVICE_FEATURES, EDGE_FEATURES, LINK_FEATURES, OPERATOR_FEATURES
from envs.observation import CANDIDATE_FEATURES, DEVICE_STATE_FEATURES, OPERATOR_STATE_FEATURES, PROGRESS_FEATURES

Tensors: TypeAlias = dict[str, torch.Tensor]

FEATURES = {
    "operators": OPERATOR_FEATURES,
    "edge_features": EDGE_FEATURES,
    "devices": DEVICE_FEATURES,
    "links": LINK_FEATURES,
    "operator_states": OPERATOR_STATE_FEATURES,
    "device_states": DEVICE_STATE_FEATURES,
    "candidates": CANDIDATE_FEATURES,
    "configs": CONFIG_FEATURES,
    "progress": PROGRESS_FEATURES,
}
"""What the network knows its inputs by; weights of other inputs are refused."""

EXCESS = CANDIDATE_FEATURES.index("excess")
NEVER = -1e8
"""Logit of an illegal action; finite, so that entropies and gradients are."""

SMALL_GAIN = 0.01
"""Of the last layer of the scores: it adds next to nothing before it is trained."""


class Encoding(NamedTuple):
    """What the network makes of a graph and its devices before anything is placed; N operators, D devices.

    Attributes:
        operators: (N, width).
        producers: (N, N) row i averages over the producers of operator i; consumers alike.
        consumers: (N, N).
        is_operator: (N, 1) 0 in the padding.
        devices: (D, width).
        is_device: (D, 1) 0 in the padding.
    """

    operators: torch.Tensor
    producers: torch.Tensor
    consumers: torch.Tensor
    is_operator: torch.Tensor
    devices: torch.Tensor
    is_device: torch.Tensor


class GraphNetwork(nn.Module):
    """Actor and critic of states of any problem.

    ``encode`` lets operators exchange messages along the edges, and devices along the links; it needs no state. A state
    adds the present configs, the simulated times and the devices' loads; a candidate is scored by one network that all
    candidates of all operators share, from its own features and the context of its operator. So no size of a problem
    is a size of the network.

    Args:
        width: of the hidden layers.
        num_rounds: of messages along the edges.
        prior: before training, the logit of a candidate falls by this for each unit of its excess over the best
            candidate's estimated time; 0 starts from a uniform policy.
    """

    def __init__(self, *, width: int, num_rounds: int, prior: float) -> None:
        super().__init__()
        if width < 1 or num_rounds < 0:
            raise AgentError(f"network.width={width} must be at least 1 and network.num_rounds={num_rounds} at least 0")
        self.width, self.num_rounds = width, num_rounds
        sizes = {name: len(features) for name, features in FEATURES.items()}
        self.operator = _layer(sizes["operators"], width)
        self.messages = nn.ModuleList(_layer(3 * width + 2 * sizes["edge_features"], width) for _ in range(num_rounds))
        self.device = _layer(sizes["devices"] + sizes["links"], width)
        self.operator_state = _layer(sizes["operator_states"], width)
        self.device_state = _layer(sizes["device_states"], width)
        self.context = _layer(5 * width + sizes["progress"], width)
        self.candidate = _layer(sizes["candidates"], width)
        self.candidate_context = _layer(width, width)
        self.hidden = _layer(width, width)
        self.score = _layer(width, 1, SMALL_GAIN)
        self.shortcut = nn.Linear(sizes["candidates"], 1, bias=False)
        self.value = nn.Sequential(_layer(2 * width, width), nn.ReLU(), _layer(width, 1, 1.0))
        with torch.no_grad():
            self.shortcut.weight.zero_()
            self.shortcut.weight[0, EXCESS] = -prior

    def encode(self, facts: Tensors) -> Encoding:
        """What does not depend on the state; ``facts`` are the arrays of ``envs.graph_facts``, without a batch."""
        is_edge, num_operators = facts["edge_features"][:, :1], len(facts["operators"])
        src, dst = facts["edges"].long().unbind(1)
        from_src, from_dst = (_averages(*ends, is_edge, num_operators) for ends in ((dst, src), (src, dst)))
        volumes = [(_averages(end, None, is_edge, num_operators) @ facts["edge_features"]) for end in (dst, src)]
        operators = torch.relu(self.operator(facts["operators"]))
        for message in self.messages:
            heard = torch.cat([operators, from_src @ operators, from_dst @ operators, *volumes], dim=1)
            operators = operators + torch.relu(message(heard))
        is_device = facts["devices"][:, :1]
        links = facts["links"].view(len(is_device), len(is_device), -1)
        links = (links * is_device).sum(1) / is_device.sum()
        devices = self.device(torch.cat([facts["devices"], links], dim=1))
        return Encoding(operators, from_src, from_dst, facts["operators"][:, :1], devices, is_device)

    def forward(self, encoding: Encoding, observation: Tensors) -> tuple[torch.Tensor, torch.Tensor]:
        """Logits of all actions, (B, actions), NEVER where they are illegal, and values, (B, 1)."""
        mask = observation["action_mask"] > 0
        count, num_operators = len(mask), len(encoding.operators)
        states = observation["operator_states"].view(count, num_operators, -1)
        loads = observation["device_states"].view(count, len(encoding.devices), -1)
        operators = torch.relu(encoding.operators + self.operator_state(states))
        devices = torch.relu(encoding.devices + self.device_state(loads))
        whole = torch.cat(
            [
                (operators * encoding.is_operator).sum(1) / encoding.is_operator.sum(),
                (devices * encoding.is_device).sum(1) / encoding.is_device.sum(),
            ],
            dim=1,
        )
        here = self._open(encoding, operators, states)
        rest = torch.cat([whole, observation["progress"]], dim=1)
        rest = rest[:, None].expand(-1, here.shape[1], -1)
        context = torch.relu(self.context(torch.cat([here, rest], dim=2)))
        logits = self._logits(context, observation["candidates"].view(*mask.shape, -1), mask)
        is_block = mask.view(count, here.shape[1], -1).any(dim=2, keepdim=True)
        average = (context * is_block).sum(1) / is_block.sum(1).clamp(min=1)
        return logits, self.value(torch.cat([average, whole[:, : self.width]], dim=1))

    @staticmethod
    def _open(encoding: Encoding, operators: torch.Tensor, states: torch.Tensor) -> torch.Tensor:
        """(B, K, 3 width) the K open operators, each with the averages of its producers and of its consumers."""
        is_open = states[:, :, 0]
        if bool((is_open.sum(1) > 1).any()):
            return torch.cat([operators, encoding.producers @ operators, encoding.consumers @ operators], dim=2)
        # At the end of an episode none is open: the first stands in for it, all of whose actions are masked.
        current = is_open.argmax(1)
        here = operators[torch.arange(len(current)), current][:, None]
        above, below = (table[current][:, None] @ operators for table in (encoding.producers, encoding.consumers))
        return torch.cat([here, above, below], dim=2)

    def _logits(self, context: torch.Tensor, candidates: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """(B, actions); the padding costs nothing, since only the legal candidates are gathered."""
        rows, actions = mask.nonzero(as_tuple=True)
        legal = candidates[rows, actions]
        place = actions * context.shape[1] // mask.shape[1]
        known = self.candidate_context(context)[rows, place]
        hidden = torch.relu(self.hidden(torch.relu(self.candidate(legal) + known)))
        scores = (self.score(hidden) + self.shortcut(legal))[:, 0]
        return scores.new_full(mask.shape, NEVER).index_put((rows, actions), scores)


def tensors(arrays: Mapping[str, NDArray[Any]]) -> Tensors:
    """The same arrays, not copied, as the network takes them."""
    return {name: torch.as_tensor(array) for name, array in arrays.items()}


def _averages(
    receiver: torch.Tensor, sender: torch.Tensor | None, is_edge: torch.Tensor, num_operators: int
) -> torch.Tensor:
    """Row i averages what operator i receives: from senders, or, where these are None, from edges."""
    columns = torch.arange(len(receiver)) if sender is None else sender
    table = is_edge.new_zeros(num_operators, len(receiver) if sender is None else num_operators)
    table.index_put_((receiver, columns), is_edge[:, 0], accumulate=True)
    return table / table.sum(1, keepdim=True).clamp(min=1)


def _layer(num_inputs: int, num_outputs: int, gain: float = 2**0.5) -> nn.Linear:
    """A linear layer, initialised orthogonally as Stable-Baselines3 does."""
    layer = nn.Linear(num_inputs, num_outputs)
    nn.init.orthogonal_(layer.weight, gain)
    nn.init.zeros_(layer.bias)
    return layer
