"""Configuration files that travel with sim; Hydra finds them as ``pkg://sim.conf``."""
