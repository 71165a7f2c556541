#include "trainer/pass/memory.h"

#include <absl/strings/str_format.h>

#include <algorithm>
#include <limits>
#include <vector>

#include "kernels/recurrence/gated_delta.h"
#include "model/layer_spec.h"
#include "trainer/pass/head_pass.h"

namespace ingot::trainer {
namespace {

// Bytes of one layer per row, key or part. The tensors are those of model/block.cc, of the autograd functions in
// kernels/torch/layers.cc and linear.cc, and of AttentionBackward in kernels/attention/attention_backward.cc.
struct LayerCosts {
  LayerCosts(const model::LayerSpec& layer, int64_t hidden, int64_t element, int64_t accumulator)
      : element(element),
        accumulator(accumulator),
        hidden(hidden),
        mlp(layer.feed_forward.row_width()),
        heads(layer.attention.heads),
        kv_heads(layer.attention.kv_heads),
        queries(layer.attention.queries()),
        keys(layer.attention.keys()),
        padded_head((layer.attention.head_dim + 15) / 16 * 16),
        key_copies(layer.attention.keys_are_values() ? 1 : 2),
        gradients(layer.products()),
        shape(layer.recurrence.shape) {
    for (const model::TensorSpec& tensor : layer.tensors) {
      if (!tensor.trained || !tensor.is_product() || tensor.factor != model::Factor::kNone) continue;
      using enum model::Part;
      if (tensor.part == kDown || tensor.part == kExpertDown) down_gradient = hidden * mlp;
      if (tensor.part == kQuery || tensor.part == kKey || tensor.part == kRecurrentIn)
        first_gradient = std::max(first_gradient, tensor.elements());
    }
    const int64_t norms = layer.gemma ? 4 : 2;  // each saves its input, its result and a factor per row
    history = element * ((2 + norms) * hidden + 3 * mlp) + accumulator * (norms + heads) +
              (recurrent() ? RecurrentBytes() : AttentionBytes(layer)) + ExpertBytes(layer) + AdapterBytes(layer);
  }

  // Per row: q, k, and v, the attention output, and the steps between them and the layer's rows.
  int64_t AttentionBytes(const model::LayerSpec& layer) {
    const model::AttentionSpec& a = layer.attention;
    const model::LatentConfig& latent = a.latent;
    if (!a.keys_are_values()) {
      const int64_t raw = a.norm ? 1 : 0;
      const int64_t factors = a.norm_whole ? 2 : a.heads + a.kv_heads;
      const int64_t gate = a.gated ? 2 * queries : 0;  // the gate itself and the result
      return element * ((2 + raw) * queries + (2 + raw) * keys + gate) + accumulator * raw * factors;
    }
    // Each head's slice of the matrix from latents to keys, transposed.
    fixed_history = element * a.heads * latent.plain_dim * latent.kv_rank;
    const int64_t narrow = 2 * latent.query_rank + latent.kv_rank, factors = latent.query_rank > 0 ? 2 : 1;
    const int64_t by_head = latent.plain_dim + latent.kv_rank + latent.value_dim;
    return element * (2 * queries + keys + a.heads * by_head + narrow) + accumulator * factors;
  }
  // Per row: the inputs and results of the experts that it uses, and the router's values.
  int64_t ExpertBytes(const model::LayerSpec& layer) const {
    const model::ExpertsConfig& experts = layer.feed_forward.experts;
    const int64_t shared = experts.shared_gate ? 2 * hidden : 0;  // the shared expert's gate and its scaled result
    return experts.count == 0 ? 0
                              : element * (3 * experts.per_token * hidden + shared) +
                                    accumulator * (3 * experts.count + 2 * experts.per_token * hidden);
  }
  // Per row: the result of A for every adapter, including the experts that the row uses. The adapter between latents
  // and heads counts per head and in both directions.
  int64_t AdapterBytes(const model::LayerSpec& layer) const {
    int64_t elements = 0;
    for (const model::TensorSpec& tensor : layer.tensors) {
      if (tensor.factor != model::Factor::kA || tensor.expert > 0) continue;
      const bool by_head = layer.attention.keys_are_values() && tensor.part == model::Part::kKey;
      const int64_t times = tensor.expert == 0 ? layer.feed_forward.experts.per_token : by_head ? 2 * heads : 1;
      elements += tensor.shape[0] * times;
    }
    return element * elements;
  }

  bool recurrent() const { return shape.value_heads > 0; }
  // Per row: q, k, and v, rates and steps, the result, its norm, the gate, and the product of the last two.
  int64_t RecurrentBytes() const {
    return element * (shape.channels() + 4 * shape.values() + 2 * shape.value_heads) + accumulator * shape.value_heads;
  }
  // Per branch: the state after it, and the sums of the gradient with respect to it.
  int64_t BranchBytes() const { return recurrent() ? shape.state() * accumulator + shape.past() * element : 0; }
  int64_t BranchSums() const { return recurrent() ? (shape.state() + shape.past()) * accumulator : 0; }
  // Bytes for the recurrence's backward pass over a part's rows, which start from `given` states. Counts the
  // convolution's results, the gradients with respect to them and to the rows' inputs, and the states at the starts of
  // chunks for all heads at once. Subtracts the part of the layer's history that is freed.
  int64_t Recurrence(int64_t rows, int64_t chains, int64_t given) const {
    if (!recurrent()) return 0;
    const int64_t chunks = rows / kernels::kDeltaChunk + chains;
    const int64_t scratch = shape.state() * (chunks + kernels::kDeltaChunk + chains) * accumulator;
    return rows * (3 * shape.channels() * accumulator + (shape.channels() + 2 * shape.values() + hidden) * element) +
           scratch + given * (BranchBytes() + BranchSums()) + first_gradient * element - Spent(rows);
  }

  int64_t ExportBytes() const { return key_copies * keys * element; }  // per row
  int64_t ExportSums() const { return 2 * keys * accumulator; }
  // The activation's backward pass. Its result is already freed, and the gradient with respect to it exists.
  int64_t Activation(int64_t rows) const { return rows * mlp * 2 * element; }
  // The down projection's backward pass: the gradients of its input and of its weight.
  int64_t Down(int64_t rows) const { return (rows * mlp + down_gradient) * element; }
  // Attention's backward pass over `rows` rows that see `prefix` more rows, minus the layer's history that it frees.
  int64_t Attention(int64_t rows, int64_t prefix) const {
    const int64_t all = rows + prefix;
    const int64_t gathered = prefix > 0 ? ExportBytes() * all : 0;
    const int64_t scratch = accumulator * (rows * heads * (2 + padded_head) + 2 * all * kv_heads * padded_head);
    // The gradients of the result, queries and input.
    const int64_t gradients = (2 * rows * queries + rows * hidden) * element;
    return gathered + ExportSums() * all + scratch + gradients - Spent(rows);
  }
  // The backward pass through norms and rotations to the layer's input.
  int64_t Rotation(int64_t rows, int64_t prefix) const {
    return ExportSums() * (rows + prefix) + rows * (2 * queries + 2 * hidden) * element + first_gradient * element -
           Spent(rows);
  }
  // The part of the history that the first half of the backward pass frees: the MLP's, and the layer's result.
  int64_t Spent(int64_t rows) const { return rows * (element * (3 * mlp + 3 * hidden) + accumulator); }

  int64_t element, accumulator, hidden;
  int64_t mlp, heads, kv_heads, queries, keys, padded_head;
  int64_t key_copies;                             // 1 = keys are also values
  int64_t gradients;                              // elements of the trained matrices
  int64_t down_gradient = 0, first_gradient = 0;  // elements of the widest matrices in the two halves; 0 = frozen
  int64_t history = 0;                            // per row, including the layer's input
  int64_t fixed_history = 0;                      // independent of the number of rows
  kernels::DeltaShape shape;                      // shape of a recurrence; no heads = an attention layer
};

// Bytes for one model: its layers and everything else.
struct Costs {
  Costs(const model::ModelConfig& c, int element_bytes) : Costs(c, model::SpecOf(c), element_bytes) {}
  Costs(const model::ModelConfig& c, const model::ModelSpec& spec, int element_bytes)
      : all_parameters(spec.elements()),
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
      layers.emplace_back(layer, hidden, element, accumulator);
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
    return 3 * rows * hidden * element + vocab * std::min(at_once.gradient, rows) * element +
           (SumsHead(rows, chunk) ? vocabulary * accumulator : 0);
  }
  bool SumsHead(int64_t rows, int64_t chunk) const { return narrow() && HeadRows(chunk, vocab, true).gradient < rows; }
  // The logits, which exist in addition to Head before the gradient of the weight.
  int64_t Logits(int64_t rows, int64_t chunk) const {
    return narrow() ? vocab * std::min(HeadRows(chunk, vocab, true).logits, rows) * accumulator : 0;
  }
  int64_t HeadGradient() const { return vocabulary * element; }

  // The gradients after a backward pass has finished the last `done` layers. The vocabulary's exist from the first
  // logits on.
  int64_t Gradients(int64_t done) const {
    return element * (vocabulary + Below(depth()).gradients - Below(depth() - done).gradients);
  }

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
    return static_cast<int64_t>((part.visible_end.size() + part.exports.size()) * sizeof(int32_t));
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
  need.optimizer = costs.parameters * costs.accumulator * (costs.narrow() ? 3 : 2);  // moments, and masters
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
  return Costs(config, element_bytes).Weights();
}

MemoryNeed PredictMemory(const model::ModelConfig& config, int element_bytes, const PassOptions& options,
                         std::span<const tree::ForestPart> parts) {
  const Costs costs(config, element_bytes);
  MemoryNeed need = PermanentNeed(costs);
  // The update: gradients in the accumulation type, and the root of the second moment.
  need.gradients = need.transient = costs.parameters * costs.accumulator;
  Walk(costs, options, parts, /*gradients_stay=*/true, need).Run();
  return need;
}

MemoryNeed PredictPasses(const model::ModelConfig& config, int element_bytes, const PassOptions& options,
                         std::span<const tree::ForestPart> parts, bool gradients_stay) {
  const Costs costs(config, element_bytes);
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
