#include "trainer/parallel/rank_orders.h"

#include "base/log.h"
#include "trainer/parallel/wire.h"

namespace ingot::trainer {

absl::Status RankOrders::Send(Order order, const std::string& what) {
  Writer message;
  message.Put(order).PutText(what);
  return ranks_->BroadcastBytes(message.Release(), 0).status();
}

absl::Status RankOrders::Step(const TrainBatch& batch) {
  return sends() ? Send(Order::kStep, EncodeBatch(batch)) : absl::OkStatus();
}

absl::Status RankOrders::Save(const std::string& root, int64_t step) {
  if (!sends()) return absl::OkStatus();
  Writer what;
  what.Put(step).PutText(root);
  return Send(Order::kSave, what.Release());
}

absl::Status RankOrders::Store(const StoreOrder& order) {
  if (!sends()) return absl::OkStatus();
  Writer what;
  what.Put(order);
  return Send(Order::kStore, what.Release());
}

absl::Status RankOrders::BeginStage(StageKind kind, const std::string& checkpoint, int threads) {
  if (!sends()) return absl::OkStatus();
  Writer what;
  what.Put(kind).Put(threads).PutText(checkpoint);
  return Send(Order::kBeginStage, what.Release());
}

absl::Status RankOrders::StageStep(const std::vector<tree::CallPath>& calls, int64_t step, double learning_rate) {
  if (!sends()) return absl::OkStatus();
  Writer what;
  PutCalls(calls, what.Put(step).Put(learning_rate));
  return Send(Order::kStageStep, what.Release());
}

absl::Status RankOrders::EndStage() { return sends() ? Send(Order::kEndStage, "") : absl::OkStatus(); }

absl::Status RankOrders::Dismiss() {
  if (ranks_ == nullptr || ranks_->broken()) return absl::OkStatus();
  const absl::Status sent = sends() ? Send(Order::kDismiss, "") : absl::OkStatus();
  ranks_->Leave();
  return sent;
}

absl::Status RankOrders::Follow(const Work& work) {
  while (true) {
    INGOT_ASSIGN_OR_RETURN(const std::string message, ranks_->BroadcastBytes("", 0));
    Reader reader(message);
    const auto order = reader.Get<Order>();
    const std::string_view what = reader.GetText();
    INGOT_RETURN_IF_ERROR(reader.status());
    if (order == Order::kDismiss) {
      ranks_->Leave();
      return absl::OkStatus();
    }
    const absl::Status done = Execute(order, what, work);
    if (ranks_->broken()) return done;
    if (!done.ok()) INGOT_LOG(warn, "failed on every rank: {}", std::string(done.message()));
  }
}

absl::Status RankOrders::Execute(Order order, std::string_view what, const Work& work) {
  Reader reader(what);
  switch (order) {
    case Order::kSave: {
      const auto step = reader.Get<int64_t>();
      return work.save(std::string(reader.GetText()), step);
    }
    case Order::kStore:
      return work.store(reader.Get<StoreOrder>());
    case Order::kBeginStage: {
      const auto kind = reader.Get<StageKind>();
      const auto threads = reader.Get<int>();
      return work.begin_stage(kind, std::string(reader.GetText()), threads);
    }
    case Order::kStageStep: {
      const auto step = reader.Get<int64_t>();
      const auto rate = reader.Get<double>();
      const absl::StatusOr<std::vector<tree::CallPath>> calls = ReadCalls(reader);
      return calls.ok() ? work.stage_step(*calls, step, rate) : ShareError(ranks_, calls.status());
    }
    case Order::kEndStage:
      return work.end_stage();
    case Order::kStep:
    case Order::kDismiss:
      break;
  }
  const absl::StatusOr<TrainBatch> batch = DecodeBatch(what);
  return batch.ok() ? work.step(*batch) : ShareError(ranks_, batch.status());
}

}  // namespace ingot::trainer
