// gpt-oss (arXiv 2508.10925): attention with sinks, a window in every other layer, experts with biases and a clamped
// gate. Its files store all experts of a layer in one tensor, with gate and up interleaved, or as MXFP4 blocks.
#include <ATen/ATen.h>

#include <array>
#include <tuple>
#include <vector>

#include "model/config_json.h"
#include "model/families/family.h"
#include "model/families/rows.h"

namespace ingot::model {
namespace {

const ExpertNames kNames = {.router = "mlp.router.weight",
                            .correction_bias = "",
                            .gate = "mlp.experts.%.gate_proj",
                            .up = "mlp.experts.%.up_proj",
                            .down = "mlp.experts.%.down_proj"};

LayerSpec Layer(const ModelConfig& config, int64_t index) { return ExpertLayer(config, index, kNames); }

absl::Status Read(const base::json::value& json, ModelConfig* config) {
  ExpertsConfig& e = config->experts;
  e.count = 128;
  e.per_token = 4;
  e.width = config->intermediate_size;
  e.scoring = "softmax_chosen";
  e.router_bias = e.bias = true;
  e.balance_coefficient = 0.9;
  INGOT_RETURN_IF_ERROR(ReadInt(json, "num_experts", false, &e.count));
  INGOT_RETURN_IF_ERROR(ReadInt(json, "num_local_experts", false, &e.count));
  INGOT_RETURN_IF_ERROR(ReadInt(json, "experts_per_token", false, &e.per_token));
  INGOT_RETURN_IF_ERROR(ReadInt(json, "num_experts_per_tok", false, &e.per_token));
  INGOT_RETURN_IF_ERROR(ReadDouble(json, "router_aux_loss_coef", &e.balance_coefficient));
  INGOT_RETURN_IF_ERROR(RejectNumber(json, "swiglu_limit", 7));
  INGOT_RETURN_IF_ERROR(RejectNumber(json, "swiglu_alpha", 1.702));
  config->sinks = true;
  config->hidden_act = "clamped";
  const base::json::value* quantization = base::Find(json, "quantization_config");
  if (IsNull(quantization)) return absl::OkStatus();
  std::string method;
  INGOT_RETURN_IF_ERROR(ReadString(*quantization, "quant_method", &method));
  return method == "mxfp4"
             ? absl::OkStatus()
             : BadKey("quantization_config", absl::StrCat("is of method '", method, "', only mxfp4 is supported"));
}

void Write(const ModelConfig& config, base::json::object* json) {
  base::json::object& o = *json;
  o["num_local_experts"] = config.experts.count;
  o["num_experts_per_tok"] = config.experts.per_token;
  o["router_aux_loss_coef"] = config.experts.balance_coefficient;
  o["swiglu_limit"] = 7.0;
}

// MXFP4 (OCP Microscaling Formats 1.0): blocks [..., n / 32, 16] have two 4-bit floats per byte, the low one first.
// Scales [..., n / 32] have a power of two each, biased by 127. Returns [..., n] in bf16. Decodes one expert at a time,
// because the intermediate values are eight times as wide.
at::Tensor Decoded(const at::Tensor& blocks, const at::Tensor& scales) {
  if (blocks.is_meta()) {  // the file is only described, not read
    return at::empty({blocks.size(0), blocks.size(1), blocks.size(2) * 32}, blocks.options().dtype(at::kBFloat16));
  }
  constexpr std::array<float, 16> kValues = {0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6};
  const at::Tensor table = at::tensor(at::ArrayRef<float>(kValues), at::kFloat);
  std::vector<at::Tensor> experts;
  for (int64_t e = 0; e < blocks.size(0); ++e) {
    const at::Tensor wide = blocks.select(0, e).to(at::kLong);
    const at::Tensor numbers = at::stack({wide.bitwise_and(15), wide.bitwise_right_shift(4)}, -1).flatten(-2);
    const at::Tensor powers = at::exp2(scales.select(0, e).to(at::kFloat) - 127).unsqueeze(-1);
    const at::Tensor values = table.index_select(0, numbers.reshape({-1})).view(numbers.sizes()) * powers;
    experts.push_back(values.flatten(-2).to(at::kBFloat16));
  }
  return at::stack(experts);
}

// Returns whether blocks and scales match each other and a layer's experts.
bool Fits(const at::Tensor& blocks, const at::Tensor& scales, int64_t experts) {
  return blocks.dim() == 4 && scales.dim() == 3 && blocks.size(0) == experts && blocks.size(3) == 16 &&
         blocks.sizes().slice(0, 3) == scales.sizes() && blocks.scalar_type() == at::kByte &&
         scales.scalar_type() == at::kByte;
}

absl::Status FromFile(const ModelConfig& config, std::map<std::string, at::Tensor>* tensors) {
  const int64_t experts = config.experts.count, width = config.experts.width, hidden = config.hidden_size;
  const auto take = [&](const std::string& name) {
    const auto node = tensors->extract(name);
    return node.empty() ? at::Tensor() : node.mapped();
  };
  const auto put = [&](const std::string& prefix, int64_t e, const char* name, const at::Tensor& t) {
    (*tensors)[absl::StrCat(prefix, e, ".", name)] = t.contiguous();
  };
  for (int64_t i = 0; i < config.num_hidden_layers; ++i) {
    const std::string prefix = LayerPrefix(i) + "mlp.experts.";
    at::Tensor gate_up = take(prefix + "gate_up_proj"), down = take(prefix + "down_proj");
    const at::Tensor up_blocks = take(prefix + "gate_up_proj_blocks"), up_scales = take(prefix + "gate_up_proj_scales");
    const at::Tensor down_blocks = take(prefix + "down_proj_blocks"), down_scales = take(prefix + "down_proj_scales");
    for (const auto& [blocks, scales, to] :
         {std::tuple(&up_blocks, &up_scales, &gate_up), std::tuple(&down_blocks, &down_scales, &down)}) {
      if (!blocks->defined() && !scales->defined()) continue;
      if (!blocks->defined() || !scales->defined() || !Fits(*blocks, *scales, experts)) {
        return absl::InvalidArgumentError(absl::StrCat("the MXFP4 blocks and scales of '", prefix, "...' of layer ", i,
                                                       " do not match each other, or do not match ", experts,
                                                       " experts"));
      }
      *to = Decoded(*blocks, *scales).transpose(1, 2);
    }
    const at::Tensor up_bias = take(prefix + "gate_up_proj_bias"), down_bias = take(prefix + "down_proj_bias");
    if (!gate_up.defined() && !down.defined()) continue;  // an Ingot checkpoint, which stores experts separately
    const std::pair<const at::Tensor*, std::vector<int64_t>> wanted[] = {{&gate_up, {experts, hidden, 2 * width}},
                                                                         {&up_bias, {experts, 2 * width}},
                                                                         {&down, {experts, width, hidden}},
                                                                         {&down_bias, {experts, hidden}}};
    for (const auto& [tensor, shape] : wanted) {
      if (!tensor->defined() || tensor->sizes() != at::IntArrayRef(shape)) {
        return absl::InvalidArgumentError(
            absl::StrCat("the experts '", prefix, "...' of layer ", i,
                         " are incomplete or have the wrong shape: gate_up_proj, down_proj ",
                         "and their biases must match ", experts, " experts of width ", width));
      }
    }
    for (int64_t e = 0; e < experts; ++e) {
      const at::Tensor both = gate_up.select(0, e).t(), bias = up_bias.select(0, e);
      put(prefix, e, "gate_proj.weight", both.slice(0, 0, 2 * width, 2));
      put(prefix, e, "up_proj.weight", both.slice(0, 1, 2 * width, 2));
      put(prefix, e, "gate_proj.bias", bias.slice(0, 0, 2 * width, 2));
      put(prefix, e, "up_proj.bias", bias.slice(0, 1, 2 * width, 2));
      put(prefix, e, "down_proj.weight", down.select(0, e).t());
      put(prefix, e, "down_proj.bias", down_bias.select(0, e));
    }
  }
  return absl::OkStatus();
}

void ToFile(const ModelConfig& config, std::map<std::string, at::Tensor>* tensors) {
  for (int64_t i = 0; i < config.num_hidden_layers; ++i) {
    const std::string prefix = LayerPrefix(i) + "mlp.experts.";
    std::vector<at::Tensor> gate_up, up_bias, down, down_bias;
    for (int64_t e = 0; e < config.experts.count; ++e) {
      const auto take = [&](const char* name) { return tensors->extract(absl::StrCat(prefix, e, ".", name)).mapped(); };
      const at::Tensor gate = take("gate_proj.weight"), up = take("up_proj.weight");
      gate_up.push_back(at::stack({gate, up}, 1).flatten(0, 1).t());
      const at::Tensor gate_bias = take("gate_proj.bias");
      up_bias.push_back(at::stack({gate_bias, take("up_proj.bias")}, 1).flatten());
      down.push_back(take("down_proj.weight").t());
      down_bias.push_back(take("down_proj.bias"));
    }
    (*tensors)[prefix + "gate_up_proj"] = at::stack(gate_up).contiguous();
    (*tensors)[prefix + "gate_up_proj_bias"] = at::stack(up_bias);
    (*tensors)[prefix + "down_proj"] = at::stack(down).contiguous();
    (*tensors)[prefix + "down_proj_bias"] = at::stack(down_bias);
  }
}

}  // namespace

extern const Family kGptOss;
const Family kGptOss = {.model_type = "gpt_oss",
                        .architecture = "GptOssForCausalLM",
                        .default_head_dim = 64,
                        .qkv_bias = true,
                        .default_rope_theta = 150000,
                        .window = Window::kPattern,
                        .full_layer_every = 2,
                        .default_window = 128,
                        .always_out_bias = true,
                        .layer = Layer,
                        .read = Read,
                        .write = Write,
                        .from_file = FromFile,
                        .to_file = ToFile};

}  // namespace ingot::model
