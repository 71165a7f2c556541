// Makers of snapshots and bytes for the tests of src/weights.
#pragma once

#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "weights/snapshot.h"

namespace ingot::weights::testing {

// Tensors of a model, as bytes that tests may change.
struct Tensors {
  std::vector<TensorView> views;
  std::vector<std::string> bytes;

  void Add(const std::string& name, const std::string& dtype, std::vector<int64_t> shape, std::string data) {
    views.push_back({name, dtype, std::move(shape), {}});
    bytes.push_back(std::move(data));
  }
  const std::vector<TensorView>& Views() {
    for (size_t i = 0; i < views.size(); ++i) {
      views[i].bytes = std::as_bytes(std::span<const char>(bytes[i].data(), bytes[i].size()));
    }
    return views;
  }
  std::shared_ptr<const Snapshot> TakeSnapshot(int64_t version) { return Snapshot::Copy(version, Views()).value(); }
};

inline std::string RandomBytes(std::mt19937_64& rng, size_t size) {
  std::string bytes(size, '\0');
  for (char& byte : bytes) byte = static_cast<char>(rng());
  return bytes;
}

inline bool SameWeights(const Snapshot& a, const Snapshot& b) {
  if (a.size() != b.size() || a.checksum() != b.checksum() || a.version() != b.version()) return false;
  for (size_t i = 0; i < a.size(); ++i) {
    if (a.bytes(i).size() != b.bytes(i).size()) return false;
    if (!a.bytes(i).empty() && std::memcmp(a.bytes(i).data(), b.bytes(i).data(), a.bytes(i).size()) != 0) return false;
  }
  return a.manifest().SerializeAsString() == b.manifest().SerializeAsString();
}

}  // namespace ingot::weights::testing
