// Reads GGUF files, which contain a model's metadata, tokenizer, and tensors, usually quantized to a few bits. Format:
// https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
//
//   magic | version | tensors | fields || field ... || tensor info ... || padding || tensor data ...
//
// File::Open reads everything before the data and checks every count, length, and offset against the file's size. Its
// memory use is at most a few times the file's size or kMaxHeaderBytes, whichever is smaller.
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

// Maximum size of everything before the data. In real files, it is a few megabytes, mostly the vocabulary.
inline constexpr uint64_t kMaxHeaderBytes = uint64_t{64} << 20;

// A metadata value. Integers of any width are stored as int64 (a uint64 beyond its range is an error), and floats as
// double.
using Value = std::variant<bool, int64_t, double, std::string, std::vector<int64_t>, std::vector<double>,
                           std::vector<std::string>>;

// A tensor's entry in the table. `shape` is in Hugging Face order, with the last dimension contiguous. GGUF stores it
// reversed.
struct TensorInfo {
  std::string name;
  const BlockType* type = nullptr;
  std::vector<int64_t> shape;
  uint64_t elements = 0;
  uint64_t begin = 0, bytes = 0;  // position in the file
};

class File {
 public:
  // Returns INVALID_ARGUMENT, naming the file, the field or tensor, and the numbers, for a wrong magic or version; a
  // count, length, or offset beyond the file; an unsupported type; overlapping tensors; or duplicate names.
  static absl::StatusOr<File> Open(const std::string& path);
  File(File&&) noexcept;
  File& operator=(File&&) noexcept;
  ~File();

  const std::string& path() const { return path_; }
  const std::map<std::string, Value>& fields() const { return fields_; }
  const std::map<std::string, TensorInfo>& tensors() const { return tensors_; }

  // Returns the field's value, or nullptr if there is none. Returns INVALID_ARGUMENT, naming the file and field, if its
  // type is not T.
  template <typename T>
  absl::StatusOr<const T*> Find(const std::string& key) const {
    const auto found = fields_.find(key);
    if (found == fields_.end()) return nullptr;
    const T* value = std::get_if<T>(&found->second);
    if (value == nullptr) return OtherKind(key);
    return value;
  }
  // Same as Find, but returns NOT_FOUND, naming the file and field, if the field is missing.
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

  // Decodes the tensor into `to`, which must have space for info.elements floats, with a buffer of at most 1 MiB.
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
