// ModelSpec describes a model as data: the name, shape, initialization, and shard axis of every tensor, and each
// layer's computation. A family creates it from a configuration (model/families/). Shapes, counts, FLOPs, bytes, the
// cache, the units that ranks fetch, loading, and publishing are all derived only from the spec.
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

// The role of a tensor in its block.
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
  kPostNorm,  // before the feed-forward block
  kGate,
  kUp,
  kDown,
  kGateBias,
  kUpBias,
  kDownBias,
  kSinks,            // for attention's softmax, one per head
  kAttentionNorm,    // after attention
  kFeedForwardNorm,  // after the feed-forward block
  kRouter,
  kRouterBias,
  kCorrectionBias,  // affects the choice of experts, not their weights; has no gradient
  kQueryDown,       // latent attention: down projections and their norms
  kQueryDownNorm,
  kLatentDown,
  kLatentNorm,
  kSharedGate,  // the shared expert, which every token uses
  kSharedUp,
  kSharedDown,
  kSharedShare,     // one logit per row, whose sigmoid scales that expert's result
  kRecurrentIn,     // recurrence: projection to q, k, v, and the output gate, grouped by key head
  kRecurrentRates,  // projection to the rate and the step, grouped by key head
  kConvolution,     // [channels, 1, kernel]
  kStepBias,        // one per value head
  kDecay,           // one per value head; the recurrence uses its exponential
  kRecurrentNorm,   // over a value head's output
  kRecurrentOut,
  kCount,
  kExpertGate,  // one tensor per expert
  kExpertUp,
  kExpertDown,
  kExpertGateBias,
  kExpertUpBias,
  kExpertDownBias,
  kEmbedding,  // outside the blocks
  kNorm,
  kHead,
};

enum class Init : uint8_t {
  kNormal,    // Normal(0, 0.02)
  kResidual,  // kNormal scaled by 1/sqrt(2 * layers), for products whose results are added to the residual stream
  kOnes,
  kZeros,
  kDecay,    // log of a uniform sample from (0, 16]
  kUniform,  // Uniform(-1/sqrt(in), 1/sqrt(in)), for an adapter's A
};

// The axis along which tensor parallelism splits a tensor.
enum class Shard : int8_t { kNone = -1, kRows = 0, kColumns = 1 };

// A tensor's role in a low-rank adapter: A [rank, in] or B [out, rank]. The adapter's result is added to the product
// with the same Part.
enum class Factor : uint8_t { kNone, kA, kB };

struct TensorSpec {
  Part part;
  std::string name;  // the full Hugging Face name
  std::vector<int64_t> shape;
  Init init = Init::kNormal;
  Shard shard = Shard::kNone;
  int64_t expert = -1;  // index of the routed expert; -1 = not part of a routed expert
  Factor factor = Factor::kNone;
  bool trained = true;  // false = it is part of a frozen base or has no gradient

  int64_t elements() const;
  bool is_product() const { return shape.size() == 2; }
};

// A layer's attention. q is [rows, heads, head_dim]. k and v are [rows, kv_heads, head_dim].
struct AttentionSpec {
  int64_t heads = 0;
  int64_t kv_heads = 0;  // divides heads
  int64_t head_dim = 0;
  double scale = 1;         // scales the scores
  bool norm = false;        // q and k are normed before RoPE
  bool norm_whole = false;  // over all heads together
  int64_t rotary_dim = 0;   // RoPE rotates this many leading dimensions of a head
  bool local_rope = false;  // RoPE uses the tables for windowed layers
  int64_t window = 0;       // positions that a row sees, including its own; 0 = all
  bool sinks = false;
  double soft_cap = 0;  // caps the scores; 0 = none
  bool gated = false;   // q_proj also computes a gate for each head; its sigmoid scales the head's output
  // kv_rank 0 = none. Otherwise, a row has one key for all heads: its latent, followed by the shared rotated part. That
  // key is also the value, but only the first kv_rank elements of a head's output are used.
  LatentConfig latent;

  bool keys_are_values() const { return latent.kv_rank > 0; }
  int64_t queries() const { return heads * head_dim; }
  int64_t keys() const { return kv_heads * head_dim; }
  // Returns the multiplications and additions per visible pair of rows, forward and backward: 14 per element of a head
  // (4 forward, 10 backward). A latent is both key and value, so both products use all of it.
  double pair_flops() const { return 14.0 * static_cast<double>(queries()); }
};

// A layer's recurrence, which replaces attention: Gated DeltaNet (kernels/recurrence/gated_delta.h).
struct RecurrentSpec {
  kernels::DeltaShape shape;  // value_heads 0 = the layer uses attention

  bool exists() const { return shape.value_heads > 0; }
  // Returns the multiplications and additions per row in the forward pass, excluding the products: 7 per element of the
  // state.
  double row_forward_flops() const { return exists() ? 7.0 * static_cast<double>(shape.state()) : 0; }
};

struct FeedForwardSpec {
  int64_t width = 0;  // width of the dense part; 0 = the layer has experts
  std::string activation = "silu";
  ExpertsConfig experts;  // count 0 = none

  // Returns the width of one row's activations, summed over all experts that it uses.
  int64_t row_width() const { return width + experts.per_token * experts.width + experts.shared_width; }
};

struct LayerSpec {
  AttentionSpec attention;  // without heads if the layer is recurrent
  RecurrentSpec recurrence;
  FeedForwardSpec feed_forward;
  std::vector<TensorSpec> tensors;  // products in computation order

  double alpha_over_rank = 0;  // scales the adapters; 0 = no adapters
  bool gemma = false;          // ModelConfig::gemma
  bool centred = false;        // norms multiply by 1 + weight

  int64_t elements() const;     // over all tensors
  int64_t products() const;     // elements in the trained matrices
  double row_products() const;  // elements in the matrices that multiply one row, counting only its experts
  // Returns the multiplications and additions per row in the products, forward and backward: 6 per element of a trained
  // matrix, and 4 per element of a frozen one. The recurrence counts as three times its forward pass.
  double row_flops() const;
  double row_forward_flops() const;  // forward pass only: 2 per element
};

struct ModelSpec {
  TensorSpec embedding, norm;
  std::optional<TensorSpec> head;  // empty = tied to the embedding
  std::vector<LayerSpec> layers;

  int64_t elements() const;
  int64_t trained_elements() const;
  std::map<std::string, std::vector<int64_t>> Shapes() const;
  std::map<std::string, const TensorSpec*> Tensors() const;
  // Returns the names of each unit's tensors, sorted. The units are the embedding, the head (with the last norm), and
  // the layers. If the embedding and the head share a matrix, it is in both units.
  std::vector<std::vector<std::string>> Units() const;
  bool adapted = false;  // the model has adapters, and only they are trained
  // Returns the elements in a token's keys and values over all layers. A key that is also the value counts once.
  int64_t cache_elements() const;
  // Returns the bytes that all recurrent layers' states need after one row. `element` is the size of an input element
  // in bytes.
  int64_t state_bytes(int64_t element) const;
};

// Returns a product's name in LoraConfig::targets, derived from its module name: "q_proj" for
// "model.layers.0.self_attn.q_proj", and "experts.up_proj" for every routed expert, as in "...mlp.experts.3.up_proj".
std::string AdapterTarget(const std::string& module);

// Returns a tensor's initial values in fp32. They depend only on (tensor, layers, seed).
at::Tensor InitTensor(const TensorSpec& tensor, int64_t layers, uint64_t seed);

// REQUIRES: config.Validate() is OK.
ModelSpec SpecOf(const ModelConfig& config);

}  // namespace ingot::model
