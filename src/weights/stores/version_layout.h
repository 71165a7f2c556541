// Stores weight versions as objects (proto/weight_store.proto):
//
//   RUN/live                              the versions that engines should hold; only the trainer changes it
//   RUN/versions/V-CHECKSUM/delta/        shard-0, shard-1, ..., and manifest: the delta from the previous version
//   RUN/versions/V-CHECKSUM/anchor/       the same for a full copy
//   RUN/acks/ENGINE                       the versions that the engine holds
//
// A shard contains the payloads of consecutive tensors, or of one trainer rank's tensors. Shards are written first, in
// parallel, and then the manifest. After that, a version never changes. Functions block.
//
//   rank 0   shard-0 --------.
//   rank 1   shard-1 --------+-- all are stored --> rank 0: manifest --> live
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
inline constexpr int64_t kMaxPointerBytes = 1 << 20;  // limit for `live` and for an acknowledgement

// Where a trainer's ranks store versions.
struct VersionStore {
  std::shared_ptr<ObjectStore> store;
  std::string run;  // prefix of the run's objects
  CodecOptions codec;
};

enum class VersionKind { kDelta, kAnchor };

std::string VersionFolder(const std::string& run, const HeldVersion& name);
std::string ManifestKey(const std::string& run, const HeldVersion& name, VersionKind kind);
std::string LiveKey(const std::string& run);
std::string AckKey(const std::string& run, const std::string& engine);

v1::VersionName NameOf(const HeldVersion& version);
HeldVersion FromName(const v1::VersionName& name);
// Returns the version that a delta produces.
HeldVersion TargetOf(const v1::DeltaHeader& header);

// Writes a version in at most `shards` (1 to kMaxShards) shards of about equal size. Does not store header.retain and
// header.beside, which are specific to one engine.
absl::Status StoreVersion(ObjectStore& store, const std::string& run, const EncodedDelta& delta, int shards);

// Writes one writer's shard. `delta` has the tensors that `members` lists, in that order, each with its index in
// version `name`.
absl::StatusOr<v1::StoredShard> StoreShard(ObjectStore& store, const std::string& run, const HeldVersion& name,
                                           int shard, EncodedDelta delta, const std::vector<int32_t>& members);

// Returns a version's manifest after all of its shards have been written. `shards` is in index order. Returns INTERNAL
// if the shards do not add up to the version.
absl::StatusOr<v1::VersionManifest> ManifestOf(const std::string& run, const v1::DeltaHeader& header,
                                               const std::vector<v1::StoredShard>& shards);

absl::Status StoreManifest(ObjectStore& store, const v1::VersionManifest& manifest);

// Reads a version. Returns NOT_FOUND if it does not exist or was deleted in the meantime, DATA_LOSS if an object is
// damaged or truncated, FAILED_PRECONDITION if the objects belong to another run, and INVALID_ARGUMENT if they are not
// a version or the version is larger than options.max_bytes. Adds the bytes read to `fetched_bytes`.
absl::StatusOr<EncodedDelta> LoadVersion(ObjectStore& store, const std::string& run, const HeldVersion& name,
                                         VersionKind kind, const CodecOptions& options, int64_t* fetched_bytes);

// Passes the payloads of `count` tensors, starting with `first`, to an assembler that already has the header. The
// payloads are consecutive in `bytes`. Returns INVALID_ARGUMENT if the sizes do not add up.
absl::Status AddPayloads(const google::protobuf::RepeatedPtrField<v1::TensorPart>& parts, int first, int count,
                         std::string_view bytes, ChunkAssembler* assembler);

// Returns the step in a route where an engine starts if it has none of the route's versions.
int LastAnchor(const v1::VersionRoute& route);
// Returns the step of `version`; -1 = not on the route.
int StepOf(const v1::VersionRoute& route, const HeldVersion& version);

std::string PrintLive(v1::LiveVersions live);
// Returns INVALID_ARGUMENT if `text` is not a `live` object, and FAILED_PRECONDITION if it is from another run or
// format.
absl::StatusOr<v1::LiveVersions> ParseLive(const std::string& text, const std::string& run);
std::string PrintAck(const v1::EngineAck& ack);
absl::StatusOr<v1::EngineAck> ParseAck(const std::string& text, const std::string& engine);

}  // namespace ingot::weights
