"""The commands: Hydra applications around the other rooms; the only room that knows Hydra and wandb."""
