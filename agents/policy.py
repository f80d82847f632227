"""StrategyPolicy: the network that scores the candidate configs of an observation."""

from typing import Any, TypeAlias

import numpy as np
import torch
from gymnasium import spaces
from numpy.typing import NDArray
from sb3_contrib.common.maskable.distributions import MaskableDistribution
from sb3_contrib.common.maskable.policies import MaskableActorCriticPolicy
from stable_baselines3.common.type_aliases import Schedule
from torch import nn

Tensors: TypeAlias = dict[str, torch.Tensor]
Shapes: TypeAlias = dict[str, tuple[int, ...]]

SMALL_GAIN = 0.01
"""Of the last layer of the scores: the untrained policy is nearly uniform."""


class StrategyNetwork(nn.Module):
    """Scores every candidate by its own features, its operator and the state of the whole.

    Operators exchange one round of messages with their producers and consumers. A candidate is scored by one
    network shared by all of them, so that the same weights serve any problem of equal padding.

    Args:
        shapes: rows and columns of each array of the observation.
        num_blocks: operators that the candidates belong to, in equal blocks: one, or all.
        width: of every hidden layer.
    """

    def __init__(self, shapes: Shapes, num_blocks: int, width: int) -> None:
        super().__init__()
        self._shapes, self._num_blocks = shapes, num_blocks
        self.operator = _layer(shapes["operators"][1] + shapes["operator_states"][1], width)
        self.message = _layer(3 * width, width)
        self.device = _layer(shapes["devices"][1] + shapes["device_states"][1], width)
        self.context = _layer(3 * width + shapes["progress"][0], width)
        self.candidate = _layer(shapes["candidates"][1], width)
        self.candidate_context = _layer(width, width)
        self.hidden = _layer(width, width)
        self.score = _layer(width, 1, SMALL_GAIN)
        self.value = nn.Sequential(_layer(width, width), nn.ReLU(), _layer(width, 1, 1.0))

    def forward(self, observation: Tensors) -> tuple[torch.Tensor, torch.Tensor]:
        """Scores of all actions, (B, actions), and values, (B, 1)."""
        arrays = {name: observation[name].reshape(-1, *shape) for name, shape in self._shapes.items()}
        operators = self._operators(arrays)
        is_operator, is_device = arrays["operators"][..., :1], arrays["devices"][..., :1]
        whole = (operators * is_operator).sum(1) / is_operator.sum(1)
        devices = torch.relu(self.device(torch.cat([arrays["devices"], arrays["device_states"]], dim=2)))
        devices = (devices * is_device).sum(1) / is_device.sum(1)
        blocks = self._current(operators, arrays["operator"]) if self._num_blocks == 1 else operators
        rest = torch.cat([whole, devices, arrays["progress"]], dim=1)
        rest = rest[:, None].expand(-1, self._num_blocks, -1)
        context = torch.relu(self.context(torch.cat([blocks, rest], dim=2)))
        candidates = self.candidate(arrays["candidates"])
        candidates = candidates.view(len(candidates), self._num_blocks, -1, candidates.shape[2])
        hidden = torch.relu(candidates + self.candidate_context(context)[:, :, None])
        scores = self.score(torch.relu(self.hidden(hidden)))
        return scores.flatten(1), self.value(context.mean(1))

    def _operators(self, arrays: Tensors) -> torch.Tensor:
        """(B, N, width) each operator with what its neighbours tell."""
        own = torch.relu(self.operator(torch.cat([arrays["operators"], arrays["operator_states"]], dim=2)))
        flat = own.flatten(0, 1)
        first = own.shape[1] * torch.arange(own.shape[0], device=own.device)
        src, dst = (arrays["edges"].long() + first[:, None, None]).flatten(0, 1).unbind(1)
        is_edge = arrays["edge_features"][..., :1].flatten(0, 1)
        received = [own]
        for sender, receiver in ((src, dst), (dst, src)):
            total = torch.zeros_like(flat).index_add_(0, receiver, flat[sender] * is_edge)
            count = flat.new_zeros(len(flat), 1).index_add_(0, receiver, is_edge)
            received.append((total / count.clamp(min=1)).view_as(own))
        return torch.relu(self.message(torch.cat(received, dim=2)))

    @staticmethod
    def _current(operators: torch.Tensor, position: torch.Tensor) -> torch.Tensor:
        """(B, 1, width) the operator at ``position``; after the last one, the last."""
        index = position.long().clamp(max=operators.shape[1] - 1)[:, :, None]
        return operators.gather(1, index.expand(-1, -1, operators.shape[2]))


class StrategyPolicy(MaskableActorCriticPolicy):
    """MaskablePPO's policy around a ``StrategyNetwork``.

    Args:
        observation_space: of the environment.
        action_space: of the environment.
        lr_schedule: learning rate.
        shapes: see ``StrategyNetwork``, as the next two.
        num_blocks: see there.
        width: see there.
        keywords: of ``MaskableActorCriticPolicy``.
    """

    def __init__(
        self,
        observation_space: spaces.Space[Any],
        action_space: spaces.Space[Any],
        lr_schedule: Schedule,
        *,
        shapes: Shapes,
        num_blocks: int,
        width: int,
        **keywords: Any,
    ) -> None:
        self._network_arguments = (shapes, num_blocks, width)
        super().__init__(observation_space, action_space, lr_schedule, **keywords)

    def forward(
        self, obs: Any, deterministic: bool = False, action_masks: NDArray[np.bool_] | None = None
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Actions, values and the actions' log probabilities."""
        distribution, values = self._evaluate(obs, action_masks)
        actions = distribution.get_actions(deterministic=deterministic)
        return actions, values, distribution.log_prob(actions)

    def evaluate_actions(
        self, obs: Any, actions: torch.Tensor, action_masks: torch.Tensor | None = None
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor | None]:
        """Values, the actions' log probabilities and the entropy."""
        distribution, values = self._evaluate(obs, action_masks)
        return values, distribution.log_prob(actions), distribution.entropy()

    def get_distribution(self, obs: Any, action_masks: NDArray[np.bool_] | None = None) -> MaskableDistribution:
        """The distribution over actions."""
        return self._evaluate(obs, action_masks)[0]

    def predict_values(self, obs: Any) -> torch.Tensor:
        """Values alone."""
        values: torch.Tensor = self.network(obs)[1]
        return values

    def _evaluate(
        self, obs: Any, action_masks: NDArray[np.bool_] | torch.Tensor | None
    ) -> tuple[MaskableDistribution, torch.Tensor]:
        scores, values = self.network(obs)
        distribution = self.action_dist.proba_distribution(action_logits=scores)
        if action_masks is not None:
            distribution.apply_masking(action_masks)
        return distribution, values

    def _build(self, lr_schedule: Schedule) -> None:
        """Called by the base class in place of its own networks."""
        self.network = StrategyNetwork(*self._network_arguments)
        self.optimizer = self.optimizer_class(self.parameters(), lr=lr_schedule(1), **self.optimizer_kwargs)  # type: ignore[call-arg]


def _layer(num_inputs: int, num_outputs: int, gain: float = 2**0.5) -> nn.Linear:
    """A linear layer, initialised orthogonally as Stable-Baselines3 does."""
    layer = nn.Linear(num_inputs, num_outputs)
    nn.init.orthogonal_(layer.weight, gain)
    nn.init.zeros_(layer.bias)
    return layer
