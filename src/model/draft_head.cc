#include "model/draft_head.h"

#include <ATen/ATen.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <set>
#include <string_view>
#include <utility>

#include "kernels/torch/layers.h"
#include "kernels/torch/linear.h"
#include "kernels/torch/softmax.h"
#include "model/layer_spec.h"
#include "model/parameters.h"

namespace ingot::model {
namespace {

constexpr double kEps = 1e-6;
constexpr int64_t kMaxId = int64_t{1} << 24;  // numbers of type fp32 are whole up to this

// Wide feed-forward layers, as in models with experts, would make guessing slow.
int64_t WidthOf(const ModelConfig& config) {
  const int64_t most = 4 * config.hidden_size;
  return config.intermediate_size > 0 ? std::min(config.intermediate_size, most) : most;
}

std::vector<TensorSpec> SpecsOf(const ModelConfig& config) {
  const int64_t hidden = config.hidden_size, width = WidthOf(config);
  const auto spec = [](Part part, const char* name, std::vector<int64_t> shape, Init init) {
    return TensorSpec{part, absl::StrCat(kDraftPrefix, name, ".weight"), std::move(shape), init};
  };
  return {spec(Part::kNorm, "enorm", {hidden}, Init::kOnes),
          spec(Part::kNorm, "hnorm", {hidden}, Init::kOnes),
          spec(Part::kLatentDown, "eh_proj", {hidden, 2 * hidden}, Init::kNormal),
          spec(Part::kPostNorm, "post_attention_layernorm", {hidden}, Init::kOnes),
          spec(Part::kGate, "mlp.gate_proj", {width, hidden}, Init::kNormal),
          spec(Part::kUp, "mlp.up_proj", {width, hidden}, Init::kNormal),
          spec(Part::kDown, "mlp.down_proj", {hidden, width}, Init::kNormal),
          spec(Part::kNorm, "shared_head.norm", {hidden}, Init::kOnes)};
}

at::Tensor IdsOf(const ModelConfig& config, int64_t vocabulary) {
  std::set<int64_t> ids(config.eos_token_ids.begin(), config.eos_token_ids.end());
  std::erase_if(ids, [&](int64_t id) { return id < 0 || id >= config.vocab_size; });
  for (int64_t id = 0; std::ssize(ids) < vocabulary; ++id) ids.insert(id);
  const std::vector<float> numbers(ids.begin(), ids.end());
  return at::tensor(numbers, at::kFloat);
}

absl::StatusOr<std::vector<int32_t>> ReadIds(const at::Tensor& tensor, int64_t vocab_size) {
  const auto bad = [](const char* why) { return absl::InvalidArgumentError(absl::StrCat(kDraftIds, " ", why)); };
  if (tensor.dim() != 1 || tensor.scalar_type() != at::kFloat || tensor.numel() == 0) {
    return bad("must be a list of numbers of type fp32");
  }
  const at::Tensor host = tensor.to(at::kCPU).contiguous();
  std::vector<int32_t> ids;
  for (int64_t i = 0; i < host.numel(); ++i) {
    const float number = host.const_data_ptr<float>()[i];
    const bool known = number >= 0 && number < static_cast<float>(std::min(vocab_size, kMaxId));  // false for NaN
    if (!known || number != static_cast<float>(static_cast<int32_t>(number))) return bad("has an id out of range");
    if (!ids.empty() && static_cast<int32_t>(number) <= ids.back()) return bad("must be ascending");
    ids.push_back(static_cast<int32_t>(number));
  }
  return ids;
}

absl::Status CheckTensor(const TensorSpec& spec, const DraftTensors& tensors, const at::Tensor& like) {
  const auto found = tensors.find(spec.name);
  if (found == tensors.end()) return absl::InvalidArgumentError("the draft head has no tensor " + spec.name);
  const at::Tensor& t = found->second;
  if (t.sizes() == at::IntArrayRef(spec.shape) && t.scalar_type() == like.scalar_type() &&
      t.device() == like.device() && t.is_contiguous()) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat("the draft head's tensor ", spec.name,
                                                 " has another shape, type, or device than the model requires"));
}

}  // namespace

DraftTensors ShadowOf(const DraftTensors& head) {
  DraftTensors shadow;
  for (const auto& [name, tensor] : head) {
    shadow[kShadowPrefix + name.substr(std::string_view(kDraftPrefix).size())] = tensor;
  }
  return shadow;
}

DraftTensors TakeShadow(DraftTensors* tensors) {
  DraftTensors head;
  std::erase_if(*tensors, [&](const auto& entry) {
    if (!entry.first.starts_with(kShadowPrefix)) return false;
    head[kDraftPrefix + entry.first.substr(std::string_view(kShadowPrefix).size())] = entry.second;
    return true;
  });
  return head;
}

std::map<std::string, std::vector<int64_t>> DraftHead::Shapes(const ModelConfig& config, int64_t ids) {
  std::map<std::string, std::vector<int64_t>> shapes;
  for (const TensorSpec& spec : SpecsOf(config)) shapes[spec.name] = spec.shape;
  if (ids < config.vocab_size) shapes[kDraftIds] = {ids};
  return shapes;
}

int64_t DraftHead::MaxElements(const ModelConfig& config) {
  int64_t elements = config.vocab_size;
  for (const TensorSpec& spec : SpecsOf(config)) elements += spec.elements();
  return elements;
}

DraftTensors DraftHead::Init(const ModelConfig& config, int64_t vocabulary, uint64_t seed, at::ScalarType dtype) {
  DraftTensors tensors;
  for (const TensorSpec& spec : SpecsOf(config)) {
    tensors[spec.name] = InitTensor(spec, config.num_hidden_layers, seed).to(dtype);
  }
  if (vocabulary > 0 && vocabulary < std::min(config.vocab_size, kMaxId)) {
    tensors[kDraftIds] = IdsOf(config, vocabulary);
  }
  return tensors;
}

absl::StatusOr<DraftHead> DraftHead::Create(const DraftTensors& tensors, const Transformer& policy) {
  const std::vector<TensorSpec> specs = SpecsOf(policy.config());
  DraftTensors trained;
  for (const TensorSpec& spec : specs) {
    INGOT_RETURN_IF_ERROR(CheckTensor(spec, tensors, policy.head()));
    trained[spec.name] = tensors.at(spec.name);
  }
  std::vector<int32_t> ids;
  if (const auto found = tensors.find(kDraftIds); found != tensors.end()) {
    INGOT_ASSIGN_OR_RETURN(ids, ReadIds(found->second, policy.config().vocab_size));
  }
  for (const auto& [name, tensor] : tensors) {
    if (name != kDraftIds && !trained.contains(name)) {
      return absl::InvalidArgumentError("tensor " + name + " does not belong to a draft head");
    }
  }
  return DraftHead(std::move(trained), std::move(ids), policy);
}

DraftHead::DraftHead(DraftTensors trained, std::vector<int32_t> ids, const Transformer& policy)
    : trained_(std::move(trained)), ids_(std::move(ids)), policy_(policy), matrix_(policy.head().detach()) {
  if (ids_.empty()) return;
  id_tensor_ = at::tensor(ids_, at::kInt).to(matrix_.device(), at::kLong);
  matrix_ = matrix_.index_select(0, id_tensor_);
}

const at::Tensor& DraftHead::at(const char* name) const {
  return trained_.at(absl::StrCat(kDraftPrefix, name, ".weight"));
}

at::Tensor DraftHead::Hidden(const at::Tensor& hidden, const at::Tensor& ids) const {
  const at::Tensor embedded = kernels::RmsNormOp(policy_.Embed(ids).detach(), at("enorm"), kEps);
  const at::Tensor before = kernels::RmsNormOp(hidden, at("hnorm"), kEps);
  const at::Tensor x = kernels::LinearOp(at::cat({embedded, before}, 1), at("eh_proj"), {});
  const at::Tensor normed = kernels::RmsNormOp(x, at("post_attention_layernorm"), kEps);
  const std::vector<at::Tensor> products = kernels::LinearsOp(normed, {at("mlp.gate_proj"), at("mlp.up_proj")});
  const at::Tensor inner = kernels::SwiGluOp(products[0], products[1]);
  return kernels::RmsNormOp(x + kernels::LinearOp(inner, at("mlp.down_proj"), {}), at("shared_head.norm"), kEps);
}

at::Tensor DraftHead::Logits(const at::Tensor& hidden) const {
  const at::Tensor logits = kernels::WideLinearOp(hidden, matrix_);
  const double cap = policy_.config().logit_soft_cap;
  return cap > 0 ? kernels::SoftCapOp(logits, cap) : logits;
}

absl::StatusOr<DraftTensors> ReadDraftHead(const std::string& dir) {
  const std::string path = dir + "/draft/model.safetensors";
  struct stat info;
  if (::stat(path.c_str(), &info) != 0) return DraftTensors();
  INGOT_ASSIGN_OR_RETURN(const auto tensors, LoadSafetensors(path));
  DraftTensors head;
  for (const auto& [name, tensor] : tensors) head[kDraftPrefix + name] = tensor;
  return head;
}

absl::Status WriteDraftHead(const std::string& dir, const DraftTensors& tensors) {
  const std::string folder = dir + "/draft";
  if (::mkdir(folder.c_str(), 0755) != 0 && errno != EEXIST) {
    return absl::ErrnoToStatus(errno, folder + ": creating the folder");
  }
  std::map<std::string, at::Tensor> named;
  for (const auto& [name, tensor] : tensors) named[name.substr(std::string_view(kDraftPrefix).size())] = tensor;
  return SaveSafetensors(folder + "/model.safetensors", named, {{"format", "pt"}});
}

}  // namespace ingot::model
