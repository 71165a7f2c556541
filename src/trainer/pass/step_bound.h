// Computes a training step's bound: the minimum time that its operators allow. Every speedup is printed with it.
//
//   bound = linear work of each merged row once / linear rate + visible pairs / causal attention rate
//
// Both rates are measured on this machine on request, with the same operators and the model's own shapes, forward and
// backward. Work that is repeated to save memory (checkpoint_layers, recompute_prefix) counts, as do the passes that
// score a batch before its gradient. Norms, rotations, activations, softmax, and the optimizer do not count. Throws
// c10::Error.
#pragma once

#include <ATen/core/ScalarType.h>
#include <c10/core/Device.h>

#include <cstdint>
#include <span>

#include "model/config.h"
#include "trainer/pass/forest_pass.h"
#include "tree/forest.h"

namespace ingot::trainer {

// The work in one step, forward and backward.
struct StepWork {
  int64_t rows = 0;           // rows through the layers
  int64_t head_rows = 0;      // rows with logits
  int64_t visible_pairs = 0;  // unmasked (query, key) pairs, per head and layer
  int64_t window_pairs = 0;   // visible pairs within the model's window; 0 = no window
  // The part of the above whose forward pass runs twice:
  int64_t repeated_rows = 0;
  int64_t repeated_head_rows = 0;
  int64_t repeated_pairs = 0;
  int64_t repeated_window_pairs = 0;

  void Add(const StepWork& other) {
    rows += other.rows;
    head_rows += other.head_rows;
    visible_pairs += other.visible_pairs;
    window_pairs += other.window_pairs;
    repeated_rows += other.repeated_rows;
    repeated_head_rows += other.repeated_head_rows;
    repeated_pairs += other.repeated_pairs;
    repeated_window_pairs += other.repeated_window_pairs;
  }

  // Returns the same work, plus `passes` forward passes over all of it.
  StepWork WithScoring(int64_t passes) const {
    StepWork work = *this;
    work.repeated_rows += passes * rows;
    work.repeated_head_rows += passes * head_rows;
    work.repeated_pairs += passes * visible_pairs;
    work.repeated_window_pairs += passes * window_pairs;
    return work;
  }
};

StepWork WorkOf(const model::ModelConfig& config, const tree::PackedForest& forest, const PassResult& result,
                const PassOptions& options);

// Returns the work of the same loss if every call ran separately.
StepWork UnmergedWork(const model::ModelConfig& config, std::span<const tree::CallPath> calls,
                      std::span<const int32_t> trained, int64_t head_rows);
// Returns the work for the rows of one sequence, without logits.
StepWork SequenceWork(const model::ModelConfig& config, int64_t length);

// Wall time, and CPU time summed over all threads, in seconds. CPU time is the better measure when other processes
// compete for the CPUs.
struct ProcessSeconds {
  double wall = 0, cpu = 0;
};

// Seconds per unit of work, forward and backward.
struct StepRates {
  ProcessSeconds per_flop;       // for the layers' products
  ProcessSeconds per_head_flop;  // for the product with the vocabulary
  // For attention over all heads: in all layers without a window, and in all layers with a window.
  ProcessSeconds per_pair;
  ProcessSeconds per_window_pair;

  // Returns the smaller value of the two, field by field.
  StepRates Best(const StepRates& other) const;
  // Returns the rates with all seconds multiplied by `factor`.
  StepRates Scaled(double factor) const;

  // Measures, forward and backward, the products for `rows` rows in one layer of each kind, the logits for `head_rows`
  // rows, and causal attention over `stream` rows in one layer of each kind. Each expert gets its share of the rows.
  // Uses the calling thread's thread count. Runs each at least once before timing it.
  static StepRates Measure(const model::ModelConfig& config, at::ScalarType dtype, at::Device device, int64_t rows,
                           int64_t head_rows, int64_t stream);
};

// Return the multiplications and additions, forward and backward: 6 per trained weight and row, and 4 per frozen one.
double LayerFlops(const model::ModelConfig& config, int64_t rows);  // over all layers
double HeadFlops(const model::ModelConfig& config, int64_t rows);
// Multiplications and additions per visible pair (AttentionSpec::pair_flops), summed over all layers without a window,
// and over all layers with one.
struct PairFlops {
  explicit PairFlops(const model::ModelConfig& config);
  double full = 0, windowed = 0;
};
// Returns the attention rate over layers with and without a window.
double AttentionFlopsPerSecond(const model::ModelConfig& config, const StepRates& rates);

ProcessSeconds BoundSeconds(const model::ModelConfig& config, const StepWork& work, const StepRates& rates);

// Returns the current clock readings, for computing differences.
ProcessSeconds ClockNow();

}  // namespace ingot::trainer
