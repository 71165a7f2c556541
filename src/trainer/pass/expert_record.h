// Records a step's expert choices: which experts its forest's rows used, and the load-balancing term in its
// gradient.
//
// Each row u in a merged tree counts m(u) times, once for each call that passes through it. Loads, entropy, the
// load-balancing term, and its gradient then equal those of separate calls. A split forest has one term per part,
// weighted by the part's share of the total m(u).
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "model/transformer.h"
#include "trainer/metrics.h"
#include "trainer/parallel/wire.h"
#include "tree/forest.h"

namespace ingot::trainer {

// Returns m(u) for every row: the number of calls with a path that includes it.
std::vector<float> CallsThrough(const tree::PackedForest& forest);

class ExpertRecord {
 public:
  // `balance` is the coefficient of the load-balancing term. 0 = count loads, but add no term.
  ExpertRecord(const tree::PackedForest& forest, int64_t layers, double balance);

  // Returns the sum of m(u) over the forest's rows, or over the forests of all ranks. It weights the load-balancing
  // term.
  double calls_through() const { return total_; }
  void SetTotal(double calls_through) { total_ = calls_through; }

  // Returns a layer's expert input for rows [begin, end). `device` is the rows' device.
  model::Aux AuxOf(int32_t begin, int32_t end, at::Device device) const;
  // Records the layer's expert output. A layer without experts has none.
  void Add(int64_t layer, const model::Aux& aux);

  // Reports experts/load_max and load_min (an expert's load divided by its layer's mean load, over all layers),
  // experts/router_entropy (nats per row), and experts/balance_loss. For recorded routes, also reports
  // mismatch/routes_differ (the fraction of rows and layers where the router's own choice differs) and
  // mismatch/routes_compared. Reports nothing if the model has no experts.
  void Report(StepMetrics& metrics) const;
  // Returns (layer, each expert's load divided by the layer's mean load), for layers with experts.
  ExpertLoads Loads() const;

  // Put writes the sums, and another rank's AddFrom reads them. Reset sets all sums to zero.
  void Put(Writer& writer) const;
  void AddFrom(Reader& reader);
  void Reset();

  // Returns the loads of a layer's experts, fp64 [experts]. Undefined = no experts.
  const at::Tensor& load(int64_t layer) const { return loads_[static_cast<size_t>(layer)]; }

 private:
  std::vector<float> through_;
  double total_ = 0;  // sum of through_
  const double balance_;
  std::vector<at::Tensor> loads_;
  double entropy_ = 0, rows_ = 0, balance_loss_ = 0;
  int64_t compared_ = 0, differing_ = 0;
};

// Applies DeepSeek-V3's bias update, which does not use a loss (arXiv 2412.19437, section 2.1.2). Raises an expert's
// selection bias by `rate` if its load is below its layer's mean, and lowers it by `rate` if its load is above. Changes
// the model's parameters. Ranks with equal sums make equal changes.
void UpdateRouterBiases(const model::Transformer& model, const ExpertRecord& record, double rate);

}  // namespace ingot::trainer
