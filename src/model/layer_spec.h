// ModelSpec is a model as data: every tensor with its name, shape, initialization and shard axis, and what each layer
// computes from them. A family makes it from a configuration (model/families/). Shapes, counts, FLOPs, bytes, the
// cache, the units that ranks fetch, loading, and publishing are all derived from it alone.
//
//   ModelSpec   embedding | layers[0] ... layers[L-1] | norm, head
//   LayerSpec   attention (heads, window, ...) or recurrence (heads, kernel) | feed-forward (widths, experts) | tensors
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "kernels/recurrence/gated_delta.h"
#include "model/config.h"

namespace ingot::model {

// The place of a tensor in its block.
enum class Part : uint8_t {
  kInputNorm,  // before attention
  kQuery,
  kKey,
  kValue,
  kOutput,
  kQueryBias,
  kKeyBias,
  kValueBias,
  kOutputBias,
  kQueryNorm,  // over a head, or over all heads
  kKeyNorm,
  kPostNorm,  // before the feed-forward part
  kGate,
  kUp,
  kDown,
  kGateBias,
  kUpBias,
  kDownBias,
  kSinks,            // of attention's softmax, one per head
  kAttentionNorm,    // after attention
  kFeedForwardNorm,  // after the feed-forward part
  kRouter,
  kRouterBias,
  kCorrectionBias,  // affects the choice of experts, not their weights; no gradient reaches it
  kQueryDown,       // latent attention: projections to the narrow vectors, and their norms
  kQueryDownNorm,
  kLatentDown,
  kLatentNorm,
  kSharedGate,  // the shared expert, which every token uses
  kSharedUp,
  kSharedDown,
  kSharedShare,     // one logit per row, whose sigmoid scales that expert's result
  kRecurrentIn,     // recurrence: projection to q, k, v and the output gate, grouped by key head
  kRecurrentRates,  // projection to the rate and the step, grouped likewise
  kConvolution,     // [channels, 1, kernel]
  kStepBias,        // one per value head
  kDecay,           // the same; the recurrence uses its exponential
  kRecurrentNorm,   // over a value head's result
  kRecurrentOut,
  kCount,
  kExpertGate,  // one tensor per expert
  kExpertUp,
  kExpertDown,
  kExpertGateBias,
  kExpertUpBias,
  kExpertDownBias,
  kEmbedding,  // outside of blocks
  kNorm,
  kHead,
};

enum class Init : uint8_t {
  kNormal,    // Normal(0, 0.02)
  kResidual,  // the same, scaled by 1/sqrt(2 * layers): for products whose results are added to the residual stream
  kOnes,
  kZeros,
  kDecay,    // log of a number drawn uniformly from (0, 16]
  kUniform,  // uniform between -1/sqrt(in) and 1/sqrt(in), for an adapter's A
};

// The axis along which tensor parallelism splits a tensor.
enum class Shard : int8_t { kNone = -1, kRows = 0, kColumns = 1 };

// Which factor of a low-rank adapter a tensor is: B [out, rank] or A [rank, in]. The adapter's result is added to that
// of the product with the same Part.
enum class Factor : uint8_t { kNone, kA, kB };

struct TensorSpec {
  Part part;
  std::string name;  // the full Hugging Face name
  std::vector<int64_t> shape;
  Init init = Init::kNormal;
  Shard shard = Shard::kNone;
  int64_t expert = -1;  // index of the routed expert; -1 = not a routed expert's
  Factor factor = Factor::kNone;
  bool trained = true;  // false = it belongs to a frozen base, or no gradient reaches it

  int64_t elements() const;
  bool is_product() const { return shape.size() == 2; }
};

// A layer's attention. q [rows, heads, head_dim]; k and v [rows, kv_heads, head_dim].
struct AttentionSpec {
  int64_t heads = 0;
  int64_t kv_heads = 0;  // divides heads
  int64_t head_dim = 0;
  double scale = 1;         // of the scores
  bool norm = false;        // q and k are normed before they are rotated
  bool norm_whole = false;  // over all heads together
  int64_t rotary_dim = 0;   // RoPE rotates this many of a head's numbers, starting with the first
  bool local_rope = false;  // RoPE uses the tables of windowed layers
  int64_t window = 0;       // positions that a row sees, its own included; 0 = all
  bool sinks = false;
  double soft_cap = 0;  // of the scores; 0 = none
  bool gated = false;   // q_proj also gives a gate for each head of q; its sigmoid scales the head's result
  // kv_rank 0 = none. Otherwise a row has one key for all heads: its latent, followed by the common rotated numbers.
  // That key is also the value, but only the first kv_rank numbers of a head's result are used.
  LatentConfig latent;

  bool keys_are_values() const { return latent.kv_rank > 0; }
  int64_t queries() const { return heads * head_dim; }
  int64_t keys() const { return kv_heads * head_dim; }
  // Multiplications and additions per visible pair of rows, forward and backward: 14 for each number of a head, 4
  // forward and 10 backward. A latent is both key and value, so both products run over all of it.
  double pair_flops() const { return 14.0 * static_cast<double>(queries()); }
};

// A layer's recurrence, instead of attention: Gated DeltaNet (kernels/recurrence/gated_delta.h).
struct RecurrentSpec {
  kernels::DeltaShape shape;  // value_heads 0 = the layer uses attention

  bool exists() const { return shape.value_heads > 0; }
  // Multiplications and additions per row in the forward pass, not counting the products: 7 for each number of the
  // state.
  double row_forward_flops() const { return exists() ? 7.0 * static_cast<double>(shape.state()) : 0; }
};

// A layer's feed-forward part.
struct FeedForwardSpec {
  int64_t width = 0;  // of a dense part; 0 = the part has experts
  std::string activation = "silu";
  ExpertsConfig experts;  // count 0 = none

  // Width of one row's activations, summed over all experts that it uses.
  int64_t row_width() const { return width + experts.per_token * experts.width + experts.shared_width; }
};

struct LayerSpec {
  AttentionSpec attention;  // without heads if the layer is recurrent
  RecurrentSpec recurrence;
  FeedForwardSpec feed_forward;
  std::vector<TensorSpec> tensors;  // products in the order in which they are computed

  double alpha_over_rank = 0;  // of adapters; 0 = no adapters
  bool gemma = false;          // ModelConfig::gemma
  bool centred = false;        // norms multiply by 1 + weight

  int64_t elements() const;     // of all tensors
  int64_t products() const;     // elements of the trained matrices
  double row_products() const;  // elements of the matrices that multiply one row, with only the experts it uses
  // Multiplications and additions per row in the products, forward and backward: 6 for each element of a trained
  // matrix, 4 for each element of a frozen one. The recurrence counts as three times its forward pass.
  double row_flops() const;
  double row_forward_flops() const;  // the forward pass alone: 2 for each element
};

struct ModelSpec {
  TensorSpec embedding, norm;
  std::optional<TensorSpec> head;  // empty = tied to the embedding
  std::vector<LayerSpec> layers;

  int64_t elements() const;
  int64_t trained_elements() const;
  std::map<std::string, std::vector<int64_t>> Shapes() const;
  std::map<std::string, const TensorSpec*> Tensors() const;
  // The names of each unit's tensors, sorted: embedding, head (with the last norm), then the layers. If the embedding
  // and the head share a matrix, it is in both units.
  std::vector<std::vector<std::string>> Units() const;
  bool adapted = false;  // the model has adapters, and only they are trained
  // Elements of a token's keys and values in all layers; a key that is also the value counts once.
  int64_t cache_elements() const;
  // Bytes of the states of all recurrent layers after one row; `element`: bytes per element of an input.
  int64_t state_bytes(int64_t element) const;
};

// The name that LoraConfig::targets uses for a product, derived from the name of its module: "q_proj" for
// "model.layers.0.self_attn.q_proj", and "experts.up_proj" for every routed expert, as in "...mlp.experts.3.up_proj".
std::string AdapterTarget(const std::string& module);

// A tensor's initial values, fp32. They depend only on (tensor, layers, seed).
at::Tensor InitTensor(const TensorSpec& tensor, int64_t layers, uint64_t seed);

// REQUIRES: config.Validate() is OK.
ModelSpec SpecOf(const ModelConfig& config);

}  // namespace ingot::model
