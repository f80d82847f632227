"""build_task_graph: the tasks of one iteration of a strategy (FlexFlow, section 5.1; DESIGN, section 2)."""

import math

from sim.collectives import all_gather_ns, ring_through, transfer_ns, tree_all_reduce_ns
from sim.flows import Flow, tensor_flows
from sim.operator_graph import BYTES_PER_ELEMENT, Edge, Exchange
from sim.problem import Problem
from sim.strategy import ParallelConfig, Strategy
from sim.synchronisation import Synchronisation
from sim.task_graph import Task, TaskGraph, TaskKind


def build_task_graph(problem: Problem, strategy: Strategy) -> TaskGraph:
    """The task graph of one training iteration; forward tasks only if ``problem.training`` is False.

    Phases number the keys: transfers into operator i of n are phase 2i and its forward tasks 2i + 1; its backward
    tasks are phase 2n + 2(n - 1 - i), the transfers of their gradients the next; bucket g of weight groups
    has the four phases from 4n + 4g. An edge of the task graph always leads to a greater key.

    Args:
        problem: graph, topology, costs and synchronisation.
        strategy: one config for each operator.

    Returns:
        The tasks, not yet simulated.
    """
    builder = TaskGraphBuilder(problem, strategy)
    for position in range(len(problem.graph)):
        builder.add_forward(position)
    if problem.training:
        for position in reversed(range(len(problem.graph))):
            builder.add_backward(position)
    done = builder.backward_done if problem.training else builder.forward_done
    synchronisation = Synchronisation(problem, strategy, builder.task_graph, done)
    for bucket in range(len(problem.buckets)):
        synchronisation.add_bucket(bucket)
    return builder.task_graph


class TaskGraphBuilder:
    """Adds the tasks of one operator after the other, remembering which task completes each part."""

    def __init__(self, problem: Problem, strategy: Strategy) -> None:
        self.problem, self.strategy = problem, strategy
        self.graph, self.topology = problem.graph, problem.topology
        names = [device.name for device in self.topology.devices]
        connections = [connection.name for connection in self.topology.connections]
        self.task_graph = TaskGraph(names + connections, len(names))
        self.incoming: list[list[Edge]] = [[] for _ in self.graph.operators]
        for edge in self.graph.edges:
            self.incoming[edge.dst].append(edge)
        self.forward_done: list[list[Task]] = []
        self.backward_done: list[list[Task]] = [[] for _ in self.graph.operators]
        # What each part's backward task waits for: its own forward task, then gradients of its output.
        self.gradients: list[list[list[int]]] = []

    def add_forward(self, position: int) -> None:
        """Transfers into an operator and its forward tasks."""
        arrivals: list[list[int]] = [[] for _ in self.strategy[position].devices]
        for edge in self.incoming[position]:
            for flow in tensor_flows(self.graph, self.strategy, edge):
                arrival = self.forward_done[edge.src][flow.src_part].id
                if flow.src_device != flow.dst_device:
                    arrival = self._add_transfer(edge, flow, 2 * position, [arrival], backward=False).id
                    self.task_graph.memory_bytes[flow.dst_device] += flow.num_bytes
                for part in flow.dst_parts:
                    arrivals[part].append(arrival)
        self.forward_done.append(self._add_parts(position, 2 * position + 1, arrivals, backward=False))
        self.gradients.append([[task.id] for task in self.forward_done[position]])

    def add_backward(self, position: int) -> None:
        """Backward tasks of an operator and the mirrored transfers, to the parts that made its inputs."""
        phase = 4 * len(self.graph) - 2 * position - 2
        self.backward_done[position] = self._add_parts(position, phase, self.gradients[position], backward=True)
        for edge in self.incoming[position]:
            for flow in tensor_flows(self.graph, self.strategy, edge):
                sources = [self.backward_done[position][part].id for part in flow.dst_parts]
                if flow.src_device != flow.dst_device:
                    sources = [self._add_transfer(edge, flow, phase + 1, sources, backward=True).id]
                self.gradients[edge.src][flow.src_part] += sources

    def _add_transfer(self, edge: Edge, flow: Flow, phase: int, in_tasks: list[int], *, backward: bool) -> Task:
        src, dst = self.graph.operators[edge.src].name, self.graph.operators[edge.dst].name
        name = f"{src}[{flow.src_part}] -> {dst}[{','.join(map(str, flow.dst_parts))}]"
        ends = (flow.src_device, flow.dst_device)
        if backward:
            name, ends = f"{name} backward", (flow.dst_device, flow.src_device)
        task = self.task_graph.add(
            name,
            "transfer",
            self.topology.occupied(self.topology.route(*ends), ends),
            transfer_ns(self.topology, *ends, flow.num_bytes),
            (phase, edge.input, flow.src_part, flow.dst_parts[0]),
            in_tasks,
        )
        task.num_bytes = flow.num_bytes
        task.flow = flow
        task.participants = ends
        return task

    def _add_parts(self, position: int, phase: int, in_tasks: list[list[int]], *, backward: bool) -> list[Task]:
        """One task per part, then the exchange between them; returns the task that completes each part."""
        operator, config = self.graph.operators[position], self.strategy[position]
        parts = []
        for part, device in enumerate(config.devices):
            times = self.problem.cost.part_ns(operator, config.degrees, self.topology.devices[device].kind)
            name = f"{operator.name}[{part}]{' backward' if backward else ''}"
            kind: TaskKind = "backward" if backward else "forward"
            parts.append(
                self.task_graph.add(name, kind, [device], times[backward], (phase, 0, part, 0), in_tasks[part])
            )
            if not backward:
                self.task_graph.memory_bytes[device] += self.problem.saved_bytes(operator, config.degrees)
        if operator.exchange is None:
            return parts
        return self._add_exchanges(position, operator.exchange, phase, parts)

    def _add_exchanges(self, position: int, exchange: Exchange, phase: int, parts: list[Task]) -> list[Task]:
        operator, config = self.graph.operators[position], self.strategy[position]
        over = (operator.sizes[dim] // config.degrees[dim] for dim in exchange.over)
        message = BYTES_PER_ELEMENT * exchange.factor * math.prod(over)
        done = list(parts)
        for number, members in enumerate(exchange_groups(exchange, config)):
            ring = ring_through(self.topology, [config.devices[part] for part in members])
            if ring.size == 1:
                continue
            if exchange.kind == "all_reduce":
                exe_time = tree_all_reduce_ns(ring, message, exchange.rounds)
                num_bytes = 2 * (ring.size - 1) * message * exchange.rounds
            else:
                exe_time = all_gather_ns(ring, message * len(members), exchange.rounds)
                num_bytes = (ring.size - 1) * message * len(members) * exchange.rounds
            task = self.task_graph.add(
                f"{operator.name} exchange {number}{'' if phase < 2 * len(self.graph) else ' backward'}",
                "exchange",
                self.topology.occupied(ring.connections, ring.devices),
                exe_time,
                (phase, 1, number, 0),
                [parts[part].id for part in members],
            )
            task.num_bytes = num_bytes
            task.participants = ring.devices
            for part in members:
                done[part] = task
        return done


def exchange_groups(exchange: Exchange, config: ParallelConfig) -> list[list[int]]:
    """Parts that take part in one exchange: those that differ only along ``exchange.across``."""
    groups: dict[tuple[int, ...], list[int]] = {}
    for part in range(config.num_tasks):
        kept = tuple(index for dim, index in enumerate(config.coordinates(part)) if dim not in exchange.across)
        groups.setdefault(kept, []).append(part)
    return list(groups.values())
