#include "rollout/engine/mtp_runner.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "rollout/engine/host_view.h"

namespace ingot::rollout {

void MtpRunner::Prepare(const model::MtpHead& head, const at::Tensor& hidden) {
  if (hidden_.defined() && hidden_.scalar_type() == hidden.scalar_type()) return;
  cache_.emplace(config_, std::vector<model::LayerSpec>{head.spec(0)}, config_.num_hidden_layers, blocks_,
                 block_tokens_, device_);
  hidden_ = at::zeros({blocks_ * block_tokens_, hidden.size(1)}, hidden.options());
}

bool MtpRunner::ListRows(const ForwardBatch& batch) {
  rows_.Clear();
  parents_.clear();
  for (const kernels::AttentionSequence& sequence : batch.sequences) {
    kernels::AttentionSequence own = sequence;
    own.q_begin = std::ssize(rows_.token_ids);
    own.q_offset = std::max<int64_t>(sequence.q_offset, 1);
    own.q_count = sequence.q_offset + sequence.q_count - own.q_offset;
    for (int64_t at = own.q_offset; at < own.q_offset + own.q_count; ++at) {
      const auto row = static_cast<size_t>(sequence.q_begin + at - sequence.q_offset);
      parents_.push_back(SlotOf(sequence.block_table, at - 1));
      rows_.token_ids.push_back(batch.token_ids[row]);
      rows_.positions.push_back(at);
      rows_.slots.push_back(batch.slots[row]);
    }
    if (own.q_count > 0) rows_.sequences.push_back(own);
  }
  return rows_.token_ids.size() == batch.token_ids.size();
}

void MtpRunner::Follow(const model::MtpHead& head, const ForwardBatch& batch, const at::Tensor& hidden) {
  Prepare(head, hidden);
  hidden_.index_copy_(0, View(batch.slots).to(device_), hidden);
  if (!ListRows(batch)) {
    for (const kernels::AttentionSequence& sequence : batch.sequences) {
      if (sequence.q_offset == 0 && sequence.q_count > 0) cache_->Clear(SlotOf(sequence.block_table, 0));
    }
  }
  if (rows_.token_ids.empty()) return;
  cache_->Begin(rows_);
  const at::Tensor state = hidden_.index_select(0, View(parents_).to(device_));
  head.Hidden(0, state, View(rows_.token_ids).to(device_), View(rows_.positions).to(device_), *cache_);
}

at::Tensor MtpRunner::Draft(const model::MtpHead& head, const DraftBatch& batch, const at::Tensor& state) {
  Prepare(head, state);
  rows_.Clear();
  rows_.token_ids = batch.token_ids;
  rows_.positions = batch.positions;
  for (size_t row = 0; row < batch.token_ids.size(); ++row) {
    const int32_t* const table = batch.block_tables.data() + batch.tables[row];
    const int64_t at = batch.positions[row];
    rows_.slots.push_back(SlotOf(table, at));
    kernels::AttentionSequence sequence;
    sequence.q_begin = static_cast<int64_t>(row);
    sequence.q_count = 1;
    sequence.q_offset = at;
    sequence.key_count = at + 1;
    sequence.block_table = table;
    rows_.sequences.push_back(sequence);
  }
  cache_->Begin(rows_);
  return head.Hidden(0, state, View(rows_.token_ids).to(device_), View(rows_.positions).to(device_), *cache_);
}

int64_t MtpRunner::Release() {
  if (!hidden_.defined()) return 0;
  const int64_t pages = cache_->Release();
  if (device_.is_cpu()) return pages + ReleasePages(hidden_);
  const auto states = static_cast<int64_t>(hidden_.nbytes());
  Drop();
  return pages + states;
}

}  // namespace ingot::rollout
