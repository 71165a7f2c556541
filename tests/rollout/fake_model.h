// A model of plain code for tests of the engine's scheduling. Its next-token distribution is a hash of every KV entry
// that the row attends to. An entry depends on the token, its position and the weights that computed it. So a wrong
// slot, block table, order or version, or a stale block, changes the whole row.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/rng.h"
#include "kernels/draws/race.h"
#include "rollout/cache/kv_pages.h"
#include "rollout/engine/model_runner.h"
#include "weights/snapshot.h"

namespace ingot::rollout {

inline std::shared_ptr<const weights::Snapshot> FakeSnapshot(int64_t version, uint64_t value) {
  const auto bytes = std::as_bytes(std::span(&value, 1));
  return *weights::Snapshot::Copy(version, {{"w", "F32", {2}, bytes}});
}

struct FakeRunnableModel final : RunnableModel {
  uint64_t weights = 0;
  std::shared_ptr<const weights::Snapshot> snapshot;
};

class FakeRunner final : public ModelRunner, public KvPages {
 public:
  FakeRunner(int64_t vocab, int64_t context, int64_t slots, int64_t block_tokens)
      : vocab_(vocab),
        context_(context),
        block_tokens_(block_tokens),
        block_bytes_{static_cast<int64_t>(sizeof(uint64_t)) * block_tokens},
        kv_(slots, 0) {}

  int64_t vocab_size() const override { return vocab_; }
  int64_t context_length() const override { return context_; }
  const std::vector<int32_t>& eos_ids() const override { return eos; }
  int64_t max_weight_bytes() const override { return sizeof(uint64_t); }
  bool can_take_back() const override { return takes_back; }

  KvPages* Pages(const RunnableModel& /*model*/) override { return this; }
  const std::vector<int64_t>& block_bytes() const override { return block_bytes_; }
  std::span<std::byte> Block(size_t /*plane*/, int32_t block) override {
    return std::as_writable_bytes(std::span(kv_).subspan(block * block_tokens_, block_tokens_));
  }
  std::string dtype() const override { return "U64"; }
  std::string model() const override { return "fake"; }
  std::string numerics() const override { return kv_numerics; }

  absl::StatusOr<std::shared_ptr<const RunnableModel>> Load(
      std::shared_ptr<const weights::Snapshot> snapshot) override {
    if (!fail_load.ok()) return fail_load;
    auto loaded = std::make_shared<FakeRunnableModel>();
    std::memcpy(&loaded->weights, snapshot->bytes(0).data(), sizeof(loaded->weights));
    loaded->snapshot = std::move(snapshot);
    if (after_load) after_load();
    return loaded;
  }

  static uint64_t Entry(uint64_t weights, int32_t token, int64_t position) {
    return base::Mix64(base::Mix64(weights) ^ base::Mix64(token * 1000003ull + position + 1));
  }
  // The distribution after KV `entries`, under `weights`.
  static std::vector<float> Row(const std::vector<uint64_t>& entries, uint64_t weights, int64_t vocab,
                                float temperature, float* log_normalizer = nullptr) {
    uint64_t hash = base::Mix64(weights);
    for (const uint64_t entry : entries) hash = base::Mix64(hash ^ entry);
    std::vector<double> logits(vocab);
    double sum = 0;
    for (int64_t i = 0; i < vocab; ++i) {
      logits[i] = 4 * base::UniformAt(hash, i) / temperature;
      sum += std::exp(logits[i]);
    }
    if (log_normalizer != nullptr) *log_normalizer = static_cast<float>(std::log(sum));
    std::vector<float> row(vocab);
    for (int64_t i = 0; i < vocab; ++i) row[i] = static_cast<float>(logits[i] - std::log(sum));
    return row;
  }

  absl::StatusOr<std::span<const float>> Forward(const RunnableModel& model, const ForwardBatch& batch) override {
    if (before_forward) before_forward(batch);
    if (!fail.ok()) return fail;
    const uint64_t weights = static_cast<const FakeRunnableModel&>(model).weights;
    // All rows are written before any is read, as on a device.
    for (size_t i = 0; i < batch.slots.size(); ++i) {
      kv_[batch.slots[i]] = Entry(weights, static_cast<int32_t>(batch.token_ids[i]), batch.positions[i]);
    }
    rows_.clear();
    drawn_.clear();
    normalizers_.clear();
    routes_.clear();
    if (batch.want_routes) {
      for (const int64_t row : batch.sampled_rows) routes_.push_back(static_cast<uint16_t>(batch.positions[row] + 300));
    }
    size_t sampled = 0;
    for (const kernels::AttentionSequence& sequence : batch.sequences) {
      rows_computed += sequence.q_count;
      const auto begin = batch.token_ids.begin() + sequence.q_begin;
      const bool spoiled = std::find(begin, begin + sequence.q_count, spoils) != begin + sequence.q_count;
      for (int64_t q = 0; q < sequence.q_count; ++q) {
        if (sampled == batch.sampled_rows.size() || batch.sampled_rows[sampled] != sequence.q_begin + q) continue;
        std::vector<uint64_t> entries;
        for (int64_t j = 0; j <= sequence.q_offset + q; ++j) {
          entries.push_back(kv_[sequence.block_table[j / block_tokens_] * block_tokens_ + j % block_tokens_]);
        }
        normalizers_.emplace_back();
        std::vector<float> row = Row(entries, weights, vocab_, batch.temperatures[sampled++], &normalizers_.back());
        if (edit) edit(row);
        if (spoiled || poisoned) std::fill(row.begin(), row.end(), std::nanf(""));
        if (const RowRace& race = batch.races[sampled - 1]; draws_itself && race.whole) {
          const int64_t winner = kernels::Race({row.data(), vocab_, nullptr}, race.seed);
          drawn_.push_back({static_cast<int32_t>(winner), winner < 0 ? 0 : row[winner]});
          continue;
        }
        rows_.insert(rows_.end(), row.begin(), row.end());
      }
    }
    if (sampled != batch.sampled_rows.size()) return absl::InternalError("a sampled row belongs to no sequence");
    ++passes;
    return std::span<const float>(rows_);
  }

  // The memory comes back as zeros, which no request may read.
  absl::StatusOr<int64_t> ReleaseMemory() override {
    if (!releases) return absl::UnimplementedError("this device keeps its memory");
    std::fill(kv_.begin(), kv_.end(), 0);
    return static_cast<int64_t>(kv_.size() * sizeof(uint64_t));
  }

  bool draws() const override { return draws_itself; }
  std::span<const DrawnId> Drawn() const override { return drawn_; }
  std::span<const float> LogNormalizers() const override { return normalizers_; }
  // A layer with one choice: the row's position plus 300, so that both bytes matter.
  std::span<const uint16_t> Routes() const override { return routes_; }

  std::vector<int32_t> eos;
  bool takes_back = true;
  bool draws_itself = false;  // as a runner on a device
  std::string kv_numerics = "fake";
  bool releases = true;
  absl::Status fail, fail_load;
  int64_t spoils = -1;    // a row of this id makes its sequence's rows of the pass NaN; -1 = none
  bool poisoned = false;  // the model has diverged: every row is NaN
  std::function<void(std::vector<float>& row)> edit;  // changes every row of log-probs
  std::function<void(const ForwardBatch&)> before_forward;
  std::function<void()> after_load;
  int64_t passes = 0;
  int64_t rows_computed = 0;

 private:
  const int64_t vocab_, context_, block_tokens_;
  const std::vector<int64_t> block_bytes_;
  std::vector<uint64_t> kv_;
  std::vector<float> rows_, normalizers_;
  std::vector<DrawnId> drawn_;
  std::vector<uint16_t> routes_;
};

}  // namespace ingot::rollout
