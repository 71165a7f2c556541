// Divides a model's parameters by layer among a trainer's ranks (ZeRO stage 3, arXiv 1910.02054). Each parameter stays
// with its owner (sharded_adamw.h). The other ranks hold it only while they need its unit.
//
//   units       embedding | layer 0 | ... | layer L-1 | head (last norm and logits)
//   a rank      needs one unit at a time; before the next, it drops the parameters that it does not own
//
//   rank 0   ran layer 3 | wants layer 4 |  2 and 4 are  | runs layer 4
//   rank 1   ran layer 3 | wants layer 2 |   broadcast   | runs layer 2 (of a backward pass)
//   rank 2   ends a slot |    agrees     |               | agrees: still waiting for the others to end their slots
//
// Ranks run different parts: one rank may be in a part's backward pass while another has no parts left. So they do not
// need units in the same order. A rank that needs a unit announces it to all ranks (Ranks::Want). A rank that waits for
// the others in any other way (Ranks::Agree) serves the ranks that still need something. The owners broadcast each
// requested unit, parameter by parameter. A rank that did not request the unit drops each parameter immediately.
//
// The values are the same as with undivided parameters, so results are bit-identical. A dropped parameter keeps its
// tensor but not its memory. Tensors saved by autograd stay valid between a layer's forward and backward passes,
// because autograd does not notice a refill.
//
// The frozen base of a model with adapters is divided the same way. A router's bias is not changed by the optimizer and
// has no owner, so every rank holds it.
//
// Used on the thread that uses Ranks. All ranks call functions marked "collective" at the same point.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/status.h"
#include "model/config.h"
#include "model/layer_spec.h"
#include "trainer/parallel/ranks.h"
#include "trainer/pass/layer_weights.h"

namespace ingot::trainer {

// Returns the owner of each tensor in the spec, in name order. Trained tensors have the same owner as in the optimizer.
// The others are divided separately.
std::vector<int> OwnersOf(const model::ModelSpec& spec, int ranks);

class LayerShards final : public LayerWeights {
 public:
  // Shares the tensors. REQUIRES: each tensor is dense and is the only user of its storage. `ranks` must outlive this
  // object.
  LayerShards(const model::ModelConfig& config, const std::map<std::string, at::Tensor>& parameters, Ranks& ranks);
  ~LayerShards() override;
  LayerShards(const LayerShards&) = delete;
  LayerShards& operator=(const LayerShards&) = delete;

  // Drops the parameters that this rank does not own. Before this call, the rank holds all parameters and Need does
  // nothing.
  void Divide();
  bool divided() const { return divided_; }

  void NeedEmbedding() override { Need(0); }
  void NeedHead() override { Need(1); }
  void NeedLayer(int64_t layer) override { Need(layer + 2); }

  // Returns the parameters that this rank owns, trained or not, by name.
  std::map<std::string, at::Tensor> Owned() const;
  // Returns whether the parameter has an owner.
  bool Divides(const std::string& name) const;

  // Drops the most recently needed unit, which frees its memory until the next step. Call before parameters
  // change.
  void Release();

  // Collective. Returns all divided parameters on rank 0, and nothing on other ranks.
  absl::StatusOr<std::map<std::string, at::Tensor>> Gather();

  // Collective. All ranks hold all parameters again, until the next Divide.
  absl::Status Unite();

  double seconds() const { return seconds_; }  // total time spent waiting in Need

 private:
  void Need(int64_t unit);
  absl::Status Serve(const std::vector<int64_t>& wanted);
  bool Owns(size_t i) const { return owners_[i] == ranks_.rank(); }
  at::Tensor Buffer(size_t i) const;

  Ranks& ranks_;
  std::vector<std::string> names_;
  std::vector<at::Tensor> parameters_;  // same order as names_
  std::vector<int> owners_;
  std::vector<std::vector<size_t>> units_;
  bool divided_ = false;
  int64_t here_ = -1;  // the most recently needed unit; -1 = none
  double seconds_ = 0;
};

// Returns whether a parameter has memory on this rank.
bool IsHere(const at::Tensor& parameter);

}  // namespace ingot::trainer
