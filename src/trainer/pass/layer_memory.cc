#include "trainer/pass/layer_memory.h"

#include <algorithm>

namespace ingot::trainer {

LayerCosts::LayerCosts(const model::LayerSpec& layer, int64_t hidden, int64_t element, int64_t accumulator,
                       Operators operators)
    : element(element),
      accumulator(accumulator),
      hidden(hidden),
      operators(operators),
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
    using enum model::Part;
    trains_norms = trains_norms || (tensor.trained && tensor.part == kInputNorm);
    if (!tensor.trained || !tensor.is_product() || tensor.factor != model::Factor::kNone) continue;
    if (tensor.part == kDown || tensor.part == kExpertDown) down_gradient = hidden * mlp;
    if (tensor.part == kQuery || tensor.part == kKey || tensor.part == kRecurrentIn)
      first_gradient = std::max(first_gradient, tensor.elements());
  }
  const int64_t norms = layer.gemma ? 4 : 2;  // each saves its input, its result and a factor per row
  history = element * ((2 + norms) * hidden + 3 * mlp) + accumulator * (norms + heads) +
            (recurrent() ? RecurrentBytes() : AttentionBytes(layer)) + ExpertBytes(layer) + AdapterBytes(layer);
  spent = element * (3 * mlp + 3 * hidden) + accumulator;  // the MLP's, and the layer's result
  if (operators == Operators::kAten) CountAten(layer, norms);
}

int64_t LayerCosts::AtenNorm(int64_t width) const {
  return (narrow() ? accumulator * width : 0) + (trains_norms ? element * width : 0);
}

void LayerCosts::CountAten(const model::LayerSpec& layer, int64_t norms) {
  // In a narrow type, a norm keeps its input only in the accumulation type. The layer's own input stays.
  const int64_t not_kept = narrow() ? element : 0;
  const int64_t second = AtenNorm(hidden) - not_kept * hidden;
  const int64_t silu = element * mlp;  // silu(gate), which multiplies `up`
  history += AtenNorm(hidden) + (norms - 1) * second + silu;
  spent += norms / 2 * second + silu;
  if (layer.attention.norm) history += AtenNorm(queries + keys) - not_kept * (queries + keys);
  history += 4 * layer.attention.rotary_dim * element;  // rows of the position tables, for queries and for keys
}

// Per row: q, k, and v, the attention output, and the steps between them and the layer's rows.
int64_t LayerCosts::AttentionBytes(const model::LayerSpec& layer) {
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
int64_t LayerCosts::ExpertBytes(const model::LayerSpec& layer) const {
  const model::ExpertsConfig& experts = layer.feed_forward.experts;
  const int64_t shared = experts.shared_gate ? 2 * hidden : 0;  // the shared expert's gate and its scaled result
  return experts.count == 0 ? 0
                            : element * (3 * experts.per_token * hidden + shared) +
                                  accumulator * (3 * experts.count + 2 * experts.per_token * hidden);
}

// Per row: the result of A for every adapter, including the experts that the row uses. The adapter between latents
// and heads counts per head and in both directions.
int64_t LayerCosts::AdapterBytes(const model::LayerSpec& layer) const {
  int64_t elements = 0;
  for (const model::TensorSpec& tensor : layer.tensors) {
    if (tensor.factor != model::Factor::kA || tensor.expert > 0) continue;
    const bool by_head = layer.attention.keys_are_values() && tensor.part == model::Part::kKey;
    const int64_t times = tensor.expert == 0 ? layer.feed_forward.experts.per_token : by_head ? 2 * heads : 1;
    elements += tensor.shape[0] * times;
  }
  return element * elements;
}

// Per row: q, k, and v, rates and steps, the result, its norm, the gate, and the product of the last two.
int64_t LayerCosts::RecurrentBytes() const {
  return element * (shape.channels() + 4 * shape.values() + 2 * shape.value_heads) + accumulator * shape.value_heads;
}

int64_t LayerCosts::Recurrence(int64_t rows, int64_t chains, int64_t given) const {
  if (!recurrent()) return 0;
  const int64_t chunks = rows / kernels::kDeltaChunk + chains;
  const int64_t scratch = shape.state() * (chunks + kernels::kDeltaChunk + chains) * accumulator;
  return rows * (3 * shape.channels() * accumulator + (shape.channels() + 2 * shape.values() + hidden) * element) +
         scratch + given * (BranchBytes() + BranchSums()) + first_gradient * element - rows * spent;
}

int64_t LayerCosts::Attention(int64_t rows, int64_t prefix) const {
  const int64_t all = rows + prefix;
  const int64_t gathered = prefix > 0 ? ExportBytes() * all : 0;
  const int64_t scratch =
      operators == Operators::kNative
          ? accumulator * (rows * heads * (2 + padded_head) + 2 * all * kv_heads * padded_head)
          : accumulator * rows * heads + 2 * all * keys * element;  // gradients of keys and values before their sums
  // The gradients of the result, queries and input.
  const int64_t results = (2 * rows * queries + rows * hidden) * element;
  return gathered + ExportSums() * all + scratch + results - rows * spent;
}

int64_t LayerCosts::Rotation(int64_t rows, int64_t prefix) const {
  // ATen's backward pass of a norm: the gradient, two products, and their sum, in the accumulation type.
  const int64_t wide = operators == Operators::kNative ? 0 : 4 * accumulator * std::max(queries, hidden);
  return ExportSums() * (rows + prefix) + rows * ((2 * queries + 2 * hidden) * element + wide) +
         first_gradient * element - rows * spent;
}

}  // namespace ingot::trainer
