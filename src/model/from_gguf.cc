#include "model/from_gguf.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "absl/strings/str_join.h"
#include "base/printable.h"
#include "model/rope.h"

namespace ingot::model {
namespace {

using gguf::File;
using gguf::TensorInfo;
namespace json = base::json;

absl::Status Bad(const File& file, std::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat(file.path(), ": ", base::CutMessage(what)));
}

struct IntField {
  const char* gguf;  // after "ARCHITECTURE."
  const char* config;
};
constexpr std::array<IntField, 5> kSizes = {{{"embedding_length", "hidden_size"},
                                             {"block_count", "num_hidden_layers"},
                                             {"feed_forward_length", "intermediate_size"},
                                             {"attention.head_count", "num_attention_heads"},
                                             {"context_length", "max_position_embeddings"}}};

// Fields of unsupported models.
constexpr std::array<const char*, 2> kOtherModels = {"expert_count", "ssm.state_size"};

// Sets the head size and the sizes of keys and values.
absl::Status ReadHeads(const File& file, const std::string& architecture, json::object& config) {
  const std::string prefix = architecture + ".";
  INGOT_ASSIGN_OR_RETURN(const auto heads, file.Require<int64_t>(prefix + "attention.head_count"));
  INGOT_ASSIGN_OR_RETURN(config["num_key_value_heads"], file.FindOr(prefix + "attention.head_count_kv", heads));
  INGOT_ASSIGN_OR_RETURN(const int64_t* own, file.Find<int64_t>(prefix + "attention.key_length"));
  INGOT_ASSIGN_OR_RETURN(const int64_t* rotated, file.Find<int64_t>(prefix + "rope.dimension_count"));
  if (heads < 1) return Bad(file, absl::StrCat("field '", prefix, "attention.head_count' is ", heads));
  const int64_t head_dim = own != nullptr       ? *own
                           : rotated != nullptr ? *rotated
                                                : config["hidden_size"].as_int64() / heads;
  if (rotated != nullptr && *rotated != head_dim) {
    return Bad(file, absl::StrCat("field '", prefix, "rope.dimension_count' is ", *rotated, ", and a head has ",
                                  head_dim, " values: partial rotation of heads is not supported"));
  }
  config["head_dim"] = head_dim;
  return absl::OkStatus();
}

absl::Status ReadRope(const File& file, const std::string& architecture, json::object& config) {
  const std::string prefix = architecture + ".rope.";
  INGOT_ASSIGN_OR_RETURN(config["rope_theta"], file.FindOr(prefix + "freq_base", 10000.0));
  // As in llama.cpp: the default type is linear, the factor may have its older name, and 0 means none.
  INGOT_ASSIGN_OR_RETURN(const double older, file.FindOr(prefix + "scale_linear", 0.0));
  INGOT_ASSIGN_OR_RETURN(const double factor, file.FindOr(prefix + "scaling.factor", older));
  INGOT_ASSIGN_OR_RETURN(const std::string type, file.FindOr(prefix + "scaling.type", std::string("linear")));
  if (type == "none" || (type == "linear" && (factor == 0 || factor == 1))) return absl::OkStatus();
  if (type != "linear" && type != "yarn") {
    return Bad(file, absl::StrCat("field '", prefix, "scaling.type' is '", type, "'; supported: none, linear, yarn"));
  }
  json::object rope{{"rope_type", type}};
  rope["factor"] = factor;
  if (type == "yarn") {
    INGOT_ASSIGN_OR_RETURN(rope["factor"], file.Require<double>(prefix + "scaling.factor"));
    INGOT_ASSIGN_OR_RETURN(rope["original_max_position_embeddings"],
                           file.Require<int64_t>(prefix + "scaling.original_context_length"));
  }
  config["rope_scaling"] = std::move(rope);
  return absl::OkStatus();
}

absl::Status ReadTokens(const File& file, const std::string& architecture, json::object& config) {
  INGOT_ASSIGN_OR_RETURN(const auto* tokens, file.Find<std::vector<std::string>>("tokenizer.ggml.tokens"));
  const int64_t count = tokens == nullptr ? 0 : std::ssize(*tokens);
  INGOT_ASSIGN_OR_RETURN(config["vocab_size"], file.FindOr(architecture + ".vocab_size", count));
  for (const auto& [field, key] : {std::pair{"tokenizer.ggml.bos_token_id", "bos_token_id"},
                                   std::pair{"tokenizer.ggml.eos_token_id", "eos_token_id"}}) {
    INGOT_ASSIGN_OR_RETURN(const int64_t* id, file.Find<int64_t>(field));
    if (id != nullptr) config[key] = *id;
  }
  return absl::OkStatus();
}

// Llama 3.1's frequency scaling, which llama.cpp stores as divisors of the frequencies.
constexpr char kDivisors[] = "rope_freqs.weight";

RopeScaling Llama3Stretch(double factor) {
  RopeScaling scaling;
  scaling.type = "llama3";
  scaling.factor = factor;
  scaling.original_positions = 8192;
  scaling.low_freq_factor = 1;
  scaling.high_freq_factor = 4;
  return scaling;
}

absl::Status ReadDivisors(const File& file, ModelConfig* config) {
  const auto found = file.tensors().find(kDivisors);
  if (found == file.tensors().end()) return absl::OkStatus();
  const auto half = static_cast<uint64_t>(config->head_dim / 2);
  if (found->second.elements != half) {
    return Bad(file, absl::StrCat("tensor '", kDivisors, "' has ", found->second.elements, " values, not ", half));
  }
  std::vector<float> divisors(half);
  INGOT_RETURN_IF_ERROR(file.Read(found->second, divisors.data()));
  const std::vector<float> plain = FrequenciesOf(*config).inverse;
  for (const double factor : {8.0, 32.0}) {  // the factors of Llama 3.1 and 3.2
    ModelConfig stretched = *config;
    stretched.rope_scaling = Llama3Stretch(factor);
    const std::vector<float> frequencies = FrequenciesOf(stretched).inverse;
    bool equal = true;
    for (size_t i = 0; i < half; ++i) {
      equal = equal && std::abs(plain[i] / divisors[i] - frequencies[i]) <= 1e-5 * frequencies[i];
    }
    if (!equal) continue;
    config->rope_scaling = stretched.rope_scaling;
    return absl::OkStatus();
  }
  return Bad(file, absl::StrCat("tensor '", kDivisors, "' is not Llama 3's position scaling by 8 or 32"));
}

// ---- Tensors

struct NamePair {
  std::string_view gguf, ours;
};
constexpr std::array<NamePair, 3> kWholeNames = {
    {{"token_embd", "model.embed_tokens"}, {"output_norm", "model.norm"}, {"output", "lm_head"}}};
constexpr std::array<NamePair, 11> kLayerNames = {{{"attn_norm", "input_layernorm"},
                                                   {"ffn_norm", "post_attention_layernorm"},
                                                   {"attn_q", "self_attn.q_proj"},
                                                   {"attn_k", "self_attn.k_proj"},
                                                   {"attn_v", "self_attn.v_proj"},
                                                   {"attn_output", "self_attn.o_proj"},
                                                   {"attn_q_norm", "self_attn.q_norm"},
                                                   {"attn_k_norm", "self_attn.k_norm"},
                                                   {"ffn_gate", "mlp.gate_proj"},
                                                   {"ffn_up", "mlp.up_proj"},
                                                   {"ffn_down", "mlp.down_proj"}}};

template <size_t kCount>
std::string_view Renamed(const std::array<NamePair, kCount>& names, std::string_view gguf) {
  for (const NamePair& pair : names) {
    if (pair.gguf == gguf) return pair.ours;
  }
  return {};
}

// Returns the Hugging Face name for a name like "blk.7.attn_q.weight". Empty = not a tensor in these models.
std::string OurName(std::string_view gguf) {
  constexpr std::string_view kLayer = "blk.";
  const size_t end = gguf.rfind('.');
  if (end == std::string_view::npos) return "";
  const std::string_view stem = gguf.substr(0, end), suffix = gguf.substr(end);
  if (suffix != ".weight" && suffix != ".bias") return "";
  std::string ours;
  if (!stem.starts_with(kLayer)) {
    ours = Renamed(kWholeNames, stem);
  } else if (const size_t dot = stem.find('.', kLayer.size()); dot != std::string_view::npos) {
    const std::string_view part = Renamed(kLayerNames, stem.substr(dot + 1));
    const std::string_view layer = stem.substr(kLayer.size(), dot - kLayer.size());
    if (!part.empty()) ours = absl::StrCat("model.layers.", base::View(layer), ".", base::View(part));
  }
  return ours.empty() ? "" : ours + std::string(suffix);
}

using Plan = std::map<std::string, const TensorInfo*>;  // by Hugging Face name

std::string Text(const std::vector<int64_t>& shape) { return absl::StrCat("[", absl::StrJoin(shape, ", "), "]"); }

// Returns the file's tensor for every parameter, after checking all of them.
absl::StatusOr<Plan> PlanTensors(const File& file, const ModelConfig& config) {
  const auto shapes = Parameters::Shapes(config);
  Plan plan;
  for (const auto& [name, info] : file.tensors()) {
    if (name == kDivisors) continue;
    const std::string ours = OurName(name);
    const auto shape = shapes.find(ours);
    if (shape == shapes.end()) {
      return Bad(file, absl::StrCat("tensor '", name, "' ", Text(info.shape), " does not belong to a ",
                                    config.model_type, " model of this configuration"));
    }
    if (info.shape != shape->second) {
      return Bad(file, absl::StrCat("tensor '", name, "' has the shape ", Text(info.shape),
                                    ", but the file's fields require ", Text(shape->second)));
    }
    plan[ours] = &info;
  }
  for (const auto& [name, shape] : shapes) {
    if (!plan.contains(name)) {
      return Bad(file, absl::StrCat("the tensor of '", name, "' ", Text(shape), " is missing"));
    }
  }
  return plan;
}

absl::Status CheckMemory(const File& file, const Plan& plan, at::ScalarType dtype, int64_t available) {
  uint64_t all = 0;
  const TensorInfo* largest = nullptr;
  for (const auto& [name, info] : plan) {
    all += info->elements * c10::elementSize(dtype);
    if (largest == nullptr || info->elements > largest->elements) largest = info;
  }
  const uint64_t decoding = largest->elements * 2 * sizeof(float);
  if (std::cmp_less_equal(all + decoding, available)) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat(
      file.path(), ": its tensors need ", all, " bytes as ", c10::toString(dtype), " and ", decoding,
      " to decode the largest, '", largest->name, "' ", Text(largest->shape), "; ", available, " are available"));
}

// Maps rows 2i and 2i + 1 of every head to its rows i and i + head_dim / 2.
at::Tensor PairsToHalves(const at::Tensor& paired, int64_t heads) {
  std::vector<int64_t> shape = paired.sizes().vec(), split = {heads, shape[0] / heads / 2, 2};
  split.insert(split.end(), shape.begin() + 1, shape.end());
  return paired.reshape(split).transpose(1, 2).reshape(shape);
}

absl::StatusOr<at::Tensor> ReadTensor(const File& file, const TensorInfo& info, const ModelConfig& config,
                                      at::ScalarType dtype) {
  at::Tensor tensor = at::empty(info.shape, at::kFloat);
  INGOT_RETURN_IF_ERROR(file.Read(info, tensor.mutable_data_ptr<float>()));
  const bool pairs = config.model_type == "llama";
  if (pairs && info.name.find(".attn_q.") != std::string::npos) {
    tensor = PairsToHalves(tensor, config.num_attention_heads);
  } else if (pairs && info.name.find(".attn_k.") != std::string::npos) {
    tensor = PairsToHalves(tensor, config.num_key_value_heads);
  }
  return tensor.to(dtype);
}

}  // namespace

absl::StatusOr<ModelConfig> ConfigFromGguf(const File& file) {
  INGOT_ASSIGN_OR_RETURN(const auto architecture, file.Require<std::string>("general.architecture"));
  if (architecture != "llama" && architecture != "qwen2" && architecture != "qwen3") {
    return Bad(
        file, absl::StrCat("field 'general.architecture' is '", architecture, "'; supported: llama, qwen2, and qwen3"));
  }
  for (const char* field : kOtherModels) {
    INGOT_ASSIGN_OR_RETURN(const int64_t count, file.FindOr<int64_t>(absl::StrCat(architecture, ".", field), 0));
    if (count != 0)
      return Bad(file, absl::StrCat("field '", architecture, ".", field, "' is ", count, ": not supported"));
  }
  json::object json{{"model_type", architecture}, {"torch_dtype", "float32"}};
  for (const IntField& size : kSizes) {
    INGOT_ASSIGN_OR_RETURN(json[size.config], file.Require<int64_t>(absl::StrCat(architecture, ".", size.gguf)));
  }
  INGOT_RETURN_IF_ERROR(ReadHeads(file, architecture, json));
  INGOT_RETURN_IF_ERROR(ReadRope(file, architecture, json));
  INGOT_RETURN_IF_ERROR(ReadTokens(file, architecture, json));
  INGOT_ASSIGN_OR_RETURN(json["rms_norm_eps"],
                         file.Require<double>(architecture + ".attention.layer_norm_rms_epsilon"));
  INGOT_ASSIGN_OR_RETURN(const int64_t* window, file.Find<int64_t>(architecture + ".attention.sliding_window"));
  if (window != nullptr && *window > 0 && *window < json["max_position_embeddings"].as_int64()) {
    return Bad(file,
               absl::StrCat("field '", architecture, ".attention.sliding_window' is ", *window, ": not supported"));
  }
  json["tie_word_embeddings"] = !file.tensors().contains("output.weight");
  json["attention_bias"] = architecture == "llama" && file.tensors().contains("blk.0.attn_q.bias");
  auto config = ModelConfig::FromJson(json);
  if (!config.ok()) return base::Annotate(config.status(), file.path());
  INGOT_RETURN_IF_ERROR(ReadDivisors(file, &*config));
  return config;
}

absl::StatusOr<Parameters> ParametersFromGguf(const File& file, const ModelConfig& config, at::ScalarType dtype,
                                              int64_t available) {
  INGOT_ASSIGN_OR_RETURN(const Plan plan, PlanTensors(file, config));
  INGOT_RETURN_IF_ERROR(CheckMemory(file, plan, dtype, available));
  try {
    const at::NoGradGuard no_history;
    std::map<std::string, at::Tensor> tensors;
    for (const auto& [name, info] : plan) {
      INGOT_ASSIGN_OR_RETURN(tensors[name], ReadTensor(file, *info, config, dtype));
    }
    auto parameters = Parameters::FromTensors(config, std::move(tensors));
    if (!parameters.ok()) return base::Annotate(parameters.status(), file.path());
    return parameters;
  } catch (const std::exception& error) {  // such as torch running out of memory
    return absl::ResourceExhaustedError(absl::StrCat(file.path(), ": ", error.what()));
  }
}

}  // namespace ingot::model
