// Implements AdamW with its state divided among a trainer's ranks (ZeRO stage 2, arXiv 1910.02054). Every rank holds
// all parameters. The owner of a parameter is the rank that holds its moments, fp32 master, and reduced gradient.
//
//   a slot    every rank's gradient of one part --gathered--> owner, which adds them in rank order
//   a step    owners update, then --broadcast--> all ranks' parameters
//
// Sums have a fixed order, so results are bit-identical for the same number of ranks. A rank without remaining parts
// runs empty slots: the same exchanges with zeros. Between two slots, a rank holds gradients only for the parameters
// that it owns. If parameters are also divided (stage 3, layer_shards.h), this class does not broadcast them.
//
// Each parameter has a single owner. Starting with the largest, each is assigned to the rank with the fewest elements.
// A rank may own no parameters.
//
// If `ranks` is null (one rank), this is plain AdamW. Not thread safe. Throws c10::Error, and StatusError if an
// exchange fails; callers translate them (torch_edge.h). All ranks call functions marked "collective" at the same point
// in their sequence.
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

// Maximum number of elements per gather. A larger parameter is gathered alone. The owner needs space for this many
// elements per rank.
inline constexpr int64_t kBucketElements = int64_t{1} << 22;

class ShardedAdamW {
 public:
  // `ranks` must outlive this object. If `publishes`, Step broadcasts the parameters. Otherwise, only owners have the
  // new values.
  ShardedAdamW(const OptimizerOptions& options, const std::map<std::string, at::Tensor>& parameters, Ranks* ranks,
               bool publishes = true);

  // Collective. Ends the backward pass of a part, or an empty slot.
  void EndSlot();

  // Collective. Same as in AdamW.
  double GradNorm();
  void Step(double learning_rate, double grad_norm);
  // Collective. A step in two phases, as in AdamW. After Propose, Halve, and TakeBack, all ranks have the weights.
  void Propose(double learning_rate, double grad_norm);
  void Halve();
  void TakeBack();
  // For this rank only.
  void Commit() { own_.Commit(); }

  void ZeroGrad();
  void Reset() { own_.Reset(); }
  int64_t steps() const { return own_.steps(); }
  // Same as in AdamW. Rank 0, which publishes, has complete entries for its own parameters. For others on the CPU, it has
  // only the changes, which their owners send with the new words. On devices, it also gathers the values. If `publishes`
  // is false, rank 0 does not have the other ranks' changes. If `gathers` is false, drops the changes on devices instead.
  std::map<std::string, RoundedParameter> TakeRounded(bool gathers = true);
  // Same as in AdamW, for the owned parameters. If `gathers` is false, drops the changes and returns nothing.
  std::map<std::string, RoundedParameter> TakeValues(bool gathers);
  // Returns whether updates mark the parameters of all ranks. The same on all ranks.
  bool MarksAll() const;

  // Called on all ranks before a step. If `send` is false, each rank keeps the changes to its own parameters and does
  // not send them to rank 0.
  void SendChanges(bool send) { sends_changes_ = send; }

  // Returns the parameters that this rank owns, by name.
  const std::map<std::string, at::Tensor>& Owned() const { return owned_; }

  // Same as in AdamW, for the owned parameters.
  std::map<std::string, at::Tensor> State() const { return own_.State(); }
  void SetSteps(int64_t steps) { own_.SetSteps(steps); }
  // Returns an entry per parameter, by name. Undefined = no gradient here, or another rank owns the parameter.
  std::map<std::string, at::Tensor> Gradients() const;

 private:
  // Parameters with the same owner and type, exchanged as one tensor.
  struct Bucket {
    int owner = 0;
    int64_t elements = 0;
    std::vector<size_t> parameters;
  };

  void MakeBuckets(const std::vector<int>& owners);
  at::Tensor FlatGradient(const Bucket& bucket) const;
  void Reduce(const Bucket& bucket);
  void Publish(const Bucket& bucket);
  // Sends a bucket's changes from its owner to rank 0.
  void PublishChanges(const Bucket& bucket);
  void PublishDeviceChanges(const Bucket& bucket);
  // Collective. Applies `change` to the owned weights, then sends the new ones to all ranks.
  void Change(const std::function<void()>& change);

  Ranks* const ranks_;
  const bool publishes_;
  bool sends_changes_ = true;
  std::vector<std::string> names_;
  std::vector<at::Tensor> parameters_;  // same order as names_
  std::vector<Bucket> buckets_;
  const std::map<std::string, at::Tensor> owned_;
  AdamW own_;
  // On rank 0: changes to parameters that it does not own, on the CPU or their marks on its device.
  std::map<std::string, weights::ChangeMask> others_;
  std::map<std::string, kernels::MarkedTensor> others_on_device_;
};

// Returns the owner of each parameter. `sizes` is in elements.
std::vector<int> OwnersOf(const std::vector<int64_t>& sizes, int ranks);

}  // namespace ingot::trainer
