"""The text table that ``render()`` returns."""

from envs.mdp import NS_PER_MS, Mdp
from envs.state import State
from sim.strategy import ParallelConfig


def render(mdp: Mdp, state: State) -> str:
    """One line for each operator, the next one to be decided marked, and the price below."""
    is_open = {int(operator) for operator in mdp.decisions.open_operators(state.step)}
    width = max(len(operator.name) for operator in mdp.problem.graph.operators)
    lines = [
        f"{'>' if position in is_open else ' '} {operator.name:{width}}  {_degrees(operator.sizes, config)}"
        f"  {_devices(config)}"
        for position, operator in enumerate(mdp.problem.graph.operators)
        for config in (state.simulation.config(position),)
    ]
    info = mdp.info(state)
    memory = "fits memory" if info["fits_memory"] else f"{state.price.overflow_bytes:,} bytes beyond memory"
    summary = f"step {state.step}: {state.price.cost_ns / NS_PER_MS:.3f} ms, speed-up {info['speedup']:.3f}, {memory}"
    return "\n".join([*lines, summary])


def _degrees(sizes: tuple[int, ...], config: ParallelConfig) -> str:
    return " x ".join(
        f"{size}/{degree}" if degree > 1 else str(size) for size, degree in zip(sizes, config.degrees, strict=True)
    )


def _devices(config: ParallelConfig) -> str:
    return f"on {','.join(map(str, config.devices))}"
