// The draw of a token: the race of exponential times, compared with the inverse of the distribution that it replaced.
//
//   cmake --preset release -DINGOT_BUILD_BENCHMARKS=ON && ninja -C build/release race_bench
//   build/release/benchmarks/race_bench [avx512|avx2|portable]
//
// Rows of 151,936 log-probs, of normally distributed logits with a standard deviation of 3, at several temperatures and
// truncations. Both draw with the seeds 0 to 400 in turn. A line has the medians in microseconds, the 10th to the 90th
// percentile, and the ratio of the means: the inverse stops at the token drawn, so its times spread. Not measured: the
// model, masks, penalties; the rows come from the second-level cache or beyond.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <span>
#include <vector>

#include "base/rng.h"
#include "kernels/attention/attention.h"
#include "rollout/sampling/sampling.h"

namespace {

using namespace ingot;
using std::chrono::steady_clock;

constexpr int kTokens = 151936, kDraws = 401;

// The sampler before the race: a sum of probabilities up to a uniform number; truncated, tokens off a heap.
class InverseSampler {
 public:
  int32_t Draw(std::span<const float> logprobs, const rollout::DrawOptions& options, int64_t index) {
    const double uniform = base::UniformAt(options.seed, static_cast<uint64_t>(index));
    if (options.top_k == 0 && options.top_p == 0 && options.min_p == 0) return DrawWhole(logprobs, uniform);
    const auto more_likely = [&](int32_t a, int32_t b) {
      return logprobs[a] != logprobs[b] ? logprobs[a] > logprobs[b] : a < b;
    };
    order_.resize(logprobs.size());
    std::iota(order_.begin(), order_.end(), 0);
    if (options.top_k > 0) {
      std::nth_element(order_.begin(), order_.begin() + options.top_k, order_.end(), more_likely);
      order_.resize(options.top_k);
    }
    double needed = 0;
    if (options.top_p > 0) {
      for (const int32_t id : order_) needed += std::exp(static_cast<double>(logprobs[id]));
      needed *= options.top_p;
    }
    const auto heap_order = [&](int32_t a, int32_t b) { return more_likely(b, a); };
    std::make_heap(order_.begin(), order_.end(), heap_order);
    weights_.clear();
    kept_.clear();
    double total = 0;
    for (size_t left = order_.size(); left > 0; --left) {
      if (options.top_p > 0 && !kept_.empty() && total >= needed) break;
      std::pop_heap(order_.begin(), order_.begin() + left, heap_order);
      const int32_t id = order_[left - 1];
      const double weight = std::exp(static_cast<double>(logprobs[id]));
      if (!kept_.empty() && (!(weight > 0) || weight < options.min_p * weights_[0])) break;
      kept_.push_back(id);
      weights_.push_back(weight);
      total += weight;
    }
    double sum = 0;
    for (size_t i = 0; i < kept_.size(); ++i) {
      sum += weights_[i];
      if (uniform * total < sum) return kept_[i];
    }
    return kept_.back();
  }

 private:
  static int32_t DrawWhole(std::span<const float> logprobs, double uniform) {
    double sum = 0;
    int32_t last = 0;
    for (size_t id = 0; id < logprobs.size(); ++id) {
      const float p = std::exp(logprobs[id]);
      if (!(p > 0)) continue;
      sum += p;
      last = static_cast<int32_t>(id);
      if (uniform < sum) break;
    }
    return last;
  }

  std::vector<int32_t> order_, kept_;
  std::vector<double> weights_;
};

struct Row {
  std::vector<float> logprobs;
  double entropy = 0;
};

Row NormalRow(double temperature) {
  std::vector<double> logits(kTokens);
  for (int i = 0; i < kTokens; ++i) {
    const double radius = std::sqrt(-2 * std::log(1 - base::UniformAt(1, 2 * i)));
    logits[i] = 3 * radius * std::cos(2 * M_PI * base::UniformAt(1, 2 * i + 1)) / temperature;
  }
  const double top = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const double logit : logits) sum += std::exp(logit - top);
  Row row;
  for (const double logit : logits) {
    const double logprob = logit - top - std::log(sum);
    row.entropy -= std::exp(logprob) * logprob;
    row.logprobs.push_back(static_cast<float>(logprob));
  }
  return row;
}

template <typename F>
double Micros(const F& f) {
  const auto start = steady_clock::now();
  f();
  return std::chrono::duration<double, std::micro>(steady_clock::now() - start).count();
}

struct Times {
  explicit Times(std::vector<double> all) {
    std::sort(all.begin(), all.end());
    low = all[all.size() / 10], median = all[all.size() / 2], high = all[all.size() * 9 / 10];
    mean = std::accumulate(all.begin(), all.end(), 0.0) / static_cast<double>(all.size());
  }
  double low = 0, median = 0, high = 0, mean = 0;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc > 1) kernels::LimitInstructionSet(argv[1]);
  std::printf("%d tokens, %s\n%-24s %8s %26s %26s %6s\n", kTokens, kernels::InstructionSet(), "row", "entropy",
              "race, us", "inverse, us", "ratio");
  struct Case {
    const char* name;
    double temperature;
    int32_t top_k;
    float top_p, min_p;
  };
  const Case cases[] = {
      {"temperature 1.5", 1.5, 0, 0, 0}, {"temperature 1", 1, 0, 0, 0},       {"temperature 0.7", 0.7, 0, 0, 0},
      {"temperature 0.3", 0.3, 0, 0, 0}, {"temperature 0.05", 0.05, 0, 0, 0}, {"1, top_k 50", 1, 50, 0, 0},
      {"1, top_p 0.9", 1, 0, 0.9f, 0},   {"1, min_p 0.05", 1, 0, 0, 0.05f},   {"1, 50, 0.9, 0.05", 1, 50, 0.9f, 0.05f}};
  rollout::Sampler race;
  InverseSampler inverse;
  for (const Case& each : cases) {
    const Row row = NormalRow(each.temperature);
    rollout::DrawOptions options{.temperature = 1, .top_k = each.top_k, .top_p = each.top_p, .min_p = each.min_p};
    std::vector<double> by_race, by_inverse;
    int64_t drawn = 0;
    for (int i = 0; i < kDraws; ++i) {
      options.seed = static_cast<uint64_t>(i);
      by_race.push_back(Micros([&] { drawn += *race.Draw({row.logprobs, {}}, options, i); }));
      by_inverse.push_back(Micros([&] { drawn += inverse.Draw(row.logprobs, options, i); }));
    }
    if (drawn < 0) std::exit(1);
    const Times a(by_race), b(by_inverse);
    std::printf("%-24s %8.2f %8.1f (%6.1f to %6.1f) %8.1f (%6.1f to %6.1f) %6.2f\n", each.name, row.entropy, a.median,
                a.low, a.high, b.median, b.low, b.high, a.mean / b.mean);
  }
  return 0;
}
