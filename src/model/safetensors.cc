#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <absl/strings/str_join.h>
#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <set>

#include "base/checksum.h"
#include "base/printable.h"
#include "base/written_files.h"
#include "model/parameters.h"
#include "model/safetensors_format.h"
#include "model/stored_tensors.h"

namespace ingot::model {
namespace {

constexpr uint64_t kMaxHeaderBytes = 100'000'000;  // as in the reference implementation

absl::Status Bad(const std::string& path, std::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat(path, ": not a usable safetensors file: ", base::CutMessage(what)));
}

absl::Status ReadAt(const File& file, const std::string& path, uint64_t offset, void* to, uint64_t count) {
  char* at = static_cast<char*>(to);
  while (count > 0) {
    const ssize_t got = ::pread(file.get(), at, std::min<uint64_t>(count, 1 << 30), static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return System(path, "reading");
    if (got == 0) return Bad(path, "the file became shorter while it was read");
    at += got;
    offset += got;
    count -= got;
  }
  return absl::OkStatus();
}

// Computes the digest of a file that is read in byte order.
struct FileDigest {
  base::StreamingChecksum checksum;
  uint64_t bytes = 0;
};

// Same as ReadAt, but also digests the bytes read unless `digested` is null. Processes blocks that fit into the CPU's
// cache.
absl::Status ReadDigested(const File& file, const std::string& path, uint64_t offset, void* to, uint64_t count,
                          FileDigest* digested) {
  constexpr uint64_t kBlock = 1 << 20;
  if (digested == nullptr) return ReadAt(file, path, offset, to, count);
  char* const begin = static_cast<char*>(to);
  for (uint64_t done = 0; done < count;) {
    const uint64_t next = std::min(kBlock, count - done);
    INGOT_RETURN_IF_ERROR(ReadAt(file, path, offset + done, begin + done, next));
    digested->checksum.Update(std::string_view(begin + done, next));
    digested->bytes += next;
    done += next;
  }
  return absl::OkStatus();
}

struct Entry {
  std::string name;
  at::ScalarType type;
  std::vector<int64_t> shape;
  uint64_t begin = 0, end = 0;
};

std::optional<uint64_t> AsUnsigned(const base::json::value& v) {
  if (v.is_uint64()) return v.get_uint64();
  if (v.is_int64() && v.get_int64() >= 0) return static_cast<uint64_t>(v.get_int64());
  return std::nullopt;
}

absl::StatusOr<Entry> ParseEntry(const std::string& path, std::string_view name, const base::json::value& json,
                                 uint64_t data_bytes) {
  const auto bad = [&](std::string_view what) {
    return Bad(path, absl::StrCat("tensor '", base::View(name), "' ", base::View(what)));
  };
  Entry entry;
  entry.name = std::string(name);
  const auto* dtype = base::Find(json, "dtype");
  const auto* shape = base::Find(json, "shape");
  const auto* offsets = base::Find(json, "data_offsets");
  if (dtype == nullptr || !dtype->is_string()) return bad("has no dtype");
  const auto known = std::find_if(kDTypes.begin(), kDTypes.end(), [&](const DType& d) {
    return d.name == std::string_view(dtype->get_string().data(), dtype->get_string().size());
  });
  if (known == kDTypes.end())
    return bad(absl::StrCat("has the unsupported dtype ", base::View(base::PrintJson(*dtype))));
  entry.type = known->type;

  if (shape == nullptr || !shape->is_array()) return bad("has no shape");
  uint64_t bytes = c10::elementSize(entry.type), extent = bytes;
  for (const auto& size : shape->get_array()) {
    const auto n = AsUnsigned(size);
    if (!n.has_value()) return bad("has a size that is not a whole number");
    // A size of zero makes the product zero, but torch still multiplies the other sizes for the strides.
    if (__builtin_mul_overflow(extent, std::max<uint64_t>(*n, 1), &extent) || extent > (uint64_t{1} << 62)) {
      return bad("has a shape whose size overflows");
    }
    bytes *= *n;
    entry.shape.push_back(static_cast<int64_t>(*n));
  }
  if (entry.shape.size() > 16) return bad("has more than 16 dimensions");

  if (offsets == nullptr || !offsets->is_array() || offsets->get_array().size() != 2) return bad("has no data_offsets");
  const auto begin = AsUnsigned(offsets->get_array()[0]), end = AsUnsigned(offsets->get_array()[1]);
  if (!begin.has_value() || !end.has_value()) return bad("has data_offsets that are not whole numbers");
  if (*begin > *end || *end > data_bytes) {
    return bad(absl::StrCat("lies at [", *begin, ", ", *end, ") of ", data_bytes, " data bytes: truncated file?"));
  }
  if (*end - *begin != bytes) {
    return bad(absl::StrCat("holds ", *end - *begin, " bytes, but its shape and dtype require ", bytes));
  }
  entry.begin = *begin;
  entry.end = *end;
  return entry;
}

absl::StatusOr<std::vector<Entry>> ParseHeader(const std::string& path, std::string_view text, uint64_t data_bytes) {
  auto json = base::ParseJson(text);
  if (!json.ok()) return Bad(path, absl::StrCat("header: ", json.status().message()));
  if (!json->is_object()) return Bad(path, "the header is not a JSON object");
  std::vector<Entry> entries;
  for (const auto& field : json->get_object()) {
    const std::string_view name(field.key().data(), field.key().size());
    if (name == "__metadata__") continue;
    INGOT_ASSIGN_OR_RETURN(Entry entry, ParseEntry(path, name, field.value(), data_bytes));
    entries.push_back(std::move(entry));
  }
  std::sort(entries.begin(), entries.end(),
            [](const Entry& a, const Entry& b) { return std::tie(a.begin, a.end) < std::tie(b.begin, b.end); });
  uint64_t at = 0;
  for (const Entry& entry : entries) {
    if (entry.begin != at) {
      return Bad(path, absl::StrCat("tensor '", entry.name, "' begins at ", entry.begin, ", but ", at,
                                    " was expected: tensors overlap or leave a gap"));
    }
    at = entry.end;
  }
  if (at != data_bytes) return Bad(path, absl::StrCat(data_bytes - at, " bytes at its end belong to no tensor"));
  return entries;
}

// Calls `visit(entry, read)` for every tensor in the file until it returns an error. read(to) reads the tensor's bytes.
// If `digested` is not null, each tensor must be read once. Afterwards it is the digest of the whole file.
template <typename Visit>
absl::Status VisitFile(const std::string& path, FileDigest* digested, const Visit& visit) {
  const File file(OpenToRead(path));
  if (file.get() < 0) return System(path, "opening");
  struct stat info;
  if (::fstat(file.get(), &info) != 0) return System(path, "reading its size");
  if (!S_ISREG(info.st_mode)) return Bad(path, "not a regular file");
  const uint64_t size = static_cast<uint64_t>(info.st_size);
  uint64_t header_bytes = 0;
  if (size < sizeof(header_bytes)) return Bad(path, absl::StrCat("only ", size, " bytes long"));
  INGOT_RETURN_IF_ERROR(ReadDigested(file, path, 0, &header_bytes, sizeof(header_bytes), digested));
  if (header_bytes > kMaxHeaderBytes || header_bytes > size - sizeof(header_bytes)) {
    return Bad(path, absl::StrCat("its header claims ", header_bytes, " bytes of a file of ", size));
  }
  std::string header(header_bytes, '\0');
  INGOT_RETURN_IF_ERROR(ReadDigested(file, path, sizeof(header_bytes), header.data(), header_bytes, digested));
  const uint64_t data_begin = sizeof(header_bytes) + header_bytes;
  INGOT_ASSIGN_OR_RETURN(const std::vector<Entry> entries, ParseHeader(path, header, size - data_begin));

  for (const Entry& entry : entries) {
    const auto read = [&](const at::Tensor& to) {
      const uint64_t bytes = entry.end - entry.begin;
      if (bytes == 0) return absl::OkStatus();
      return ReadDigested(file, path, data_begin + entry.begin, to.mutable_data_ptr(), bytes, digested);
    };
    INGOT_RETURN_IF_ERROR(visit(entry, read));
  }
  return absl::OkStatus();
}

absl::Status AddTensors(const std::string& path, const std::set<std::string>* names, bool contents,
                        FileDigest* digested, StoredTensors* to) {
  return VisitFile(path, digested, [&](const Entry& entry, const auto& read) -> absl::Status {
    const bool wanted = names == nullptr || names->contains(entry.name);
    if (!wanted && digested == nullptr) return absl::OkStatus();
    at::Tensor tensor = at::empty(entry.shape, at::dtype(entry.type).device(contents ? at::kCPU : at::kMeta));
    if (contents) INGOT_RETURN_IF_ERROR(read(tensor));
    if (!wanted) return absl::OkStatus();
    to->tensors[entry.name] = std::move(tensor);
    to->files[entry.name] = path;
    to->bytes += entry.end - entry.begin;
    return absl::OkStatus();
  });
}

// Adds a file's tensors, with their contents or on the meta device. If `names` is not null, adds only those. Returns
// DATA_LOSS if the bytes read are damaged or, after another error, if any byte of the file is.
absl::Status AddFile(const std::string& path, const std::set<std::string>* names, bool contents, StoredTensors* to) {
  const size_t slash = path.rfind('/');
  const std::string folder = slash == std::string::npos ? "." : path.substr(0, slash), file = path.substr(slash + 1);
  INGOT_ASSIGN_OR_RETURN(const base::WrittenFiles written, base::WrittenFiles::Of(folder));
  std::optional<FileDigest> digested;
  if (contents && written.lists(file)) digested.emplace();
  const absl::Status added = AddTensors(path, names, contents, digested.has_value() ? &*digested : nullptr, to);
  if (added.ok() && !digested.has_value()) return added;
  if (added.ok()) return written.Check(file, {digested->bytes, digested->checksum.Digest()});
  // A damaged header can look like any other fault. In that case, reports the damage.
  const absl::Status intact = written.CheckContents([&](std::string_view name) { return name == file; });
  return intact.ok() ? added : intact;
}

absl::StatusOr<std::set<std::string>> LoadFileInto(const std::string& path,
                                                   const std::map<std::string, at::Tensor>& into) {
  const at::NoGradGuard no_history;
  std::set<std::string> names;
  INGOT_RETURN_IF_ERROR(VisitFile(path, nullptr, [&](const Entry& entry, const auto& read) -> absl::Status {
    names.insert(entry.name);
    const auto found = into.find(entry.name);
    if (found == into.end()) return absl::OkStatus();
    const at::Tensor& to = found->second;
    if (to.sizes() != at::IntArrayRef(entry.shape)) {
      return absl::InvalidArgumentError(absl::StrCat(path, ": tensor '", entry.name, "' has an unexpected shape"));
    }
    if (to.is_cpu() && to.is_contiguous() && to.scalar_type() == entry.type) return read(to);
    const at::Tensor other = at::empty(entry.shape, entry.type);
    INGOT_RETURN_IF_ERROR(read(other));
    to.copy_(other);
    return absl::OkStatus();
  }));
  return names;
}

absl::StatusOr<std::string> ReadText(const std::string& path, uint64_t most) {
  const File file(OpenToRead(path));
  struct stat info;
  if (file.get() < 0 || ::fstat(file.get(), &info) != 0) return System(path, "opening");
  if (!S_ISREG(info.st_mode) || static_cast<uint64_t>(info.st_size) > most) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": not a regular file of at most ", most, " bytes"));
  }
  std::string text(info.st_size, '\0');
  INGOT_RETURN_IF_ERROR(ReadAt(file, path, 0, text.data(), text.size()));
  return text;
}

absl::Status AddShards(const std::string& path, bool contents, StoredTensors* to) {
  INGOT_ASSIGN_OR_RETURN(const std::string text, ReadText(path, kMaxHeaderBytes));
  INGOT_RETURN_IF_ERROR(base::CheckWritten(path, text));
  auto json = base::ParseJson(text);
  if (!json.ok()) return base::Annotate(json.status(), path);
  const auto* weights = base::Find(*json, "weight_map");
  if (weights == nullptr || !weights->is_object()) return absl::InvalidArgumentError(path + ": has no weight_map");
  std::map<std::string, std::set<std::string>> names_by_file;
  for (const auto& field : weights->get_object()) {
    if (!field.value().is_string())
      return absl::InvalidArgumentError(path + ": weight_map holds values other than file names");
    const std::string file(field.value().get_string());
    // A shard is next to its index, so reject a name that points elsewhere.
    if (file.empty() || file.find('/') != std::string::npos || file.find('\0') != std::string::npos) {
      return absl::InvalidArgumentError(absl::StrCat(path, ": '", file, "' is not a plain file name"));
    }
    names_by_file[file].insert(std::string(field.key()));
  }
  const std::string folder = path.substr(0, path.rfind('/') + 1);
  for (const auto& [file, names] : names_by_file) {
    INGOT_RETURN_IF_ERROR(AddFile(folder + file, &names, contents, to));
    for (const std::string& name : names) {
      const auto found = to->files.find(name);
      if (found == to->files.end() || found->second != folder + file) {
        return absl::InvalidArgumentError(absl::StrCat(path, ": tensor '", name, "' is not in ", file));
      }
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<StoredTensors> Read(const std::string& path, bool contents) {
  StoredTensors stored;
  try {
    INGOT_RETURN_IF_ERROR(path.ends_with(".json") ? AddShards(path, contents, &stored)
                                                  : AddFile(path, nullptr, contents, &stored));
  } catch (const std::exception& error) {  // out of memory, in torch's or the library's words
    return absl::ResourceExhaustedError(absl::StrCat(path, ": ", error.what()));
  }
  return stored;
}

}  // namespace

absl::StatusOr<std::map<std::string, at::Tensor>> LoadSafetensors(const std::string& path) {
  INGOT_ASSIGN_OR_RETURN(StoredTensors stored, Read(path, /*contents=*/true));
  return std::move(stored.tensors);
}

absl::StatusOr<StoredTensors> DescribeSafetensors(const std::string& path) { return Read(path, /*contents=*/false); }

absl::Status CheckFits(const std::string& path, const StoredTensors& stored, int64_t need, int64_t available) {
  if (need <= available) return absl::OkStatus();
  std::string largest;
  int64_t most = -1;
  for (const auto& [name, tensor] : stored.tensors) {
    const auto bytes = static_cast<int64_t>(tensor.nbytes());
    if (bytes <= most) continue;
    most = bytes;
    largest = absl::StrCat("'", name, "' [", absl::StrJoin(tensor.sizes(), ", "), "] of ", stored.files.at(name));
  }
  return absl::ResourceExhaustedError(absl::StrCat(path, ": ", stored.tensors.size(), " tensors need ", need,
                                                   " bytes, the largest ", largest, " ", most, " of them; ", available,
                                                   " are available"));
}

absl::StatusOr<std::set<std::string>> LoadSafetensorsInto(const std::string& path,
                                                          const std::map<std::string, at::Tensor>& into) {
  try {
    return LoadFileInto(path, into);
  } catch (const std::exception& error) {
    return absl::ResourceExhaustedError(absl::StrCat(path, ": ", error.what()));
  }
}

}  // namespace ingot::model
