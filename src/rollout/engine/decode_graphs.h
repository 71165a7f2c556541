// Runs decode steps as CUDA graphs: the launches of a step are recorded once and then run again with one call, so the
// host prepares only the step's inputs (step_input.h).
//
// A graph belongs to a room (StepRoom), to the addresses of the inputs and of the cache, and to one version's weights. A
// new version has new addresses and records again. A step of a room that is new runs without a graph, which also loads
// its kernels; the second one is recorded. Graphs of all but the kVersions versions used last are dropped.
//
// If a recording fails, for example because the device has no memory for it, this and all later steps run without
// graphs, and failed() says why. A device that failed (base/device_failure.h) is not such a failure: its error is thrown.
//
// The results of a step with a graph have the bits of the same step without one, because both run the same launches.
// Used by the step thread.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <tuple>

#include "kernels/torch/device_graph.h"
#include "rollout/engine/step_input.h"

namespace ingot::rollout {

// What a step leaves on the device, one row for each of the room's rows.
struct StepResults {
  at::Tensor hidden;             // [rows, hidden]
  at::Tensor rows;               // log-probs, fp32 [rows, vocab]
  at::Tensor winners, logprobs;  // of the races: int64 [rows], fp32 [rows]
};

class DecodeGraphs {
 public:
  static constexpr size_t kVersions = 2;
  static constexpr int64_t kMostRows = 256;

  // Returns the room that steps of this least room have: rows are rounded up to 1, 2, 4, 8, then to multiples of 8 up to
  // 64, and of 16 up to kMostRows; entries to a power of two, at least the rows. rows 0 = the step is too wide for graphs.
  static StepRoom RoomFor(const StepRoom& least);

  // Runs a step whose inputs are on the device, and returns its results, valid until the next Run or Drop. `version`: of
  // the weights, different for different addresses. `like`: a tensor of the inputs. Throws what `step` throws.
  StepResults Run(uint64_t version, const StepRoom& room, const at::Tensor& like,
                  const std::function<StepResults()>& step);

  // Drops all graphs. Must be called before memory that they use is released.
  void Drop();

  // Why no step is recorded any more; empty = they are.
  const std::string& failed() const { return failed_; }
  int64_t recorded() const { return recorded_; }
  int64_t replayed() const { return replayed_; }

 private:
  using Key = std::tuple<uint64_t, StepRoom, const void*>;
  struct Entry {
    std::unique_ptr<kernels::DeviceGraph> graph;  // null = the room's first step has run
    StepResults results;                          // views of the graph's own memory
  };

  void Keep(uint64_t version);

  std::map<Key, Entry> entries_;
  std::deque<uint64_t> versions_;  // that have entries, the last used first
  std::string failed_;
  int64_t recorded_ = 0, replayed_ = 0;
};

}  // namespace ingot::rollout
