// AdamW with its state divided over the ranks of a trainer (ZeRO stage 2, arXiv 1910.02054). Every rank holds all
// parameters. Each parameter has an owner: the rank that holds its moments, fp32 master and reduced gradient.
//
//   a slot    every rank's gradient of one part --gathered--> owner, which adds them in the order of ranks
//   a step    owners update, then --broadcast--> everyone's parameters
//
// Sums have a fixed order, so the result is bit-identical for the same number of ranks. A rank without parts left
// runs empty slots: the same exchanges with zeros. Between two slots no rank holds a gradient of a parameter that it
// does not own. If parameters are divided too (stage 3, layer_shards.h), nothing is broadcast here.
//
// A parameter is owned whole. In order of size, the largest first, each goes to the rank with the fewest elements; a
// rank may own none.
//
// With one rank (null) it is plain AdamW. One thread at a time. Throws c10::Error, and StatusError if an
// exchange failed: callers translate (torch_edge.h). Functions marked "together" are called by all ranks at the same
// place of their sequence.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "trainer/adamw.h"
#include "trainer/parallel/ranks.h"

namespace ingot::trainer {

// Greatest number of elements per gather; a larger parameter is gathered separately. The owner holds as many per rank.
inline constexpr int64_t kBucketElements = int64_t{1} << 22;

class ShardedAdamW {
 public:
  // `ranks` outlives this. `publishes`: Step broadcasts the parameters; false = only their owners have the new ones.
  ShardedAdamW(const OptimizerOptions& options, const std::map<std::string, at::Tensor>& parameters, Ranks* ranks,
               bool publishes = true);

  // Together. Ends the backward pass of a part, or an empty slot.
  void EndSlot();

  // Together. As AdamW's.
  double GradNorm();
  void Step(double learning_rate, double grad_norm);
  // Together. A step in two stages, as AdamW's: after each of the first, second and last, all ranks have the weights.
  void Propose(double learning_rate, double grad_norm);
  void Halve();
  void TakeBack();
  // Of this rank only.
  void Commit() { own_.Commit(); }

  void ZeroGrad();
  void Reset() { own_.Reset(); }
  int64_t steps() const { return own_.steps(); }
  // As AdamW's. Rank 0, which publishes, has its own parameters in full, and only the changes of the other parameters,
  // which their owners send with the new words; it has no changes of theirs if `publishes` is false.
  std::map<std::string, RoundedParameter> TakeRounded();

  // Together, before a step. False = each rank takes the changes of its own parameters, and sends none to rank 0.
  void SendChanges(bool send) { sends_changes_ = send; }

  // The parameters that this rank owns, by name.
  const std::map<std::string, at::Tensor>& Owned() const { return owned_; }

  // The state of the owned parameters, as AdamW's.
  std::map<std::string, at::Tensor> State() const { return own_.State(); }
  void SetSteps(int64_t steps) { own_.SetSteps(steps); }
  // By the name of every parameter; undefined = none here, or another rank owns it.
  std::map<std::string, at::Tensor> Gradients() const;

 private:
  // Parameters of one owner and type, exchanged as one tensor.
  struct Bucket {
    int owner = 0;
    int64_t elements = 0;
    std::vector<size_t> parameters;
  };

  void MakeBuckets(const std::vector<int>& owners);
  at::Tensor FlatGradient(const Bucket& bucket) const;
  void Reduce(const Bucket& bucket);
  void Publish(const Bucket& bucket);
  // Gives rank 0 the changes of another rank's bucket.
  void PublishChanges(const Bucket& bucket);
  // Together. Runs `change` of the owned weights, then gives all ranks the new ones.
  void Change(const std::function<void()>& change);

  Ranks* const ranks_;
  const bool publishes_;
  bool sends_changes_ = true;
  std::vector<std::string> names_;
  std::vector<at::Tensor> parameters_;  // by name, like names_
  std::vector<Bucket> buckets_;
  const std::map<std::string, at::Tensor> owned_;
  AdamW own_;
  std::map<std::string, weights::ChangeMask> others_;  // of rank 0: the changes of parameters that it does not own
};

// The owner of each parameter, by sizes in elements.
std::vector<int> OwnersOf(const std::vector<int64_t>& sizes, int ranks);

}  // namespace ingot::trainer
