// The part of Trainer for versions that ranks store, each the parameters that it owns
// (weights/stores/version_layout.h).
//
//   rank 0   names the version ─┬─ encodes, writes shard-0 ─┬─ all are there ─▶ manifest of the shards
//   rank 1   names the version ─┴─ encodes, writes shard-1 ─┴─
#include <algorithm>
#include <limits>
#include <utility>

#include "trainer/parallel/wire.h"
#include "trainer/torch_edge.h"
#include "trainer/trainer.h"
#include "trainer/weights_of.h"
#include "weights/stores/version_layout.h"

namespace ingot::trainer {
namespace {

weights::HeldVersion NameOf(const v1::Manifest& manifest) { return {manifest.version(), manifest.checksum()}; }

// The manifest of all parts, and the indices of the tensors of one of them.
absl::StatusOr<std::pair<v1::Manifest, std::vector<int32_t>>> Merge(const std::vector<std::string>& parts,
                                                                    int64_t version, int own) {
  std::vector<std::pair<v1::TensorInfo, int>> tensors;  // with the rank
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

// The header of the version's delta from a base, or of its full copy (no base).
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

}  // namespace

void Trainer::StoreVersionsIn(weights::VersionStore store) {
  store_ = std::move(store);
  policy_.PublishInParts(true);
}

absl::Status Trainer::TakePart() {
  if (part_.own != nullptr && part_.whole.version() == version()) return absl::OkStatus();
  const absl::StatusOr<std::shared_ptr<const weights::Snapshot>> own = policy_.TakeOwn();
  INGOT_RETURN_IF_ERROR(ranks_->Agree(own.status()));
  INGOT_ASSIGN_OR_RETURN(const std::vector<std::string> parts,
                         ranks_->AllGatherBytes((*own)->manifest().SerializeAsString()));
  INGOT_ASSIGN_OR_RETURN(auto merged, Merge(parts, version(), ranks_->rank()));
  part_before_ = std::exchange(part_, {std::move(merged.first), *own, std::move(merged.second)});
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<const weights::Snapshot>> Trainer::StoreVersion(const weights::HeldVersion& base,
                                                                               bool anchor) {
  UseThreads();
  const VersionPart& before = part_.own != nullptr && part_.whole.version() != version() ? part_ : part_before_;
  StoreOrder order{.base = base, .full = before.own == nullptr || NameOf(before.whole) != base, .anchor = anchor};
  if (order.full) order.base = {};
  Writer message;
  message.Put(order);
  INGOT_RETURN_IF_ERROR(SendOrder(Order::kStore, message.Release()));
  return StoreTogether(order);
}

absl::StatusOr<std::shared_ptr<const weights::Snapshot>> Trainer::StoreTogether(const StoreOrder& order) {
  INGOT_RETURN_IF_ERROR(TakePart());
  const bool beside = order.anchor && !order.full;  // a full copy in addition to the delta
  const weights::HeldVersion name = NameOf(part_.whole);
  const auto store = [&](const weights::Snapshot* from) -> absl::StatusOr<v1::StoredShard> {
    if (!order.full && (part_before_.own == nullptr || NameOf(part_before_.whole) != order.base)) {
      return absl::InternalError(absl::StrCat("rank ", ranks_->rank(), " has no version ", order.base.version));
    }
    INGOT_ASSIGN_OR_RETURN(weights::EncodedDelta delta, weights::Encode(from, *part_.own, false, store_->codec));
    return weights::StoreShard(*store_->store, store_->run, name, ranks_->rank(), std::move(delta), part_.members);
  };
  const absl::StatusOr<v1::StoredShard> shard = store(order.full ? nullptr : part_before_.own.get());
  absl::StatusOr<v1::StoredShard> copy = v1::StoredShard();
  if (shard.ok() && beside) copy = store(nullptr);
  INGOT_RETURN_IF_ERROR(ranks_->Agree(shard.ok() ? copy.status() : shard.status()));
  Writer own;
  own.PutText(shard->SerializeAsString()).PutText(copy->SerializeAsString());
  INGOT_ASSIGN_OR_RETURN(const std::vector<std::string> all, ranks_->AllGatherBytes(own.Release()));
  if (!ranks_->leads()) return std::shared_ptr<const weights::Snapshot>();

  std::vector<v1::StoredShard> shards(all.size()), copies(all.size());
  const auto delta = std::make_shared<weights::EncodedDelta>();
  for (size_t rank = 0; rank < all.size(); ++rank) {
    Reader reader(all[rank]);
    const std::string_view stored = reader.GetText(), copied = reader.GetText();
    if (!reader.status().ok() || !shards[rank].ParseFromArray(stored.data(), static_cast<int>(stored.size())) ||
        !copies[rank].ParseFromArray(copied.data(), static_cast<int>(copied.size()))) {
      return absl::InternalError("a rank's shard cannot be parsed");
    }
    delta->changed_elements += shards[rank].changed_elements();
    delta->total_elements += shards[rank].total_elements();
  }
  INGOT_ASSIGN_OR_RETURN(delta->header, HeaderOf(part_.whole, order.base));
  INGOT_ASSIGN_OR_RETURN(v1::VersionManifest manifest, weights::ManifestOf(store_->run, delta->header, shards));
  delta->stored = std::make_shared<const v1::VersionManifest>(std::move(manifest));
  if (beside) {
    INGOT_ASSIGN_OR_RETURN(const v1::DeltaHeader whole, HeaderOf(part_.whole, {}));
    INGOT_ASSIGN_OR_RETURN(v1::VersionManifest copied, weights::ManifestOf(store_->run, whole, copies));
    delta->stored_anchor = std::make_shared<const v1::VersionManifest>(std::move(copied));
  }
  return weights::Snapshot::Elsewhere(delta);
}

}  // namespace ingot::trainer
