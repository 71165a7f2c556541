// GGUF files: one file that holds a model's metadata, its tokenizer and its tensors, mostly in blocks of few bits.
// Format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
//
//   magic | version | tensors | fields || field ... || tensor info ... || padding || tensor data ...
//
// File::Open reads everything before the data and checks every count, length and offset against the file's size. Open
// uses at most a few times as much memory as the smaller of the file's size and kMaxHeaderBytes.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/status.h"
#include "gguf/blocks.h"

namespace ingot::gguf {

// The largest size of everything before the data. Real files have a few megabytes, most of it the vocabulary.
inline constexpr uint64_t kMaxHeaderBytes = uint64_t{64} << 20;

// A metadata value. Integers of every width are int64 (a uint64 above its range is an error), floats are double.
using Value = std::variant<bool, int64_t, double, std::string, std::vector<int64_t>, std::vector<double>,
                           std::vector<std::string>>;

// A tensor's row of the table. `shape` is in Hugging Face's order: the last dimension is contiguous (GGUF writes the
// sizes in reverse).
struct TensorInfo {
  std::string name;
  const BlockType* type = nullptr;
  std::vector<int64_t> shape;
  uint64_t elements = 0;
  uint64_t begin = 0, bytes = 0;  // place in the file
};

class File {
 public:
  // INVALID_ARGUMENT names the file, the field or tensor, and the numbers that do not fit: a wrong magic or version, a
  // count, length or offset beyond the file, an unsupported type, overlapping tensors, duplicate names.
  static absl::StatusOr<File> Open(const std::string& path);
  File(File&&) noexcept;
  File& operator=(File&&) noexcept;
  ~File();

  const std::string& path() const { return path_; }
  const std::map<std::string, Value>& fields() const { return fields_; }
  const std::map<std::string, TensorInfo>& tensors() const { return tensors_; }

  // The field's value; nullptr: no such field. INVALID_ARGUMENT names the file and the field if its kind is not T.
  template <typename T>
  absl::StatusOr<const T*> Find(const std::string& key) const {
    const auto found = fields_.find(key);
    if (found == fields_.end()) return nullptr;
    const T* value = std::get_if<T>(&found->second);
    if (value == nullptr) return OtherKind(key);
    return value;
  }
  // As Find; NOT_FOUND names the file and the field that is missing.
  template <typename T>
  absl::StatusOr<T> Require(const std::string& key) const {
    INGOT_ASSIGN_OR_RETURN(const T* value, Find<T>(key));
    if (value == nullptr) return Missing(key);
    return *value;
  }
  template <typename T>
  absl::StatusOr<T> FindOr(const std::string& key, T otherwise) const {
    INGOT_ASSIGN_OR_RETURN(const T* value, Find<T>(key));
    return value == nullptr ? otherwise : *value;
  }

  // Decodes the tensor into `to`, which has space for info.elements floats, with a buffer of at most 1 MiB.
  absl::Status Read(const TensorInfo& info, float* to) const;

 private:
  File() = default;
  absl::Status OtherKind(const std::string& key) const;
  absl::Status Missing(const std::string& key) const;

  std::string path_;
  int descriptor_ = -1;
  std::map<std::string, Value> fields_;
  std::map<std::string, TensorInfo> tensors_;
};

}  // namespace ingot::gguf
