// Rank 0's orders to the other ranks of a trainer: what all do next, with what it takes.
//
//   rank 0   Step(batch) ─▶ does it        Save(...) ─▶ does it      ... Dismiss
//   rank 1   Follow ──────▶ work.step(batch) ─────────▶ work.save(...) ...  returns
//
// An order is sent once rank 0 has checked what it can alone. Then all ranks do the work together, and its errors are
// the same on all (Ranks::Agree).
//
// Used by the thread of Ranks.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "trainer/batch_source.h"
#include "trainer/parallel/ranks.h"
#include "tree/forest.h"
#include "weights/sink.h"

namespace ingot::trainer {

enum class StageKind : int32_t { kSft, kDpo };

// Of a version that ranks store in parts. Plain values: ranks send one another their bytes.
struct StoreOrder {
  weights::HeldVersion base;  // the shards are a delta from it
  bool full = false;          // without a base: the shards are a full copy
  bool anchor = false;        // always store a full copy
};

class RankOrders {
 public:
  // `ranks` (null = one rank) outlive this.
  explicit RankOrders(Ranks* ranks) : ranks_(ranks) {}

  // Rank 0 sends; on other ranks, and with one rank, these do nothing. RankLost.
  absl::Status Step(const TrainBatch& batch);
  absl::Status Save(const std::string& root, int64_t step);
  absl::Status Store(const StoreOrder& order);
  absl::Status BeginStage(StageKind kind, const std::string& checkpoint, int threads);
  absl::Status StageStep(const std::vector<tree::CallPath>& calls, int64_t step, double learning_rate);
  absl::Status EndStage();
  // The last order: this rank leaves the group. Does nothing after RankLost.
  absl::Status Dismiss();

  // How another rank does its part of each order.
  struct Work {
    std::function<absl::Status(const TrainBatch& batch)> step;
    std::function<absl::Status(const std::string& root, int64_t step)> save;
    std::function<absl::Status(const StoreOrder& order)> store;
    std::function<absl::Status(StageKind kind, const std::string& checkpoint, int threads)> begin_stage;
    std::function<absl::Status(const std::vector<tree::CallPath>& calls, int64_t step, double learning_rate)>
        stage_step;
    std::function<absl::Status()> end_stage;
  };
  // On every other rank: takes orders until Dismiss, then leaves the group. An order that fails on all ranks is logged.
  // RankLost; INTERNAL: the ranks did not continue together.
  absl::Status Follow(const Work& work);

 private:
  enum class Order : int32_t { kStep, kSave, kBeginStage, kStageStep, kEndStage, kDismiss, kStore };

  bool sends() const { return ranks_ != nullptr && ranks_->leads(); }
  absl::Status Send(Order order, const std::string& what);
  absl::Status Execute(Order order, std::string_view what, const Work& work);

  Ranks* const ranks_;
};

}  // namespace ingot::trainer
