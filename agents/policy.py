"""StrategyPolicy: a GraphNetwork as the policy of Stable-Baselines3's actor-critic algorithms."""

from collections.abc import Callable
from typing import Any

import torch
from gymnasium import spaces
from numpy.typing import NDArray
from sb3_contrib.common.maskable.policies import MaskableActorCriticPolicy
from stable_baselines3.common.distributions import CategoricalDistribution
from stable_baselines3.common.type_aliases import Schedule

from agents.errors import AgentError
from agents.graph_network import Encoding, GraphNetwork
from envs.config_table import Floats


class StrategyPolicy(MaskableActorCriticPolicy):
    """Actor and critic on the states of one problem.

    Masks are taken from the observation, so that algorithms that know nothing of masks have them too. The graph is
    encoded once for every minibatch, and once for all steps between two updates.

    Args:
        observation_space: of the environment.
        action_space: of the environment.
        lr_schedule: learning rate.
        network: scores and judges; several policies may share it.
        facts: arrays of the problem that all states have in common (``envs.graph_facts``).
        optimizer: of the network's weights, shared with it; None makes one.
        look: is called for every minibatch; may raise.
        keywords: of ``MaskableActorCriticPolicy``; ``use_sde``, which some algorithms pass, must be false.
    """

    def __init__(
        self,
        observation_space: spaces.Space[Any],
        action_space: spaces.Space[Any],
        lr_schedule: Schedule,
        *,
        network: GraphNetwork,
        facts: dict[str, Floats],
        optimizer: torch.optim.Optimizer | None = None,
        look: Callable[[], None] = lambda: None,
        use_sde: bool = False,
        **keywords: Any,
    ) -> None:
        assert not use_sde, "state-dependent exploration is for continuous actions"
        self._parts, self._look = (network, optimizer), look
        self._facts = {name: torch.as_tensor(array) for name, array in facts.items()}
        self._encoding: Encoding | None = None
        super().__init__(observation_space, action_space, lr_schedule, **keywords)

    def set_training_mode(self, mode: bool) -> None:
        """Called before every rollout and every update: the weights may have changed."""
        self._encoding = None
        super().set_training_mode(mode)

    def forward(
        self, obs: Any, deterministic: bool = False, action_masks: NDArray[Any] | None = None
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Actions, values and the actions' log probabilities.

        Raises:
            AgentError: learning has ended in weights that are no numbers.
        """
        distribution, values = self._evaluate(obs)
        if values.isnan().any():
            raise AgentError(
                "the policy's weights are no numbers any more: it learned in too large steps; choose a smaller "
                "learning_rate"
            )
        actions = distribution.get_actions(deterministic=deterministic)
        return actions, values, distribution.log_prob(actions)

    def evaluate_actions(
        self, obs: Any, actions: torch.Tensor, action_masks: torch.Tensor | None = None
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor | None]:
        """Values, the actions' log probabilities and the entropy."""
        self._look()
        distribution, values = self._evaluate(obs)
        return values, distribution.log_prob(actions), distribution.entropy()

    def get_distribution(  # type: ignore[override]
        self, obs: Any, action_masks: NDArray[Any] | None = None
    ) -> CategoricalDistribution:
        """The distribution over actions."""
        return self._evaluate(obs)[0]

    def predict_values(self, obs: Any) -> torch.Tensor:
        """Values alone."""
        return self._evaluate(obs)[1]

    def _evaluate(self, obs: Any) -> tuple[CategoricalDistribution, torch.Tensor]:
        logits, values = self.network(self._encoded(), obs)
        return CategoricalDistribution(logits.shape[1]).proba_distribution(logits), values

    def _encoded(self) -> Encoding:
        """Kept as long as nothing is learned; with gradients it is made anew for every minibatch."""
        if torch.is_grad_enabled():
            self._encoding = None
            return self.network.encode(self._facts)
        if self._encoding is None:
            self._encoding = self.network.encode(self._facts)
        return self._encoding

    def _build(self, lr_schedule: Schedule) -> None:
        """Called by the base class in place of its own networks."""
        self.network, optimizer = self._parts
        if optimizer is None:
            optimizer = self.optimizer_class(self.parameters(), lr=lr_schedule(1), **self.optimizer_kwargs)  # type: ignore[call-arg]
        self.optimizer = optimizer
