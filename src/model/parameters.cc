#include "model/parameters.h"

#include <ATen/ATen.h>
#include <absl/strings/numbers.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdlib>

#include "base/checksum.h"
#include "base/log.h"
#include "base/process_memory.h"
#include "base/rng.h"
#include "base/written_files.h"
#include "model/families/family.h"
#include "model/layer_spec.h"
#include "model/mtp_head.h"
#include "model/served_types.h"
#include "model/stored_tensors.h"

namespace ingot::model {
namespace {

// Uniform between -1/sqrt(n) and 1/sqrt(n), for n columns.
at::Tensor UniformTensor(at::IntArrayRef shape, uint64_t seed) {
  at::Tensor t = at::empty(shape, at::kFloat);
  float* values = t.mutable_data_ptr<float>();
  const double bound = 1 / std::sqrt(static_cast<double>(shape.back()));
  for (int64_t i = 0; i < t.numel(); ++i) values[i] = static_cast<float>(bound * (2 * base::UniformAt(seed, i) - 1));
  return t;
}

std::string Text(at::IntArrayRef shape) {
  std::string out = "[";
  for (size_t i = 0; i < shape.size(); ++i) absl::StrAppend(&out, i == 0 ? "" : ", ", shape[i]);
  return out + "]";
}

bool EndsWith(std::string_view text, std::string_view end) {
  return text.size() >= end.size() && text.substr(text.size() - end.size()) == end;
}

// Draw n of stream `seed`, by Box-Muller: a pure function of both.
double NormalAt(uint64_t seed, uint64_t n) {
  const double u = 1.0 - base::UniformAt(seed, 2 * (n / 2)), angle = base::UniformAt(seed, 2 * (n / 2) + 1) * 2 * M_PI;
  return std::sqrt(-2 * std::log(u)) * (n % 2 == 0 ? std::cos(angle) : std::sin(angle));
}

at::Tensor NormalTensor(at::IntArrayRef shape, uint64_t seed, double deviation) {
  at::Tensor t = at::empty(shape, at::kFloat);
  float* values = t.mutable_data_ptr<float>();
  for (int64_t i = 0; i < t.numel(); ++i) values[i] = static_cast<float>(NormalAt(seed, i) * deviation);
  return t;
}

at::Tensor DecayTensor(at::IntArrayRef shape, uint64_t seed) {
  at::Tensor t = at::empty(shape, at::kFloat);
  float* values = t.mutable_data_ptr<float>();
  for (int64_t i = 0; i < t.numel(); ++i) values[i] = static_cast<float>(std::log(16 * (1 - base::UniformAt(seed, i))));
  return t;
}

// Returns the number in "model.layers.NUMBER.", or -1 if the name has none.
int64_t LayerOf(const std::string& name) {
  constexpr std::string_view kLayers = "model.layers.";
  if (!name.starts_with(kLayers)) return -1;
  int64_t number = -1;
  const size_t end = name.find('.', kLayers.size());
  return absl::SimpleAtoi(name.substr(kLayers.size(), end - kLayers.size()), &number) ? number : -1;
}

// Returns whether the contents differ or, for tensors without contents, the shapes.
bool Differ(const at::Tensor& a, const at::Tensor& b) {
  return a.sizes() != b.sizes() || (!a.is_meta() && !at::equal(a, b));
}

// Returns the peak bytes of loading. A family that converts tensor layouts holds both forms of a layer, and wide
// numbers for part of it.
int64_t LoadBytes(const StoredTensors& stored, const std::map<std::string, at::Tensor>& laid_out) {
  int64_t all = 0;
  std::map<int64_t, int64_t> by_layer = {{-1, 0}};
  for (const auto& [name, tensor] : laid_out) {
    const auto bytes = static_cast<int64_t>(tensor.nbytes());
    all += bytes;
    by_layer[LayerOf(name)] += bytes;
  }
  bool anew = false;
  int64_t converted = 0;  // the largest tensor that is briefly held in two types
  for (const auto& [name, tensor] : laid_out) {
    const auto found = stored.tensors.find(name);
    anew = anew || found == stored.tensors.end();
    if (found == stored.tensors.end() || found->second.scalar_type() == tensor.scalar_type()) continue;
    converted = std::max(converted, static_cast<int64_t>(tensor.nbytes()));
  }
  if (!anew) return std::max(all, stored.bytes) + converted;
  const auto largest = std::max_element(by_layer.begin(), by_layer.end(),
                                        [](const auto& a, const auto& b) { return a.second < b.second; });
  return std::max(all, stored.bytes) + 2 * largest->second;
}

at::ScalarType TypeOf(const ModelConfig& config) {
  const std::string& type = config.torch_dtype;
  return type == "float64"    ? at::kDouble
         : type == "bfloat16" ? at::kBFloat16
         : type == "float16"  ? at::kHalf
                              : at::kFloat;
}

// Converts all tensors to one type, as `transformers` does with dtype="auto": the folder's torch_dtype if any tensor
// has it, or else the embedding's type. A router's bias, which affects only the choice, keeps its own type.
void MakeAlike(const std::string& path, const ModelConfig& config, Parameters* parameters) {
  auto& tensors = parameters->tensors();
  at::ScalarType type = parameters->at("model.embed_tokens.weight").scalar_type();
  const ModelSpec spec = SpecOf(config);
  const auto table = spec.Tensors();
  const auto chooses = [&](const std::string& name) { return table.at(name)->part == Part::kCorrectionBias; };
  const auto has = [&](at::ScalarType wanted) {
    return [&, wanted](const auto& named) { return named.second.scalar_type() == wanted && !chooses(named.first); };
  };
  if (std::any_of(tensors.begin(), tensors.end(), has(TypeOf(config)))) type = TypeOf(config);
  int64_t count = 0;
  std::string such;
  for (auto& [name, tensor] : tensors) {
    if (tensor.scalar_type() == type || chooses(name)) continue;
    if (count++ == 0) such = absl::StrCat("'", name, "' from ", at::toString(tensor.scalar_type()));
    tensor = tensor.to(type);
  }
  if (count == 0 || tensors.begin()->second.is_meta()) return;
  INGOT_LOG(info, "{}: its tensors have several types; {} of {} are converted to {}, such as {}", path, count,
            tensors.size(), at::toString(type), such);
}

// Converts a file's tensors to the spec's tensors, by name.
absl::StatusOr<Parameters> FromFile(const std::string& path, const ModelConfig& config,
                                    std::map<std::string, at::Tensor> tensors) {
  const Family* const family = FindFamily(config.model_type);
  if (family != nullptr && family->from_file != nullptr) {
    INGOT_RETURN_IF_ERROR(base::Annotate(family->from_file(config, &tensors), path));
  }
  auto parameters = Parameters::FromTensors(config, std::move(tensors));
  if (!parameters.ok()) return base::Annotate(parameters.status(), path);
  MakeAlike(path, config, &*parameters);
  return parameters;
}

bool Exists(const std::string& path) {
  struct stat info;
  return ::stat(path.c_str(), &info) == 0;
}

// Checks whether the folder's weight files have changed since they were written.
absl::Status CheckWeightsFiles(const std::string& dir) {
  INGOT_ASSIGN_OR_RETURN(const base::WrittenFiles written, base::WrittenFiles::Of(dir));
  return written.CheckContents([](std::string_view name) { return name.starts_with("model"); });
}

}  // namespace

std::string WeightsOf(const std::string& dir) {
  const std::string path = dir + "/model.safetensors", index = path + ".index.json";
  return !Exists(path) && Exists(index) ? index : path;
}

std::map<std::string, std::vector<int64_t>> Parameters::Shapes(const ModelConfig& config) {
  return SpecOf(config).Shapes();
}

at::Tensor InitTensor(const TensorSpec& tensor, int64_t layers, uint64_t seed) {
  constexpr double kDeviation = 0.02;
  const uint64_t own = base::DeriveSeed(seed, base::Checksum64(tensor.name));
  switch (tensor.init) {
    case Init::kZeros:
      return at::zeros(tensor.shape, at::kFloat);
    case Init::kOnes:
      return at::ones(tensor.shape, at::kFloat);
    case Init::kDecay:
      return DecayTensor(tensor.shape, own);
    case Init::kUniform:
      return UniformTensor(tensor.shape, own);
    case Init::kResidual:
      return NormalTensor(tensor.shape, own, kDeviation / std::sqrt(2.0 * static_cast<double>(layers)));
    case Init::kNormal:
      break;
  }
  return NormalTensor(tensor.shape, own, kDeviation);
}

Parameters Parameters::Init(const ModelConfig& config, uint64_t seed, at::ScalarType dtype) {
  const ModelSpec spec = SpecOf(config);
  Parameters parameters;
  for (const auto& [name, tensor] : spec.Tensors()) {
    parameters.tensors_[name] = InitTensor(*tensor, config.num_hidden_layers, seed).to(dtype);
  }
  return parameters;
}

absl::Status Parameters::CheckSameShapes(const ModelConfig& expected, const ModelConfig& found) {
  const auto mine = Shapes(expected), theirs = Shapes(found);
  for (const auto& [name, shape] : mine) {
    const auto it = theirs.find(name);
    if (it == theirs.end()) return absl::InvalidArgumentError(absl::StrCat("tensor ", name, " is missing"));
    if (it->second != shape) {
      return absl::InvalidArgumentError(
          absl::StrCat("tensor ", name, " has shape ", Text(it->second), ", not ", Text(shape)));
    }
  }
  for (const auto& [name, shape] : theirs) {
    if (!mine.contains(name))
      return absl::InvalidArgumentError(absl::StrCat("tensor ", name, " does not belong to the model"));
  }
  return absl::OkStatus();
}

absl::StatusOr<Parameters> Parameters::FromTensors(const ModelConfig& config,
                                                   std::map<std::string, at::Tensor> tensors) {
  const auto shapes = Shapes(config);
  // Some checkpoints store the tied head a second time.
  if (auto head = tensors.find("lm_head.weight"); config.tie_word_embeddings && head != tensors.end()) {
    auto embedding = tensors.find("model.embed_tokens.weight");
    if (embedding != tensors.end() && Differ(head->second, embedding->second)) {
      return absl::InvalidArgumentError(
          "tensor 'lm_head.weight' differs from the embedding, although tie_word_embeddings is true");
    }
    tensors.erase(head);
  }
  Parameters parameters;
  for (const auto& [name, shape] : shapes) {
    auto found = tensors.find(name);
    if (found == tensors.end() || !found->second.defined()) {
      return absl::InvalidArgumentError(absl::StrCat("tensor '", name, "' ", Text(shape), " is missing"));
    }
    if (found->second.sizes() != at::IntArrayRef(shape)) {
      return absl::InvalidArgumentError(absl::StrCat("tensor '", name, "' has shape ", Text(found->second.sizes()),
                                                     ", but the configuration requires ", Text(shape)));
    }
    if (!at::isFloatingType(found->second.scalar_type())) {
      return absl::InvalidArgumentError(absl::StrCat("tensor '", name, "' does not have a floating-point type"));
    }
    parameters.tensors_[name] = found->second;
    tensors.erase(found);
  }
  for (const auto& [name, tensor] : tensors) {
    if (EndsWith(name, "rotary_emb.inv_freq")) continue;  // a constant in old Llama checkpoints
    if (IsMtpTensor(config, name)) continue;
    return absl::InvalidArgumentError(absl::StrCat("tensor '", name, "' does not belong to this configuration"));
  }
  return parameters;
}

const at::Tensor& Parameters::at(const std::string& name) const {
  const auto found = tensors_.find(name);
  TORCH_CHECK(found != tensors_.end(), "the model has no parameter '", name, "'");
  return found->second;
}

absl::Status CheckModelFile(const std::string& path, const ModelConfig& config, int64_t available) {
  INGOT_ASSIGN_OR_RETURN(const StoredTensors stored, DescribeSafetensors(path));
  try {
    INGOT_ASSIGN_OR_RETURN(const Parameters parameters, FromFile(path, config, stored.tensors));
    return CheckFits(path, stored, LoadBytes(stored, parameters.tensors()), available);
  } catch (const std::exception& error) {
    return absl::InternalError(absl::StrCat(path, ": ", error.what()));
  }
}

absl::Status CheckServedTypes(const std::string& dir, std::string_view remedy) {
  const std::string path = WeightsOf(dir);
  if (!Exists(path)) return absl::OkStatus();
  INGOT_ASSIGN_OR_RETURN(const StoredTensors stored, DescribeSafetensors(path));
  for (const auto& [name, tensor] : stored.tensors) {
    if (tensor.scalar_type() != at::kDouble) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(stored.files.at(name), ": tensor '", name,
                     "' is F64, but engines accept only F32, BF16, and F16: ", base::View(remedy)));
  }
  return absl::OkStatus();
}

absl::StatusOr<ModelFolder> LoadModelDir(const std::string& dir) {
  ModelFolder model;
  INGOT_ASSIGN_OR_RETURN(model.config, ModelConfig::FromFile(dir + "/config.json"));
  const std::string path = WeightsOf(dir);
  if (const absl::Status fits = CheckModelFile(path, model.config, base::AvailableMemory()); !fits.ok()) {
    INGOT_RETURN_IF_ERROR(CheckWeightsFiles(dir));  // a damaged name or shape looks like a mismatched tensor
    return fits;
  }
  INGOT_ASSIGN_OR_RETURN(auto tensors, LoadSafetensors(path));
  try {
    INGOT_ASSIGN_OR_RETURN(model.parameters, FromFile(path, model.config, std::move(tensors)));
  } catch (const std::exception& error) {  // such as torch running out of memory
    return absl::ResourceExhaustedError(absl::StrCat(path, ": ", error.what()));
  }
  return model;
}

absl::Status SaveModelDir(const std::string& dir, const ModelConfig& config, const Parameters& parameters) {
  INGOT_RETURN_IF_ERROR(config.Validate());
  if (::mkdir(dir.c_str(), 0755) != 0 && errno != EEXIST) {
    return absl::ErrnoToStatus(errno, dir + ": creating the folder");
  }
  INGOT_RETURN_IF_ERROR(base::RemoveChecksums(dir));
  std::map<std::string, at::Tensor> tensors = parameters.tensors();
  const Family* const family = FindFamily(config.model_type);
  if (family->to_file != nullptr) family->to_file(config, &tensors);
  // Saves the weights first, because config.json completes the folder.
  INGOT_RETURN_IF_ERROR(SaveSafetensors(dir + "/" + ShardFile("model", 0, 1), tensors, {{"format", "pt"}}));
  return SaveModelConfig(dir, config);
}

}  // namespace ingot::model
