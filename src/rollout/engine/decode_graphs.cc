#include "rollout/engine/decode_graphs.h"

#include <algorithm>
#include <bit>
#include <exception>
#include <utility>

#include "base/device_failure.h"
#include "base/log.h"
#include "rollout/engine/torch_error.h"

namespace ingot::rollout {
namespace {

// Returns a tensor over the same memory that does not keep it: the graph's pool does.
at::Tensor ViewOf(const at::Tensor& t) {
  return at::from_blob(t.mutable_data_ptr(), t.sizes(), t.strides(), [](void*) {}, t.options(), t.device());
}

int64_t RoundUp(int64_t value, int64_t step) { return (value + step - 1) / step * step; }

}  // namespace

StepRoom DecodeGraphs::RoomFor(const StepRoom& least) {
  if (least.rows > kMostRows) return {};
  const int64_t rows = least.rows <= 8    ? static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(least.rows)))
                       : least.rows <= 64 ? RoundUp(least.rows, 8)
                                          : RoundUp(least.rows, 16);
  return {rows, static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(std::max(rows, least.entries))))};
}

StepResults DecodeGraphs::Run(uint64_t version, const StepRoom& room, const at::Tensor& like,
                              const std::function<StepResults()>& step) {
  if (!failed_.empty()) return step();
  Keep(version);
  const auto [at, fresh] = entries_.try_emplace(Key{version, room, like.const_data_ptr()});
  if (fresh) return step();
  Entry& entry = at->second;
  if (entry.graph == nullptr) {
    try {
      StepResults results;
      entry.graph = std::make_unique<kernels::DeviceGraph>(like, [&] { results = step(); });
      entry.results = {ViewOf(results.hidden), ViewOf(results.rows), ViewOf(results.winners), ViewOf(results.logprobs)};
      ++recorded_;
    } catch (const std::exception& error) {
      const absl::Status status = FromTorchException(error, "recording a decode step as a CUDA graph");
      if (base::IsDeviceFailure(status)) throw;
      Drop();
      failed_ = std::string(status.message());
      INGOT_LOG(warn, "decode steps run without CUDA graphs, so each takes more time: {}", failed_);
      return step();
    }
  }
  entry.graph->Replay();
  ++replayed_;
  return entry.results;
}

void DecodeGraphs::Keep(uint64_t version) {
  const auto found = std::find(versions_.begin(), versions_.end(), version);
  if (found != versions_.end()) versions_.erase(found);
  versions_.push_front(version);
  while (versions_.size() > kVersions) {
    std::erase_if(entries_, [last = versions_.back()](const auto& entry) { return std::get<0>(entry.first) == last; });
    versions_.pop_back();
  }
}

void DecodeGraphs::Drop() {
  entries_.clear();
  versions_.clear();
}

}  // namespace ingot::rollout
