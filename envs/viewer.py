"""The text table that ``render()`` returns."""

from envs.mdp import Mdp
from envs.state import States
from sim.strategy import ParallelConfig


def render(mdp: Mdp, states: States, number: int = 0) -> str:
    """One line for each operator, the next one to be decided marked, and the price below."""
    simulations, step = states.simulations, int(states.step[number])
    is_open = set(mdp.open_operators(states)[number].tolist())
    width = max(len(operator.name) for operator in mdp.problem.graph.operators)
    lines = [
        f"{'>' if position in is_open else ' '} {operator.name:{width}}  {_degrees(operator.sizes, config)}"
        f"  {_devices(config)}"
        for position, operator in enumerate(mdp.problem.graph.operators)
        for config in (simulations.config(number, position),)
    ]
    info = {name: column[number] for name, column in mdp.info(states).items()}
    overflow_bytes = simulations.overflow_bytes[number]
    memory = "fits memory" if info["fits_memory"] else f"{overflow_bytes:,} bytes beyond memory"
    summary = f"step {step}: {info['cost_ms']:.3f} ms, speed-up {info['speedup']:.3f}, {memory}"
    return "\n".join([*lines, summary])


def _degrees(sizes: tuple[int, ...], config: ParallelConfig) -> str:
    return " x ".join(
        f"{size}/{degree}" if degree > 1 else str(size) for size, degree in zip(sizes, config.degrees, strict=True)
    )


def _devices(config: ParallelConfig) -> str:
    return f"on {','.join(map(str, config.devices))}"
