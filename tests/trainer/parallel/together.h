// Runs one trainer of several ranks as a test uses a trainer of one, and compares the results.
#pragma once

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "../tiny_model.h"
#include "rank_group.h"
#include "trainer/trainer.h"

namespace ingot::trainer {

inline TrainerOptions Plain() {
  TrainerOptions options;
  options.optimizer.learning_rate = 0.01;
  options.optimizer.weight_decay = 0.1;
  options.optimizer.decay = "constant";
  options.total_steps = 8;
  options.threads = 1;
  options.micro_batch_tokens = 24;  // several parts, so several slots
  return options;
}

struct Result {
  std::vector<StepReport> reports;
  std::map<std::string, at::Tensor> parameters, optimizer;  // the optimizer's of all ranks
};

// The end state of a trainer.
inline void KeepResult(const Trainer& trainer, Result& result) {
  for (const auto& [name, tensor] : trainer.parameters().tensors()) {
    if (!IsHere(tensor)) continue;  // divided by layer
    const auto [it, fresh] = result.parameters.try_emplace(name, tensor.detach().clone());
    EXPECT_TRUE(fresh || at::equal(it->second, tensor)) << name << " differs between ranks";
  }
  for (const auto& [name, tensor] : trainer.optimizer_state()) {
    EXPECT_TRUE(result.optimizer.try_emplace(name, tensor.clone()).second) << name << " has two owners";
  }
}

using Make = std::function<absl::StatusOr<std::unique_ptr<Trainer>>(Ranks*)>;

inline Make Fresh(const TrainerOptions& options, at::ScalarType dtype = at::kFloat) {
  return [options, dtype](Ranks* ranks) {
    const auto config = TinyConfig();
    // All ranks have rank 0's weights.
    const uint64_t seed = ranks == nullptr || ranks->leads() ? 2 : 77;
    return Trainer::Create(options, config, TinyParameters(config, seed, dtype), base::Clock::Real(), ranks);
  };
}

// Rank 0 runs `lead`, the others follow; one rank (size 1) has no group.
inline Result Together(int size, const Make& make, const std::function<void(Trainer&, Result&)>& lead) {
  Result result;
  std::mutex mu;
  const auto body = [&](Ranks* ranks) {
    const auto trainer = make(ranks);
    ASSERT_TRUE(trainer.ok()) << trainer.status();
    if (ranks == nullptr || ranks->leads()) {
      lead(**trainer, result);
      EXPECT_TRUE((*trainer)->Dismiss().ok());
    } else {
      const absl::Status followed = (*trainer)->Follow();
      EXPECT_TRUE(followed.ok()) << followed;
    }
    const std::lock_guard<std::mutex> lock(mu);
    KeepResult(**trainer, result);
  };
  if (size == 1) {
    body(nullptr);
  } else {
    OnRanks(size, [&](Ranks& ranks) { body(&ranks); });
  }
  return result;
}

inline void ExpectSameBits(const Result& a, const Result& b) {
  ASSERT_EQ(a.parameters.size(), b.parameters.size());
  for (const auto& [name, tensor] : a.parameters) EXPECT_TRUE(at::equal(tensor, b.parameters.at(name))) << name;
  ASSERT_EQ(a.optimizer.size(), b.optimizer.size());
  for (const auto& [name, tensor] : a.optimizer) EXPECT_TRUE(at::equal(tensor, b.optimizer.at(name))) << name;
}

inline void ExpectClose(const std::map<std::string, at::Tensor>& actual,
                        const std::map<std::string, at::Tensor>& expected, double tolerance) {
  ASSERT_EQ(actual.size(), expected.size());
  for (const auto& [name, tensor] : expected) {
    ASSERT_TRUE(actual.contains(name)) << name;
    const double norm = tensor.to(at::kDouble).norm().item<double>();
    const double gap = (actual.at(name).to(at::kDouble) - tensor.to(at::kDouble)).norm().item<double>();
    EXPECT_LE(gap, tolerance * norm) << name;
  }
}

// Metrics that differ: times, and metrics that depend on the number of ranks.
inline bool OfTheRun(const std::string& metric) {
  return metric.starts_with("perf/") || metric.starts_with("tree/speedup") || metric == "tree/parts" ||
         metric == "trainer/ranks" || metric == "trainer/rank_balance" || metric == "tree/computed_tokens";
}

}  // namespace ingot::trainer
