// A trust region, measured after the update: it bounds the distance between the policies before and after a step. The
// distance at one position is KL(old || new) over the whole vocabulary, as in TRPO (arXiv 1502.05477, eq. 12), which
// also shortens steps that are too long. Both policies are evaluated, without a second-order approximation.
//
//   Choose     chooses runs of the batch's calls, and positions in them, with a seed per step
//   gradient   at some positions, draws an additional token from the old policy (Reader)
//   Remember   records the old policy at every position and after every drawn token
//   update     the optimizer proposes it
//   Measure    evaluates the new policy at the same positions; a step that exceeds a bound is halved or undone
//
//   sampled    a b c d e f           positions: the rows that predict d, e, f
//   drawn            `- x            and the row of x: the policy after it diverged from the sample
//
// Rows are weighted by how often the old policy visits them:
//
//   mean      a row counts once per sampled token that it predicts, as in the unmerged batch
//   largest   a row's distance times the fraction of its group's measured episodes that reach it
//
// A row with a large distance usually belongs to one outlier sample with an almost unique context, and is harmless. A
// row that all samples share has full weight.
//
// The positions and drawn tokens depend only on the batch, the seed, the version, and the rank. So a replayed step has
// the same measurement and decision, bit for bit. Each rank chooses from its own share of the batch.
//
// One object per step. Used by one thread. Throws c10::Error.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "base/status.h"
#include "trainer/batch.h"
#include "trainer/options.h"
#include "trainer/pass/forest_pass.h"
#include "tree/forest.h"

namespace ingot::trainer {

// KL(old || new) over some positions, in nats. Plain values: ranks exchange the raw bytes.
struct PolicyShift {
  double sum = 0;
  double max = 0;  // largest weighted distance
  int64_t positions = 0;
  int64_t not_finite = 0;  // positions with a distance that is not finite

  double mean() const { return positions > 0 ? sum / static_cast<double>(positions) : 0; }
  // Adds a row with distance `kl` that predicts `visits` sampled tokens, in a `share` of its group's episodes.
  void AddRow(double kl, int64_t visits, double share);
  void Add(const PolicyShift& other);
  // Returns whether all positions are finite and the mean and maximum are within the bounds. A bound of 0 always holds.
  bool Within(const TrustRegionOptions& bounds) const;
};

class TrustRegion {
 public:
  // Chooses calls and positions from this rank's `forest` of `batch`. Both must outlive the result. Each run has at
  // least one call. Beyond that, all runs together have at most options.share of the forest's merged rows. A share of 1
  // chooses all calls. Stores the policies of at most `most_rows` rows, about a fifth of which follow drawn tokens.
  // Same errors as PackForest.
  static absl::StatusOr<TrustRegion> Choose(const TrustRegionOptions& options, const PreparedBatch& batch,
                                            const tree::PackedForest& forest, int64_t most_rows, uint64_t seed,
                                            int64_t version, int rank);

  // Returns the measured calls, as indices into the batch, in forest order.
  const std::vector<int32_t>& calls() const { return calls_; }

  // Returns a reader that draws the additional tokens, for a pass of the old model over the forest
  // (PassOptions::read_policy).
  PolicyReader Reader();

  // Records the old policy. REQUIRES: a pass with Reader has run.
  absl::Status Remember(const model::Transformer& model, const PassOptions& options);

  // Returns the number of rows with a stored old policy. REQUIRES: Remember.
  int64_t rows_held() const;

  // Returns the distance to `model`'s current policy. REQUIRES: Remember.
  PolicyShift Measure(const model::Transformer& model, const PassOptions& options) const;

 private:
  using Place = std::pair<int32_t, int32_t>;  // (call, offset) of a loss entry

  TrustRegion(const PreparedBatch& batch, uint64_t seed) : batch_(&batch), seed_(seed) {}
  void ChoosePositions(const tree::PackedForest& calls, int64_t most_rows);

  const PreparedBatch* batch_;
  uint64_t seed_;                      // seed for this step and rank
  std::vector<int32_t> calls_;         // indices into the batch, in forest order
  std::vector<Place> positions_;       // in drawing order
  std::map<Place, int32_t> drawn_;     // the token drawn in addition to the sample; -1 = not drawn yet
  std::vector<tree::CallPath> paths_;  // the chosen calls, then one per drawn token
  std::vector<double> share_;          // per path: one episode's share of its group's measured episodes
  tree::PackedForest forest_;          // merged forest of paths_, with entries only at the positions
  std::vector<at::Tensor> old_;        // the old policy's log-probs [rows, vocab], one tensor per chunk of head rows
};

}  // namespace ingot::trainer
