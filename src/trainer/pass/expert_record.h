// The experts of a step: which of them the rows of its forest took, and the load-balancing term that its gradient
// holds.
//
// A row of a merged tree counts m(u) times, the number of calls through it. Loads, entropy, term and gradient then
// equal those of separate calls. A cut forest has a term per part, weighted by the part's share of all m(u).
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "model/transformer.h"
#include "trainer/metrics.h"
#include "trainer/parallel/wire.h"
#include "tree/forest.h"

namespace ingot::trainer {

// m(u) of every row: the number of calls whose path includes it.
std::vector<float> CallsThrough(const tree::PackedForest& forest);

class ExpertRecord {
 public:
  // `balance`: coefficient of the load-balancing term; 0 = count loads, add no term.
  ExpertRecord(const tree::PackedForest& forest, int64_t layers, double balance);

  // The sum of m(u) over the forest's rows, and over the forests of all ranks: the load-balancing term is weighted by
  // it.
  double calls_through() const { return total_; }
  void SetTotal(double calls_through) { total_ = calls_through; }

  // The expert input of a layer for rows [begin, end). `device`: the rows' own.
  model::Aux AuxOf(int32_t begin, int32_t end, at::Device device) const;
  // Records the layer's expert output. A layer without experts has none.
  void Add(int64_t layer, const model::Aux& aux);

  // experts/load_max and load_min (an expert's load over the mean load of its layer, over all layers),
  // experts/router_entropy (nats per row), experts/balance_loss; of recorded routes mismatch/routes_differ (the share
  // of rows and layers whose own choice differs) and mismatch/routes_compared. Nothing if the model has no
  // experts.
  void Report(StepMetrics& metrics) const;
  // (layer, its experts' loads over their mean), for layers with experts.
  ExpertLoads Loads() const;

  // The sums as another rank's AddFrom reads them. Reset makes all sums zero.
  void Put(Writer& writer) const;
  void AddFrom(Reader& reader);
  void Reset();

  // The loads of a layer's experts, fp64 [experts]; undefined = no experts.
  const at::Tensor& load(int64_t layer) const { return loads_[static_cast<size_t>(layer)]; }

 private:
  std::vector<float> through_;
  double total_ = 0;  // of through_
  const double balance_;
  std::vector<at::Tensor> loads_;
  double entropy_ = 0, rows_ = 0, balance_loss_ = 0;
  int64_t compared_ = 0, differing_ = 0;
};

// The bias update without a loss (DeepSeek-V3, arXiv 2412.19437, section 2.1.2): each expert's bias on its choice moves
// by `rate` up if its load is below its layer's mean, and down if it is above. Changes the model's parameters. Ranks
// that have the same sums make the same change.
void UpdateRouterBiases(const model::Transformer& model, const ExpertRecord& record, double rate);

}  // namespace ingot::trainer
