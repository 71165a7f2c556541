// Records the sizes and checksums (XXH3) of the files in a model folder. Code that loads a file checks them, so a file
// that was corrupted on disk or by copying causes an error instead of silently changing the model. The record is one of
// these files:
//
//   state.json       in a checkpoint (trainer/checkpoints/checkpoint.h), in the field "files"
//   checksums.json   in any other folder, written by WriteChecksums
//
// Both end with a checksum of their own text. If a folder has no record, as for a folder from Hugging Face, all checks
// succeed. Checks of unlisted files also succeed.
//
// Errors are DATA_LOSS and include the file, the expected and actual values, and what to do. Thread safe. Blocks on
// disk I/O.
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

// Returns the digest of a file's contents. If the file cannot be read, the error names it.
absl::StatusOr<FileDigest> DigestFile(const std::string& path);

// Seal prints the JSON object with a checksum of its text as the last field. IsSealed returns true if the text is
// unchanged.
std::string Seal(const json::value& object);
bool IsSealed(std::string_view text);

// Convert digests to {"NAME": {"bytes": 4, "xxh3": "0123456789abcdef"}, ...} and back.
json::object PrintDigests(const std::map<std::string, FileDigest>& files);
absl::StatusOr<std::map<std::string, FileDigest>> ParseDigests(const json::value& files);
// Parses a field that holds 16 hexadecimal digits. Returns DATA_LOSS for any other value.
absl::StatusOr<uint64_t> HexField(const json::value& object, const std::string& key);

inline constexpr char kCheckpointState[] = "state.json";
inline constexpr char kChecksums[] = "checksums.json";

class WrittenFiles {
 public:
  // Returns the record in `folder`, or DATA_LOSS if the record itself is corrupted.
  static absl::StatusOr<WrittenFiles> Of(const std::string& folder);
  WrittenFiles(std::string folder, std::string record, std::map<std::string, FileDigest> files)
      : folder_(std::move(folder)), record_(std::move(record)), files_(std::move(files)) {}

  // Names are relative to the folder: NAME or FOLDER/NAME.
  const std::map<std::string, FileDigest>& files() const { return files_; }
  bool lists(const std::string& name) const { return files_.contains(name); }

  // Compares the digest of a file's contents with the record.
  absl::Status Check(const std::string& name, const FileDigest& found) const;

  // Check the listed files that `chosen` selects. CheckSizes checks that they exist with the right sizes. CheckContents
  // also checks their contents.
  using Chosen = std::function<bool(std::string_view name)>;
  absl::Status CheckSizes(const Chosen& chosen) const;
  absl::Status CheckContents(const Chosen& chosen) const;

 private:
  std::string folder_, record_;
  std::map<std::string, FileDigest> files_;
};

// Compares a file's complete contents with its folder's record.
absl::Status CheckWritten(const std::string& path, std::string_view contents);

// Durably records all of the folder's files in its checksums.json. Must be called after the last change to the files.
absl::Status WriteChecksums(const std::string& folder);
// Must be called before changing any of the folder's files. If it fails, the record still exists.
absl::Status RemoveChecksums(const std::string& folder);

}  // namespace ingot::base
