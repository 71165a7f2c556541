#include "engines/external/adapter_versions.h"

#include <algorithm>
#include <utility>

namespace ingot::engines {

bool IsFactor(const std::string& tensor) {
  return tensor.ends_with(".lora_A.weight") || tensor.ends_with(".lora_B.weight");
}

uint64_t BaseChecksum(const weights::Snapshot& snapshot) {
  v1::Manifest base;
  for (const v1::TensorInfo& tensor : snapshot.manifest().tensors()) {
    if (!IsFactor(tensor.name())) *base.add_tensors() = tensor;
  }
  return weights::ManifestChecksum(base);
}

absl::StatusOr<std::shared_ptr<const weights::Snapshot>> WithFactorsOf(const weights::Snapshot& base,
                                                                       const weights::Snapshot& other) {
  std::vector<weights::TensorView> views;
  for (size_t i = 0; i < base.size(); ++i) {
    weights::TensorView view = base.view(i);
    if (IsFactor(view.name) && i < other.size()) view = other.view(i);
    views.push_back(std::move(view));
  }
  return weights::Snapshot::Copy(base.version(), views);
}

std::string AdapterName(const std::string& label) { return "ingot-" + label; }

AdapterVersions::Adapter* AdapterVersions::Labeled(const std::string& label) {
  const auto found =
      std::find_if(adapters_.begin(), adapters_.end(), [&](const Adapter& a) { return a.version.label == label; });
  return found == adapters_.end() ? nullptr : &*found;
}

void AdapterVersions::Add(WrittenVersion version, int64_t loaded_unix_ns) {
  for (Adapter& earlier : adapters_) {
    const bool same_number = earlier.version.snapshot->version() == version.snapshot->version();
    if (same_number && earlier.version.label != version.label) earlier.retained = false;
  }
  if (Adapter* again = Labeled(version.label); again != nullptr) {
    again->loaded = true;
    return;
  }
  adapters_.push_back({.version = std::move(version), .loaded_unix_ns = loaded_unix_ns});
}

void AdapterVersions::Retain(const std::string& label) {
  if (Adapter* adapter = Labeled(label); adapter != nullptr) adapter->retained = true;
}

void AdapterVersions::Release(int64_t version) {
  for (Adapter& adapter : adapters_) {
    if (adapter.version.snapshot->version() == version) adapter.retained = false;
  }
}

void AdapterVersions::SetLoaded(const std::string& label) {
  if (Adapter* adapter = Labeled(label); adapter != nullptr) adapter->loaded = true;
}

const AdapterVersions::Adapter* AdapterVersions::Find(int64_t version) const {
  for (const Adapter& adapter : adapters_) {
    if (adapter.loaded && Holds(adapter) && adapter.version.snapshot->version() == version) return &adapter;
  }
  return nullptr;
}

std::vector<AdapterVersions::Adapter> AdapterVersions::Held() const {
  std::vector<Adapter> held;
  std::copy_if(adapters_.begin(), adapters_.end(), std::back_inserter(held),
               [this](const Adapter& adapter) { return Holds(adapter); });
  return held;
}

int AdapterVersions::retained(int64_t besides) const {
  return static_cast<int>(std::count_if(adapters_.begin(), adapters_.end(), [besides](const Adapter& adapter) {
    return adapter.retained && adapter.version.snapshot->version() != besides;
  }));
}

void AdapterVersions::Begin(const std::string& label) {
  if (Adapter* adapter = Labeled(label); adapter != nullptr) ++adapter->requests;
}

void AdapterVersions::End(const std::string& label) {
  if (Adapter* adapter = Labeled(label); adapter != nullptr && adapter->requests > 0) --adapter->requests;
}

std::vector<WrittenVersion> AdapterVersions::TakeUnused() {
  const auto unused = std::stable_partition(adapters_.begin(), adapters_.end(), [this](const Adapter& adapter) {
    return Holds(adapter) || adapter.requests > 0;
  });
  std::vector<WrittenVersion> taken;
  for (auto adapter = unused; adapter != adapters_.end(); ++adapter) taken.push_back(std::move(adapter->version));
  adapters_.erase(unused, adapters_.end());
  return taken;
}

void AdapterVersions::Lose() {
  for (Adapter& adapter : adapters_) adapter.loaded = false;
}

}  // namespace ingot::engines
