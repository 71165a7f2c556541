#include "kernels/routing.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <vector>

namespace ingot::kernels {
namespace {

constexpr double kMinSum = 1e-20;  // prevents a division by zero if all sigmoids vanish

template <typename T>
void Softmax(const T* logits, int64_t count, T* out) {
  const T top = *std::max_element(logits, logits + count);
  T sum = 0;
  for (int64_t e = 0; e < count; ++e) sum += out[e] = std::exp(logits[e] - top);
  for (int64_t e = 0; e < count; ++e) out[e] /= sum;
}

// Returns the indices of the `count` largest of `values`, largest first.
template <typename T>
void Largest(const std::vector<T>& values, int64_t count, int64_t* out) {
  std::vector<bool> taken(values.size(), false);
  for (int64_t k = 0; k < count; ++k) {
    size_t best = values.size();
    for (size_t i = 0; i < values.size(); ++i) {
      if (!taken[i] && (best == values.size() || values[i] > values[best])) best = i;
    }
    taken[best] = true;
    out[k] = static_cast<int64_t>(best);
  }
}

// Removes the experts in all but the best groups from `choice`.
template <typename T>
void KeepBestGroups(const RoutingShape& shape, std::vector<T>& choice) {
  const int64_t size = shape.experts / shape.groups;
  std::vector<T> worth;
  for (int64_t g = 0; g < shape.groups; ++g) {
    std::vector<T> group(choice.begin() + g * size, choice.begin() + (g + 1) * size);
    std::partial_sort(group.begin(), group.begin() + std::min<int64_t>(2, size), group.end(), std::greater<>());
    worth.push_back(size > 1 ? group[0] + group[1] : group[0]);
  }
  std::vector<int64_t> best(static_cast<size_t>(shape.groups_per_token));
  Largest(worth, shape.groups_per_token, best.data());
  for (int64_t e = 0; e < shape.experts; ++e) {
    if (std::find(best.begin(), best.end(), e / size) == best.end()) {
      choice[static_cast<size_t>(e)] = -std::numeric_limits<T>::infinity();
    }
  }
}

template <typename T>
void RouteRow(const RoutingShape& shape, const RoutingArgs<T>& args, int64_t row) {
  const T* logits = args.logits + row * shape.experts;
  T* scores = args.scores + row * shape.experts;
  if (shape.scoring == RouterScoring::kSigmoid) {
    for (int64_t e = 0; e < shape.experts; ++e) scores[e] = 1 / (1 + std::exp(-logits[e]));
  } else {
    Softmax(logits, shape.experts, scores);
  }
  int64_t* routes = args.routes + row * shape.per_token;
  const bool by_logit = shape.scoring == RouterScoring::kSoftmaxChosen;
  if (!args.chosen) {
    std::vector<T> choice(static_cast<size_t>(shape.experts));
    for (int64_t e = 0; e < shape.experts; ++e) {
      choice[static_cast<size_t>(e)] = (by_logit ? logits[e] : scores[e]) + (args.bias == nullptr ? 0 : args.bias[e]);
    }
    if (shape.groups > 1) KeepBestGroups(shape, choice);
    Largest(choice, shape.per_token, routes);
  }
  T* weights = args.weights + row * shape.per_token;
  for (int64_t k = 0; k < shape.per_token; ++k) weights[k] = (by_logit ? logits : scores)[routes[k]];
  if (by_logit) {
    const std::vector<T> chosen(weights, weights + shape.per_token);
    Softmax(chosen.data(), shape.per_token, weights);
  } else if (shape.normalize) {
    T sum = static_cast<T>(kMinSum);
    for (int64_t k = 0; k < shape.per_token; ++k) sum += weights[k];
    for (int64_t k = 0; k < shape.per_token; ++k) weights[k] /= sum;
  }
  for (int64_t k = 0; k < shape.per_token; ++k) weights[k] *= static_cast<T>(shape.scale);
}

template <typename T>
void RouteRowBackward(const RoutingShape& shape, const RoutingArgs<T>& args, const T* by_weights, const T* by_scores,
                      T* grad, int64_t row) {
  const T* scores = args.scores + row * shape.experts;
  const int64_t* routes = args.routes + row * shape.per_token;
  std::vector<T> by_score(static_cast<size_t>(shape.experts), T(0)), by_logit = by_score;
  if (by_scores != nullptr) std::copy_n(by_scores + row * shape.experts, shape.experts, by_score.begin());
  if (by_weights != nullptr) {
    const T* given = by_weights + row * shape.per_token;
    const T* weights = args.weights + row * shape.per_token;
    const auto scale = static_cast<T>(shape.scale);
    T dot = 0, sum = static_cast<T>(kMinSum);
    for (int64_t k = 0; k < shape.per_token; ++k) {
      dot += given[k] * weights[k];  // of the scaled weights
      sum += scores[routes[k]];
    }
    for (int64_t k = 0; k < shape.per_token; ++k) {
      const auto e = static_cast<size_t>(routes[k]);
      if (shape.scoring == RouterScoring::kSoftmaxChosen) {
        by_logit[e] += weights[k] * (given[k] - dot / scale);
      } else {
        by_score[e] += shape.normalize ? (given[k] * scale - dot) / sum : given[k] * scale;
      }
    }
  }
  if (shape.scoring == RouterScoring::kSigmoid) {
    for (int64_t e = 0; e < shape.experts; ++e) {
      grad[e] = by_score[static_cast<size_t>(e)] * scores[e] * (1 - scores[e]);
    }
    return;
  }
  T dot = 0;
  for (int64_t e = 0; e < shape.experts; ++e) dot += by_score[static_cast<size_t>(e)] * scores[e];
  for (int64_t e = 0; e < shape.experts; ++e) {
    grad[e] = by_logit[static_cast<size_t>(e)] + scores[e] * (by_score[static_cast<size_t>(e)] - dot);
  }
}

}  // namespace

template <typename T>
void Route(const RoutingShape& shape, const RoutingArgs<T>& args, const ParallelFor& parallel) {
  parallel(shape.rows, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) RouteRow(shape, args, row);
  });
}

template <typename T>
void RouteBackward(const RoutingShape& shape, const RoutingArgs<T>& args, const T* by_weights, const T* by_scores,
                   T* grad_logits, const ParallelFor& parallel) {
  parallel(shape.rows, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      RouteRowBackward(shape, args, by_weights, by_scores, grad_logits + row * shape.experts, row);
    }
  });
}

#define INGOT_INSTANTIATE(T)                                                                         \
  template void Route<T>(const RoutingShape&, const RoutingArgs<T>&, const ParallelFor&);            \
  template void RouteBackward<T>(const RoutingShape&, const RoutingArgs<T>&, const T*, const T*, T*, \
                                 const ParallelFor&);
INGOT_INSTANTIATE(float)
INGOT_INSTANTIATE(double)

}  // namespace ingot::kernels
