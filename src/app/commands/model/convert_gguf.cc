#include "app/commands/model/convert_gguf.h"

#include <filesystem>
#include <map>

#include "base/file.h"
#include "gguf/file.h"
#include "model/from_gguf.h"
#include "text/tokenizer/gguf_tokenizer.h"

namespace ingot::app {
namespace {

namespace json = base::json;

absl::StatusOr<at::ScalarType> TypeNamed(const std::string& dtype) {
  if (dtype == "fp32") return at::kFloat;
  if (dtype == "bf16") return at::kBFloat16;
  return absl::InvalidArgumentError(absl::StrCat("--dtype ", dtype, ": it must be fp32 or bf16"));
}

json::object TensorsByType(const gguf::File& file) {
  std::map<std::string_view, int64_t> counts;
  for (const auto& [name, info] : file.tensors()) ++counts[info.type->name];
  json::object by_type;
  for (const auto& [type, count] : counts) by_type[type] = count;
  return by_type;
}

}  // namespace

absl::StatusOr<json::value> ConvertGguf(const std::string& file, const std::string& out, const std::string& dtype) {
  INGOT_ASSIGN_OR_RETURN(const at::ScalarType type, TypeNamed(dtype));
  if (std::filesystem::exists(out + "/config.json")) {
    return absl::AlreadyExistsError(
        absl::StrCat(out, " already contains a model: name another folder, or remove this one"));
  }
  INGOT_ASSIGN_OR_RETURN(const gguf::File gguf, gguf::File::Open(file));
  INGOT_ASSIGN_OR_RETURN(model::ModelConfig config, model::ConfigFromGguf(gguf));
  INGOT_ASSIGN_OR_RETURN(const auto files, text::TokenizerFilesFromGguf(gguf));
  INGOT_ASSIGN_OR_RETURN(const model::Parameters parameters, model::ParametersFromGguf(gguf, config, type));
  config.torch_dtype = type == at::kFloat ? "float32" : "bfloat16";

  std::error_code error;
  std::filesystem::create_directories(out, error);
  if (error) return absl::InvalidArgumentError(absl::StrCat(out, ": cannot create the folder: ", error.message()));
  for (const auto& [name, text] : files) {
    std::filesystem::create_directories((std::filesystem::path(out) / name).parent_path(), error);
    if (error)
      return absl::InvalidArgumentError(absl::StrCat(out, "/", name, ": cannot create its folder: ", error.message()));
    INGOT_RETURN_IF_ERROR(base::WriteFileDurably(absl::StrCat(out, "/", name), text));
  }
  INGOT_RETURN_IF_ERROR(model::SaveModelDir(out, config, parameters));
  return json::value{{"folder", out},
                     {"family", config.model_type},
                     {"parameters", config.ParameterCount()},
                     {"dtype", config.torch_dtype},
                     {"tensors", TensorsByType(gguf)}};
}

}  // namespace ingot::app
