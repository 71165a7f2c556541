// A trust region that is measured after the update: the distance between the policies before and after a step, and its
// bounds. The distance of one position is KL(old || new) over the whole vocabulary, as in TRPO (arXiv 1502.05477, eq.
// 12), which also shortens a step that is too long. Nothing is approximated to second order: both policies are
// evaluated.
//
//   Choose     a few runs of the batch's calls and positions of them, drawn from a seed of the step
//   gradient   at some positions, draws a token of the old policy besides the sampled one (Reader)
//   Remember   records the old policy at every position, and after every drawn token
//   update     the optimizer proposes it
//   Measure    evaluates the new policy at the same positions; a step past a bound is halved, or taken back
//
//   sampled    a b c d e f           positions: the rows that predict d, e, f
//   drawn            `- x            and the row of x: the policy's next tokens where it left the sample
//
// Rows are weighed by the states that the old policy visits:
//
//   mean      a row counts once per sampled token that it predicts, as in the unmerged batch
//   largest   a row's distance times the share of its group's measured episodes that reach it
//
// Most rows that move far belong to one stray sample, whose context nearly no sample has, and do no harm. A row that
// all samples share counts whole.
//
// The positions and the drawn tokens depend only on the batch, the seed, the version and the rank. A replayed step is
// measured and decided alike, to the bit. Each rank chooses from its own share of the batch.
//
// One object per step. Used by one thread; throws c10::Error.
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

// KL(old || new) over some positions, in nats. Plain values: ranks send one another their bytes.
struct PolicyShift {
  double sum = 0;
  double max = 0;  // weighed as above
  int64_t positions = 0;
  int64_t not_finite = 0;  // positions whose distance is not a number

  double mean() const { return positions > 0 ? sum / static_cast<double>(positions) : 0; }
  // A row with distance `kl` that predicts `visits` sampled tokens, in a `share` of its group's episodes.
  void AddRow(double kl, int64_t visits, double share);
  void Add(const PolicyShift& other);
  // No position is infinite, and mean and maximum are within the bounds; a bound of 0 always holds.
  bool Within(const TrustRegionOptions& bounds) const;
};

class TrustRegion {
 public:
  // Chooses calls and positions of this rank's `forest` of `batch`; both outlive this. Each run has at least one call;
  // beyond that, all runs together have at most options.share of the forest's merged rows, and at a share of 1 all
  // calls. Holds the policies of at most `most_rows` rows, about a fifth of them after drawn tokens. Errors as
  // PackForest.
  static absl::StatusOr<TrustRegion> Choose(const TrustRegionOptions& options, const PreparedBatch& batch,
                                            const tree::PackedForest& forest, int64_t most_rows, uint64_t seed,
                                            int64_t version, int rank);

  // The calls that are measured: of the batch, in the forest's order.
  const std::vector<int32_t>& calls() const { return calls_; }

  // Draws the extra tokens, in a pass of the old model over the batch's forest (PassOptions::read_policy).
  PolicyReader Reader();

  // Records the old policy. REQUIRES: a pass with Reader has run.
  absl::Status Remember(const model::Transformer& model, const PassOptions& options);

  // Rows whose old policies are held. REQUIRES: Remember.
  int64_t rows_held() const;

  // The distance to `model`'s current policy. REQUIRES: Remember.
  PolicyShift Measure(const model::Transformer& model, const PassOptions& options) const;

 private:
  using Place = std::pair<int32_t, int32_t>;  // (call, offset) of a loss entry

  TrustRegion(const PreparedBatch& batch, uint64_t seed) : batch_(&batch), seed_(seed) {}
  void ChoosePositions(const tree::PackedForest& calls, int64_t most_rows);

  const PreparedBatch* batch_;
  uint64_t seed_;                      // of this step and rank
  std::vector<int32_t> calls_;         // of the batch, in the forest's order
  std::vector<Place> positions_;       // in the order of the draw
  std::map<Place, int32_t> drawn_;     // the token drawn besides a sample; -1 = not drawn yet
  std::vector<tree::CallPath> paths_;  // the chosen calls, then one per drawn token
  std::vector<double> share_;          // per path: of one episode among the measured ones of its group
  tree::PackedForest forest_;          // of paths_, with only the entries of the positions
  std::vector<at::Tensor> old_;        // log-probs of the old policy [rows, vocab], one per chunk of the head's rows
};

}  // namespace ingot::trainer
