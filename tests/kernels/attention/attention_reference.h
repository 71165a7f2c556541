// Attention in fp64 over gathered paths, and random forests, for the tests of the kernels.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <random>
#include <type_traits>
#include <vector>

#include "kernels/attention/attention.h"

namespace ingot::kernels::testing {

// visible_end of a random forest of `size` packed tokens. Each token is a child of the previous one or of a random
// ancestor of it, or starts a tree.
inline std::vector<int32_t> RandomForest(std::mt19937_64& rng, int64_t size, double branch, double root) {
  std::vector<int32_t> end(size, static_cast<int32_t>(size));
  std::vector<int64_t> path;  // packed indices from the root to the last token
  std::uniform_real_distribution<double> uniform(0, 1);
  for (int64_t i = 0; i < size; ++i) {
    size_t keep = path.size();
    if (!path.empty() && uniform(rng) < root) {
      keep = 0;
    } else if (!path.empty() && uniform(rng) < branch) {
      keep = rng() % path.size() + 1;
    }
    for (; path.size() > keep; path.pop_back()) end[path.back()] = static_cast<int32_t>(i);
    path.push_back(i);
  }
  return end;
}

// The depth of every token: the number of earlier tokens that it sees.
inline std::vector<int32_t> Depths(const std::vector<int32_t>& visible_end) {
  std::vector<int32_t> depth(visible_end.size());
  std::vector<size_t> path;
  for (size_t i = 0; i < depth.size(); ++i) {
    while (!path.empty() && visible_end[path.back()] <= static_cast<int32_t>(i)) path.pop_back();
    depth[i] = static_cast<int32_t>(path.size());
    path.push_back(i);
  }
  return depth;
}

inline double Wide(double x) { return x; }
inline double Wide(BFloat16 x) { return ToFloat(x); }

template <typename T>
T Narrow(double x) {
  if constexpr (std::is_same_v<T, BFloat16>) {
    return ToBFloat16(static_cast<float>(x));
  } else {
    return static_cast<T>(x);
  }
}

template <typename T>
std::vector<T> RandomVector(std::mt19937_64& rng, int64_t size, double scale = 1) {
  std::normal_distribution<double> normal(0, scale);
  std::vector<T> values(size);
  for (T& v : values) v = Narrow<T>(normal(rng));
  return values;
}

struct ReferenceResult {
  std::vector<double> out, lse, grad_q, grad_k, grad_v, grad_sinks;
};

// The reference's inputs. Queries are the packed indices [q_offset, visible_end.size()).
template <typename T>
struct ReferenceArgs {
  AttentionShape shape;
  const std::vector<int32_t>& visible_end;
  int64_t q_offset;
  const std::vector<Accumulator<T>>& sinks;  // empty: none
  const std::vector<T>&q, &k, &v, &grad_out;
};

// Computes every query separately over its own gathered root path, without a mask or a packed layout. A window is the
// end of the path, and so needs no positions.
template <typename T>
ReferenceResult GatheredPaths(const ReferenceArgs<T>& a) {
  const int64_t heads = a.shape.heads, kv_heads = a.shape.kv_heads, depth = a.shape.head_dim;
  ReferenceResult r;
  r.out.assign(a.q.size(), 0);
  r.grad_q.assign(a.q.size(), 0);
  r.grad_k.assign(a.k.size(), 0);
  r.grad_v.assign(a.k.size(), 0);
  r.grad_sinks.assign(a.sinks.size(), 0);
  for (int64_t i = a.q_offset; i < static_cast<int64_t>(a.visible_end.size()); ++i) {
    std::vector<int64_t> path;
    for (int64_t j = 0; j <= i; ++j) {
      if (a.visible_end[j] > i) path.push_back(j);
    }
    const int64_t length = static_cast<int64_t>(path.size());
    if (a.shape.window > 0 && length > a.shape.window) path.erase(path.begin(), path.end() - a.shape.window);
    for (int64_t h = 0; h < heads; ++h) {
      const int64_t at = ((i - a.q_offset) * heads + h) * depth, g = h / (heads / kv_heads);
      std::vector<double> p, dp, slope;  // slope: of the soft cap
      const double cap = a.shape.soft_cap;
      double top = a.sinks.empty() ? -INFINITY : static_cast<double>(a.sinks[h]), sum = 0, mean = 0;
      for (int64_t j : path) {
        double s = 0, d_out = 0;
        for (int64_t d = 0; d < depth; ++d) {
          s += Wide(a.q[at + d]) * Wide(a.k[(j * kv_heads + g) * depth + d]);
          d_out += Wide(a.grad_out[at + d]) * Wide(a.v[(j * kv_heads + g) * depth + d]);
        }
        s *= a.shape.scale;
        const double t = cap > 0 ? std::tanh(s / cap) : 0;
        p.push_back(cap > 0 ? cap * t : s);
        slope.push_back(1 - t * t);
        dp.push_back(d_out);
        top = std::max(top, p.back());
      }
      for (double& x : p) sum += x = std::exp(x - top);
      const double sink = a.sinks.empty() ? 0 : std::exp(static_cast<double>(a.sinks[h]) - top);
      sum += sink;
      r.lse.push_back(sum == 0 ? -INFINITY : top + std::log(sum));
      for (size_t n = 0; n < path.size(); ++n) mean += (p[n] /= sum) * dp[n];
      if (sink > 0) r.grad_sinks[h] -= sink / sum * mean;
      for (size_t n = 0; n < path.size(); ++n) {
        const int64_t key = (path[n] * kv_heads + g) * depth;
        const double ds = p[n] * (dp[n] - mean) * slope[n] * a.shape.scale;
        for (int64_t d = 0; d < depth; ++d) {
          r.out[at + d] += p[n] * Wide(a.v[key + d]);
          r.grad_q[at + d] += ds * Wide(a.k[key + d]);
          r.grad_k[key + d] += ds * Wide(a.q[at + d]);
          r.grad_v[key + d] += p[n] * Wide(a.grad_out[at + d]);
        }
      }
    }
  }
  return r;
}

// The distance |a - b| / |b| of two vectors. Where b vanishes (a row of one key has no gradient) it is relative to a
// tenth of the data's size, whose entries are of order 1.
template <typename T>
double RelativeError(const std::vector<T>& a, const std::vector<double>& b) {
  double difference = 0, norm = 0.01 * static_cast<double>(b.size());
  for (size_t i = 0; i < b.size(); ++i) {
    const double x = Wide(a[i]);
    if (std::isinf(b[i]) && x == b[i]) continue;
    difference += (x - b[i]) * (x - b[i]);
    norm += b[i] * b[i];
  }
  return std::sqrt(difference / std::max(norm, 1e-30));
}

// A ParallelFor that runs chunks of one item on real threads.
ParallelFor Threads(int count);

}  // namespace ingot::kernels::testing
