#include "model/mtp_head.h"

#include <ATen/ATen.h>
#include <absl/strings/numbers.h>

#include <algorithm>
#include <array>
#include <utility>

#include "base/file.h"
#include "base/log.h"
#include "kernels/torch/layers.h"
#include "kernels/torch/linear.h"
#include "model/config_json.h"
#include "model/families/family.h"
#include "model/families/rows.h"
#include "model/stored_tensors.h"

namespace ingot::model {
namespace {

constexpr int64_t kMaxLayers = 16;

const MtpNames* NamesOf(const ModelConfig& config) {
  const Family* const family = FindFamily(config.model_type);
  return family == nullptr ? nullptr : family->mtp;
}

// Returns the name, or the prefix of names, in layer `layer`.
std::string Name(std::string_view pattern, const ModelConfig& config, int64_t layer) {
  std::string name(pattern);
  if (const size_t at = name.find_first_of("%#"); at != std::string::npos) {
    name.replace(at, 1, absl::StrCat(name[at] == '%' ? layer : config.num_hidden_layers + layer));
  }
  return name;
}

// One prediction layer: the tensors around the decoder layer in MtpHead::Layer's order, and the decoder layer.
struct MtpLayerSpec {
  std::array<TensorSpec, 4> own;
  LayerSpec layer;
};

// Prediction layers have experts if the model has any, regardless of which of its other layers have them.
LayerSpec DecoderLayer(ModelConfig config, int64_t layer) {
  config.experts.dense_layers = 0;
  config.experts.layer_step = 1;
  config.experts.plain_layers.clear();
  const int64_t index = config.num_hidden_layers + layer;
  LayerSpec spec = FindFamily(config.model_type)->layer(config, index);
  const std::string from = LayerPrefix(index), to = Name(NamesOf(config)->layer, config, layer);
  for (TensorSpec& tensor : spec.tensors) tensor.name = to + tensor.name.substr(from.size());
  return spec;
}

std::vector<MtpLayerSpec> SpecsOf(const ModelConfig& config, int64_t layers) {
  const MtpNames& names = *NamesOf(config);
  const int64_t hidden = config.hidden_size;
  const Init norm = config.centred() ? Init::kZeros : Init::kOnes;
  std::vector<MtpLayerSpec> specs;
  for (int64_t i = 0; i < layers; ++i) {
    const auto spec = [&](Part part, std::string_view name, std::vector<int64_t> shape, Init init) {
      return TensorSpec{part, Name(name, config, i), std::move(shape), init};
    };
    specs.push_back(
        {{spec(Part::kNorm, names.embedding_norm, {hidden}, norm), spec(Part::kNorm, names.state_norm, {hidden}, norm),
          spec(Part::kLatentDown, names.projection, {hidden, 2 * hidden}, Init::kNormal),
          spec(Part::kNorm, names.norm, {hidden}, norm)},
         DecoderLayer(config, i)});
  }
  return specs;
}

std::map<std::string, TensorSpec> TableOf(const std::vector<MtpLayerSpec>& specs) {
  std::map<std::string, TensorSpec> table;
  for (const MtpLayerSpec& spec : specs) {
    for (const TensorSpec& tensor : spec.own) table[tensor.name] = tensor;
    for (const TensorSpec& tensor : spec.layer.tensors) table[tensor.name] = tensor;
  }
  return table;
}

// Returns the number of layers that `tensors` are for; at least 1 if there are any.
int64_t LayersIn(const ModelConfig& config, const MtpTensors& tensors) {
  const std::string_view pattern = NamesOf(config)->layer;
  int64_t layers = 0;
  for (; layers < kMaxLayers; ++layers) {
    const std::string prefix = Name(pattern, config, layers);
    const auto found = tensors.lower_bound(prefix);
    if (found == tensors.end() || !found->first.starts_with(prefix)) break;
  }
  return tensors.empty() ? 0 : std::max<int64_t>(layers, 1);
}

// Returns whether the name is of a copy of the policy's embedding or head, and which.
enum class Copy : uint8_t { kNone, kEmbedding, kHead };
Copy CopyOf(const ModelConfig& config, int64_t layers, const std::string& name) {
  const MtpNames& names = *NamesOf(config);
  for (int64_t i = 0; i < layers && !names.embedding_copy.empty(); ++i) {
    if (name == Name(names.embedding_copy, config, i)) return Copy::kEmbedding;
    if (name == Name(names.head_copy, config, i)) return Copy::kHead;
  }
  return Copy::kNone;
}

absl::Status CheckTensors(const ModelConfig& config, const MtpTensors& tensors, int64_t layers) {
  const std::map<std::string, TensorSpec> table = TableOf(SpecsOf(config, layers));
  const auto bad = [&](const std::string& name, std::string_view what) {
    return absl::InvalidArgumentError(
        absl::StrCat("tensor '", name, "' of the prediction layers of ", config.model_type, " ", base::View(what)));
  };
  for (const auto& [name, spec] : table) {
    const auto found = tensors.find(name);
    if (found == tensors.end() || !found->second.defined()) return bad(name, "is missing");
    if (found->second.sizes() != at::IntArrayRef(spec.shape)) return bad(name, "has another shape than its layer");
    if (!at::isFloatingType(found->second.scalar_type())) return bad(name, "does not have a floating-point type");
  }
  for (const auto& [name, tensor] : tensors) {
    if (table.contains(name)) continue;
    if (CopyOf(config, layers, name) == Copy::kNone) return bad(name, "is unknown");
    if (tensor.sizes() != at::IntArrayRef({config.vocab_size, config.hidden_size}))
      return bad(name, "has another shape");
  }
  return absl::OkStatus();
}

// Reads the number of prediction layers that DIR/config.json promises; -1 = it has no such key.
absl::StatusOr<int64_t> Promised(const std::string& path, std::string_view key) {
  INGOT_ASSIGN_OR_RETURN(const std::string text, base::ReadFile(path));
  INGOT_ASSIGN_OR_RETURN(const base::json::value json, base::ParseJson(text));
  int64_t layers = -1;
  INGOT_RETURN_IF_ERROR(base::Annotate(ReadInt(json, key, false, &layers), path));
  if (layers >= -1 && layers <= kMaxLayers) return layers;
  return base::Annotate(BadKey(key, absl::StrCat("is ", layers, ", outside 0..", kMaxLayers)), path);
}

absl::Status CheckPromise(const std::string& dir, const ModelConfig& config, int64_t promised, int64_t found) {
  if (promised < 0 || promised == found) return absl::OkStatus();
  const MtpNames& names = *NamesOf(config);
  const std::string first = Name(names.layer, config, std::min(promised, found)) + "input_layernorm.weight";
  return absl::InvalidArgumentError(absl::StrCat(
      dir, "/config.json promises ", promised, " prediction layers (", base::View(names.count), ") of ",
      config.model_type, ", but ", WeightsOf(dir), found < promised ? " has no tensor '" : " also has tensor '", first,
      "': set the key to ", found, ", or use the model's published files"));
}

}  // namespace

MtpHead::MtpHead(std::shared_ptr<const std::vector<Layer>> layers, const Transformer& policy)
    : layers_(std::move(layers)), policy_(policy) {}

absl::StatusOr<MtpHead> MtpHead::Create(const MtpTensors& tensors, const Transformer& policy) {
  const ModelConfig& config = policy.config();
  if (NamesOf(config) == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat("models of type ", config.model_type, " have no prediction layers"));
  }
  const int64_t count = LayersIn(config, tensors);
  INGOT_RETURN_IF_ERROR(CheckTensors(config, tensors, std::max<int64_t>(count, 1)));
  const at::Tensor& like = policy.head();
  auto layers = std::make_shared<std::vector<Layer>>();
  for (MtpLayerSpec& spec : SpecsOf(config, count)) {
    const auto take = [&](const TensorSpec& tensor) {
      const at::ScalarType type =  // affects only the choice of experts
          tensor.part == Part::kCorrectionBias ? tensors.at(tensor.name).scalar_type() : like.scalar_type();
      return tensors.at(tensor.name).to(like.device(), type).contiguous();
    };
    std::map<std::string, at::Tensor> block;
    for (const TensorSpec& tensor : spec.layer.tensors) block[tensor.name] = take(tensor);
    const int64_t index = config.num_hidden_layers + std::ssize(*layers);
    layers->push_back({take(spec.own[0]), take(spec.own[1]), take(spec.own[2]), take(spec.own[3]),
                       Block(index, std::move(spec.layer), config.rms_norm_eps, block)});
  }
  return MtpHead(std::move(layers), policy);
}

at::Tensor MtpHead::Norm(const at::Tensor& x, const at::Tensor& weight) const {
  const ModelConfig& config = policy_.config();
  return kernels::RmsNormOp(x, config.centred() ? weight + 1 : weight, config.rms_norm_eps);
}

at::Tensor MtpHead::Hidden(int64_t layer, const at::Tensor& state, const at::Tensor& ids, const at::Tensor& positions,
                           AttentionBackend& attention) const {
  const Layer& l = layers_->at(static_cast<size_t>(layer));
  const at::Tensor both = at::cat({Norm(policy_.Embed(ids), l.embedding_norm), Norm(state, l.state_norm)}, 1);
  const at::Tensor x = kernels::LinearOp(both, l.projection, {});
  return Norm(l.block.Forward(x, positions, *policy_.rope(), attention, Communicator::Alone(), nullptr), l.norm);
}

bool IsMtpTensor(const ModelConfig& config, std::string_view name) {
  const MtpNames* const names = NamesOf(config);
  if (names == nullptr) return false;
  const size_t number = names->tensors.find('#');
  if (number == std::string_view::npos) return name.starts_with(names->tensors);
  if (!name.starts_with(names->tensors.substr(0, number))) return false;
  const std::string_view rest = name.substr(number);
  int64_t layer = -1;
  return absl::SimpleAtoi(base::View(rest.substr(0, rest.find('.'))), &layer) && layer >= config.num_hidden_layers;
}

MtpTensors InitMtpHead(const ModelConfig& config, int64_t layers, uint64_t seed, at::ScalarType dtype) {
  MtpTensors tensors;
  for (const auto& [name, spec] : TableOf(SpecsOf(config, layers))) {
    tensors[name] = InitTensor(spec, config.num_hidden_layers + layers, seed).to(dtype);
  }
  return tensors;
}

DraftTensors MtpDraft(const ModelConfig& config, const MtpTensors& tensors) {
  DraftTensors draft;
  if (tensors.empty() || !config.recurrent.layers.empty()) return draft;
  for (const auto& [name, spec] : TableOf(SpecsOf(config, 1))) draft[kDraftPrefix + name] = tensors.at(name);
  return draft;
}

MtpTensors MtpOfDraft(const ModelConfig& config, const DraftTensors& draft) {
  MtpTensors tensors;
  for (const auto& [name, tensor] : draft) {
    const std::string own = name.substr(std::string_view(kDraftPrefix).size());
    if (IsMtpTensor(config, own)) tensors[own] = tensor;
  }
  return tensors;
}

int64_t MtpLayerElements(const ModelConfig& config) {
  int64_t elements = 0;
  if (NamesOf(config) == nullptr) return elements;
  for (const auto& [name, spec] : TableOf(SpecsOf(config, 1))) elements += spec.elements();
  return elements;
}

absl::StatusOr<MtpTensors> ReadMtpHead(const std::string& dir, const ModelConfig& config) {
  const MtpNames* const names = NamesOf(config);
  if (names == nullptr) return MtpTensors();
  INGOT_ASSIGN_OR_RETURN(const int64_t promised, Promised(dir + "/config.json", names->count));
  const std::string path = WeightsOf(dir);
  INGOT_ASSIGN_OR_RETURN(StoredTensors stored, DescribeSafetensors(path));
  MtpTensors tensors = std::move(stored.tensors);
  std::erase_if(tensors, [&](const auto& named) { return !IsMtpTensor(config, named.first); });
  const int64_t layers = LayersIn(config, tensors);
  INGOT_RETURN_IF_ERROR(CheckPromise(dir, config, promised, layers));
  if (layers == 0) return MtpTensors();
  INGOT_RETURN_IF_ERROR(base::Annotate(CheckTensors(config, tensors, layers), path));
  try {
    for (auto& [name, tensor] : tensors) tensor = at::empty(tensor.sizes(), tensor.scalar_type());
  } catch (const std::exception& error) {
    return absl::ResourceExhaustedError(absl::StrCat(path, ": the prediction layers: ", error.what()));
  }
  INGOT_RETURN_IF_ERROR(LoadSafetensorsInto(path, tensors).status());
  return tensors;
}

absl::StatusOr<MtpTensors> ReadMtpHeadOrWarn(const std::string& dir, const ModelConfig& config) {
  absl::StatusOr<MtpTensors> tensors = ReadMtpHead(dir, config);
  if (!absl::IsInvalidArgument(tensors.status())) return tensors;
  INGOT_LOG(warn, "the model is used without its prediction layers: {}", std::string(tensors.status().message()));
  return MtpTensors();
}

void UpdateMtpCopies(const ModelConfig& config, const Parameters& policy, MtpTensors* tensors) {
  if (tensors->empty()) return;
  const int64_t layers = LayersIn(config, *tensors);
  const char* const embedding = "model.embed_tokens.weight";
  for (auto at = tensors->begin(); at != tensors->end();) {
    const auto named = at++;
    const Copy copy = CopyOf(config, layers, named->first);
    if (copy == Copy::kNone) continue;
    const bool head = copy == Copy::kHead && !config.tie_word_embeddings;
    const auto found = policy.tensors().find(head ? "lm_head.weight" : embedding);
    if (found == policy.tensors().end() || !found->second.defined()) continue;
    if (found->second.storage().nbytes() > 0) {
      named->second = found->second.detach();
    } else {
      tensors->erase(named);  // another rank has the parameter
    }
  }
}

absl::Status AddMtpToConfig(const std::string& dir, const ModelConfig& config, const MtpTensors& tensors) {
  if (tensors.empty()) return absl::OkStatus();
  const std::string path = dir + "/config.json";
  INGOT_ASSIGN_OR_RETURN(const std::string text, base::ReadFile(path));
  INGOT_ASSIGN_OR_RETURN(base::json::value json, base::ParseJson(text));
  if (!json.is_object()) return absl::InvalidArgumentError(absl::StrCat(path, ": not a JSON object"));
  json.get_object()[std::string(NamesOf(config)->count).c_str()] = LayersIn(config, tensors);
  return base::ReplaceFile(path, base::PrintJson(json) + "\n");
}

}  // namespace ingot::model
