"""Proximal policy optimization (Schulman et al. 2017): nets, advantages, the steps of an update."""

from itertools import pairwise

import torch
from torch import nn

GAMMA, LAMBDA = 0.99, 0.95  # generalized advantages (Schulman et al. 2016)
EPOCHS, MINIBATCHES = 4, 4  # passes over the steps of an update, and parts of each pass
CLIP, ENTROPY, VALUE_LOSS, MAX_NORM = 0.2, 0.01, 0.5, 0.5


def make_net(sizes, scale):
    """Create a net: tanh between its layers, orthogonal weights, the last ones times `scale`."""
    layers = []
    for at, (inputs, outputs) in enumerate(pairwise(sizes)):
        layer = nn.Linear(inputs, outputs)
        nn.init.orthogonal_(layer.weight, scale if at == len(sizes) - 2 else 2**0.5)
        nn.init.zeros_(layer.bias)
        layers += [layer, nn.Tanh()]
    return nn.Sequential(*layers[:-1])


def advantages(kept, last_value):
    """Return generalized advantages; a terminal state has value 0, others the critic's."""
    later, following = torch.zeros_like(last_value), last_value
    found = torch.zeros_like(kept["value"])
    for at in reversed(range(len(found))):
        error = kept["reward"][at] + GAMMA * following * (1 - kept["end"][at]) - kept["value"][at]
        # Nothing is learned from a step that only begins an episode, and nothing passes it.
        later = kept["acted"][at] * (error + GAMMA * LAMBDA * (1 - kept["end"][at]) * later)
        found[at], following = later, kept["value"][at]
    return found


def update(player, optimizer, kept, advantage):
    """Take the steps of one update."""
    acted = kept["acted"].flatten() > 0
    rows = {key: each.flatten(0, 1)[acted] for key, each in kept.items()}
    advantage = advantage.flatten()[acted]
    goal = advantage + rows["value"]
    for _ in range(EPOCHS):
        for part in torch.randperm(len(goal)).chunk(MINIBATCHES):
            chances = torch.distributions.Categorical(logits=player.policy(rows["state"][part]))
            ratio = (chances.log_prob(rows["action"][part]) - rows["log"][part]).exp()
            scaled = (advantage[part] - advantage[part].mean()) / (advantage[part].std() + 1e-8)
            gain = torch.min(ratio * scaled, ratio.clamp(1 - CLIP, 1 + CLIP) * scaled).mean()
            errors = (player.critic(rows["state"][part])[:, 0] - goal[part]) ** 2
            loss = VALUE_LOSS * errors.mean() - gain - ENTROPY * chances.entropy().mean()
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(optimizer.param_groups[0]["params"], MAX_NORM)
            optimizer.step()
