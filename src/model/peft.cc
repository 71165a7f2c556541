#include "model/peft.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <absl/strings/str_join.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <fstream>
#include <optional>
#include <set>

#include "base/file.h"
#include "base/process_memory.h"
#include "model/config_json.h"
#include "model/layer_spec.h"
#include "model/stored_tensors.h"

namespace ingot::model {
namespace {

using base::Find;
using base::json::value;

constexpr char kConfigFile[] = "/adapter_config.json", kTensorFile[] = "/adapter_model.safetensors";
constexpr std::string_view kPrefix = "base_model.model.";

at::ScalarType Wide(const at::Tensor& t) { return t.scalar_type() == at::kDouble ? at::kDouble : at::kFloat; }

bool IsEmpty(const value* v) {
  return IsNull(v) || (v->is_object() && v->get_object().empty()) || (v->is_array() && v->get_array().empty());
}

// These keys describe how an adapter was created or is run, and do not change its computation: peft reads loftq_config
// only with `init_lora_weights: loftq`, and CheckLayers reads layers_to_transform. An unknown key that enables
// something (an object, a list or true) indicates an unsupported type of adapter.
bool LeavesTheComputation(std::string_view key) {
  static const auto* const keys = new std::set<std::string_view>{
      "auto_mapping",    "corda_config",   "ensure_weight_tying", "eva_config",   "exclude_modules",
      "inference_mode",  "layers_pattern", "layers_to_transform", "loftq_config", "lora_ga_config",
      "megatron_config", "runtime_config", "target_modules",      "use_rslora"};
  return keys->contains(key);
}

absl::Status CheckSwitches(const value& json) {
  for (const auto& field : json.get_object()) {
    const std::string_view key(field.key().data(), field.key().size());
    const value& given = field.value();
    const bool on = given.is_bool() ? given.get_bool() : (given.is_object() || given.is_array()) && !IsEmpty(&given);
    if (!on || key == "init_lora_weights" || LeavesTheComputation(key)) continue;
    return BadKey(key, "is set, which is not supported");
  }
  return absl::OkStatus();
}

// An adapter for every layer may list all layers. `layers` is the base's number of layers.
absl::Status CheckLayers(const value& json, int64_t layers) {
  const char* const key = "layers_to_transform";
  const value* given = Find(json, key);
  if (IsEmpty(given)) return absl::OkStatus();
  std::set<int64_t> named;
  // A single number may replace a list.
  for (const value& layer : given->is_array() ? given->get_array() : base::json::array{*given}) {
    const std::optional<int64_t> number = AsInt(layer);
    if (!number.has_value()) return BadKey(key, "must be a list of layer numbers");
    named.insert(*number);
  }
  for (int64_t layer = 0; layer < layers; ++layer) {
    if (named.contains(layer)) continue;
    return BadKey(
        key, absl::StrCat("leaves out layer ", layer, ", only adapters for all ", layers, " layers are supported"));
  }
  return absl::OkStatus();
}

// Some initializations also change the base's weights: pissa, olora, corda, loftq, lora_ga. Their factors do not match
// the original base.
absl::Status CheckStart(const value& json) {
  const value* init = Find(json, "init_lora_weights");
  if (IsNull(init) || init->is_bool()) return absl::OkStatus();
  const std::string name = init->is_string() ? std::string(init->get_string()) : base::PrintJson(*init);
  if (name == "gaussian" || name == "orthogonal" || name == "eva" || name == "mica") return absl::OkStatus();
  return BadKey(
      "init_lora_weights",
      absl::StrCat("is '", name, "', only true, false, gaussian, orthogonal, eva, and mica are supported: others may ",
                   "have changed the base model's weights. PEFT converts such an adapter to a plain LoRA adapter: ",
                   "save_pretrained with path_initial_model_for_weight_conversion"));
}

absl::StatusOr<LoraConfig> ReadConfig(const value& json, int64_t layers) {
  if (!json.is_object()) return absl::InvalidArgumentError("not a JSON object");
  std::string kind, bias = "none";
  INGOT_RETURN_IF_ERROR(ReadString(json, "peft_type", &kind));
  if (kind != "LORA") return BadKey("peft_type", absl::StrCat("is '", kind, "', only LORA is supported"));
  INGOT_RETURN_IF_ERROR(ReadString(json, "bias", &bias));
  if (bias != "none") return BadKey("bias", absl::StrCat("is '", bias, "', only none is supported"));
  bool stabilised = false, unused = false;  // CheckSwitches reports it if true
  for (const char* key : {"use_dora", "fan_in_fan_out"}) INGOT_RETURN_IF_ERROR(ReadBool(json, key, &unused));
  INGOT_RETURN_IF_ERROR(ReadBool(json, "use_rslora", &stabilised));
  INGOT_RETURN_IF_ERROR(CheckSwitches(json));
  INGOT_RETURN_IF_ERROR(CheckLayers(json, layers));
  INGOT_RETURN_IF_ERROR(CheckStart(json));
  LoraConfig lora;
  lora.alpha = 8;
  INGOT_RETURN_IF_ERROR(ReadInt(json, "r", true, &lora.rank));
  INGOT_RETURN_IF_ERROR(ReadDouble(json, "lora_alpha", &lora.alpha));
  if (lora.rank < 1 || lora.rank > 1 << 14) return BadKey("r", absl::StrCat("is ", lora.rank, ", outside 1..16384"));
  if (!(lora.alpha > 0 && lora.alpha < 1e9))
    return BadKey("lora_alpha", absl::StrCat("is ", lora.alpha, "; it must be from 0 to 1e9"));
  if (stabilised) lora.alpha *= std::sqrt(static_cast<double>(lora.rank));  // its scale is alpha / sqrt(rank)
  return lora;
}

// "model.layers.0.self_attn.q_proj.lora_A.weight" -> "q_proj". Empty = not a factor.
std::string TargetOf(const std::string& name) {
  for (const char* end : {".lora_A.weight", ".lora_B.weight"}) {
    if (!name.ends_with(end)) continue;
    return AdapterTarget(name.substr(0, name.size() - std::string_view(end).size()));
  }
  return "";
}

// Returns the targets' modules in PEFT's format: a list of last words or, for a model with experts, a regular
// expression. The word alone would also match the routed experts' products. If the base stores all experts in one
// tensor, PEFT needs their names without a number.
value TargetModules(const ModelConfig& config) {
  constexpr std::string_view kRouted = "experts.";
  base::json::array words;
  std::vector<std::string> patterns;
  for (const std::string& target : config.lora.targets) {
    words.emplace_back(target.c_str());
    const bool of_experts = target.starts_with(kRouted);
    patterns.push_back(of_experts ? "experts\\.(\\d+\\.)?" + target.substr(kRouted.size())
                                  : "(?!\\d+\\.|experts\\.)[^.]+\\." + target);
  }
  if (config.experts.count == 0) return words;
  return value("(.*\\.)?(" + absl::StrJoin(patterns, "|") + ")");
}

std::string Text(at::IntArrayRef shape) { return absl::StrCat("[", absl::StrJoin(shape, ", "), "]"); }

absl::Status CheckFactors(const AdapterFolder& adapter, const ModelConfig& base) {
  ModelConfig adapted = base;
  adapted.lora = adapter.lora;
  const ModelSpec spec = SpecOf(adapted);
  const auto table = spec.Tensors();
  for (const auto& [name, tensor] : adapter.tensors) {
    const auto found = table.find(name);
    if (found == table.end()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "tensor '", name,
          "' does not match any weight matrix of this base model: is the adapter for another base model?"));
    }
    if (tensor.sizes() != at::IntArrayRef(found->second->shape)) {
      return absl::InvalidArgumentError(absl::StrCat("tensor '", name, "' has shape ", Text(tensor.sizes()),
                                                     ", but this base model requires ", Text(found->second->shape),
                                                     ": the adapter is for another base model"));
    }
    if (!at::isFloatingType(tensor.scalar_type())) {
      return absl::InvalidArgumentError(absl::StrCat("tensor '", name, "' is of type ",
                                                     at::toString(tensor.scalar_type()),
                                                     ", but a LoRA factor needs a floating-point type"));
    }
  }
  for (const auto& [name, tensor] : table) {
    if (tensor->factor != Factor::kNone && !adapter.tensors.contains(name)) {
      return absl::InvalidArgumentError(absl::StrCat("tensor '", name, "' is missing from the adapter"));
    }
  }
  return absl::OkStatus();
}

// Renames an adapter's tensors to the names in the base's spec, and sets the targets that they contain.
absl::Status TakeFactors(const std::map<std::string, at::Tensor>& tensors, const ModelConfig& base,
                         AdapterFolder* adapter) {
  std::set<std::string> targets;
  for (const auto& [name, tensor] : tensors) {
    const std::string own = name.starts_with(kPrefix) ? name.substr(kPrefix.size()) : name;
    const std::string target = TargetOf(own);
    if (target.empty()) return absl::InvalidArgumentError(absl::StrCat("tensor '", name, "' is not a LoRA factor"));
    targets.insert(target);
    adapter->tensors[own] = tensor;
  }
  adapter->lora.targets.assign(targets.begin(), targets.end());
  if (targets.empty()) return absl::InvalidArgumentError("has no tensors");
  return CheckFactors(*adapter, base);
}

absl::StatusOr<AdapterFolder> Load(const std::string& dir, const ModelConfig& given) {
  ModelConfig base = given;
  base.lora = {};
  INGOT_ASSIGN_OR_RETURN(const std::string text, base::ReadFile(dir + kConfigFile));
  auto json = base::ParseJson(text);
  if (!json.ok()) return base::Annotate(json.status(), dir + kConfigFile);
  AdapterFolder adapter;
  auto lora = ReadConfig(*json, base.num_hidden_layers);
  if (!lora.ok()) return base::Annotate(lora.status(), dir + kConfigFile);
  adapter.lora = *std::move(lora);
  const std::string path = dir + kTensorFile;
  INGOT_ASSIGN_OR_RETURN(const StoredTensors stored, DescribeSafetensors(path));
  AdapterFolder described = adapter;
  INGOT_RETURN_IF_ERROR(base::Annotate(TakeFactors(stored.tensors, base, &described), path));
  INGOT_RETURN_IF_ERROR(CheckFits(path, stored, stored.bytes, base::AvailableMemory()));
  INGOT_ASSIGN_OR_RETURN(const auto tensors, LoadSafetensors(path));
  INGOT_RETURN_IF_ERROR(base::Annotate(TakeFactors(tensors, base, &adapter), path));
  return adapter;
}

absl::Status WriteText(const std::string& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << text << "\n";
  file.close();
  return file ? absl::OkStatus() : absl::UnavailableError(path + " cannot be written");
}

}  // namespace

absl::StatusOr<AdapterFolder> LoadAdapter(const std::string& dir, const ModelConfig& base) {
  auto adapter = Load(dir, base);
  if (!adapter.ok())
    return base::Annotate(adapter.status(),
                          "an adapter folder needs adapter_config.json and adapter_model.safetensors");
  return adapter;
}

absl::Status SaveAdapter(const std::string& dir, const ModelConfig& config, const Parameters& parameters,
                         const std::string& base_name) {
  if (config.lora.rank == 0) return absl::FailedPreconditionError("the model has no adapters");
  if (::mkdir(dir.c_str(), 0755) != 0 && errno != EEXIST) {
    return absl::ErrnoToStatus(errno, dir + ": creating the folder");
  }
  std::map<std::string, at::Tensor> tensors;
  const ModelSpec spec = SpecOf(config);
  for (const auto& [name, tensor] : spec.Tensors()) {
    if (tensor->factor != Factor::kNone) tensors[absl::StrCat(base::View(kPrefix), name)] = parameters.at(name);
  }
  INGOT_RETURN_IF_ERROR(SaveSafetensors(dir + kTensorFile, tensors, {{"format", "pt"}}));
  const base::json::object json = {{"peft_type", "LORA"},
                                   {"task_type", "CAUSAL_LM"},
                                   {"base_model_name_or_path", base_name},
                                   {"r", config.lora.rank},
                                   {"lora_alpha", config.lora.alpha},
                                   {"lora_dropout", 0.0},
                                   {"target_modules", TargetModules(config)},
                                   {"bias", "none"},
                                   {"fan_in_fan_out", false},
                                   {"init_lora_weights", true},
                                   {"inference_mode", true},
                                   {"modules_to_save", nullptr}};
  return WriteText(dir + kConfigFile, base::PrintJson(json));
}

absl::Status AddAdapters(const LoraConfig& lora, uint64_t seed, ModelFolder* model) {
  ModelConfig config = model->config;
  config.lora = lora;
  INGOT_RETURN_IF_ERROR(config.Validate());
  const at::Tensor& like = model->parameters.at("model.embed_tokens.weight");
  const ModelSpec spec = SpecOf(config);
  for (const auto& [name, tensor] : spec.Tensors()) {
    if (tensor->factor == Factor::kNone) continue;
    model->parameters.tensors()[name] = InitTensor(*tensor, config.num_hidden_layers, seed).to(like.options());
  }
  model->config = std::move(config);
  return absl::OkStatus();
}

absl::Status AddAdapters(const std::string& dir, ModelFolder* model) {
  if (model->config.lora.rank > 0) {
    return absl::InvalidArgumentError("the model already has adapters: merge them with `ingot model merge`");
  }
  INGOT_ASSIGN_OR_RETURN(AdapterFolder adapter, LoadAdapter(dir, model->config));
  const at::TensorOptions like = model->parameters.at("model.embed_tokens.weight").options();
  for (auto& [name, tensor] : adapter.tensors) model->parameters.tensors()[name] = tensor.to(like).contiguous();
  model->config.lora = std::move(adapter.lora);
  return absl::OkStatus();
}

void FoldAdapters(ModelFolder* model) {
  if (model->config.lora.rank == 0) return;
  const at::NoGradGuard no_history;
  const ModelSpec spec = SpecOf(model->config);
  auto& tensors = model->parameters.tensors();
  for (const LayerSpec& layer : spec.layers) {
    for (const TensorSpec& a : layer.tensors) {
      if (a.factor != Factor::kA) continue;
      const std::string module = a.name.substr(0, a.name.size() - std::string_view("lora_A.weight").size());
      at::Tensor& weight = tensors.at(module + "weight");
      const at::ScalarType wide = Wide(weight);
      const at::Tensor low = tensors.at(module + "lora_A.weight").to(wide),
                       high = tensors.at(module + "lora_B.weight").to(wide);
      weight = (weight.to(wide) + at::mm(high, low) * layer.alpha_over_rank).to(weight.scalar_type());
      tensors.erase(module + "lora_A.weight");
      tensors.erase(module + "lora_B.weight");
    }
  }
  model->config.lora = {};
}

absl::Status AverageInto(Parameters* a, const Parameters& b) {
  const at::NoGradGuard no_history;
  for (const auto& [name, tensor] : a->tensors()) {
    const auto other = b.tensors().find(name);
    if (other == b.tensors().end() || other->second.sizes() != tensor.sizes()) {
      return absl::InvalidArgumentError(
          absl::StrCat("tensor ", name, " is missing from the second model or has a different shape"));
    }
  }
  for (auto& [name, tensor] : a->tensors()) {
    const at::ScalarType wide = Wide(tensor);
    tensor.copy_((tensor.to(wide) + b.at(name).to(wide)) / 2);
  }
  return absl::OkStatus();
}

}  // namespace ingot::model
