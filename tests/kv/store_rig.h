// A small root, chunks whose bytes are a function of their key, and a temporary folder.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <numeric>
#include <string>
#include <vector>

#include "base/rng.h"
#include "kv/file_store.h"

namespace ingot::kv {

inline Root SmallRoot(uint64_t policy_checksum = 7) {
  return {.policy_checksum = policy_checksum,
          .model = "small",
          .numerics = "cpu portable",
          .dtype = "F32",
          .chunk_tokens = 8,
          .block_tokens = 4,
          .plane_bytes = {96, 96, 40}};
}

inline std::vector<Chunk> SmallChain(const Root& root, int chunks, int32_t first_id = 0) {
  std::vector<int32_t> ids(static_cast<size_t>(chunks * root.chunk_tokens));
  std::iota(ids.begin(), ids.end(), first_id);
  return ChainOf(root.Key(), ids, root.chunk_tokens);
}

// The bytes of a chunk, with two pieces per plane.
class Planes {
 public:
  explicit Planes(const Root& root) {
    for (const int64_t bytes : root.plane_bytes) bytes_.emplace_back(static_cast<size_t>(bytes));
  }
  // The bytes that a writer of this chunk writes.
  Planes(const Root& root, const Chunk& chunk) : Planes(root) {
    uint64_t seed = base::Checksum64(base::KeyBytes(chunk.key)), n = 0;
    for (auto& plane : bytes_) {
      for (std::byte& byte : plane) byte = static_cast<std::byte>(base::DeriveSeed(seed, n++));
    }
  }
  PlanesToRead read() {
    PlanesToRead planes;
    for (auto& plane : bytes_) planes.push_back({std::span(plane).first(16), std::span(plane).subspan(16)});
    return planes;
  }
  PlanesToWrite write() const {
    PlanesToWrite planes;
    for (const auto& plane : bytes_) planes.push_back({std::span(plane).first(24), std::span(plane).subspan(24)});
    return planes;
  }
  bool operator==(const Planes& other) const = default;

 private:
  std::vector<std::vector<std::byte>> bytes_;
};

class TempFolder {
 public:
  TempFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "ingot_kv_XXXXXX").string();
    path_ = mkdtemp(name.data());
  }
  ~TempFolder() {
    std::error_code error;
    std::filesystem::remove_all(path_, error);
  }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

inline std::vector<std::string> FilesIn(const std::string& folder, const std::string& end = "") {
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (entry.path().string().ends_with(end) && !entry.is_directory()) files.push_back(entry.path().string());
  }
  return files;
}

inline int64_t ChunkBytesIn(const std::string& folder) {
  int64_t sum = 0;
  for (const std::string& file : FilesIn(folder, ".kv")) {
    std::error_code error;
    const auto bytes = std::filesystem::file_size(file, error);
    if (!error) sum += static_cast<int64_t>(bytes);
  }
  return sum;
}

}  // namespace ingot::kv
