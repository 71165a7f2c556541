#include "model/layer_spec.h"

#include <algorithm>
#include <set>
#include <utility>

#include "model/adapter_targets.h"
#include "model/families/family.h"

namespace ingot::model {

int64_t TensorSpec::elements() const {
  int64_t elements = 1;
  for (const int64_t extent : shape) elements *= extent;
  return elements;
}

int64_t LayerSpec::elements() const {
  int64_t sum = 0;
  for (const TensorSpec& tensor : tensors) sum += tensor.elements();
  return sum;
}

int64_t LayerSpec::products() const {
  int64_t sum = 0;
  for (const TensorSpec& tensor : tensors) sum += tensor.is_product() && tensor.trained ? tensor.elements() : 0;
  return sum;
}

namespace {

// Returns the fraction of experts that a row uses, or 1 for other tensors.
double Share(const LayerSpec& layer, const TensorSpec& tensor) {
  const ExpertsConfig& experts = layer.feed_forward.experts;
  return tensor.expert < 0 ? 1 : static_cast<double>(experts.per_token) / static_cast<double>(experts.count);
}

// Returns 2 per element of a matrix that multiplies a row.
double ForwardFlops(const LayerSpec& layer, const TensorSpec& tensor) {
  if (!tensor.is_product()) return 0;
  // The adapter between latents and heads runs once per head for scores and once per head for values.
  const bool by_head = layer.attention.keys_are_values() && tensor.part == Part::kKey && tensor.factor == Factor::kA;
  const double times = by_head ? 2 * static_cast<double>(layer.attention.heads) : Share(layer, tensor);
  return 2 * times * static_cast<double>(tensor.elements());
}

}  // namespace

double LayerSpec::row_products() const {
  double sum = 0;
  for (const TensorSpec& tensor : tensors) {
    if (tensor.is_product()) sum += Share(*this, tensor) * static_cast<double>(tensor.elements());
  }
  return sum;
}

double LayerSpec::row_flops() const {
  double sum = 0;
  for (const TensorSpec& tensor : tensors) sum += (tensor.trained ? 3 : 2) * ForwardFlops(*this, tensor);
  return sum + 3 * recurrence.row_forward_flops();
}

double LayerSpec::row_forward_flops() const {
  double sum = 0;
  for (const TensorSpec& tensor : tensors) sum += ForwardFlops(*this, tensor);
  return sum + recurrence.row_forward_flops();
}

std::map<std::string, const TensorSpec*> ModelSpec::Tensors() const {
  std::map<std::string, const TensorSpec*> tensors = {{embedding.name, &embedding}, {norm.name, &norm}};
  if (head.has_value()) tensors[head->name] = &*head;
  for (const LayerSpec& layer : layers) {
    for (const TensorSpec& tensor : layer.tensors) tensors[tensor.name] = &tensor;
  }
  return tensors;
}

std::map<std::string, std::vector<int64_t>> ModelSpec::Shapes() const {
  std::map<std::string, std::vector<int64_t>> shapes;
  for (const auto& [name, tensor] : Tensors()) shapes[name] = tensor->shape;
  return shapes;
}

int64_t ModelSpec::elements() const {
  int64_t sum = 0;
  for (const auto& [name, tensor] : Tensors()) sum += tensor->elements();
  return sum;
}

int64_t ModelSpec::trained_elements() const {
  int64_t sum = 0;
  for (const auto& [name, tensor] : Tensors()) sum += tensor->trained ? tensor->elements() : 0;
  return sum;
}

std::vector<std::vector<std::string>> ModelSpec::Units() const {
  std::vector<std::vector<std::string>> units = {{embedding.name},
                                                 {norm.name, head.has_value() ? head->name : embedding.name}};
  for (const LayerSpec& layer : layers) {
    std::vector<std::string>& unit = units.emplace_back();
    for (const TensorSpec& tensor : layer.tensors) unit.push_back(tensor.name);
  }
  for (std::vector<std::string>& unit : units) std::sort(unit.begin(), unit.end());
  return units;
}

std::string AdapterTarget(const std::string& module) {
  const size_t word = module.rfind('.') + 1;
  const size_t number = word < 2 ? std::string::npos : module.rfind('.', word - 2);
  if (number == std::string::npos) return module.substr(word);
  const std::string before = module.substr(number + 1, word - number - 2);
  const bool routed = !before.empty() && before.find_first_not_of("0123456789") == std::string::npos &&
                      module.substr(0, number).ends_with(".experts");
  return routed ? "experts." + module.substr(word) : module.substr(word);
}

int64_t ModelSpec::cache_elements() const {
  int64_t sum = 0;
  for (const LayerSpec& layer : layers) {
    sum += (layer.attention.keys_are_values() ? 1 : 2) * layer.attention.keys();
  }
  return sum;
}

int64_t ModelSpec::state_bytes(int64_t element) const {
  int64_t sum = 0;
  for (const LayerSpec& layer : layers) {
    if (!layer.recurrence.exists()) continue;
    const kernels::DeltaShape& shape = layer.recurrence.shape;
    sum += shape.state() * std::max<int64_t>(element, sizeof(float)) + shape.past() * element;
  }
  return sum;
}

namespace {

// Returns the target of a product's adapter. Empty = it cannot have an adapter.
std::string Target(const TensorSpec& tensor) {
  constexpr std::string_view kEnd = ".weight";
  if (!tensor.is_product() || tensor.part == Part::kRouter || !tensor.name.ends_with(kEnd)) return "";
  return AdapterTarget(tensor.name.substr(0, tensor.name.size() - kEnd.size()));
}

// Freezes the layer's own tensors and adds the factors of its adapters.
void Adapt(const LoraConfig& lora, LayerSpec* layer) {
  layer->alpha_over_rank = lora.alpha / static_cast<double>(lora.rank);
  std::vector<TensorSpec> factors;
  for (TensorSpec& tensor : layer->tensors) {
    tensor.trained = false;
    const std::string target = Target(tensor);
    if (target.empty() || std::find(lora.targets.begin(), lora.targets.end(), target) == lora.targets.end()) continue;
    const std::string module = tensor.name.substr(0, tensor.name.size() - std::string_view("weight").size());
    TensorSpec a{tensor.part, module + "lora_A.weight", {lora.rank, tensor.shape[1]}, Init::kUniform};
    TensorSpec b{tensor.part, module + "lora_B.weight", {tensor.shape[0], lora.rank}, Init::kZeros};
    a.expert = b.expert = tensor.expert;
    a.factor = Factor::kA;
    b.factor = Factor::kB;
    factors.push_back(std::move(a));
    factors.push_back(std::move(b));
  }
  layer->tensors.insert(layer->tensors.end(), factors.begin(), factors.end());
}

// Returns the model's products with their adapter targets, without duplicate targets.
std::vector<std::pair<std::string, const TensorSpec*>> Adaptable(const ModelSpec& spec) {
  std::vector<std::pair<std::string, const TensorSpec*>> found;
  for (const LayerSpec& layer : spec.layers) {
    for (const TensorSpec& tensor : layer.tensors) {
      const std::string target = Target(tensor);
      const auto has = [&](const auto& known) { return known.first == target; };
      if (!target.empty() && std::none_of(found.begin(), found.end(), has)) found.emplace_back(target, &tensor);
    }
  }
  return found;
}

ModelSpec BaseOf(ModelConfig config) {
  config.lora = {};
  return SpecOf(config);
}

}  // namespace

std::vector<std::string> AdapterTargets(const ModelConfig& config) {
  const ModelSpec spec = BaseOf(config);
  std::vector<std::string> targets;
  for (auto& [target, tensor] : Adaptable(spec)) targets.push_back(std::move(target));
  return targets;
}

std::vector<std::string> DefaultTargets(const ModelConfig& config) {
  const std::vector<std::string> usual = {"down_proj", "gate_proj", "k_proj", "o_proj", "q_proj", "up_proj", "v_proj"};
  const ModelSpec spec = BaseOf(config);
  std::set<std::string> all;
  for (const auto& [target, tensor] : Adaptable(spec)) {
    if (tensor->expert < 0 && tensor->part != Part::kSharedShare) all.insert(target);
  }
  if (std::includes(all.begin(), all.end(), usual.begin(), usual.end())) return usual;
  return {all.begin(), all.end()};
}

ModelSpec SpecOf(const ModelConfig& config) {
  const Family* const family = FindFamily(config.model_type);
  ModelSpec spec;
  spec.embedding = {Part::kEmbedding, "model.embed_tokens.weight", {config.vocab_size, config.hidden_size}};
  spec.embedding.shard = Shard::kRows;
  spec.norm = {Part::kNorm, "model.norm.weight", {config.hidden_size}, config.centred() ? Init::kZeros : Init::kOnes};
  if (!config.tie_word_embeddings) {
    spec.head = TensorSpec{Part::kHead, "lm_head.weight", {config.vocab_size, config.hidden_size}};
    spec.head->shard = Shard::kRows;
  }
  for (int64_t i = 0; family != nullptr && i < config.num_hidden_layers; ++i) {
    spec.layers.push_back(family->layer(config, i));
    for (TensorSpec& tensor : spec.layers.back().tensors) tensor.trained = tensor.part != Part::kCorrectionBias;
    if (config.lora.rank > 0) Adapt(config.lora, &spec.layers.back());
  }
  if (config.lora.rank > 0) {
    spec.adapted = true;
    spec.embedding.trained = spec.norm.trained = false;
    if (spec.head.has_value()) spec.head->trained = false;
  }
  return spec;
}

}  // namespace ingot::model
