// Sends rank 0's orders to the other ranks of a trainer. An order tells all ranks what to do next and contains the
// inputs.
//
//   rank 0   Step(batch) ─▶ runs it        Save(...) ─▶ runs it      ... Dismiss
//   rank 1   Follow ──────▶ work.step(batch) ─────────▶ work.save(...) ...  returns
//
// Rank 0 sends an order after the checks that it can do alone. Then all ranks do the work together and get the same
// errors (Ranks::Agree).
//
// Used on the thread that uses Ranks.
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

// Tells ranks how to store a version in parts. Plain values, because ranks exchange the raw bytes.
struct StoreOrder {
  weights::HeldVersion base;  // the shards are a delta from this version
  bool full = false;          // true = there is no base, and the shards are a full copy
  bool anchor = false;        // true = also store a full copy, even in addition to a delta
};

class RankOrders {
 public:
  // `ranks` must outlive this object. Null = one rank.
  explicit RankOrders(Ranks* ranks) : ranks_(ranks) {}

  // These send orders on rank 0. They do nothing on other ranks or with one rank. They return RankLost if a rank is
  // lost.
  absl::Status Step(const TrainBatch& batch);
  absl::Status Save(const std::string& root, int64_t step);
  absl::Status Store(const StoreOrder& order);
  absl::Status BeginStage(StageKind kind, const std::string& checkpoint, int threads);
  absl::Status StageStep(const std::vector<tree::CallPath>& calls, int64_t step, double learning_rate);
  absl::Status EndStage();
  // Sends the last order, after which this rank leaves the group. Does nothing after RankLost.
  absl::Status Dismiss();

  // The other ranks' handlers, one per order.
  struct Work {
    std::function<absl::Status(const TrainBatch& batch)> step;
    std::function<absl::Status(const std::string& root, int64_t step)> save;
    std::function<absl::Status(const StoreOrder& order)> store;
    std::function<absl::Status(StageKind kind, const std::string& checkpoint, int threads)> begin_stage;
    std::function<absl::Status(const std::vector<tree::CallPath>& calls, int64_t step, double learning_rate)>
        stage_step;
    std::function<absl::Status()> end_stage;
  };
  // Call on every other rank. Executes orders until Dismiss and then leaves the group. Logs orders that fail on all
  // ranks. Returns RankLost if a rank is lost, and INTERNAL if the ranks did not continue together.
  absl::Status Follow(const Work& work);

 private:
  enum class Order : int32_t { kStep, kSave, kBeginStage, kStageStep, kEndStage, kDismiss, kStore };

  bool sends() const { return ranks_ != nullptr && ranks_->leads(); }
  absl::Status Send(Order order, const std::string& what);
  absl::Status Execute(Order order, std::string_view what, const Work& work);

  Ranks* const ranks_;
};

}  // namespace ingot::trainer
