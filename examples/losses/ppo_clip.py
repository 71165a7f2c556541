"""PPO's clipped surrogate (arXiv 1707.06347, eq. 7) as a custom loss. Equals trainer.objective: ppo_clip with the same bounds."""
import torch


def loss(logprobs, rollout_logprobs, advantages, eps_low=0.2, eps_high=0.2):
    ratio = (logprobs - rollout_logprobs).exp()
    clipped = ratio.clamp(1 - eps_low, 1 + eps_high)
    return -torch.minimum(ratio * advantages, clipped * advantages)
