"""What torchrun starts in a test: every rank runs LeNet and writes the losses that it knows of."""

import json
import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from runtime.launch import run_strategy
from runtime.options import RunOptions
from sim.models.lenet import lenet
from sim.problem import Problem
from sim.topology import load_topology

if __name__ == "__main__":
    problem = Problem(lenet(num_devices=2, batch_per_device=2), load_topology("cpu_host", num_devices=2))
    result = run_strategy(problem, problem.data_parallel, options=RunOptions(num_iterations=2))
    Path(sys.argv[1], f"losses{os.environ['RANK']}.json").write_text(json.dumps(result.losses))
