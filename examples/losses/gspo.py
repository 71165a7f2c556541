"""GSPO (arXiv 2507.18071, eq. 13) as a custom loss. Equals trainer.objective: gspo with the same bounds.

Set trainer.custom.scope: batch, because an episode's tokens are in several calls, and trainer.loss_aggregation: sequence.
"""
import torch

from ingot_loss import segment_mean


def loss(logprobs, rollout_logprobs, advantages, episodes, eps_low=3e-4, eps_high=4e-4):
    # The ratio of the whole episode, with the gradient of the token's own log-prob.
    episode = segment_mean(logprobs - rollout_logprobs, episodes).detach()
    ratio = (episode + logprobs - logprobs.detach()).exp()
    clipped = ratio.clamp(1 - eps_low, 1 + eps_high)
    return -torch.minimum(ratio * advantages, clipped * advantages), {"ratio": ratio}
