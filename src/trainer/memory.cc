#include "trainer/memory.h"

#include <absl/strings/str_format.h>

#include <algorithm>
#include <limits>
#include <vector>

#include "model/layer_spec.h"
#include "trainer/head_pass.h"

namespace ingot::trainer {
namespace {

// Bytes of one model's layers per row, key or part. The tensors are those of model/block.cc, of the autograd
// functions in kernels/torch/layers.cc and linear.cc, and of AttentionBackward in kernels/attention_backward.cc.
struct Costs {
  Costs(const model::ModelConfig& c, int element_bytes) : Costs(c, model::SpecOf(c), element_bytes) {}
  Costs(const model::ModelConfig& c, const model::ModelSpec& spec, int element_bytes)
      : all_parameters(spec.elements()),
        parameters(spec.trained_elements()),
        element(element_bytes),
        accumulator(element_bytes == 8 ? 8 : 4),
        layers(c.num_hidden_layers),
        hidden(c.hidden_size),
        vocab(c.vocab_size),
        positions(c.max_position_embeddings) {
    input = element * hidden;
    vocabulary = spec.embedding.trained ? vocab * hidden : 0;
    for (const model::LayerSpec& layer : spec.layers) {
      const model::AttentionSpec& a = layer.attention;
      mlp = std::max(mlp, layer.feed_forward.row_width());
      heads = std::max(heads, a.heads);
      kv_heads = std::max(kv_heads, a.kv_heads);
      queries = std::max(queries, a.queries());
      keys = std::max(keys, a.keys());
      padded_head = std::max(padded_head, (a.head_dim + 15) / 16 * 16);
      layer_parameters = std::max(layer_parameters, layer.products());
      // A norm saves its input beside its result, and a factor per row.
      const int64_t raw = a.norm ? 1 : 0;
      const int64_t of_row =
          input + ExpertBytes(layer) + AdapterBytes(layer) +
          element * (3 * hidden + (2 + raw) * a.queries() + (2 + raw) * a.keys() + 3 * layer.feed_forward.row_width()) +
          accumulator * (2 + a.heads + raw * (a.heads + a.kv_heads));
      history = std::max(history, of_row);
    }
    rope = positions * c.head_dim * element;
  }

  // Of a row: the inputs and results of the experts that it takes, and the router's numbers.
  int64_t ExpertBytes(const model::LayerSpec& layer) const {
    const model::ExpertsConfig& experts = layer.feed_forward.experts;
    return experts.count == 0 ? 0
                              : element * 3 * experts.per_token * hidden +
                                    accumulator * (3 * experts.count + 2 * experts.per_token * hidden);
  }
  // Of a row: what every adapter makes of it by A, of the experts that it takes.
  int64_t AdapterBytes(const model::LayerSpec& layer) const {
    int64_t elements = 0;
    for (const model::TensorSpec& tensor : layer.tensors) {
      if (tensor.factor != model::Factor::kA || tensor.expert > 0) continue;
      elements += tensor.shape[0] * (tensor.expert == 0 ? layer.feed_forward.experts.per_token : 1);
    }
    return element * elements;
  }

  bool narrow() const { return element < accumulator; }
  int64_t Weights() const { return all_parameters * element + rope; }
  int64_t ExportBytes(int64_t rows) const { return 2 * keys * element * rows; }  // of a layer
  int64_t ExportSums(int64_t rows) const { return 2 * keys * accumulator * rows; }
  // The activation's backward pass. The activation's result is freed before it; the gradient by that result is there.
  int64_t Activation(int64_t rows) const { return rows * mlp * 2 * element; }
  // The down projection's backward pass: the gradients of its input and of its weight.
  int64_t Down(int64_t rows) const { return (rows + hidden) * mlp * element; }

  // Attention's backward pass over `rows` rows that see `prefix` more, less the part of the layer's history that is
  // freed.
  int64_t Attention(int64_t rows, int64_t prefix) const {
    const int64_t all = rows + prefix;
    const int64_t gathered = prefix > 0 ? ExportBytes(all) : 0;
    const int64_t scratch = accumulator * (rows * heads * (2 + padded_head) + 2 * all * kv_heads * padded_head);
    const int64_t gradients = (2 * rows * queries + rows * hidden) * element;  // of result, queries and input
    return gathered + ExportSums(all) + scratch + gradients - Spent(rows);
  }
  // The backward pass through norms and rotations to the layer's input.
  int64_t Rotation(int64_t rows, int64_t prefix) const {
    return ExportSums(rows + prefix) + rows * (2 * queries + 2 * hidden) * element + queries * hidden * element -
           Spent(rows);
  }
  // The part of a history that the first half of the backward pass frees: the MLP's, and the layer's result.
  int64_t Spent(int64_t rows) const { return rows * (element * (3 * mlp + 3 * hidden) + accumulator); }

  // The head's pass over `rows` rows (head_pass.h), `chunk` elements of logits at a time. All along it holds the rows,
  // the gradient by the logits (of a wide type the logits themselves), and the sum of several gradients of its weight.
  int64_t Head(int64_t rows, int64_t chunk) const {
    const HeadRows at_once(chunk, vocab, narrow());
    return 3 * rows * hidden * element + vocab * std::min(at_once.gradient, rows) * element +
           (SumsHead(rows, chunk) ? vocabulary * accumulator : 0);
  }
  bool SumsHead(int64_t rows, int64_t chunk) const { return narrow() && HeadRows(chunk, vocab, true).gradient < rows; }
  // The logits, which are there beside Head before the gradient of the weight.
  int64_t Logits(int64_t rows, int64_t chunk) const {
    return narrow() ? vocab * std::min(HeadRows(chunk, vocab, true).logits, rows) * accumulator : 0;
  }
  int64_t HeadGradient() const { return vocabulary * element; }

  // Gradients when a backward pass has done `done` layers; the vocabulary's exist from the first logits on.
  int64_t Gradients(int64_t done) const { return element * (vocabulary + done * layer_parameters); }

  int64_t all_parameters, parameters;  // the second: of the trained tensors
  int64_t vocabulary = 0;              // of the vocabulary's matrix where it is trained
  int64_t element, accumulator, layers, hidden, vocab, positions;
  // Of the widest layer.
  int64_t mlp = 0, heads = 0, kv_heads = 0, queries = 0, keys = 0, padded_head = 0, layer_parameters = 0;
  int64_t input = 0, history = 0;  // of a layer, per row; the history includes the input
  int64_t rope = 0;
};

// Walks through the parts in the order in which they run, and records the fullest moment.
class Walk {
 public:
  // `gradients_stay`: from one part to the next, as on one rank.
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

  // A waiting part: the histories of `layers` layers, or their inputs; and, until its backward pass, its last result
  // (or the gradient by it) and its ids.
  int64_t HistoryBytes(size_t i, int64_t layers) const {
    const int64_t rows = parts_[i].size();
    const int64_t of_row = options_.checkpoint_layers ? costs_.input : costs_.history;
    return rows * (layers * of_row + 2 * costs_.input + 2 * static_cast<int64_t>(sizeof(int64_t)));
  }
  // Keys and values of `layers` layers that later parts see, and the gradients that came back for them.
  int64_t Path(size_t i, int64_t layers) const {
    const tree::ForestPart& part = parts_[i];
    const auto exports = static_cast<int64_t>(part.exports.size());
    const bool in_history = !Again(i) && !options_.checkpoint_layers && exports == part.size();
    return layers * ((in_history ? 0 : costs_.ExportBytes(exports)) + (summed_[i] ? costs_.ExportSums(exports) : 0));
  }
  int64_t Waiting(size_t i) const { return Path(i, costs_.layers) + (Again(i) ? 0 : HistoryBytes(i, costs_.layers)); }
  int64_t AllWaiting() const {
    int64_t bytes = tables_;
    for (const size_t i : waiting_) bytes += Waiting(i);
    return bytes;
  }
  // The sums of gradients of keys and values that part i is the first to give to parts of its prefix.
  int64_t NewSums(size_t i, int64_t layers) const {
    int64_t bytes = 0;
    for (const tree::ForestPart::Source& source : parts_[i].prefix) {
      const auto at = static_cast<size_t>(source.part);
      if (!summed_[at]) bytes += layers * costs_.ExportSums(static_cast<int64_t>(parts_[at].exports.size()));
    }
    return bytes;
  }
  int64_t GradientsAfter(int64_t layers_done) const {
    if (!any_finished_ || !gradients_stay_) return costs_.Gradients(layers_done);
    // Narrow gradients have been added up in fp32, and each part makes new ones beside the sums.
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
    const int64_t kept = HistoryBytes(i, costs_.layers) + Path(i, costs_.layers), held = costs_.Head(rows, chunk);
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
    // The held bytes change by the same amount with every layer: the first or the last layer is the fullest.
    for (const int64_t done : {int64_t{0}, costs_.layers - 1}) {
      const int64_t left = costs_.layers - done, sums = NewSums(i, done);
      const int64_t run_again = options_.checkpoint_layers ? rows * (costs_.history - costs_.input) : 0;
      const int64_t running = HistoryBytes(i, left) + Path(i, left) + run_again;
      const int64_t wide = std::max({costs_.Activation(rows), costs_.Down(rows), costs_.Attention(rows, prefix),
                                     costs_.Rotation(rows, prefix) + NewSums(i, 1)});
      Note(GradientsAfter(done + 1), AllWaiting() + sums, running, wide);
    }
    for (const tree::ForestPart::Source& source : parts_[i].prefix) summed_[static_cast<size_t>(source.part)] = true;
    Note(GradientsAfter(costs_.layers), AllWaiting(), rows * costs_.input, costs_.vocabulary * costs_.element);
    any_finished_ = true;
    if (!gradients_stay_ || costs_.narrow()) head_gradient_ = false;  // they were added up elsewhere
  }

  const Costs& costs_;
  const PassOptions& options_;
  const std::span<const tree::ForestPart> parts_;
  const bool gradients_stay_;
  std::vector<size_t> waiting_;
  std::vector<bool> summed_;  // per part: a later part has given gradients of its keys and values
  bool any_finished_ = false;
  bool head_gradient_ = false;  // the head's weight has a gradient
  int64_t tables_ = 0;
  MemoryNeed& most_;
};

// The memory that the trainer holds as long as it lives.
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
                      Size(bound()), " with memory of libraries and the heap)");
}

int64_t WeightBytes(const model::ModelConfig& config, int element_bytes) {
  return Costs(config, element_bytes).Weights();
}

MemoryNeed PredictMemory(const model::ModelConfig& config, int element_bytes, const PassOptions& options,
                         std::span<const tree::ForestPart> parts) {
  const Costs costs(config, element_bytes);
  MemoryNeed need = PermanentNeed(costs);
  // The update: gradients in the type of the sums, and the root of the second moment.
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
  return absl::ResourceExhaustedError(absl::StrCat(what, " needs ", need.Describe(), ", of which ", Size(bytes),
                                                   " must still be had; ", Size(available), " can: ", advice,
                                                   ", lower trainer.logits_chunk_elements (",
                                                   options.logits_chunk_elements, ") or use a larger machine"));
}

}  // namespace ingot::trainer
