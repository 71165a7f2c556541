// The sizes and checksums (XXH3) of the files that were written into a model's folder. Code that loads a file of the
// folder compares them, so that damage on a disk or in a copy is an error, not a different model. The record is one of
// these:
//
//   state.json       of a checkpoint (trainer/checkpoints/checkpoint.h), in its field "files"
//   checksums.json   of any other folder, written by WriteChecksums
//
// Both end with a checksum of their own text. A folder without a record, such as a Hugging Face folder, has nothing to
// compare with: every check of it succeeds. So does the check of a file that the record does not list.
//
// Errors are DATA_LOSS. They name the file, what was written, what is there, and what to do. Thread safe; blocks on disk.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "base/json.h"
#include "base/status.h"

namespace ingot::base {

struct FileDigest {
  uint64_t bytes = 0;
  uint64_t checksum = 0;

  bool operator==(const FileDigest&) const = default;
};

// The digest of a file's contents. An error names a file that cannot be read.
absl::StatusOr<FileDigest> DigestFile(const std::string& path);

// The JSON object with the checksum of its text as its last field. IsSealed: the text is unchanged since.
std::string Seal(const json::value& object);
bool IsSealed(std::string_view text);

// {"NAME": {"bytes": 4, "xxh3": "0123456789abcdef"}, ...} and back.
json::object PrintDigests(const std::map<std::string, FileDigest>& files);
absl::StatusOr<std::map<std::string, FileDigest>> ParseDigests(const json::value& files);
// The number in 16 hexadecimal digits; DATA_LOSS: the field is not such a number.
absl::StatusOr<uint64_t> HexField(const json::value& object, const std::string& key);

inline constexpr char kCheckpointState[] = "state.json";
inline constexpr char kChecksums[] = "checksums.json";

class WrittenFiles {
 public:
  // The record in `folder`. DATA_LOSS: the record itself is damaged.
  static absl::StatusOr<WrittenFiles> Of(const std::string& folder);
  WrittenFiles(std::string folder, std::string record, std::map<std::string, FileDigest> files)
      : folder_(std::move(folder)), record_(std::move(record)), files_(std::move(files)) {}

  // By name below the folder: NAME, or FOLDER/NAME.
  const std::map<std::string, FileDigest>& files() const { return files_; }
  bool lists(const std::string& name) const { return files_.contains(name); }

  // Compares the record with what was read of a file.
  absl::Status Check(const std::string& name, const FileDigest& found) const;

  // Checks the listed files for which `chosen` is true: that they exist with their sizes; or their contents too.
  using Chosen = std::function<bool(std::string_view name)>;
  absl::Status CheckSizes(const Chosen& chosen) const;
  absl::Status CheckContents(const Chosen& chosen) const;

 private:
  std::string folder_, record_;
  std::map<std::string, FileDigest> files_;
};

// Compares a file that was read as a whole with the record of its folder.
absl::Status CheckWritten(const std::string& path, std::string_view contents);

// Records all files of `folder` in its checksums.json, durably. Call it last, after the last change to the files.
absl::Status WriteChecksums(const std::string& folder);
// Call it before writing files of the folder again. An error: the record is still there.
absl::Status RemoveChecksums(const std::string& folder);

}  // namespace ingot::base
