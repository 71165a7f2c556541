#include "gguf/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <limits>
#include <utility>

#include "base/printable.h"
#include "gguf/reader.h"

namespace ingot::gguf {
namespace {

constexpr uint64_t kMaxTensorElements = uint64_t{1} << 48;
constexpr uint32_t kMaxDimensions = 4;  // ggml's limit per tensor
constexpr uint64_t kMaxAlignment = 1 << 16;

enum FieldType : uint32_t {
  kUint8 = 0,
  kInt8,
  kUint16,
  kInt16,
  kUint32,
  kInt32,
  kFloat32,
  kBool,
  kString,
  kArray,
  kUint64,
  kInt64,
  kFloat64
};

// A number with the type from the file, as int64 or double.
struct Scalar {
  bool real = false;
  int64_t integer = 0;
  double number = 0;
};

template <typename T>
absl::StatusOr<Scalar> ReadScalarOf(Reader& reader) {
  INGOT_ASSIGN_OR_RETURN(const T value, reader.Number<T>());
  if constexpr (std::is_floating_point_v<T>) {
    return Scalar{.real = true, .number = static_cast<double>(value)};
  } else {
    if (std::cmp_greater(value, std::numeric_limits<int64_t>::max())) {
      return reader.Bad(absl::StrCat("is ", value, ", beyond the largest supported number"));
    }
    return Scalar{.integer = static_cast<int64_t>(value)};
  }
}

struct ScalarType {
  uint32_t type;
  uint64_t bytes;
  absl::StatusOr<Scalar> (*read)(Reader&);
};
constexpr std::array<ScalarType, 11> kScalars = {{{kUint8, 1, ReadScalarOf<uint8_t>},
                                                  {kInt8, 1, ReadScalarOf<int8_t>},
                                                  {kUint16, 2, ReadScalarOf<uint16_t>},
                                                  {kInt16, 2, ReadScalarOf<int16_t>},
                                                  {kUint32, 4, ReadScalarOf<uint32_t>},
                                                  {kInt32, 4, ReadScalarOf<int32_t>},
                                                  {kFloat32, 4, ReadScalarOf<float>},
                                                  {kBool, 1, ReadScalarOf<uint8_t>},
                                                  {kUint64, 8, ReadScalarOf<uint64_t>},
                                                  {kInt64, 8, ReadScalarOf<int64_t>},
                                                  {kFloat64, 8, ReadScalarOf<double>}}};

const ScalarType* FindScalar(uint32_t type) {
  const auto* found =
      std::find_if(kScalars.begin(), kScalars.end(), [&](const ScalarType& known) { return known.type == type; });
  return found == kScalars.end() ? nullptr : found;
}

absl::StatusOr<Value> ReadArray(Reader& reader) {
  INGOT_ASSIGN_OR_RETURN(const auto type, reader.Number<uint32_t>());
  if (type == kString) {
    INGOT_ASSIGN_OR_RETURN(const uint64_t count, reader.Count("texts", sizeof(uint64_t)));
    std::vector<std::string> texts(count);
    for (std::string& text : texts) {
      INGOT_ASSIGN_OR_RETURN(text, reader.Text());
    }
    return Value(std::move(texts));
  }
  const ScalarType* scalar = FindScalar(type);
  if (scalar == nullptr) return reader.Bad(absl::StrCat("is an array of type ", type, ", which is not supported"));
  INGOT_ASSIGN_OR_RETURN(const uint64_t count, reader.Count("numbers", scalar->bytes));
  std::vector<int64_t> integers;
  std::vector<double> numbers;
  const bool real = type == kFloat32 || type == kFloat64;
  real ? numbers.reserve(count) : integers.reserve(count);
  for (uint64_t i = 0; i < count; ++i) {
    INGOT_ASSIGN_OR_RETURN(const Scalar value, scalar->read(reader));
    real ? numbers.push_back(value.number) : integers.push_back(value.integer);
  }
  return real ? Value(std::move(numbers)) : Value(std::move(integers));
}

absl::StatusOr<Value> ReadValue(Reader& reader) {
  INGOT_ASSIGN_OR_RETURN(const auto type, reader.Number<uint32_t>());
  if (type == kArray) return ReadArray(reader);
  if (type == kString) {
    INGOT_ASSIGN_OR_RETURN(std::string text, reader.Text());
    return Value(std::move(text));
  }
  const ScalarType* scalar = FindScalar(type);
  if (scalar == nullptr) return reader.Bad(absl::StrCat("has the value type ", type, ", which GGUF does not define"));
  INGOT_ASSIGN_OR_RETURN(const Scalar value, scalar->read(reader));
  if (type == kBool) return Value(value.integer != 0);
  return value.real ? Value(value.number) : Value(value.integer);
}

absl::Status ReadFields(Reader& reader, uint64_t count, std::map<std::string, Value>& fields) {
  for (uint64_t i = 0; i < count; ++i) {
    reader.SetPlace(absl::StrCat("field ", i + 1, " of ", count));
    INGOT_ASSIGN_OR_RETURN(std::string key, reader.Text());
    reader.SetPlace(absl::StrCat("field '", key, "' (", i + 1, " of ", count, ")"));
    INGOT_ASSIGN_OR_RETURN(Value value, ReadValue(reader));
    if (!fields.emplace(std::move(key), std::move(value)).second) return reader.Bad("appears twice");
  }
  reader.SetPlace("");
  return absl::OkStatus();
}

// Reads the shape, reverses its order, and sets `elements`.
absl::Status ReadShape(Reader& reader, TensorInfo& info) {
  INGOT_ASSIGN_OR_RETURN(const auto dimensions, reader.Number<uint32_t>());
  if (dimensions < 1 || dimensions > kMaxDimensions) {
    return reader.Bad(absl::StrCat("has ", dimensions, " dimensions, not 1 to ", kMaxDimensions));
  }
  info.elements = 1;
  for (uint32_t i = 0; i < dimensions; ++i) {
    INGOT_ASSIGN_OR_RETURN(const auto size, reader.Number<uint64_t>());
    if (size < 1 || __builtin_mul_overflow(info.elements, size, &info.elements) || info.elements > kMaxTensorElements) {
      return reader.Bad(absl::StrCat("has ", size, " as its size ", i + 1, ": empty, or larger than any file"));
    }
    info.shape.insert(info.shape.begin(), static_cast<int64_t>(size));
  }
  return absl::OkStatus();
}

std::string ReadTypes() {
  std::string names;
  for (const BlockType& type : BlockTypes()) absl::StrAppend(&names, names.empty() ? "" : ", ", base::View(type.name));
  return names;
}

// Sets `begin` to the offset within the data.
absl::StatusOr<TensorInfo> ReadTensorInfo(Reader& reader, uint64_t number, uint64_t count) {
  TensorInfo info;
  reader.SetPlace(absl::StrCat("tensor ", number, " of ", count));
  INGOT_ASSIGN_OR_RETURN(info.name, reader.Text());
  reader.SetPlace(absl::StrCat("tensor '", info.name, "'"));
  INGOT_RETURN_IF_ERROR(ReadShape(reader, info));
  INGOT_ASSIGN_OR_RETURN(const auto type, reader.Number<uint32_t>());
  info.type = FindBlockType(type);
  if (info.type == nullptr) {
    return reader.Bad(absl::StrCat("has the type ", type, ", which is not supported; supported: ", ReadTypes()));
  }
  const auto row = static_cast<uint64_t>(info.shape.back());
  if (row % info.type->values != 0) {
    return reader.Bad(absl::StrCat("has rows of ", row, " values, not a multiple of the ", info.type->values,
                                   " in a block of ", base::View(info.type->name)));
  }
  info.bytes = info.elements / info.type->values * info.type->bytes;
  INGOT_ASSIGN_OR_RETURN(info.begin, reader.Number<uint64_t>());
  return info;
}

absl::Status ReadTensorTable(Reader& reader, uint64_t count, uint64_t alignment,
                             std::map<std::string, TensorInfo>& tensors) {
  for (uint64_t i = 0; i < count; ++i) {
    INGOT_ASSIGN_OR_RETURN(TensorInfo info, ReadTensorInfo(reader, i + 1, count));
    if (info.begin % alignment != 0) {
      return reader.Bad(absl::StrCat("is at offset ", info.begin, ", not a multiple of the alignment ", alignment));
    }
    std::string name = info.name;
    if (!tensors.emplace(std::move(name), std::move(info)).second) return reader.Bad("appears twice");
  }
  return absl::OkStatus();
}

// Converts every tensor's offset to its position in the file. Tensors must be within the file and must not overlap.
absl::Status PlaceTensors(Reader& reader, uint64_t data, uint64_t size, std::map<std::string, TensorInfo>& tensors) {
  std::vector<const TensorInfo*> by_place;
  for (auto& [name, info] : tensors) {
    const uint64_t room = size - std::min(data, size);
    if (info.begin > room || info.bytes > room - info.begin) {
      reader.SetPlace(absl::StrCat("tensor '", name, "'"));
      return reader.Bad(
          absl::StrCat("is at [", info.begin, ", +", info.bytes, ") of ", room, " data bytes: is the file truncated?"));
    }
    info.begin += data;
    by_place.push_back(&info);
  }
  std::sort(by_place.begin(), by_place.end(),
            [](const TensorInfo* a, const TensorInfo* b) { return a->begin < b->begin; });
  for (size_t i = 1; i < by_place.size(); ++i) {
    const TensorInfo &before = *by_place[i - 1], &info = *by_place[i];
    if (before.begin + before.bytes <= info.begin) continue;
    reader.SetPlace(absl::StrCat("tensor '", info.name, "'"));
    return reader.Bad(absl::StrCat("begins at byte ", info.begin, ", inside tensor '", before.name, "' at [",
                                   before.begin, ", ", before.begin + before.bytes, ")"));
  }
  return absl::OkStatus();
}

absl::StatusOr<uint64_t> AlignmentIn(const std::map<std::string, Value>& fields, const Reader& reader) {
  constexpr uint64_t kDefault = 32;
  const auto found = fields.find("general.alignment");
  if (found == fields.end()) return kDefault;
  const auto* value = std::get_if<int64_t>(&found->second);
  if (value == nullptr || *value < 1 || std::cmp_greater(*value, kMaxAlignment) ||
      !std::has_single_bit(static_cast<uint64_t>(*value))) {
    return reader.Bad(absl::StrCat("field 'general.alignment' must be a power of two up to ", kMaxAlignment));
  }
  return static_cast<uint64_t>(*value);
}

}  // namespace

absl::StatusOr<File> File::Open(const std::string& path) {
  File file;
  file.path_ = path;
  file.descriptor_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);  // does not block on a pipe
  if (file.descriptor_ < 0) return absl::ErrnoToStatus(errno, absl::StrCat(path, ": opening failed"));
  struct stat info;
  if (::fstat(file.descriptor_, &info) != 0) return absl::ErrnoToStatus(errno, absl::StrCat(path, ": no size"));
  if (!S_ISREG(info.st_mode)) return absl::InvalidArgumentError(absl::StrCat(path, ": not a regular file"));
  const auto size = static_cast<uint64_t>(info.st_size);

  Reader reader(path, file.descriptor_, size, std::min(size, kMaxHeaderBytes));
  reader.SetPlace("the beginning");
  std::array<char, 4> magic;
  INGOT_RETURN_IF_ERROR(reader.ReadBytes(magic.data(), magic.size()));
  if (std::string_view(magic.data(), magic.size()) != "GGUF") return reader.Bad("is not the magic number 'GGUF'");
  INGOT_ASSIGN_OR_RETURN(const auto version, reader.Number<uint32_t>());
  if (version != 2 && version != 3) return reader.Bad(absl::StrCat("has version ", version, "; supported: 2 and 3"));
  constexpr uint64_t kMinTensor = 8 + 1 + 4 + 8 + 4 + 8, kMinField = 8 + 1 + 4 + 1;
  INGOT_ASSIGN_OR_RETURN(const uint64_t tensors, reader.Count("tensors", kMinTensor));
  INGOT_ASSIGN_OR_RETURN(const uint64_t fields, reader.Count("fields", kMinField));
  INGOT_RETURN_IF_ERROR(ReadFields(reader, fields, file.fields_));
  INGOT_ASSIGN_OR_RETURN(const uint64_t alignment, AlignmentIn(file.fields_, reader));
  INGOT_RETURN_IF_ERROR(ReadTensorTable(reader, tensors, alignment, file.tensors_));
  const uint64_t data = (reader.at() + alignment - 1) / alignment * alignment;
  INGOT_RETURN_IF_ERROR(PlaceTensors(reader, data, size, file.tensors_));
  return file;
}

File::File(File&& other) noexcept
    : path_(std::move(other.path_)),
      descriptor_(std::exchange(other.descriptor_, -1)),
      fields_(std::move(other.fields_)),
      tensors_(std::move(other.tensors_)) {}

File& File::operator=(File&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(descriptor_, other.descriptor_);
  fields_.swap(other.fields_);
  tensors_.swap(other.tensors_);
  return *this;
}

File::~File() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

absl::Status File::Read(const TensorInfo& info, float* to) const {
  constexpr uint64_t kBufferBytes = 1 << 20;
  const BlockType& type = *info.type;
  const uint64_t blocks = info.bytes / type.bytes, most = kBufferBytes / type.bytes;
  std::vector<uint8_t> buffer(std::min(blocks, most) * type.bytes);
  for (uint64_t done = 0; done < blocks;) {
    const uint64_t part = std::min(most, blocks - done);
    INGOT_RETURN_IF_ERROR(ReadAt(path_, descriptor_, info.begin + done * type.bytes, buffer.data(), part * type.bytes));
    type.decode(buffer.data(), part, to + done * type.values);
    done += part;
  }
  return absl::OkStatus();
}

absl::Status File::OtherKind(const std::string& key) const {
  return absl::InvalidArgumentError(
      absl::StrCat(path_, ": field '", base::Shown(key), "' has a value of the wrong kind"));
}

absl::Status File::Missing(const std::string& key) const {
  return absl::NotFoundError(absl::StrCat(path_, ": field '", key, "' is missing"));
}

}  // namespace ingot::gguf
