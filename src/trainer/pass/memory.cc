#include "trainer/pass/memory.h"

#include <absl/strings/str_format.h>

#include <algorithm>
#include <limits>
#include <vector>

#include "kernels/torch/changes.h"
#include "model/layer_spec.h"
#include "trainer/pass/head_pass.h"
#include "trainer/pass/layer_memory.h"

namespace ingot::trainer {
namespace {

// Bytes for one model: its layers and everything else.
struct Costs {
  Costs(const model::ModelConfig& c, int element_bytes, Operators operators)
      : Costs(c, model::SpecOf(c), element_bytes, operators) {}
  Costs(const model::ModelConfig& c, const model::ModelSpec& spec, int element_bytes, Operators operators)
      : operators(operators),
        all_parameters(spec.elements()),
        parameters(spec.trained_elements()),
        element(element_bytes),
        accumulator(element_bytes == 8 ? 8 : 4),
        hidden(c.hidden_size),
        vocab(c.vocab_size) {
    input = element * hidden;
    vocabulary = spec.embedding.trained ? vocab * hidden : 0;
    int64_t turned = 0;
    bool local = false;
    for (const model::LayerSpec& layer : spec.layers) {
      layers.emplace_back(layer, hidden, element, accumulator, operators);
      turned = std::max(turned, layer.attention.rotary_dim);
      local = local || layer.attention.local_rope;
      const LayerCosts& own = layers.back();
      Sums sums = below.back();
      sums.history += own.history;
      sums.fixed += own.fixed_history;
      sums.exports += own.ExportBytes();
      sums.export_sums += own.ExportSums();
      sums.branches += own.BranchBytes();
      sums.branch_sums += own.BranchSums();
      sums.gradients += own.gradients;
      below.push_back(sums);
    }
    rope = c.max_position_embeddings * turned * element * (local ? 2 : 1);
  }

  int64_t depth() const { return std::ssize(layers); }
  bool narrow() const { return element < accumulator; }
  bool native() const { return operators == Operators::kNative; }
  int64_t Weights() const { return all_parameters * element + rope; }

  // Sums over the first layers of the model.
  struct Sums {
    int64_t history = 0, exports = 0, export_sums = 0;  // bytes per row
    int64_t branches = 0, branch_sums = 0;              // bytes per branch
    int64_t fixed = 0;                                  // bytes
    int64_t gradients = 0;                              // elements
  };
  const Sums& Below(int64_t count) const { return below[static_cast<size_t>(count)]; }
  // Bytes per row of the gradient sums from the last `done` layers.
  int64_t ExportSumsAbove(int64_t done) const { return Below(depth()).export_sums - Below(depth() - done).export_sums; }

  // The head's pass over `rows` rows (head_pass.h), with `chunk` elements of logits at a time. During the whole pass it
  // holds the rows, the gradient with respect to the logits (for a wide type, the logits themselves), and the sum if
  // its weight has several gradients.
  int64_t Head(int64_t rows, int64_t chunk) const {
    const HeadRows at_once(chunk, vocab, narrow());
    const int64_t sums = SumsHead(rows, chunk) ? vocabulary * accumulator : 0;
    const int64_t norm = native() ? 0 : rows * hidden * (accumulator + element);  // LayerCosts::AtenNorm
    return 3 * rows * hidden * element + vocab * std::min(at_once.gradient, rows) * element + sums + norm;
  }
  bool SumsHead(int64_t rows, int64_t chunk) const { return narrow() && HeadRows(chunk, vocab, true).gradient < rows; }
  // The logits, which exist in addition to Head before the gradient of the weight. ATen needs three more tensors of
  // their size (kernels::Policy::Gradient).
  int64_t Logits(int64_t rows, int64_t chunk) const {
    const int64_t copies = (narrow() ? 1 : 0) + (native() ? 0 : 3);
    return copies * vocab * std::min(HeadRows(chunk, vocab, true).logits, rows) * accumulator;
  }
  int64_t HeadGradient() const { return vocabulary * element; }

  // The gradients after a backward pass has finished the last `done` layers. The vocabulary's exist from the first
  // logits on.
  int64_t Gradients(int64_t done) const {
    return element * (vocabulary + Below(depth()).gradients - Below(depth() - done).gradients);
  }

  Operators operators;
  int64_t all_parameters, parameters;  // elements of all tensors, and of the trained ones
  int64_t vocabulary = 0;              // elements of the vocabulary's matrix, if it is trained
  int64_t element, accumulator, hidden, vocab;
  int64_t input = 0;  // bytes of a layer's input, per row
  int64_t rope = 0;
  std::vector<LayerCosts> layers;
  std::vector<Sums> below = std::vector<Sums>(1);  // over the first n layers
};

// Visits the parts in execution order and records the peak.
class Walk {
 public:
  // `gradients_stay` = gradients stay from one part to the next, as on one rank.
  Walk(const Costs& costs, const PassOptions& options, std::span<const tree::ForestPart> parts, bool gradients_stay,
       MemoryNeed& most)
      : costs_(costs),
        options_(options),
        parts_(parts),
        gradients_stay_(gradients_stay),
        summed_(parts.size(), false),
        most_(most) {
    for (const tree::ForestPart& part : parts) tables_ += TableBytes(part);
  }

  void Run() {
    tree::RunParts(parts_, [&](size_t i) { Start(i); }, [&](size_t i) { Finish(i); });
  }

 private:
  static int64_t TableBytes(const tree::ForestPart& part) {
    return (part.prefix_rows + part.size() + std::ssize(part.exports)) * static_cast<int64_t>(sizeof(int32_t));
  }
  bool Again(size_t i) const { return options_.recompute_prefix && parts_[i].seen_later(static_cast<int32_t>(i)); }

  // A waiting part: the histories of the first `layers` layers, or their inputs. Until its backward pass, also its last
  // result (or the gradient with respect to it) and its ids.
  int64_t HistoryBytes(size_t i, int64_t layers) const {
    const int64_t rows = parts_[i].size();
    const Costs::Sums& held = costs_.Below(layers);
    const int64_t ends = rows * (2 * costs_.input + 2 * static_cast<int64_t>(sizeof(int64_t)));
    return ends + (options_.checkpoint_layers ? rows * layers * costs_.input : rows * held.history + held.fixed);
  }
  // Keys and values of the first `layers` layers that later parts see, and the gradients returned for them.
  int64_t Path(size_t i, int64_t layers) const {
    const tree::ForestPart& part = parts_[i];
    const auto exports = static_cast<int64_t>(part.exports.size());
    const bool in_history = !Again(i) && !options_.checkpoint_layers && exports == part.size();
    const Costs::Sums& held = costs_.Below(layers);
    return exports * ((in_history ? 0 : held.exports) + (summed_[i] ? held.export_sums : 0)) +
           std::ssize(part.branches) * (held.branches + (summed_[i] ? held.branch_sums : 0));
  }
  int64_t Waiting(size_t i) const { return Path(i, costs_.depth()) + (Again(i) ? 0 : HistoryBytes(i, costs_.depth())); }
  int64_t AllWaiting() const {
    int64_t bytes = tables_;
    for (const size_t i : waiting_) bytes += Waiting(i);
    return bytes;
  }
  // Rows of the prefix for which part i is the first to add gradients of keys and values.
  int64_t NewRows(size_t i) const {
    int64_t rows = 0;
    for (const tree::ForestPart::Source& source : parts_[i].prefix) {
      const auto at = static_cast<size_t>(source.part);
      if (!summed_[at]) rows += static_cast<int64_t>(parts_[at].exports.size());
    }
    return rows;
  }
  // Number of runs of rows where each row is the child of the previous one: one for each leaf.
  static int64_t ChainsOf(const tree::ForestPart& part) {
    int64_t leaves = part.visible_end.empty() ? 1 : 0;
    for (auto key = static_cast<size_t>(part.prefix_rows); key < part.visible_end.size(); ++key) {
      leaves += part.visible_end[key] == static_cast<int32_t>(key) + 1;
    }
    return leaves;
  }
  // Branches of the prefix for which part i is the first to add gradients.
  int64_t NewBranches(size_t i) const {
    int64_t branches = 0;
    for (const tree::ForestPart::Source& source : parts_[i].prefix) {
      const auto at = static_cast<size_t>(source.part);
      if (!summed_[at]) branches += std::ssize(parts_[at].branches);
    }
    return branches;
  }
  int64_t GradientsAfter(int64_t layers_done) const {
    if (!any_finished_ || !gradients_stay_) return costs_.Gradients(layers_done);
    // Narrow gradients have been summed in fp32, and each part makes new gradients in addition to the sums.
    return costs_.parameters * costs_.accumulator + (costs_.narrow() ? costs_.Gradients(layers_done) : 0);
  }

  void Note(int64_t gradients, int64_t waiting, int64_t running, int64_t transient) {
    if (gradients + waiting + running + transient <= most_.step()) return;
    most_.gradients = gradients;
    most_.waiting = waiting;
    most_.running = running;
    most_.transient = transient;
  }

  void NoteHead(size_t i) {
    const int64_t rows = parts_[i].loss_rows, chunk = options_.logits_chunk_elements;
    const int64_t kept = HistoryBytes(i, costs_.depth()) + Path(i, costs_.depth()), held = costs_.Head(rows, chunk);
    const int64_t one = costs_.HeadGradient(), others = GradientsAfter(0) - one;
    Note(others + (head_gradient_ ? one : 0), AllWaiting(), kept, held + costs_.Logits(rows, chunk));
    const bool two = head_gradient_ && costs_.SumsHead(rows, chunk);
    Note(others + one, AllWaiting(), kept, held + (two ? one : 0));
    head_gradient_ = head_gradient_ || rows > 0;
  }

  void Start(size_t i) {
    if (!Again(i)) NoteHead(i);
    waiting_.push_back(i);
  }

  void Finish(size_t i) {
    waiting_.pop_back();
    if (Again(i)) NoteHead(i);
    const int64_t rows = parts_[i].size(), prefix = parts_[i].prefix_rows;
    const int64_t new_rows = NewRows(i), new_branches = NewBranches(i), waiting = AllWaiting();
    for (int64_t done = 0; done < costs_.depth(); ++done) {
      const int64_t left = costs_.depth() - done,
                    sums = new_rows * costs_.ExportSumsAbove(done) +
                           new_branches * (costs_.Below(costs_.depth()).branch_sums - costs_.Below(left).branch_sums);
      const LayerCosts& layer = costs_.layers[static_cast<size_t>(left - 1)];
      const int64_t run_again =
          options_.checkpoint_layers ? rows * (layer.history - costs_.input) + layer.fixed_history : 0;
      const int64_t running = HistoryBytes(i, left) + Path(i, left) + run_again;
      const int64_t wide = std::max({layer.Activation(rows), layer.Down(rows), layer.Attention(rows, prefix),
                                     layer.Recurrence(rows, ChainsOf(parts_[i]), std::ssize(parts_[i].crossings)),
                                     layer.Rotation(rows, prefix) + new_rows * layer.ExportSums()});
      Note(GradientsAfter(done + 1), waiting + sums, running, wide);
    }
    for (const tree::ForestPart::Source& source : parts_[i].prefix) summed_[static_cast<size_t>(source.part)] = true;
    Note(GradientsAfter(costs_.depth()), AllWaiting(), rows * costs_.input, costs_.vocabulary * costs_.element);
    any_finished_ = true;
    if (!gradients_stay_ || costs_.narrow()) head_gradient_ = false;  // they were summed elsewhere
  }

  const Costs& costs_;
  const PassOptions& options_;
  const std::span<const tree::ForestPart> parts_;
  const bool gradients_stay_;
  std::vector<size_t> waiting_;
  std::vector<bool> summed_;  // per part: true = a later part has added gradients for its keys and values
  bool any_finished_ = false;
  bool head_gradient_ = false;  // the head's weight has a gradient
  int64_t tables_ = 0;
  MemoryNeed& most_;
};

// Returns the memory that the trainer holds throughout its lifetime.
MemoryNeed PermanentNeed(const Costs& costs) {
  MemoryNeed need;
  need.weights = costs.Weights();
  need.optimizer = costs.parameters * costs.accumulator * (costs.narrow() ? 3 : 2);   // moments, and masters
  if (!costs.native() && costs.element <= 4) need.optimizer += costs.parameters / 8;  // marks on the device
  return need;
}

std::string Size(int64_t bytes) { return absl::StrFormat("%.3g GB", static_cast<double>(bytes) * 1e-9); }

}  // namespace

std::string MemoryNeed::Describe() const {
  return absl::StrCat(Size(total()), " (weights ", Size(weights), ", optimizer ", Size(optimizer), ", copies ",
                      Size(copies), ", gradients ", Size(gradients), ", waiting parts ", Size(waiting),
                      ", running part ", Size(running), ", its widest moment ", Size(transient), "; at most ",
                      Size(bound()), " including the libraries' memory and the heap)");
}

int64_t WeightBytes(const model::ModelConfig& config, int element_bytes) {
  return Costs(config, element_bytes, Operators::kNative).Weights();
}

MemoryNeed PredictMemory(const model::ModelConfig& config, int element_bytes, const PassOptions& options,
                         std::span<const tree::ForestPart> parts, Operators operators) {
  const Costs costs(config, element_bytes, operators);
  MemoryNeed need = PermanentNeed(costs);
  // The update: gradients in the accumulation type, and on the CPU the root of the second moment. A device gathers a
  // version's changes when the gradients are gone.
  need.gradients = costs.parameters * costs.accumulator;
  need.transient =
      costs.native()
          ? need.gradients
          : std::max<int64_t>(0, kernels::GatherChangesBytes(costs.parameters, costs.element) - need.gradients);
  Walk(costs, options, parts, /*gradients_stay=*/true, need).Run();
  return need;
}

MemoryNeed PredictPasses(const model::ModelConfig& config, int element_bytes, const PassOptions& options,
                         std::span<const tree::ForestPart> parts, bool gradients_stay, Operators operators) {
  const Costs costs(config, element_bytes, operators);
  MemoryNeed need = PermanentNeed(costs);
  Walk(costs, options, parts, gradients_stay, need).Run();
  return need;
}

tree::ForestPart UncutPart(int64_t rows) {
  tree::ForestPart part;
  part.end = static_cast<int32_t>(std::min<int64_t>(rows, std::numeric_limits<int32_t>::max()));
  part.loss_rows = part.end;
  return part;
}

absl::Status CheckMemory(const MemoryNeed& need, int64_t bytes, int64_t available, const std::string& what,
                         const PassOptions& options) {
  if (bytes <= available) return absl::OkStatus();
  std::string advice = absl::StrCat("lower trainer.micro_batch_tokens (", options.part_tokens, ")");
  if (!options.checkpoint_layers) absl::StrAppend(&advice, ", set trainer.checkpoint_layers");
  if (!options.recompute_prefix) absl::StrAppend(&advice, ", set trainer.recompute_prefix");
  return absl::ResourceExhaustedError(
      absl::StrCat(what, " needs ", need.Describe(), ", of which ", Size(bytes), " are not allocated yet; ",
                   Size(available), " are available: ", advice, ", lower trainer.logits_chunk_elements (",
                   options.logits_chunk_elements, ") or use a larger machine"));
}

}  // namespace ingot::trainer
