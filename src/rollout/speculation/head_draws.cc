#include "rollout/speculation/head_draws.h"

#include <algorithm>
#include <utility>

namespace ingot::rollout {

absl::Status HeadDraws::Draw(const WeightVersion& version, std::span<const One> ones) {
  size_t most = 0;
  rows_.clear();
  for (size_t i = 0; i < ones.size(); ++i) {
    most = std::max(most, ones[i].most);
    rows_.push_back(i);
  }
  for (size_t depth = 0; depth < most && !rows_.empty(); ++depth) {
    INGOT_RETURN_IF_ERROR(DrawDepth(version, ones, depth));
  }
  return absl::OkStatus();
}

absl::Status HeadDraws::DrawDepth(const WeightVersion& version, std::span<const One> ones, size_t depth) {
  std::vector<int64_t> from = std::move(batch_.from);  // at depth > 0: rows of the previous depth
  batch_ = DraftBatch();
  batch_.first = depth == 0;
  batch_.shadow = shadow_;
  for (size_t row = 0; row < rows_.size(); ++row) {
    const One& one = ones[rows_[row]];
    const Sequence& sequence = *one.sequence;
    batch_.from.push_back(depth == 0 ? static_cast<int64_t>(one.slot) : from[row]);
    batch_.token_ids.push_back(depth == 0 ? sequence.tokens[one.tokens - 1] : one.ids->back());
    const float temperature = sequence.draw.temperature == 0 ? 1 : sequence.draw.temperature;
    batch_.temperatures.push_back(temperature / sharpness_);
    batch_.positions.push_back(static_cast<int64_t>(one.tokens - 1 + depth));
    batch_.tables.push_back(std::ssize(batch_.block_tables));
    for (const KvBlocks::Ref& block : sequence.blocks) batch_.block_tables.push_back(block.id());
  }
  INGOT_ASSIGN_OR_RETURN(const DraftRows drafted, runner_.Draft(*version.model, batch_));
  batch_.from.clear();
  std::vector<size_t> longer;
  for (size_t row = 0; row < rows_.size(); ++row) {
    const One& one = ones[rows_[row]];
    const Sequence& sequence = *one.sequence;
    const auto index = static_cast<int64_t>(one.tokens - sequence.prompt_size + depth);
    INGOT_ASSIGN_OR_RETURN(const int32_t id,
                           sampler_.Draw({drafted.logprobs.subspan(row * drafted.width, drafted.width), drafted.ids},
                                         sequence.draw, index));
    one.ids->push_back(id);
    if (one.ids->size() >= one.most) continue;
    longer.push_back(rows_[row]);
    batch_.from.push_back(static_cast<int64_t>(row));
  }
  rows_ = std::move(longer);
  return absl::OkStatus();
}

}  // namespace ingot::rollout
