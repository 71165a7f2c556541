// A Block computes one layer from its LayerSpec and tensors.
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

// Additional inputs and outputs for a layer with experts.
struct Aux {
  // Input:
  at::Tensor weights;  // fp32 [N], the number of calls through each row; undefined = 1 each
  double balance = 0;  // coefficient of the load-balancing term; 0 = no term
  // int64 [N, per_token], the experts recorded by an engine. -1 = not recorded. Undefined = none recorded.
  at::Tensor recorded;
  bool replay = false;  // rows use the recorded experts instead of the router's choice
  bool measure = true;  // false = set only `routes` and the counts in the output
  // Output, undefined if the layer has no experts:
  at::Tensor balance_loss;              // scalar with autograd history, multiplied by `balance`
  at::Tensor routes;                    // int64 [N, per_token], the experts used
  at::Tensor load;                      // fp64 [experts], weighted number of rows that used each expert
  double entropy = 0;                   // router entropy, as a weighted sum over rows
  int64_t compared = 0, differing = 0;  // rows with recorded experts; those with another choice
};

// The rows between two layers: x + plus, which the next norm adds. plus undefined = x.
struct Stream {
  at::Tensor x, plus;
};

// Immutable and thread safe.
class Block {
 public:
  // Shares the tensors. REQUIRES: `tensors` has every tensor of the spec.
  Block(int64_t index, LayerSpec spec, double eps, const std::map<std::string, at::Tensor>& tensors);

  // x [N, hidden], positions [N] int64 -> [N, hidden]. `aux` may be null.
  Stream Run(const Stream& in, const at::Tensor& positions, const RopeTables& rope, AttentionBackend& attention,
             Communicator& communicator, Aux* aux) const;
  // Run, with the sum as the result.
  at::Tensor Forward(const at::Tensor& x, const at::Tensor& positions, const RopeTables& rope,
                     AttentionBackend& attention, Communicator& communicator, Aux* aux) const;

  const LayerSpec& spec() const { return spec_; }

 private:
  // The factors of an adapter. Undefined = no adapter.
  struct Adapter {
    at::Tensor a, b;
  };
  // The tensors of an expert: gate, up, down, their biases, and their adapters.
  struct Expert {
    at::Tensor gate, up, down, gate_bias, up_bias, down_bias;
    std::array<Adapter, 3> adapters;
  };

  const at::Tensor& at(Part part) const { return tensors_[static_cast<size_t>(part)]; }
  // Returns the attention output for normed rows, before it is added to x.
  at::Tensor Attention(const at::Tensor& normed, const at::Tensor& positions, const RopeTables& rope,
                       AttentionBackend& attention, Communicator& communicator) const;
  // Returns the recurrence output for normed rows, before it is added to x.
  at::Tensor Recurrence(const at::Tensor& normed, AttentionBackend& attention, Communicator& communicator) const;
  // Returns q and k for latent attention, from the normed rows. k is also v.
  std::array<at::Tensor, 2> Latent(const at::Tensor& h, const at::Tensor& positions, const RopeTables& rope,
                                   Communicator& communicator) const;
  // Multiply each head of x [rows, heads, in] by the head's slice of the matrix from latents to keys and values
  // (Part::kKey), including its adapter. ToLatents maps the part of q without RoPE to latents, and ToValues maps
  // attended latents to values.
  at::Tensor ToLatents(const at::Tensor& q) const;
  at::Tensor ToValues(const at::Tensor& attended) const;
  at::Tensor FeedForward(const at::Tensor& h, Communicator& communicator, Aux* aux) const;
  // Returns `product`, which was computed from x, plus the adapter's contribution.
  at::Tensor Adapted(const at::Tensor& product, const at::Tensor& x, const Adapter& adapter) const;
  // Runs rows through one expert. `biased` false = without the output bias.
  at::Tensor RunExpert(const Expert& expert, const at::Tensor& x, bool biased) const;
  // Returns several products of one input, including adapters, and biases if `biased`.
  std::vector<at::Tensor> Products(const at::Tensor& x, std::initializer_list<Part> parts, bool biased = true) const;
  at::Tensor NormWeight(Part weight) const;
  at::Tensor Norm(const at::Tensor& x, Part weight) const;
  at::Tensor NormOverHeads(const at::Tensor& flat, const at::Tensor& weight, Communicator& communicator) const;
  // Returns the weight of a norm of each head; undefined = none.
  at::Tensor HeadWeight(Part norm, Communicator& communicator) const;
  at::Tensor Heads(const at::Tensor& flat, int64_t heads, Part norm, const at::Tensor& positions,
                   const RopeTables& rope, Communicator& communicator) const;
  at::Tensor Activated(const at::Tensor& gate, const at::Tensor& up) const;
  at::Tensor Experts(const at::Tensor& h, Communicator& communicator, Aux* aux) const;

  const int64_t index_;
  const LayerSpec spec_;
  const double eps_;
  std::array<at::Tensor, static_cast<size_t>(Part::kCount)> tensors_;  // undefined = the family has no such tensor
  std::array<Adapter, static_cast<size_t>(Part::kCount)> adapters_;
  std::vector<Expert> experts_;
};

}  // namespace ingot::model
