#include "app/commands/model/model_command.h"

#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>

#include <filesystem>
#include <iostream>
#include <map>

#include "app/commands/model/convert_gguf.h"
#include "app/commands/model/model_info.h"
#include "app/models/text_parts.h"
#include "app/run/process.h"
#include "app/terminal/progress.h"
#include "base/file.h"
#include "model/parameters.h"
#include "model/peft.h"
#include "model/sequence_attention.h"
#include "model/transformer.h"
#include "trainer/torch_edge.h"

namespace ingot::app {
namespace {

namespace json = base::json;

absl::StatusOr<model::ModelFolder> LoadFolder(const std::string& dir) {
  const Underway loading("model: loading " + dir);
  return model::LoadModelDir(dir);
}

absl::StatusOr<model::ModelFolder> Load(const ModelArgs& args) {
  INGOT_ASSIGN_OR_RETURN(model::ModelFolder folder, LoadFolder(args.dir));
  if (!args.adapter.empty()) {
    auto added = model::AddAdapters(args.adapter, &folder);
    if (!added.ok()) return base::Annotate(added, "--adapter " + args.adapter);
  }
  return folder;
}

absl::Status Convert(const std::string& dtype, model::Parameters* parameters) {
  if (dtype == "model") return absl::OkStatus();
  if (dtype != "fp32" && dtype != "bf16") {
    return absl::InvalidArgumentError(absl::StrCat("--dtype ", dtype, ": it must be fp32, bf16, or model"));
  }
  const at::ScalarType type = dtype == "bf16" ? at::kBFloat16 : at::kFloat;
  for (auto& [name, tensor] : parameters->tensors()) tensor = tensor.to(type);
  return absl::OkStatus();
}

absl::StatusOr<json::value> Logits(const ModelArgs& args) {
  INGOT_ASSIGN_OR_RETURN(const model::ModelConfig config, model::ModelConfig::FromFile(args.dir + "/config.json"));
  const auto count = static_cast<int64_t>(args.ids.size());
  if (count > config.max_position_embeddings) {
    return absl::InvalidArgumentError(
        absl::StrCat("--ids has ", count, " ids, but the model's context is ", config.max_position_embeddings));
  }
  for (const int64_t id : args.ids) {
    if (id < 0 || id >= config.vocab_size) {
      return absl::InvalidArgumentError(
          absl::StrCat("--ids has ", id, ", outside the vocabulary: ids are from 0 to ", config.vocab_size - 1));
    }
  }
  INGOT_ASSIGN_OR_RETURN(model::ModelFolder folder, Load(args));
  INGOT_RETURN_IF_ERROR(Convert(args.dtype, &folder.parameters));
  INGOT_ASSIGN_OR_RETURN(const model::Transformer model,
                         model::Transformer::Create(folder.config, std::move(folder.parameters)));
  const c10::InferenceMode no_autograd;
  model::SequenceAttention attention;
  const at::Tensor ids = at::tensor(args.ids, at::kLong);
  const at::Tensor hidden = model.Hidden(ids, at::arange(count, at::kLong), attention);
  const at::Tensor rows = args.all ? hidden : hidden.slice(0, count - 1, count);
  const at::Tensor logits = model.Logits(rows).to(at::kFloat).contiguous();
  json::array list;
  const float* at = logits.const_data_ptr<float>();
  for (int64_t row = 0; row < logits.size(0); ++row, at += logits.size(1)) {
    list.emplace_back(json::array(at, at + logits.size(1)));
  }
  return json::value{{"first_position", args.all ? 0 : count - 1}, {"logits", std::move(list)}};
}

// Prevents overwriting a folder that contains a model.
absl::Status CheckOut(const std::string& out) {
  if (!std::filesystem::exists(out + "/config.json")) return absl::OkStatus();
  return absl::AlreadyExistsError(
      absl::StrCat(out, " already contains a model: name another folder, or remove this one"));
}

// Copies the first model's tokenizer and chat format, if any.
absl::Status CopyText(const std::string& from, const std::string& to) {
  if (!std::filesystem::exists(from + "/tokenizer.json")) return absl::OkStatus();
  INGOT_ASSIGN_OR_RETURN(const TextParts text, LoadTextParts(from, ""));
  for (const auto& [name, content] : text.files) {
    const std::string path = absl::StrCat(to, "/", name);
    std::filesystem::create_directories(std::filesystem::path(path).parent_path());
    INGOT_RETURN_IF_ERROR(base::WriteFileDurably(path, content));
  }
  return absl::OkStatus();
}

absl::StatusOr<json::value> Written(const ModelArgs& args, const model::ModelFolder& folder) {
  const Underway writing("model: writing " + args.out);
  INGOT_RETURN_IF_ERROR(model::SaveModelDir(args.out, folder.config, folder.parameters));
  INGOT_RETURN_IF_ERROR(CopyText(args.dir, args.out));
  return json::value{
      {"folder", args.out}, {"family", folder.config.model_type}, {"parameters", folder.config.ParameterCount()}};
}

absl::StatusOr<json::value> Export(const ModelArgs& args) {
  INGOT_RETURN_IF_ERROR(CheckOut(args.out));
  INGOT_ASSIGN_OR_RETURN(model::ModelFolder folder, Load(args));
  model::FoldAdapters(&folder);
  return Written(args, folder);
}

// Two models can be averaged only if both compute in the same way. Returns INVALID_ARGUMENT with the first key that
// differs.
absl::Status CheckAlike(model::ModelConfig first, model::ModelConfig second) {
  INGOT_RETURN_IF_ERROR(model::Parameters::CheckSameShapes(first, second));
  for (model::ModelConfig* config : {&first, &second}) {
    config->torch_dtype = "float32";
    config->bos_token_id = -1;
    config->eos_token_ids.clear();
  }
  const json::value ours = first.ToJson(), theirs = second.ToJson();
  for (const auto& [one, other] : {std::pair(&ours, &theirs), std::pair(&theirs, &ours)}) {
    for (const auto& field : one->get_object()) {
      const json::value* there = base::Find(*other, field.key());
      if (there != nullptr && *there == field.value()) continue;
      const json::value* here = base::Find(ours, field.key());
      there = base::Find(theirs, field.key());
      return absl::InvalidArgumentError(
          absl::StrCat("'", std::string(field.key()), "' is ", here == nullptr ? "not set" : base::PrintJson(*here),
                       " in the first and ", there == nullptr ? "not set" : base::PrintJson(*there), " in the second"));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<json::value> Merge(const ModelArgs& args) {
  INGOT_RETURN_IF_ERROR(CheckOut(args.out));
  INGOT_ASSIGN_OR_RETURN(model::ModelFolder folder, Load(args));
  if (folder.config.lora.rank == 0 && args.other.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(args.dir, " has no adapters: name one with --adapter, or a second model with --with"));
  }
  model::FoldAdapters(&folder);
  if (args.other.empty()) return Written(args, folder);
  INGOT_ASSIGN_OR_RETURN(model::ModelConfig other_config, model::ModelConfig::FromFile(args.other + "/config.json"));
  other_config.lora = {};
  const absl::Status same = CheckAlike(folder.config, other_config);
  if (!same.ok())
    return base::Annotate(same, absl::StrCat("--with ", args.other, " is not the same model as ", args.dir));
  INGOT_ASSIGN_OR_RETURN(model::ModelFolder other, LoadFolder(args.other));
  model::FoldAdapters(&other);
  INGOT_RETURN_IF_ERROR(model::AverageInto(&folder.parameters, other.parameters));
  return Written(args, folder);
}

absl::StatusOr<json::value> Adapter(const ModelArgs& args) {
  INGOT_ASSIGN_OR_RETURN(const model::ModelFolder folder, LoadFolder(args.dir));
  if (folder.config.lora.rank == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(args.dir, " has no adapters: name a checkpoint of a run with trainer.lora"));
  }
  INGOT_RETURN_IF_ERROR(model::SaveAdapter(args.out, folder.config, folder.parameters, args.other));
  return json::value{{"folder", args.out}, {"rank", folder.config.lora.rank}, {"alpha", folder.config.lora.alpha}};
}

// The default "model" stands for the type that represents every value in the file exactly.
absl::StatusOr<json::value> FromGguf(const ModelArgs& args) {
  const Underway converting("model: converting " + args.file);
  return ConvertGguf(args.file, args.out, args.dtype == "model" ? "fp32" : args.dtype);
}

// Returns a command that prints the result as JSON.
template <absl::StatusOr<json::value> (*kRun)(const ModelArgs&)>
absl::StatusOr<std::string> AsJson(const ModelArgs& args) {
  INGOT_ASSIGN_OR_RETURN(const json::value result, kRun(args));
  return base::PrintJson(result) + "\n";
}

}  // namespace

const std::vector<ModelCommand>& ModelCommands() {
  static const auto* const commands = new std::vector<ModelCommand>{
      {"logits",
       "the logits that follow a sequence of token ids",
       {"model", "adapter", "ids", "dtype", "all"},
       AsJson<Logits>},
      {"convert", "write a GGUF file as a model folder", {"file", "out", "dtype"}, AsJson<FromGguf>},
      {"info",
       "family, parameters, and the memory to serve and to train; with --device, whether a GPU can hold them",
       {"model", "kv-cache-tokens", "micro-batch-tokens", "plan"},
       ModelInfo},
      {"export",
       "write a checkpoint as a folder that transformers loads, with its adapters folded in",
       {"model", "adapter", "out"},
       AsJson<Export>},
      {"merge",
       "fold an adapter into its base, or average two models: writes a model folder",
       {"model", "adapter", "with", "out"},
       AsJson<Merge>},
      {"adapter", "write a checkpoint's adapter as a PEFT folder", {"model", "base", "out"}, AsJson<Adapter>},
  };
  return *commands;
}

int RunModelCommand(std::string_view name, const ModelArgs& args, std::ostream& out, std::ostream& errors) {
  for (const ModelCommand& command : ModelCommands()) {
    if (command.name != name) continue;
    const absl::StatusOr<std::string> result =
        trainer::AtTorchEdge(absl::StrCat("ingot model ", base::View(name)), [&] { return command.run(args); });
    if (!result.ok()) return Fail(result.status());
    out << *result;
    return 0;
  }
  errors << "ingot model: there is no command " << name << "\n";
  return 2;
}

}  // namespace ingot::app
