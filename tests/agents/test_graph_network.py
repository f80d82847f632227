"""One network scores the candidates of any problem, and is written to files that hold nothing but numbers."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from stable_baselines3.common.utils import obs_as_tensor

from agents.errors import AgentError, PolicyFileError
from agents.graph_network import GraphNetwork, Tensors, tensors
from agents.policy import StrategyPolicy
from agents.policy_file import load_policy, open_network, read_about, save_policy
from envs.padding import Padding
from envs.vector import SoapImproveVectorEnv, SoapVectorEnv, StrategyVectorEnv
from sim.models.lenet import lenet
from sim.problem import Problem
from sim.space import SoapSpace
from sim.topology import load_topology

NUM_ENVS = 3


@pytest.fixture(scope="module")
def problem() -> Problem:
    graph, topology = lenet(num_devices=4), load_topology("p100_cluster", num_devices=4)
    return Problem(graph, topology, space=SoapSpace(graph, topology, variant="aligned"))


def network(seed: int = 0) -> GraphNetwork:
    torch.manual_seed(seed)
    return GraphNetwork(width=16, num_rounds=2, prior=1.0)


def seen(env: StrategyVectorEnv, steps: int = 2) -> Tensors:
    """What is observed after some steps of random actions, the same for equal operators."""
    observation, _ = env.reset()
    rng = np.random.default_rng(0)
    for _ in range(steps):
        legal = [np.flatnonzero(mask) for mask in env.action_masks()]
        actions = [choices[int(draw * len(choices))] for choices, draw in zip(legal, rng.random(NUM_ENVS), strict=True)]
        observation, *_ = env.step(np.array(actions))
    return tensors(observation)


@pytest.mark.parametrize("environment", [SoapVectorEnv, SoapImproveVectorEnv])
def test_padding_changes_neither_logits_nor_values(problem: Problem, environment: Any) -> None:
    padding = Padding(num_operators=20, num_edges=30, num_devices=9, num_configs=100)
    envs = [environment(num_envs=NUM_ENVS, problem=problem, padding=given) for given in (None, padding)]
    logits, values = [], []
    for env in envs:
        observation, scorer = seen(env, steps=2), network()
        found, value = scorer(scorer.encode(tensors(env.observation.static)), observation)
        logits.append(found[observation["action_mask"] > 0].detach().numpy())
        values.append(value.detach().numpy())

    assert logits[0] == pytest.approx(logits[1], abs=1e-5)
    assert values[0] == pytest.approx(values[1], abs=1e-5)


def policy(env: StrategyVectorEnv) -> StrategyPolicy:
    return StrategyPolicy(
        env.single_observation_space,
        env.single_action_space,
        lambda _: 0.01,
        network=network(),
        facts=env.observation.static,
    )


def test_an_encoding_that_was_kept_equals_a_fresh_one(problem: Problem) -> None:
    env = SoapVectorEnv(num_envs=NUM_ENVS, problem=problem)
    observation, actor = seen(env), policy(env)
    with torch.no_grad():
        first = actor.get_distribution(observation).distribution.logits
        kept = actor.get_distribution(observation).distribution.logits
    fresh = actor.get_distribution(observation).distribution.logits

    assert torch.equal(first, kept)
    assert torch.allclose(kept, fresh, atol=1e-6)


def test_an_encoding_is_made_anew_when_the_weights_have_changed(problem: Problem) -> None:
    env = SoapVectorEnv(num_envs=NUM_ENVS, problem=problem)
    observation, actor = seen(env), policy(env)
    with torch.no_grad():
        before = actor.get_distribution(observation).distribution.logits
        actor.network.operator.weight += 1
        actor.set_training_mode(False)
        after = actor.get_distribution(observation).distribution.logits

    assert not torch.equal(before, after)


@pytest.mark.parametrize("environment", [SoapVectorEnv, SoapImproveVectorEnv])
def test_illegal_actions_have_probability_0(problem: Problem, environment: Any) -> None:
    env = environment(num_envs=NUM_ENVS, problem=problem, padding=Padding(num_operators=9, num_configs=60))
    observation, actor = seen(env), policy(env)

    chances = actor.get_distribution(obs_as_tensor(observation, "cpu")).distribution.probs.detach()
    assert float(chances[observation["action_mask"] == 0].max()) == 0
    assert float(chances[observation["action_mask"] > 0].min()) > 0


def test_a_policy_file_gives_back_the_same_network(tmp_path: Path) -> None:
    written = network()
    save_policy(written, tmp_path / "policy.safetensors", training={"simulations": 7})
    read = load_policy(tmp_path / "policy.safetensors")

    assert all(torch.equal(weight, read.state_dict()[name]) for name, weight in written.state_dict().items())
    assert read_about(tmp_path / "policy.safetensors")["training"] == {"simulations": 7}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["policy.json", "policy.safetensors"]


def test_a_policy_of_other_features_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "policy.safetensors"
    save_policy(network(), path, training={})
    about = read_about(path)
    about["features"]["progress"].append("weather")
    path.with_suffix(".json").write_text(json.dumps(about))
    with pytest.raises(PolicyFileError) as error:
        load_policy(path)

    message = "was trained on other features than the environment's; train it again"
    assert str(error.value) == f"policy file '{path}' {message}"


def test_a_network_without_width_is_refused() -> None:
    with pytest.raises(AgentError) as refusal:
        GraphNetwork(width=0, num_rounds=1, prior=0.0)

    assert str(refusal.value) == "network.width=0 must be at least 1 and network.num_rounds=1 at least 0"


def test_an_empty_name_is_no_policy_file() -> None:
    with pytest.raises(PolicyFileError) as error:
        open_network("", network, 0)

    assert str(error.value) == "policy file '.' is no file"


@pytest.mark.parametrize(
    ("weights", "about", "message"),
    [
        (None, None, r"has no readable policy\.json beside it \(No such file or directory\)$"),
        (None, "{", r"has a policy\.json beside it that is not JSON \(.*\)$"),
        (None, "[]", r"is not a policy of format version 1$"),
        (b"broken", "whole", r"does not hold the weights of a GraphNetwork \([^\n]*\)$"),
        (None, "whole", r"does not hold the weights of a GraphNetwork \([^\n]*\)$"),
    ],
)
def test_a_broken_policy_file_is_refused(
    tmp_path: Path, weights: bytes | None, about: str | None, message: str
) -> None:
    path = tmp_path / "policy.safetensors"
    save_policy(network(), path, training={})
    whole = path.with_suffix(".json").read_text()
    for name in ("policy.json", "policy.safetensors"):
        (tmp_path / name).unlink()
    if weights is not None:
        path.write_bytes(weights)
    if about is not None:
        path.with_suffix(".json").write_text(whole if about == "whole" else about)

    with pytest.raises(PolicyFileError, match=message):
        load_policy(path)
