"""Runs a strategy on real ranks: torch.distributed, one process per device."""
