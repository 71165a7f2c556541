#include "base/written_files.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include "base/checksum.h"
#include "base/fd.h"
#include "base/file.h"

namespace ingot::base {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kMaxRecordBytes = int64_t{64} << 20;

absl::Status Failed(const std::string& what, const std::string& path) {
  return absl::ErrnoToStatus(errno, absl::StrCat("cannot ", what, " ", path));
}

// A sealed text's checksum, which is its last field: "...,"xxh3":"0123456789abcdef"}\n".
constexpr std::string_view kSealBegin = ",\"xxh3\":\"", kSealEnd = "\"}\n";

// Returns true if a state.json belongs to an Ingot checkpoint and not to another program. A single flipped bit leaves
// one of the two markers intact.
bool IsCheckpoints(std::string_view text) {
  return text.find("\"ingot-checkpoint-") != std::string_view::npos ||
         text.find("\"weights_checksum\"") != std::string_view::npos;
}

// Returns true for formats without a seal. A flipped bit cannot turn the current format into one of them.
bool IsOfEarlierFormat(const json::value& state) {
  const json::value* const format = Find(state, "format");
  return format != nullptr &&
         (*format == "ingot-checkpoint-1" || *format == "ingot-checkpoint-2" || *format == "ingot-checkpoint-3");
}

// Returns true if text without an intact seal is nevertheless a record. Other programs also write files with these
// names. A single flipped bit leaves one of the words intact.
bool IsOurs(const std::string& name, std::string_view text) {
  if (text.empty()) return true;  // truncated
  if (name == kCheckpointState) return IsCheckpoints(text);
  return text.find("\"xxh3\"") != std::string_view::npos || text.starts_with("{\"files\"");
}

absl::Status DamagedRecord(const std::string& path, std::string_view fault) {
  return absl::DataLossError(
      absl::StrCat(path, " is damaged: ", View(fault),
                   ". It contains the checksums of the folder's files: copy the folder again, or use another "
                   "checkpoint; if you remove this file, the folder is loaded unchecked"));
}

absl::StatusOr<WrittenFiles> ParseRecord(const std::string& folder, const std::string& name, const std::string& text) {
  const std::string path = absl::StrCat(folder, "/", name);
  const bool sealed = IsSealed(text);
  if (!sealed && !IsOurs(name, text)) return WrittenFiles(folder, "", {});
  const absl::StatusOr<json::value> record = ParseJson(text);
  if (!record.ok()) return DamagedRecord(path, std::string(record.status().message()));
  if (!sealed && name == kCheckpointState && IsOfEarlierFormat(*record)) return WrittenFiles(folder, "", {});
  if (!sealed) return DamagedRecord(path, "its text differs from what was written");
  const json::value* const files = Find(*record, "files");
  if (files == nullptr) return DamagedRecord(path, "it lists no files");
  auto digests = ParseDigests(*files);
  if (!digests.ok()) return DamagedRecord(path, std::string(digests.status().message()));
  return WrittenFiles(folder, name, *std::move(digests));
}

}  // namespace

absl::StatusOr<FileDigest> DigestFile(const std::string& path) {
  // Opening a pipe without a writer does not block.
  const Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (fd.get() < 0) return Failed("open", path);
  FileDigest digest;
  StreamingChecksum checksum;
  std::vector<std::byte> block(size_t{1} << 20);
  for (;;) {
    const ssize_t got = ::read(fd.get(), block.data(), block.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return Failed("read", path);
    if (got == 0) break;
    checksum.Update(std::span<const std::byte>(block.data(), static_cast<size_t>(got)));
    digest.bytes += static_cast<uint64_t>(got);
  }
  digest.checksum = checksum.Digest();
  return digest;
}

std::string Seal(const json::value& object) {
  std::string text = PrintJson(object);
  const std::string checksum = Hex(Checksum64(text));
  text.pop_back();
  return absl::StrCat(text, View(kSealBegin), checksum, View(kSealEnd));
}

bool IsSealed(std::string_view text) {
  constexpr size_t kDigits = 16, kSeal = kSealBegin.size() + kDigits + kSealEnd.size();
  if (text.size() < kSeal || !text.ends_with(kSealEnd)) return false;
  const std::string_view seal = text.substr(text.size() - kSeal);
  const std::string object = absl::StrCat(View(text.substr(0, text.size() - kSeal)), "}");
  return seal.starts_with(kSealBegin) && seal.substr(kSealBegin.size(), kDigits) == Hex(Checksum64(object));
}

json::object PrintDigests(const std::map<std::string, FileDigest>& files) {
  json::object list;
  for (const auto& [name, digest] : files) {
    list[name] = json::object{{"bytes", digest.bytes}, {"xxh3", Hex(digest.checksum)}};
  }
  return list;
}

absl::StatusOr<uint64_t> HexField(const json::value& object, const std::string& key) {
  const json::value* const field = Find(object, key);
  uint64_t value = 0;
  if (field == nullptr || !field->is_string() || field->as_string().size() != 16) {
    return absl::DataLossError(absl::StrCat("it has no checksum '", key, "'"));
  }
  for (const char c : field->as_string()) {
    const int digit = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
    if (digit < 0) return absl::DataLossError(absl::StrCat("'", key, "' is not hexadecimal"));
    value = value * 16 + static_cast<uint64_t>(digit);
  }
  return value;
}

absl::StatusOr<std::map<std::string, FileDigest>> ParseDigests(const json::value& files) {
  if (!files.is_object()) return absl::DataLossError("it lists no files");
  std::map<std::string, FileDigest> digests;
  for (const auto& [key, entry] : files.get_object()) {
    const json::value* const bytes = Find(entry, "bytes");
    const absl::StatusOr<uint64_t> checksum = HexField(entry, "xxh3");
    const bool counted = bytes != nullptr && (bytes->is_uint64() || (bytes->is_int64() && bytes->as_int64() >= 0));
    if (!counted || !checksum.ok()) return absl::DataLossError(absl::StrCat("it has no digest of ", std::string(key)));
    digests[std::string(key)] = {bytes->to_number<uint64_t>(), *checksum};
  }
  return digests;
}

absl::StatusOr<WrittenFiles> WrittenFiles::Of(const std::string& folder) {
  for (const char* name : {kCheckpointState, kChecksums}) {
    const std::string path = absl::StrCat(folder, "/", name);
    std::error_code none;
    if (!fs::exists(path, none)) continue;
    const absl::StatusOr<std::string> text = ReadFile(path, kMaxRecordBytes);
    if (!text.ok()) return DamagedRecord(path, std::string(text.status().message()));
    INGOT_ASSIGN_OR_RETURN(WrittenFiles written, ParseRecord(folder, name, *text));
    if (!written.record_.empty()) return written;
  }
  return WrittenFiles(folder, "", {});
}

absl::Status WrittenFiles::Check(const std::string& name, const FileDigest& found) const {
  const auto written = files_.find(name);
  if (written == files_.end() || written->second == found) return absl::OkStatus();
  const auto& [bytes, checksum] = written->second;
  const std::string fault =
      bytes != found.bytes
          ? absl::StrCat("it has ", found.bytes, " bytes, but ", bytes, " were written")
          : absl::StrCat("its checksum (XXH3) is ", Hex(found.checksum), ", but the written file had ", Hex(checksum));
  return absl::DataLossError(absl::StrCat(folder_, "/", name, " is damaged: ", fault, " (", record_,
                                          " next to it): copy the folder again, or use another checkpoint; if it was "
                                          "changed on purpose, remove ",
                                          record_));
}

absl::Status WrittenFiles::CheckSizes(const Chosen& chosen) const {
  for (const auto& [name, written] : files_) {
    if (!chosen(name)) continue;
    std::error_code error;
    const uint64_t bytes = fs::file_size(folder_ + "/" + name, error);
    if (error) {
      return absl::DataLossError(
          absl::StrCat(folder_, "/", name, ", which ", record_, " next to it lists with ", written.bytes,
                       " bytes, cannot be read (", error.message(),
                       "): copy the folder again, or use another checkpoint; if it was removed on "
                       "purpose, remove ",
                       record_));
    }
    if (bytes != written.bytes) return Check(name, {bytes, 0});
  }
  return absl::OkStatus();
}

absl::Status WrittenFiles::CheckContents(const Chosen& chosen) const {
  INGOT_RETURN_IF_ERROR(CheckSizes(chosen));
  for (const auto& [name, written] : files_) {
    if (!chosen(name)) continue;
    const absl::StatusOr<FileDigest> found = DigestFile(folder_ + "/" + name);
    if (!found.ok()) return absl::DataLossError(found.status().message());
    INGOT_RETURN_IF_ERROR(Check(name, *found));
  }
  return absl::OkStatus();
}

absl::Status CheckWritten(const std::string& path, std::string_view contents) {
  const fs::path file(path);
  const std::string folder = file.has_parent_path() ? file.parent_path().string() : ".";
  INGOT_ASSIGN_OR_RETURN(const WrittenFiles written, WrittenFiles::Of(folder));
  return written.Check(file.filename().string(), {contents.size(), Checksum64(contents)});
}

absl::Status WriteChecksums(const std::string& folder) {
  std::map<std::string, FileDigest> files;
  std::error_code error;
  for (fs::recursive_directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    const std::string name = it->path().lexically_relative(folder).generic_string();
    if (it->is_directory() || name == kChecksums) continue;
    INGOT_ASSIGN_OR_RETURN(files[name], DigestFile(it->path().string()));
  }
  if (error) return absl::UnavailableError(absl::StrCat("cannot list ", folder, ": ", error.message()));
  INGOT_RETURN_IF_ERROR(
      WriteFileDurably(absl::StrCat(folder, "/", kChecksums), Seal(json::object{{"files", PrintDigests(files)}})));
  return SyncDir(folder);
}

absl::Status RemoveChecksums(const std::string& folder) {
  const std::string path = absl::StrCat(folder, "/", kChecksums);
  if (::unlink(path.c_str()) == 0 || errno == ENOENT || errno == ENOTDIR) return absl::OkStatus();
  return Failed("remove", path);
}

}  // namespace ingot::base
