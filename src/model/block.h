// Block computes one layer from its LayerSpec and its tensors.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "model/attention_backend.h"
#include "model/communicator.h"
#include "model/layer_spec.h"
#include "model/rope.h"

namespace ingot::model {

// Additional input and output of a layer of experts. Null = not needed.
struct Aux {
  // In.
  at::Tensor weights;  // fp32 [N], the number of calls through each row; undefined = 1 each
  double balance = 0;  // coefficient of the load-balancing term; 0 = no term
  // int64 [N, per_token], the experts that an engine recorded; -1 = not recorded; undefined = none recorded.
  at::Tensor recorded;
  bool replay = false;  // rows take the recorded experts instead of the router's choice
  bool measure = true;  // false = of Out, fill in only `routes` and the counts
  // Out; undefined if the layer has no experts.
  at::Tensor balance_loss;              // scalar with history, times `balance`
  at::Tensor routes;                    // int64 [N, per_token], the experts taken
  at::Tensor load;                      // fp64 [experts], weighted rows that took each
  double entropy = 0;                   // of the router's distribution, weighted sum over rows
  int64_t compared = 0, differing = 0;  // rows with recorded experts; rows where the router chooses others
};

// Immutable, thread safe.
class Block {
 public:
  // Shares the tensors. REQUIRES: `tensors` has every tensor of the spec.
  Block(int64_t index, LayerSpec spec, double eps, const std::map<std::string, at::Tensor>& tensors);

  // x [N, hidden], positions [N] int64 -> [N, hidden]. `aux` may be null.
  at::Tensor Forward(const at::Tensor& x, const at::Tensor& positions, const RopeTables& rope,
                     AttentionBackend& attention, Communicator& communicator, Aux* aux) const;

  const LayerSpec& spec() const { return spec_; }

 private:
  // The factors of an adapter; undefined = no adapter.
  struct Adapter {
    at::Tensor a, b;
  };
  // The tensors of an expert: gate, up, down, their biases and their adapters.
  struct Expert {
    at::Tensor gate, up, down, gate_bias, up_bias, down_bias;
    std::array<Adapter, 3> adapters;
  };

  const at::Tensor& at(Part part) const { return tensors_[static_cast<size_t>(part)]; }
  // The attention's result, before it is added to x.
  at::Tensor Attention(const at::Tensor& x, const at::Tensor& positions, const RopeTables& rope,
                       AttentionBackend& attention, Communicator& communicator) const;
  // The recurrence's result, likewise.
  at::Tensor Recurrence(const at::Tensor& x, AttentionBackend& attention, Communicator& communicator) const;
  // q and k of latent attention from the normed rows; k is v too.
  std::array<at::Tensor, 2> Latent(const at::Tensor& h, const at::Tensor& positions, const RopeTables& rope,
                                   Communicator& communicator) const;
  // Per head, x [rows, heads, in] by its slice of the matrix from latents to keys and values (Part::kKey), with its
  // adapter: from the numbers of q without RoPE to latents, and from attended latents to values.
  at::Tensor ToLatents(const at::Tensor& q) const;
  at::Tensor ToValues(const at::Tensor& attended) const;
  at::Tensor FeedForward(const at::Tensor& h, Communicator& communicator, Aux* aux) const;
  // A product of x, plus the adapter's share.
  at::Tensor Adapted(const at::Tensor& product, const at::Tensor& x, const Adapter& adapter) const;
  // Rows through one expert; `biased` false = without the bias of the result.
  at::Tensor RunExpert(const Expert& expert, const at::Tensor& x, bool biased) const;
  // Products of one input, with their biases (unless not `biased`) and adapters.
  std::vector<at::Tensor> Products(const at::Tensor& x, std::initializer_list<Part> parts, bool biased = true) const;
  at::Tensor Norm(const at::Tensor& x, Part weight) const;
  at::Tensor NormOverHeads(const at::Tensor& flat, const at::Tensor& weight, Communicator& communicator) const;
  at::Tensor Heads(const at::Tensor& flat, int64_t heads, Part norm, const at::Tensor& positions,
                   const RopeTables& rope, Communicator& communicator) const;
  at::Tensor Activated(const at::Tensor& gate, const at::Tensor& up) const;
  at::Tensor Experts(const at::Tensor& h, Communicator& communicator, Aux* aux) const;

  const int64_t index_;
  const LayerSpec spec_;
  const double eps_;
  std::array<at::Tensor, static_cast<size_t>(Part::kCount)> tensors_;  // undefined = the family has none
  std::array<Adapter, static_cast<size_t>(Part::kCount)> adapters_;
  std::vector<Expert> experts_;
};

}  // namespace ingot::model
