// Chooses the drafts that each step of an EngineCore verifies, and counts them. Not thread safe: called on the step
// thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "rollout/engine/model_runner.h"
#include "rollout/speculation/drafter.h"
#include "rollout/speculation/speculation.h"
#include "rollout/speculation/speculation_options.h"

namespace ingot::rollout {

// Returns the drafters listed in `options`, in order. REQUIRES: `options` are valid, and `runner` outlives them.
std::vector<std::unique_ptr<Drafter>> MakeDrafters(const SpeculationOptions& options, ModelRunner& runner);

class Speculator {
 public:
  // A drafter's counts so far.
  struct Counts {
    std::string_view name;
    int64_t drafted = 0;   // verified ids
    int64_t accepted = 0;  // verified ids that were sampled
    int64_t proposed = 0;  // ids that it proposed, whether or not they were worth verifying
    int64_t dropped = 0;   // ids outside the vocabulary, and the ids after them
    int64_t failures = 0;  // Drafter::failures
  };

  // Without drafters, every function does nothing.
  Speculator(std::vector<std::unique_ptr<Drafter>> drafters, double min_gain, int64_t vocab_size);

  bool enabled() const { return !drafters_.empty(); }

  void UseNewest(const std::shared_ptr<const WeightVersion>& version);
  // See Drafter. Begun counts the prompt ids that were in the cache.
  void Begun(const Sequence& sequence, size_t cached);
  void Ended(const Sequence& sequence);

  // A request that samples in the step, and the number of drafts that fit in it.
  struct Sampling {
    Sequence* sequence = nullptr;
    size_t most = 0;
  };
  // Sets the number of ids in the requests' drafts, with at most `free_rows` in total. `rows` is the number of the
  // step's other rows.
  void Plan(std::span<const Sampling> requests, int64_t rows, int64_t free_rows);
  // Sets the ids. In between, the caller may drop ids, and gives the requests KV blocks for the rest.
  void Complete(std::span<const Sampling> requests);
  // Called when the request's step has sampled `count` ids, with or without drafts. Clears the drafts.
  void Sampled(Sequence& sequence, size_t count);
  // Called after a step without prompt pieces. `rows` is its number of rows, including drafts.
  void Measured(int64_t rows, std::chrono::nanoseconds time);

  const std::vector<Counts>& counts() const { return counts_; }

 private:
  void Propose(size_t drafter, std::span<const Sampling> requests);
  void Complete(size_t drafter, std::span<const Sampling> requests);
  void CutIds(size_t drafter, const Drafter::Ask& ask);

  const int64_t vocab_size_;
  const std::vector<std::unique_ptr<Drafter>> drafters_;
  std::vector<Counts> counts_;  // by drafter
  SpeculationPolicy policy_;

  // Scratch memory.
  std::vector<Drafter::Ask> asks_;
  std::vector<SpeculationPolicy::Survival> survivals_;
};

}  // namespace ingot::rollout
