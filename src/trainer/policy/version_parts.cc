#include "trainer/policy/version_parts.h"

#include <algorithm>
#include <limits>
#include <string>
#include <utility>

#include "trainer/parallel/wire.h"

namespace ingot::trainer {
namespace {

weights::HeldVersion NameOf(const v1::Manifest& manifest) { return {manifest.version(), manifest.checksum()}; }

// Returns the manifest of all parts, and the tensor indices of part `own`.
absl::StatusOr<std::pair<v1::Manifest, std::vector<int32_t>>> Merge(const std::vector<std::string>& parts,
                                                                    int64_t version, int own) {
  std::vector<std::pair<v1::TensorInfo, int>> tensors;  // with their rank
  for (size_t rank = 0; rank < parts.size(); ++rank) {
    v1::Manifest part;
    if (!part.ParseFromString(parts[rank])) return absl::InternalError("a rank's manifest cannot be parsed");
    for (v1::TensorInfo& tensor : *part.mutable_tensors()) {
      tensors.emplace_back(std::move(tensor), static_cast<int>(rank));
    }
  }
  std::sort(tensors.begin(), tensors.end(),
            [](const auto& a, const auto& b) { return a.first.name() < b.first.name(); });
  std::pair<v1::Manifest, std::vector<int32_t>> merged;
  auto& [manifest, members] = merged;
  manifest.set_version(version);
  for (auto& [tensor, rank] : tensors) {
    if (rank == own) members.push_back(manifest.tensors_size());
    *manifest.add_tensors() = std::move(tensor);
  }
  manifest.set_checksum(weights::ManifestChecksum(manifest));
  return merged;
}

// Returns the header of the version's delta from a base, or of its full copy (no base).
absl::StatusOr<v1::DeltaHeader> HeaderOf(const v1::Manifest& target, const weights::HeldVersion& base) {
  v1::DeltaHeader header;
  *header.mutable_target() = target;
  header.set_base_version(base.version);
  header.set_base_checksum(base.checksum);
  INGOT_ASSIGN_OR_RETURN(const std::vector<int64_t> sizes,
                         weights::TensorSizes(target, std::numeric_limits<int64_t>::max()));
  for (const int64_t size : sizes) header.set_raw_bytes(header.raw_bytes() + size);
  header.set_checksum(weights::HeaderChecksum(header));
  return header;
}

absl::StatusOr<std::shared_ptr<const v1::VersionManifest>> ManifestOf(const std::string& run,
                                                                      const v1::DeltaHeader& header,
                                                                      const std::vector<v1::StoredShard>& shards) {
  INGOT_ASSIGN_OR_RETURN(v1::VersionManifest manifest, weights::ManifestOf(run, header, shards));
  return std::make_shared<const v1::VersionManifest>(std::move(manifest));
}

}  // namespace

bool VersionParts::Part::Matches(const weights::HeldVersion& name) const {
  return own != nullptr && NameOf(whole) == name;
}

void VersionParts::StoreIn(weights::VersionStore store) {
  store_ = std::move(store);
  policy_.PublishInParts(true);
}

absl::Status VersionParts::Take() {
  const int64_t version = policy_.version();
  if (part_.own != nullptr && part_.whole.version() == version) return absl::OkStatus();
  const absl::StatusOr<std::shared_ptr<const weights::Snapshot>> own = policy_.TakeOwn();
  INGOT_RETURN_IF_ERROR(ranks_->Agree(own.status()));
  INGOT_ASSIGN_OR_RETURN(const std::vector<std::string> parts,
                         ranks_->AllGatherBytes((*own)->manifest().SerializeAsString()));
  INGOT_ASSIGN_OR_RETURN(auto merged, Merge(parts, version, ranks_->rank()));
  before_ = std::exchange(part_, {std::move(merged.first), *own, std::move(merged.second)});
  return absl::OkStatus();
}

StoreOrder VersionParts::OrderFor(const weights::HeldVersion& base, bool anchor) const {
  const bool taken = part_.own == nullptr || part_.whole.version() == policy_.version();
  const bool full = !(taken ? before_ : part_).Matches(base);
  return {.base = full ? weights::HeldVersion() : base, .full = full, .anchor = anchor};
}

absl::StatusOr<v1::StoredShard> VersionParts::StoreShard(const StoreOrder& order, bool full) const {
  if (!order.full && !before_.Matches(order.base)) {
    return absl::InternalError(absl::StrCat("rank ", ranks_->rank(), " has no version ", order.base.version));
  }
  INGOT_ASSIGN_OR_RETURN(weights::EncodedDelta delta,
                         weights::Encode(full ? nullptr : before_.own.get(), *part_.own, false, store_->codec));
  return weights::StoreShard(*store_->store, store_->run, NameOf(part_.whole), ranks_->rank(), std::move(delta),
                             part_.members);
}

absl::StatusOr<std::shared_ptr<const weights::Snapshot>> VersionParts::Store(const StoreOrder& order) {
  INGOT_RETURN_IF_ERROR(Take());
  const bool copies = order.anchor && !order.full;  // a full copy in addition to the delta
  const absl::StatusOr<v1::StoredShard> shard = StoreShard(order, order.full);
  absl::StatusOr<v1::StoredShard> copy = v1::StoredShard();
  if (shard.ok() && copies) copy = StoreShard(order, /*full=*/true);
  INGOT_RETURN_IF_ERROR(ranks_->Agree(shard.ok() ? copy.status() : shard.status()));
  Writer own;
  own.PutText(shard->SerializeAsString()).PutText(copy->SerializeAsString());
  INGOT_ASSIGN_OR_RETURN(const std::vector<std::string> all, ranks_->AllGatherBytes(own.Release()));
  if (!ranks_->leads()) return std::shared_ptr<const weights::Snapshot>();

  std::vector<v1::StoredShard> shards(all.size()), full_shards(all.size());
  const auto delta = std::make_shared<weights::EncodedDelta>();
  for (size_t rank = 0; rank < all.size(); ++rank) {
    Reader reader(all[rank]);
    const std::string_view stored = reader.GetText(), copied = reader.GetText();
    if (!reader.status().ok() || !shards[rank].ParseFromArray(stored.data(), static_cast<int>(stored.size())) ||
        !full_shards[rank].ParseFromArray(copied.data(), static_cast<int>(copied.size()))) {
      return absl::InternalError("a rank's shard cannot be parsed");
    }
    delta->changed_elements += shards[rank].changed_elements();
    delta->total_elements += shards[rank].total_elements();
  }
  INGOT_ASSIGN_OR_RETURN(delta->header, HeaderOf(part_.whole, order.base));
  INGOT_ASSIGN_OR_RETURN(delta->stored, ManifestOf(store_->run, delta->header, shards));
  if (copies) {
    INGOT_ASSIGN_OR_RETURN(const v1::DeltaHeader whole, HeaderOf(part_.whole, {}));
    INGOT_ASSIGN_OR_RETURN(delta->stored_anchor, ManifestOf(store_->run, whole, full_shards));
  }
  return weights::Snapshot::Elsewhere(delta);
}

}  // namespace ingot::trainer
