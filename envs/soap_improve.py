"""SoapImprove-v0: an episode changes the config of any operator, a fixed number of times."""

from collections.abc import Callable
from functools import partial
from typing import Unpack

from envs.arguments import Arguments, make_mdp
from envs.decisions import Improve
from envs.mdp import Mdp
from envs.observation import GraphObservation, Observation
from envs.strategy_env import StrategyEnv


class SoapImproveEnv(StrategyEnv):
    """SoapImprove-v0: improve a parallelization strategy, one operator's config at a time.

    ## Description
    As `Soap-v0` (`envs.soap.SoapEnv`), but each step chooses the operator too, as the proposals of FlexFlow's MCMC
    search do. Unlike there, every proposal is accepted: a worse strategy is kept, with a negative reward, and it is
    the agent's business to leave it again. Paper: Jia, Zaharia and Aiken, "Beyond Data and Model Parallelism for Deep
    Neural Networks" (FlexFlow), SysML 2019, section 6, https://arxiv.org/abs/1807.05358.

    ## Action Space
    `Discrete(N * C)`: `operator * C + index`, with the config `space.config(operator, index)`. N operators, and C the
    largest number of configs of any of them, or both as `padding` says. Masks, errors and `sample()` as in `Soap-v0`.

    ## Observation Space
    As in `Soap-v0`, with all operators open: `candidates` is (N * C, 20) and `action_mask` (N * C,), in the order of
    the actions, and `operator` is always N. It grows with N * C: 0.5 MB for NMT on 16 devices.

    ## Rewards
    As in `Soap-v0`.

    ## Starting State
    As in `Soap-v0`.

    ## Episode Termination
    Terminates after `num_steps` steps (they are counted in the observation); never truncates.

    ## Arguments
    As in `Soap-v0`, and `num_steps` of an episode: twice the number of operators by default.

    ```python
    import gymnasium
    from sim.models.lenet import lenet
    from sim.topology import load_topology

    topology = load_topology("p100_cluster", num_devices=4)
    env = gymnasium.make("envs:SoapImprove-v0", graph=lenet(num_devices=4), topology=topology, num_steps=20)
    observation, info = env.reset(seed=0)
    observation, reward, terminated, truncated, info = env.step(env.action_space.sample())
    ```

    ## Version History
    * v0: first version.

    Raises:
        MissingArgumentError: neither a problem, nor graph and topology, or both.
        NotEnumerableError: the space has no indices.
        PaddingError: the padding is smaller than the problem.
        EnvError: ``num_steps`` is not positive.
    """

    def __init__(
        self,
        *,
        num_steps: int | None = None,
        observation: Callable[[Mdp], Observation] = GraphObservation,
        render_mode: str | None = None,
        **arguments: Unpack[Arguments],
    ) -> None:
        super().__init__(make_mdp(partial(Improve, num_steps=num_steps), arguments), observation, render_mode)
