"""PlacementNetwork: ColocRL's sequence-to-sequence policy, one decision for each co-location group."""

import torch
from torch import nn


class PlacementNetwork(nn.Module):
    """An LSTM reads the groups, another decides for one after the other, with Bahdanau's attention to what was read.

    A decision for group t depends on the decisions before it (the embedding of the last is an input), on the
    encoder's state at t, and on a weighted mean of all its states; attention is applied behind the decoder's LSTM, as
    in the code that the authors released for the successor (TensorFlow, ``hierarchical_controller``). So the decisions
    are drawn one by one, but the probabilities of given ones, which are differentiated, are found all at once.

    Args:
        features: (T, F) of each group.
        mask: (T, A) whether an action is allowed.
        width: of embeddings and of the states of both LSTMs.
        generator: of the initial weights.
    """

    features: torch.Tensor
    bias: torch.Tensor

    def __init__(self, features: torch.Tensor, mask: torch.Tensor, *, width: int, generator: torch.Generator) -> None:
        super().__init__()
        num_actions = mask.shape[1]
        self.register_buffer("features", features)
        self.register_buffer("bias", torch.zeros(mask.shape).masked_fill(~mask, -torch.inf))
        self.encoder = nn.LSTM(features.shape[1], width, batch_first=True)
        # The last row stands for the decision before the first.
        self.embedding = nn.Embedding(num_actions + 1, width)
        self.decoder = nn.LSTM(2 * width, width, batch_first=True)
        self.keys = nn.Linear(width, width)
        self.query = nn.Linear(width, width, bias=False)
        self.energy = nn.Linear(width, 1, bias=False)
        self.score = nn.Linear(2 * width, num_actions)
        for parameter in self.parameters():
            nn.init.uniform_(parameter, -(width**-0.5), width**-0.5, generator=generator)

    @torch.no_grad()
    def sample(self, count: int, generator: torch.Generator) -> torch.Tensor:
        """(count, T) actions, drawn independently."""
        states, memory = self._encode(count)
        keys = self.keys(states[0])
        num_groups, num_actions = self.bias.shape
        # Adding Gumbel noise and taking the greatest draws from the softmax.
        noise = -torch.empty(num_groups, count, num_actions).exponential_(generator=generator).log()
        last = torch.full((count,), num_actions)
        actions = []
        for group in range(num_groups):
            inputs = torch.cat([states[:, group], self.embedding(last)], dim=1)
            output, memory = self.decoder(inputs[:, None], memory)
            logits = self._logits(output, states[0], keys)[:, 0] + self.bias[group]
            last = (logits + noise[group]).argmax(1)
            actions.append(last)
        return torch.stack(actions, dim=1)

    def log_prob(self, actions: torch.Tensor) -> torch.Tensor:
        """(K,) log probabilities of (K, T) actions."""
        states, memory = self._encode(len(actions))
        first = torch.full_like(actions[:, :1], self.bias.shape[1])
        before = torch.cat([first, actions[:, :-1]], dim=1)
        outputs, _ = self.decoder(torch.cat([states, self.embedding(before)], dim=2), memory)
        logits = self._logits(outputs, states[0], self.keys(states[0])) + self.bias
        return torch.log_softmax(logits, dim=2).gather(2, actions[:, :, None]).sum(dim=(1, 2))

    def _encode(self, count: int) -> tuple[torch.Tensor, tuple[torch.Tensor, torch.Tensor]]:
        """(count, T, width) states of the encoder, which are the same for all, and its memory for the decoder."""
        states, (hidden, cell) = self.encoder(self.features[None])
        memory = hidden.expand(-1, count, -1).contiguous(), cell.expand(-1, count, -1).contiguous()
        return states.expand(count, -1, -1), memory

    def _logits(self, outputs: torch.Tensor, states: torch.Tensor, keys: torch.Tensor) -> torch.Tensor:
        """(K, L, A) of (K, L, width) outputs of the decoder, with attention to (T, width) states."""
        energies = self.energy(torch.tanh(self.query(outputs)[:, :, None] + keys))[..., 0]
        context = torch.softmax(energies, dim=2) @ states
        logits: torch.Tensor = self.score(torch.cat([outputs, context], dim=2))
        return logits
