// Versions of weights as objects of a store (proto/weight_store.proto):
//
//   RUN/live                              the versions that engines should hold; only the trainer moves it
//   RUN/versions/V-CHECKSUM/delta/        shard-0, shard-1, ... and manifest: the delta from the previous version
//   RUN/versions/V-CHECKSUM/anchor/       the same for a full copy
//   RUN/acks/ENGINE                       what the engine holds
//
// A shard holds the payloads of consecutive tensors, or of the tensors that a rank of the trainer owns. Shards are
// written first, in parallel, then the manifest. A version never changes afterwards. Functions block.
//
//   rank 0   shard-0 --------.
//   rank 1   shard-1 --------+-- all are there --> rank 0: manifest --> live
//   rank 2   shard-2 --------'
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "proto/weight_store.pb.h"
#include "weights/delta.h"
#include "weights/sink.h"
#include "weights/stores/object_store.h"

namespace ingot::weights {

inline constexpr int kMaxShards = 64;
inline constexpr int64_t kMaxPointerBytes = 1 << 20;  // of `live` and of an acknowledgement

// Where the ranks of a trainer store versions.
struct VersionStore {
  std::shared_ptr<ObjectStore> store;
  std::string run;  // the prefix of its objects
  CodecOptions codec;
};

enum class VersionKind { kDelta, kAnchor };

std::string VersionFolder(const std::string& run, const HeldVersion& name);
std::string ManifestKey(const std::string& run, const HeldVersion& name, VersionKind kind);
std::string LiveKey(const std::string& run);
std::string AckKey(const std::string& run, const std::string& engine);

v1::VersionName NameOf(const HeldVersion& version);
HeldVersion FromName(const v1::VersionName& name);
// The version that a delta makes.
HeldVersion TargetOf(const v1::DeltaHeader& header);

// Writes a version in at most `shards` (1 to kMaxShards) shards of about equal size. header.retain and header.beside
// are not stored: they are for one engine.
absl::Status StoreVersion(ObjectStore& store, const std::string& run, const EncodedDelta& delta, int shards);

// Writes one writer's shard. `delta` has the tensors `members` of the version `name`, in this order, each with its
// index in `delta`.
absl::StatusOr<v1::StoredShard> StoreShard(ObjectStore& store, const std::string& run, const HeldVersion& name,
                                           int shard, EncodedDelta delta, const std::vector<int32_t>& members);

// The manifest of a version whose shards have all been written, in the order of their numbers. INTERNAL: the shards do
// not add up to the version.
absl::StatusOr<v1::VersionManifest> ManifestOf(const std::string& run, const v1::DeltaHeader& header,
                                               const std::vector<v1::StoredShard>& shards);

absl::Status StoreManifest(ObjectStore& store, const v1::VersionManifest& manifest);

// Reads a version. NOT_FOUND: it does not exist, or was removed meanwhile. DATA_LOSS: an object is damaged or
// truncated. FAILED_PRECONDITION: the objects are another run's. INVALID_ARGUMENT: they are not a version, or the
// version is larger than options.max_bytes. `fetched_bytes` grows by the bytes read.
absl::StatusOr<EncodedDelta> LoadVersion(ObjectStore& store, const std::string& run, const HeldVersion& name,
                                         VersionKind kind, const CodecOptions& options, int64_t* fetched_bytes);

// Gives an assembler that has its header the payloads of `count` tensors, from `first` on, which are consecutive in
// `bytes`. INVALID_ARGUMENT: the sizes do not add up.
absl::Status AddPayloads(const google::protobuf::RepeatedPtrField<v1::TensorPart>& parts, int first, int count,
                         std::string_view bytes, ChunkAssembler* assembler);

// The step of a route at which an engine without any of its versions begins.
int LastAnchor(const v1::VersionRoute& route);
// The step of `version`; -1 = not on the route.
int StepOf(const v1::VersionRoute& route, const HeldVersion& version);

std::string PrintLive(v1::LiveVersions live);
// INVALID_ARGUMENT: `text` is not a `live` object. FAILED_PRECONDITION: it is another run's, or of another format.
absl::StatusOr<v1::LiveVersions> ParseLive(const std::string& text, const std::string& run);
std::string PrintAck(const v1::EngineAck& ack);
absl::StatusOr<v1::EngineAck> ParseAck(const std::string& text, const std::string& engine);

}  // namespace ingot::weights
