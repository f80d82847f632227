"""What holds for all tests."""

import os

import hypothesis

# Kernels compile within the first examples.
hypothesis.settings.register_profile("testbed", deadline=None, print_blob=True)
hypothesis.settings.load_profile("testbed")

# No test talks to a server, whoever is logged in here.
os.environ["WANDB_MODE"] = "offline"
