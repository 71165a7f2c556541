// A model's parameters divided over the ranks of a trainer (ZeRO stage 3, arXiv 1910.02054), by layer. Each parameter
// stays with its owner (sharded_adamw.h); the other ranks hold it only while they need its unit.
//
//   units       embedding | layer 0 | ... | layer L-1 | head (last norm and logits)
//   a rank      needs one unit at a time; with the next one it drops the parameters that it does not own
//
//   rank 0   ran layer 3 | wants layer 4 |  2 and 4 are  | runs layer 4
//   rank 1   ran layer 3 | wants layer 2 |   broadcast   | runs layer 2 (of a backward pass)
//   rank 2   ends a slot |    agrees     |               | agrees: it still waits for the others to end theirs
//
// Ranks do not run the same parts: one may be in a part's backward pass while another has no part left. So they share
// no sequence of units. A rank that needs a unit announces it to all (Ranks::Want). Every rank that waits for the
// others in any other way (Ranks::Agree) serves the ranks that still need something. The owners broadcast each wanted
// unit, parameter by parameter; a rank that did not want it drops each parameter at once.
//
// The values are the same as with whole parameters, so results are bit-identical. A dropped parameter keeps its tensor
// but not its memory. So autograd's saved tensors stay valid between a layer's forward and backward pass: refilling the
// memory is not a change to autograd.
//
// A frozen base under adapters is divided the same way. Every rank holds a router's bias, which changes without the
// optimizer and has no owner.
//
// Used by the thread of Ranks. Functions marked "together" are called by all ranks at the same place.
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

// The owner of each tensor of the table, in the order of names: trained tensors as in the optimizer; the others are
// divided separately.
std::vector<int> OwnersOf(const model::ModelSpec& spec, int ranks);

class LayerShards final : public LayerWeights {
 public:
  // Shares the tensors. REQUIRES: each is dense and has its storage to itself. `ranks` outlives this.
  LayerShards(const model::ModelConfig& config, const std::map<std::string, at::Tensor>& parameters, Ranks& ranks);
  ~LayerShards() override;
  LayerShards(const LayerShards&) = delete;
  LayerShards& operator=(const LayerShards&) = delete;

  // Drops the parameters that this rank does not own. Until then all parameters are here, and Need does nothing.
  void Divide();
  bool divided() const { return divided_; }

  void NeedEmbedding() override { Need(0); }
  void NeedHead() override { Need(1); }
  void NeedLayer(int64_t layer) override { Need(layer + 2); }

  // The parameters that this rank owns, trained or not, by name.
  std::map<std::string, at::Tensor> Owned() const;
  // Whether a rank owns the parameter.
  bool Divides(const std::string& name) const;

  // Drops the unit that was needed last. REQUIRED before parameters change; also frees its memory until the next step.
  void Release();

  // Together. Returns all divided parameters on rank 0, none elsewhere.
  absl::StatusOr<std::map<std::string, at::Tensor>> Gather();

  // Together. All ranks hold all parameters again, until the next Divide.
  absl::Status Unite();

  double seconds() const { return seconds_; }  // total waiting time of Need

 private:
  void Need(int64_t unit);
  absl::Status Serve(const std::vector<int64_t>& wanted);
  bool Owns(size_t i) const { return owners_[i] == ranks_.rank(); }
  at::Tensor Buffer(size_t i) const;

  Ranks& ranks_;
  std::vector<std::string> names_;
  std::vector<at::Tensor> parameters_;  // by name, like names_
  std::vector<int> owners_;
  std::vector<std::vector<size_t>> units_;
  bool divided_ = false;
  int64_t here_ = -1;  // the unit that was needed last; -1 = none
  double seconds_ = 0;
};

// Whether a parameter has its memory on this rank.
bool IsHere(const at::Tensor& parameter);

}  // namespace ingot::trainer
