#include "trainer/draft/draft_options.h"

#include "base/config.h"

namespace ingot::trainer {

void Bind(base::Schema& schema, DraftOptions& o) {
  schema.Field("enabled", &o.enabled,
               "train a draft head with the policy, for engines to guess tokens with (rollout.speculation.drafters: "
               "mtp); the policy's weights and its tokens stay the same");
  schema.Field("vocabulary", &o.vocabulary,
               "number of token ids that the head predicts, the smallest ones and those that end a turn; 0: all",
               base::NotNegative());
  schema.Choice("loss", &o.loss, {"topk_kl", "topk_tv", "kl"},
                "distance to the policy's distribution: topk_kl: KL over draft.top_k tokens and the sum of the others; "
                "topk_tv: total variation over the same; kl: KL over all tokens, on fewer rows");
  schema.Field("top_k", &o.top_k, "number of the policy's most likely tokens that the loss compares individually",
               base::InRange(1, 4096));
  schema.Field("depths", &o.depths, "number of consecutive guesses to train", base::InRange(1, 8));
  schema.Field("learning_rate", &o.learning_rate, "the head's AdamW step size", base::Positive());
  schema.Field("grad_clip_norm", &o.grad_clip_norm, "the head's gradient is scaled down to this norm",
               base::Positive());
  schema.Field("rows_per_step", &o.rows_per_step, "maximum number of sampled tokens per step that train the head",
               base::Positive());
  schema.Field("publish_every", &o.publish_every, "versions between updates of the engines' copy of the head",
               base::Positive());
  schema.Field("warmup_steps", &o.warmup_steps,
               "steps on the batches of data.sft after the stage sft, with a frozen policy and the loss kl; 0: none",
               base::NotNegative());
  schema.Field("shadow", &o.shadow,
               "let engines also draft with the first version's head, without verifying its drafts, to measure what it "
               "would still be worth (draft/shadow_accept_rate); costs one more head and its passes");
}

absl::Status DraftOptions::Validate() const {
  if (shadow && !enabled) {
    return absl::InvalidArgumentError(
        "shadow is true, but enabled is false: no head is trained that it could be compared with");
  }
  return base::CheckBounds(*this);
}

}  // namespace ingot::trainer
