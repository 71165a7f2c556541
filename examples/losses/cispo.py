"""CISPO (MiniMax-M1, arXiv 2506.13585, eq. 4) as a custom loss. Equals trainer.objective: cispo with the same bounds."""


def loss(logprobs, rollout_logprobs, advantages, eps_low=1.0, eps_high=4.0):
    ratio = (logprobs - rollout_logprobs).exp().detach()
    clipped = ratio.clamp(1 - eps_low, 1 + eps_high)
    return -clipped * advantages * logprobs, {"ratio": ratio, "clipped_high": (ratio > 1 + eps_high).double()}
