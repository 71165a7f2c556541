// AdamW with its state divided over the ranks of a trainer (ZeRO stage 2, arXiv 1910.02054): every rank holds all
// parameters, and of each parameter one rank, its owner, holds the moments, the fp32 master and the reduced gradient.
//
//   a slot    every rank's gradient of one part --gathered--> owner, which adds them in the order of ranks
//   a step    owners update, then --broadcast--> everyone's parameters
//
// Sums are therefore of a fixed order, and the result is bit-identical for the same number of ranks. A rank with no
// part left runs empty slots: the same exchanges with zeros. Between two slots no rank holds a gradient of a parameter
// it does not own. Where the parameters are divided too (stage 3, layer_shards.h), the broadcast is left to it.
//
// Parameters are owned whole, the largest first, each by the rank with the fewest elements; a rank may own none.
//
// With one rank (null) it is AdamW and nothing else. One thread at a time; throws c10::Error, and StatusError where an
// exchange failed: callers translate (torch_edge.h). What is marked "together" is called by all ranks, at the same
// place of their sequence.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "trainer/adamw.h"
#include "trainer/parallel/ranks.h"

namespace ingot::trainer {

// Elements that are gathered at once, at most (a larger parameter goes by itself): the owner holds as many per rank.
inline constexpr int64_t kBucketElements = int64_t{1} << 22;

class ShardedAdamW {
 public:
  // `ranks` outlives this. `publishes`: a step's parameters are broadcast, or else new at their owners alone.
  ShardedAdamW(const OptimizerOptions& options, const std::map<std::string, at::Tensor>& parameters, Ranks* ranks,
               bool publishes = true);

  // Together: the end of a part's backward pass, or of an empty slot.
  void EndSlot();

  // Together. As AdamW's.
  double GradNorm();
  void Step(double learning_rate, double grad_norm);

  void ZeroGrad();
  void Reset() { own_.Reset(); }
  int64_t steps() const { return own_.steps(); }

  // The parameters that this rank owns, by name.
  const std::map<std::string, at::Tensor>& Owned() const { return owned_; }

  // Of what this rank owns, as AdamW's.
  std::map<std::string, at::Tensor> State() const { return own_.State(); }
  void SetSteps(int64_t steps) { own_.SetSteps(steps); }
  // By every parameter's name; undefined: none here, or another rank's.
  std::map<std::string, at::Tensor> Gradients() const;

 private:
  // Parameters of one owner and type that travel together.
  struct Bucket {
    int owner = 0;
    int64_t elements = 0;
    std::vector<size_t> parameters;
  };

  void MakeBuckets(const std::vector<int>& owners);
  at::Tensor FlatGradient(const Bucket& bucket) const;
  void Reduce(const Bucket& bucket);
  void Publish(const Bucket& bucket);

  Ranks* const ranks_;
  const bool publishes_;
  std::vector<std::string> names_;
  std::vector<at::Tensor> parameters_;  // by name, like names_
  std::vector<Bucket> buckets_;
  const std::map<std::string, at::Tensor> owned_;
  AdamW own_;
};

// The rank that owns each parameter, by sizes in elements.
std::vector<int> OwnersOf(const std::vector<int64_t>& sizes, int ranks);

}  // namespace ingot::trainer
