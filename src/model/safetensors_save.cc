#include <ATen/ATen.h>
#include <fcntl.h>

#include <algorithm>
#include <cstdio>

#include "model/parameters.h"
#include "model/safetensors_format.h"

namespace ingot::model {
namespace {

absl::Status WriteAll(const File& file, const std::string& path, const void* from, uint64_t count) {
  const char* at = static_cast<const char*>(from);
  while (count > 0) {
    const ssize_t put = ::write(file.get(), at, std::min<uint64_t>(count, 1 << 30));
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) return System(path, "writing");
    at += put;
    count -= put;
  }
  return absl::OkStatus();
}

// Renames `from` to `to`. After a crash, `to` is the old file or the whole new one.
absl::Status Publish(const File& file, const std::string& from, const std::string& to) {
  if (::fsync(file.get()) != 0) return System(from, "fsync");
  if (::rename(from.c_str(), to.c_str()) != 0) return System(to, "renaming into place");
  const size_t slash = to.rfind('/');
  const std::string folder = slash == std::string::npos ? "." : to.substr(0, slash + 1);
  const File directory(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (directory.get() < 0 || ::fsync(directory.get()) != 0) return System(folder, "fsync");
  return absl::OkStatus();
}

// write(file, temporary name) fills the file, which then replaces `path`.
template <typename Write>
absl::Status Replace(const std::string& path, const Write& write) {
  const std::string temporary = absl::StrCat(path, ".", ::getpid(), ".tmp");
  const File file(::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  if (file.get() < 0) return System(temporary, "creating");
  absl::Status status = write(file, temporary);
  if (status.ok()) status = Publish(file, temporary, path);
  if (!status.ok()) ::unlink(temporary.c_str());
  return status;
}

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
  text.append((8 - text.size() % 8) % 8, ' ');  // the data begins aligned
  return text;
}

absl::Status SaveText(const std::string& path, const std::string& text) {
  return Replace(
      path, [&](const File& file, const std::string& name) { return WriteAll(file, name, text.data(), text.size()); });
}

}  // namespace

absl::Status SaveSafetensors(const std::string& path, const std::map<std::string, at::Tensor>& tensors,
                             const std::map<std::string, std::string>& metadata) {
  try {
    INGOT_ASSIGN_OR_RETURN(const std::string header, Header(tensors, metadata));
    return Replace(path, [&](const File& file, const std::string& name) -> absl::Status {
      const uint64_t length = header.size();
      INGOT_RETURN_IF_ERROR(WriteAll(file, name, &length, sizeof(length)));
      INGOT_RETURN_IF_ERROR(WriteAll(file, name, header.data(), length));
      for (const auto& [key, tensor] : tensors) {
        const at::Tensor plain = tensor.detach().cpu().contiguous();
        INGOT_RETURN_IF_ERROR(WriteAll(file, name, plain.const_data_ptr(), plain.nbytes()));
      }
      return absl::OkStatus();
    });
  } catch (const std::exception& error) {
    return absl::InternalError(absl::StrCat(path, ": ", error.what()));
  }
}

std::string ShardFile(const char* of, int shard, int shards) {
  char number[32] = "";
  if (shards > 1) std::snprintf(number, sizeof(number), "-%05d-of-%05d", shard + 1, shards);
  return absl::StrCat(of, number, ".safetensors");
}

absl::Status SaveModelConfig(const std::string& dir, const ModelConfig& config) {
  return SaveText(dir + "/config.json", base::PrintJson(config.ToJson()) + "\n");
}

absl::Status SaveWeightsIndex(const std::string& dir, const std::map<std::string, std::string>& files, int64_t bytes) {
  base::json::object map;
  for (const auto& [tensor, file] : files) map[tensor] = file;
  const base::json::value index = {{"metadata", {{"total_size", bytes}}}, {"weight_map", std::move(map)}};
  return SaveText(absl::StrCat(dir, "/", kWeightsIndex), base::PrintJson(index) + "\n");
}

}  // namespace ingot::model
