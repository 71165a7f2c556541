// Chooses experts from rows of router logits, on the CPU from raw pointers, in fp32 or fp64. Does not use torch.
//
//   scores    softmax or sigmoid of a row's logits
//   choice    scores + bias: the per_token largest, only from the best groups (DeepSeek-V3, arXiv 2412.19437, section
//             2.1.2); on a tie, the lower index wins
//   weights   the chosen scores without the bias, divided by their sum if `normalize`, times `scale`
//
// Invariant: a row's result depends only on that row, bit for bit. All matrices are dense and row-major.
#pragma once

#include <cstdint>

#include "kernels/parallel_for.h"

namespace ingot::kernels {

enum class RouterScoring : uint8_t {
  kSoftmax,        // softmax over all experts
  kSigmoid,        // sigmoid of each expert's logit
  kSoftmaxChosen,  // weights are a softmax over the chosen logits, and scores are the softmax over all
};

struct RoutingShape {
  int64_t rows = 0, experts = 0;
  int64_t per_token = 0;                     // <= experts
  int64_t groups = 1, groups_per_token = 1;  // groups divides experts; a group's score is the sum of its two best
  RouterScoring scoring = RouterScoring::kSoftmax;
  bool normalize = false;
  double scale = 1;
};

template <typename T>
struct RoutingArgs {
  const T* logits = nullptr;  // [rows, experts]
  const T* bias = nullptr;    // [experts]; null = none
  bool chosen = false;        // true = routes are given instead of chosen
  int64_t* routes = nullptr;  // [rows, per_token]
  T* scores = nullptr;        // [rows, experts]
  T* weights = nullptr;       // [rows, per_token]
};

// Defined for float and double. Overwrites scores, weights, and, unless `chosen`, routes.
template <typename T>
void Route(const RoutingShape& shape, const RoutingArgs<T>& args, const ParallelFor& parallel);

// Overwrites grad_logits [rows, experts] with the gradient with respect to the logits. by_weights [rows, per_token] and
// by_scores [rows, experts] are the gradients with respect to the forward pass's results; null = none. `args` must be
// unchanged since Route.
template <typename T>
void RouteBackward(const RoutingShape& shape, const RoutingArgs<T>& args, const T* by_weights, const T* by_scores,
                   T* grad_logits, const ParallelFor& parallel);

}  // namespace ingot::kernels
