// A naive fp64 attention with a dense mask, and random forests, for the tests of the kernels.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <random>
#include <vector>

#include "kernels/attention.h"

namespace ingot::kernels::testing {

// visible_end of a random forest of `size` packed tokens: each token hangs under the previous one, or under a random
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

template <typename T>
std::vector<T> RandomVector(std::mt19937_64& rng, int64_t size, double scale = 1) {
  std::normal_distribution<double> normal(0, scale);
  std::vector<T> values(size);
  for (T& v : values) v = static_cast<T>(normal(rng));
  return values;
}

struct DenseResult {
  std::vector<double> out, lse, grad_q, grad_k, grad_v;
};

// All rows against all rows; visible_end empty: plain causal. grad_out empty: forward only.
template <typename T>
DenseResult Dense(const AttentionShape& shape, int64_t rows, const std::vector<int32_t>& visible_end,
                  const std::vector<T>& q, const std::vector<T>& k, const std::vector<T>& v,
                  const std::vector<T>& grad_out) {
  const int64_t h_count = shape.heads, g_count = shape.kv_heads, d_count = shape.head_dim, group = h_count / g_count;
  DenseResult r;
  r.out.assign(q.size(), 0);
  r.lse.assign(rows * h_count, 0);
  r.grad_q.assign(q.size(), 0);
  r.grad_k.assign(k.size(), 0);
  r.grad_v.assign(v.size(), 0);
  std::vector<double> p(rows), dp(rows);
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t h = 0; h < h_count; ++h) {
      const int64_t qi = (i * h_count + h) * d_count, g = h / group;
      double top = -INFINITY, sum = 0;
      for (int64_t j = 0; j <= i; ++j) {
        p[j] = -INFINITY;
        if (!visible_end.empty() && visible_end[j] <= i) continue;
        const int64_t kj = (j * g_count + g) * d_count;
        double s = 0;
        for (int64_t d = 0; d < d_count; ++d) s += static_cast<double>(q[qi + d]) * k[kj + d];
        p[j] = s * shape.scale;
        top = std::max(top, p[j]);
      }
      for (int64_t j = 0; j <= i; ++j) sum += p[j] == -INFINITY ? 0 : std::exp(p[j] - top);
      r.lse[i * h_count + h] = sum == 0 ? -INFINITY : top + std::log(sum);
      double mean = 0;
      for (int64_t j = 0; j <= i; ++j) {
        p[j] = p[j] == -INFINITY ? 0 : std::exp(p[j] - top) / sum;
        const int64_t kj = (j * g_count + g) * d_count;
        dp[j] = 0;
        for (int64_t d = 0; d < d_count; ++d) {
          r.out[qi + d] += p[j] * v[kj + d];
          if (!grad_out.empty()) dp[j] += static_cast<double>(grad_out[qi + d]) * v[kj + d];
        }
        mean += p[j] * dp[j];
      }
      if (grad_out.empty()) continue;
      for (int64_t j = 0; j <= i; ++j) {
        const int64_t kj = (j * g_count + g) * d_count;
        const double ds = p[j] * (dp[j] - mean) * shape.scale;
        for (int64_t d = 0; d < d_count; ++d) {
          r.grad_q[qi + d] += ds * k[kj + d];
          r.grad_k[kj + d] += ds * q[qi + d];
          r.grad_v[kj + d] += p[j] * grad_out[qi + d];
        }
      }
    }
  }
  return r;
}

// |a - b| / |b| as vectors; absolute where |b| is below 1, the order of the data.
template <typename T>
double RelativeError(const std::vector<T>& a, const std::vector<double>& b) {
  double difference = 0, norm = 0;
  for (size_t i = 0; i < b.size(); ++i) {
    if (std::isinf(b[i]) && a[i] == b[i]) continue;
    difference += (a[i] - b[i]) * (a[i] - b[i]);
    norm += b[i] * b[i];
  }
  return std::sqrt(difference) / std::max(std::sqrt(norm), 1.0);
}

// Runs chunks of one on real threads.
ParallelFor Threads(int count);

}  // namespace ingot::kernels::testing
