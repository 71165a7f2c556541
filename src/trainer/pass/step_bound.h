// The bound of a training step: the least time that its operators allow. It is printed next to every speed-up.
//
//   bound = linear work of each merged row once / linear rate + visible pairs / causal attention rate
//
// Both rates are measured on this machine on request, with the same operators on the model's own shapes, forward and
// backward. Work that options repeat to save memory (checkpoint_layers, recompute_prefix) counts, and so do the passes
// that score a batch before its gradient. Norms, rotations, activations, softmax and optimizer do not count. Throws
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

// Work of one step, forward and backward.
struct StepWork {
  int64_t rows = 0;           // through the layers
  int64_t head_rows = 0;      // rows with logits
  int64_t visible_pairs = 0;  // unmasked (query, key) pairs, per head and layer
  int64_t window_pairs = 0;   // those within the model's window; 0 = no window
  // The share of the above that runs forward a second time:
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

  // The same work after `passes` forward passes over all of it.
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

// Work of the same loss if every call ran separately.
StepWork UnmergedWork(const model::ModelConfig& config, std::span<const tree::CallPath> calls,
                      std::span<const int32_t> trained, int64_t head_rows);
// Rows of one sequence, without logits.
StepWork SequenceWork(const model::ModelConfig& config, int64_t length);

// Wall time, and processor time of all threads together, in seconds. Processor time is the better measure while other
// processes compete for the processors.
struct ProcessSeconds {
  double wall = 0, cpu = 0;
};

// Seconds per unit of work, forward and backward.
struct StepRates {
  ProcessSeconds per_flop;       // in the layers' products
  ProcessSeconds per_head_flop;  // in the product with the vocabulary
  // In the attention, all heads, of all layers without a window, and of all layers with a window.
  ProcessSeconds per_pair;
  ProcessSeconds per_window_pair;

  // The smaller of both, rate by rate.
  StepRates Best(const StepRates& other) const;
  // All seconds times `factor`.
  StepRates Scaled(double factor) const;

  // Measures forward and backward: the products of `rows` rows in one layer of each kind, the logits of `head_rows`
  // rows, and causal attention over `stream` rows in one layer of each kind. An expert gets its share of the rows. Uses
  // the threads of the calling thread. Each runs at least once before it is timed.
  static StepRates Measure(const model::ModelConfig& config, at::ScalarType dtype, at::Device device, int64_t rows,
                           int64_t head_rows, int64_t stream);
};

// Multiplications and additions, forward and backward: 6 per trained weight and row, 4 per frozen one.
double LayerFlops(const model::ModelConfig& config, int64_t rows);  // of all layers
double HeadFlops(const model::ModelConfig& config, int64_t rows);
// The same per visible pair (AttentionSpec::pair_flops), of all layers without a window, and of layers with one.
struct PairFlops {
  explicit PairFlops(const model::ModelConfig& config);
  double full = 0, windowed = 0;
};
// The rate of attention, over layers with and without a window.
double AttentionFlopsPerSecond(const model::ModelConfig& config, const StepRates& rates);

ProcessSeconds BoundSeconds(const model::ModelConfig& config, const StepWork& work, const StepRates& rates);

// The clocks' current readings, for differences.
ProcessSeconds ClockNow();

}  // namespace ingot::trainer
