"""Soap-v0: an episode decides each operator's config once."""

from collections.abc import Callable
from typing import Unpack

from envs.arguments import Arguments, make_mdp
from envs.decisions import Visit
from envs.mdp import Mdp
from envs.observation import GraphObservation, Observation
from envs.strategy_env import StrategyEnv


class SoapEnv(StrategyEnv):
    """Soap-v0: find a parallelization strategy by visiting each operator once.

    ## Description
    A strategy assigns every operator of a DNN a parallelization config: how its output is split along its sample,
    attribute and parameter dimensions, and which device computes each part. Its cost is the simulated time of one
    training iteration. An episode walks through the operators in topological order and chooses the config of each;
    every choice is priced by one delta simulation. Paper: Jia, Zaharia and Aiken, "Beyond Data and Model
    Parallelism for Deep Neural Networks" (FlexFlow), SysML 2019, https://arxiv.org/abs/1807.05358.

    ## Action Space
    `Discrete(C)`: the index of a config of the current operator, as `space.config(operator, index)` counts them; C is
    the largest number of configs of any operator, or `padding.num_configs`. Operators with fewer have their other
    actions masked: `action_masks()` and `observation["action_mask"]`. A masked action raises `IllegalActionError`.
    `action_space.sample()` draws legal actions only.

    ## Observation Space
    `Dict` of float32 arrays, each flattened row by row (`env.unwrapped.observation.shapes` has the rows and columns),
    all features scale-free and in [0, 16]. N operators, E edges, D devices, C configs, each padded with zeros:

    | key | shape | content |
    |---|---|---|
    | `operators` | (N, 10) | weights, work, memory, how far they can be split (`envs.graph_facts.OPERATOR_FEATURES`) |
    | `edges` | (E, 2) | positions of producer and consumer |
    | `edge_features` | (E, 2) | `EDGE_FEATURES`: whether it is an edge, size of the tensor |
    | `devices` | (D, 4) | `DEVICE_FEATURES`: node, speed, size of the memory |
    | `links` | (D * D, 2) | `LINK_FEATURES`: time and latency from each device to each other one |
    | `operator_states` | (N, 18) | the current config, and when it runs (`envs.observation.OPERATOR_STATE_FEATURES`) |
    | `device_states` | (D, 2) | `DEVICE_STATE_FEATURES`: busy time, memory in use |
    | `candidates` | (C, 20) | `CANDIDATE_FEATURES`: each config that the current operator could have |
    | `action_mask` | (C,) | 1 where the action is legal |
    | `operator` | (1,) | position of the current operator; N after the last |
    | `progress` | (3,) | share of the steps done, cost, overflow of memory |

    The first five never change. `env.unwrapped.observation.static` has them too, and
    `observation=partial(GraphObservation, has_static=False)` leaves them out of what each step returns.

    ## Rewards
    By default (`envs.reward.CostReduction`) (cost before - cost after) / cost of data parallelism, minus 10 times the
    growth of the overflow of device memory as a share of all memory. A strategy that does not fit is thus always
    penalised, and `info["fits_memory"]` says so. Returns telescope: start minus end.

    ## Starting State
    Data parallelism, or `reset(options={"strategy": strategy})`. Nothing is random: the seed only sets `np_random`.

    ## Episode Termination
    Terminates when all N operators are decided; never truncates. `info` has `cost_ms`, `speedup` over data
    parallelism, `fits_memory` and `simulations`, the proposals priced in this episode.

    ## Arguments
    `problem`, or `graph` and `topology`, and further keywords: see `envs.arguments.Arguments`; here `observation`,
    what makes the observation from the process, and `render_mode`, None or "ansi". `clone()` copies the environment
    with its state.

    ```python
    import gymnasium
    from sim.models.lenet import lenet
    from sim.topology import load_topology

    topology = load_topology("p100_cluster", num_devices=4)
    env = gymnasium.make("envs:Soap-v0", graph=lenet(num_devices=4), topology=topology)
    observation, info = env.reset(seed=0)
    is_over = False
    while not is_over:
        observation, reward, is_over, _, info = env.step(env.action_space.sample())
    print(info["speedup"], env.unwrapped.strategy.hash)
    ```

    ## Version History
    * v0: first version.

    Raises:
        MissingArgumentError: neither a problem, nor graph and topology, or both.
        NotEnumerableError: the space has no indices.
        PaddingError: the padding is smaller than the problem.
    """

    def __init__(
        self,
        *,
        observation: Callable[[Mdp], Observation] = GraphObservation,
        render_mode: str | None = None,
        **arguments: Unpack[Arguments],
    ) -> None:
        super().__init__(make_mdp(Visit, arguments), observation, render_mode)
