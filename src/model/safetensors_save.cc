#include <ATen/ATen.h>

#include <algorithm>
#include <cstdio>

#include "base/file.h"
#include "model/parameters.h"
#include "model/safetensors_format.h"
#include "model/torch_error.h"

namespace ingot::model {
namespace {

absl::StatusOr<std::string> Header(const std::map<std::string, at::Tensor>& tensors,
                                   const std::map<std::string, std::string>& metadata) {
  base::json::object header;
  if (!metadata.empty()) {
    base::json::object fields;
    for (const auto& [key, text] : metadata) fields[key] = text;
    header["__metadata__"] = std::move(fields);
  }
  uint64_t at = 0;
  for (const auto& [name, tensor] : tensors) {
    const auto known =
        std::find_if(kDTypes.begin(), kDTypes.end(), [&](const DType& d) { return d.type == tensor.scalar_type(); });
    if (known == kDTypes.end()) {
      return absl::InvalidArgumentError(absl::StrCat("tensor '", name, "': dtype ", c10::toString(tensor.scalar_type()),
                                                     " cannot be stored as safetensors"));
    }
    base::json::array shape;
    for (int64_t size : tensor.sizes()) shape.emplace_back(size);
    const uint64_t end = at + tensor.nbytes();
    header[name] = base::json::object{
        {"dtype", std::string(known->name)}, {"shape", std::move(shape)}, {"data_offsets", base::json::array{at, end}}};
    at = end;
  }
  std::string text = base::PrintJson(header);
  text.append((8 - text.size() % 8) % 8, ' ');  // aligns the start of the data
  return text;
}

}  // namespace

absl::Status SaveSafetensors(const std::string& path, const std::map<std::string, at::Tensor>& tensors,
                             const std::map<std::string, std::string>& metadata) {
  try {
    INGOT_ASSIGN_OR_RETURN(const std::string header, Header(tensors, metadata));
    return base::ReplaceFileBy(path, [&](int file, const std::string& name) -> absl::Status {
      const uint64_t length = header.size();
      const std::string_view prefix(reinterpret_cast<const char*>(&length), sizeof(length));
      INGOT_RETURN_IF_ERROR(base::WriteAll(file, prefix, name));
      INGOT_RETURN_IF_ERROR(base::WriteAll(file, header, name));
      for (const auto& [key, tensor] : tensors) {
        const at::Tensor plain = tensor.detach().cpu().contiguous();
        const std::string_view bytes(static_cast<const char*>(plain.const_data_ptr()), plain.nbytes());
        INGOT_RETURN_IF_ERROR(base::WriteAll(file, bytes, name));
      }
      return absl::OkStatus();
    });
  } catch (const std::exception& error) {
    return base::Annotate(FromTorchException(error, "end other processes"), path);
  }
}

std::string ShardFile(const char* of, int shard, int shards) {
  char number[32] = "";
  if (shards > 1) std::snprintf(number, sizeof(number), "-%05d-of-%05d", shard + 1, shards);
  return absl::StrCat(of, number, ".safetensors");
}

absl::Status SaveModelConfig(const std::string& dir, const ModelConfig& config) {
  return base::ReplaceFile(dir + "/config.json", base::PrintJson(config.ToJson()) + "\n");
}

absl::Status SaveWeightsIndex(const std::string& dir, const std::map<std::string, std::string>& files, int64_t bytes) {
  base::json::object map;
  for (const auto& [tensor, file] : files) map[tensor] = file;
  const base::json::value index = {{"metadata", {{"total_size", bytes}}}, {"weight_map", std::move(map)}};
  return base::ReplaceFile(absl::StrCat(dir, "/", kWeightsIndex), base::PrintJson(index) + "\n");
}

}  // namespace ingot::model
