// Tracks the versions that a server holds as adapters of one base model. Each request uses one version until it ends.
// Not thread safe.
//
//   Add --> held while it is live, retained, or used by a request --> TakeUnused --> the caller unloads it
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engines/server/written_version.h"

namespace ingot::engines {

// Returns whether the tensor is one of an adapter's factors.
bool IsFactor(const std::string& tensor);
// Returns a checksum of the snapshot's tensors, excluding adapters.
uint64_t BaseChecksum(const weights::Snapshot& snapshot);
// Returns `base` with the factors of `other`, which has the same tensors. Shares their memory.
absl::StatusOr<std::shared_ptr<const weights::Snapshot>> WithFactorsOf(const weights::Snapshot& base,
                                                                       const weights::Snapshot& other);
// Returns the adapter's name on the server.
std::string AdapterName(const std::string& label);

class AdapterVersions {
 public:
  struct Adapter {
    WrittenVersion version;
    int64_t loaded_unix_ns = 0;
    bool loaded = true;  // false = the server has lost it
    bool retained = false;
    int requests = 0;
  };

  // Adds a version that the server has loaded. It replaces a live or retained version with the same number but
  // different weights, which then stays only while requests use it.
  void Add(WrittenVersion version, int64_t loaded_unix_ns);
  // Makes the version with this label live. The previous live version stays if it is retained.
  void SetLive(const std::string& label) { live_ = label; }
  void Retain(const std::string& label);
  void Release(int64_t version);
  // Marks a version as loaded again.
  void SetLoaded(const std::string& label);

  // Returns the loaded version with this number, which is live or retained; null = none.
  const Adapter* Find(int64_t version) const;
  // Returns all versions that are live or retained.
  std::vector<Adapter> Held() const;
  int retained(int64_t besides) const;  // retained versions other than `besides`

  // Counts a request to the version with this label.
  void Begin(const std::string& label);
  void End(const std::string& label);

  // Removes and returns the versions that are neither live, retained, nor used.
  std::vector<WrittenVersion> TakeUnused();
  // Call when the server has lost its adapters and requests.
  void Lose();

 private:
  Adapter* Labeled(const std::string& label);
  bool Holds(const Adapter& adapter) const { return adapter.retained || adapter.version.label == live_; }

  std::vector<Adapter> adapters_;
  std::string live_;
};

}  // namespace ingot::engines
