#include "rollout/engine/loaded_versions.h"

#include <algorithm>
#include <iterator>

namespace ingot::rollout {

std::vector<LoadedVersion> LoadedVersions::SetNewest(LoadedVersion next) {
  if (newest_.version != nullptr) earlier_.push_front(std::move(newest_));
  newest_ = std::move(next);
  std::vector<LoadedVersion> dropped;
  const auto stays = [&](const LoadedVersion& one) { return one.version->version < newest_.version->version; };
  const auto replaced = std::stable_partition(earlier_.begin(), earlier_.end(), stays);
  const auto end = std::min(replaced, earlier_.begin() + std::min<int64_t>(max_earlier_, std::ssize(earlier_)));
  dropped.assign(std::move_iterator(end), std::move_iterator(earlier_.end()));
  earlier_.erase(end, earlier_.end());
  return dropped;
}

std::shared_ptr<const WeightVersion> LoadedVersions::Prefer(int64_t number) const {
  if (newest_.version == nullptr || number < 0) return nullptr;
  if (newest_.version->version == number) return newest_.version;
  const auto found = std::find_if(earlier_.begin(), earlier_.end(),
                                  [&](const LoadedVersion& one) { return one.version->version == number; });
  if (found != earlier_.end()) return found->version;
  // Only a version that was served: a retained one may also be newer than the newest.
  const auto retained = retained_.find(number);
  return retained == retained_.end() || number > newest_.version->version ? nullptr : retained->second.version;
}

std::vector<const WeightVersion*> LoadedVersions::All() const {
  std::vector<const WeightVersion*> all;
  for (const auto& [number, retained] : retained_) all.push_back(retained.version.get());
  if (newest_.version != nullptr && !retained_.contains(newest_.version->version)) {
    all.push_back(newest_.version.get());
  }
  return all;
}

absl::StatusOr<std::shared_ptr<const WeightVersion>> LoadedVersions::Pin(int64_t number) const {
  if (const auto found = retained_.find(number); found != retained_.end()) return found->second.version;
  if (newest_.version == nullptr) {
    return absl::UnavailableError(
        absl::StrCat("this engine does not hold version ", number, " yet, because it is still starting: retry later"));
  }
  if (newest_.version->version == number) return newest_.version;
  return absl::NotFoundError(
      absl::StrCat("this engine does not hold version ", number, ": pin the newest version or a retained version"));
}

bool LoadedVersions::HasRoom(int64_t number) const {
  return retained_.contains(number) || static_cast<int64_t>(retained_.size()) < max_retained_;
}

bool LoadedVersions::Retains(int64_t number, uint64_t checksum) const {
  const auto found = retained_.find(number);
  return found != retained_.end() && found->second.version->checksum == checksum;
}

bool LoadedVersions::Add(LoadedVersion&& version) {
  const int64_t number = version.version->version;
  return retained_.try_emplace(number, std::move(version)).second;
}

LoadedVersion LoadedVersions::Retain(LoadedVersion version) {
  LoadedVersion& place = retained_[version.version->version];
  return std::exchange(place, std::move(version));
}

LoadedVersion LoadedVersions::ReplaceRetained(bool retain) {
  const int64_t number = newest_.version->version;
  if (retain) return Retain(newest_);
  LoadedVersion other;
  if (const auto found = retained_.find(number);
      found != retained_.end() && found->second.version->checksum != newest_.version->checksum) {
    other = std::move(found->second);
    retained_.erase(found);
  }
  return other;
}

LoadedVersion LoadedVersions::Release(int64_t number) {
  LoadedVersion freed;
  if (const auto found = retained_.find(number); found != retained_.end()) {
    freed = std::move(found->second);
    retained_.erase(found);
  }
  return freed;
}

}  // namespace ingot::rollout
