#include "weights/stores/version_layout.h"

#include <google/protobuf/util/json_util.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "base/checksum.h"
#include "base/format.h"

namespace ingot::weights {
namespace {

constexpr base::Format kStoreFormat = {"weight store", 1};  // format of manifests, shards, and `live`
constexpr int64_t kMaxManifestBytes = int64_t{1} << 28;
// Payloads are at most slightly larger than their tensors (delta.h).
constexpr int64_t kPayloadOverhead = 64;

const char* FolderOf(VersionKind kind) { return kind == VersionKind::kAnchor ? "anchor" : "delta"; }

std::string ShardKey(const std::string& run, const HeldVersion& name, VersionKind kind, int shard) {
  return absl::StrCat(VersionFolder(run, name), "/", FolderOf(kind), "/shard-", shard);
}

// Runs `task` for 0 to count - 1, each on its own thread. Returns the error with the lowest index.
absl::Status ForAll(int count, const std::function<absl::Status(int)>& task) {
  if (count == 1) return task(0);
  std::vector<absl::Status> results(static_cast<size_t>(count));
  std::vector<std::thread> threads;
  for (int i = 0; i < count; ++i) {
    threads.emplace_back([&, i] { results[static_cast<size_t>(i)] = task(i); });
  }
  for (std::thread& thread : threads) thread.join();
  for (const absl::Status& result : results) INGOT_RETURN_IF_ERROR(result);
  return absl::OkStatus();
}

// Divides the tensors into runs with about equal payload. A run ends where its share of all bytes is reached.
std::vector<v1::WeightShard> Divide(const EncodedDelta& delta, int shards) {
  int64_t total = 0;
  for (const v1::TensorDelta& tensor : delta.tensors) total += std::ssize(tensor.payload());
  std::vector<v1::WeightShard> runs(1);
  int64_t before = 0;
  for (const v1::TensorDelta& tensor : delta.tensors) {
    const bool full = before * shards >= total * std::ssize(runs);
    if (full && runs.back().tensors() > 0 && std::ssize(runs) < shards) runs.emplace_back();
    runs.back().set_tensors(runs.back().tensors() + 1);
    runs.back().set_bytes(runs.back().bytes() + std::ssize(tensor.payload()));
    before += std::ssize(tensor.payload());
  }
  return runs;
}

absl::Status NotOf(const std::string& key, const std::string& why) {
  return absl::InvalidArgumentError(absl::StrCat("object '", key, "' is not a valid version: ", why));
}

absl::Status Damaged(const ObjectStore& store, const std::string& key) {
  return absl::DataLossError(absl::StrCat(store.Describe(), ": object '", key, "' is damaged"));
}

VersionKind KindOf(const v1::DeltaHeader& header) {
  return IsFullCopy(header) ? VersionKind::kAnchor : VersionKind::kDelta;
}

absl::Status CheckStoreFormat(const std::string& where, int64_t found) {
  return base::CheckFormat(kStoreFormat, found == 0 ? base::kFirstFormat : found, where,
                           "run the trainer and all engines with the same version of ingot; weights from another "
                           "version can be removed from the store");
}

// Returns a manifest to which the caller adds tensors and shards.
v1::VersionManifest ManifestWith(const std::string& run, const v1::DeltaHeader& header) {
  v1::VersionManifest manifest;
  manifest.set_format(kStoreFormat.number);
  manifest.set_run(run);
  *manifest.mutable_header() = header;
  manifest.mutable_header()->clear_retain();
  manifest.mutable_header()->clear_beside();
  manifest.mutable_header()->set_checksum(HeaderChecksum(manifest.header()));
  return manifest;
}

// Puts the checksum of the object's bytes into its first 8 bytes.
std::string WithChecksum(const std::string& bytes) {
  const uint64_t checksum = base::Checksum64(bytes);
  std::string all(sizeof(checksum), '\0');
  std::memcpy(all.data(), &checksum, sizeof(checksum));
  return all + bytes;
}

absl::StatusOr<v1::VersionManifest> LoadManifest(ObjectStore& store, const std::string& run, const HeldVersion& name,
                                                 VersionKind kind, int64_t* fetched_bytes) {
  const std::string key = ManifestKey(run, name, kind);
  INGOT_ASSIGN_OR_RETURN(const StoredObject object, store.Get(key, kMaxManifestBytes));
  *fetched_bytes += std::ssize(object.bytes);
  uint64_t checksum = 0;
  if (object.bytes.size() < sizeof(checksum)) return Damaged(store, key);
  std::memcpy(&checksum, object.bytes.data(), sizeof(checksum));
  const std::string_view rest = std::string_view(object.bytes).substr(sizeof(checksum));
  if (base::Checksum64(rest) != checksum) return Damaged(store, key);
  v1::VersionManifest manifest;
  if (!manifest.ParseFromArray(rest.data(), static_cast<int>(rest.size()))) return NotOf(key, "it cannot be parsed");
  INGOT_RETURN_IF_ERROR(CheckStoreFormat(store.Describe() + ": object '" + key + "'", manifest.format()));
  if (manifest.run() != run) {
    return absl::FailedPreconditionError(absl::StrCat(store.Describe(), ": object '", key, "' belongs to the run '",
                                                      manifest.run(), "', not '", run, "'"));
  }
  if (TargetOf(manifest.header()) != name || IsFullCopy(manifest.header()) != (kind == VersionKind::kAnchor)) {
    return NotOf(key, "it describes a different version");
  }
  return manifest;
}

// The location of a tensor's payload.
struct PayloadPlace {
  int shard = -1;
  int64_t begin = 0;
};

// Returns the location of each tensor's payload, if shards and parts add up within `max_bytes`. Checked before any
// payload is read.
absl::StatusOr<std::vector<PayloadPlace>> PlacesOf(const std::string& key, const v1::VersionManifest& manifest,
                                                   int64_t max_bytes) {
  if (manifest.shards_size() > kMaxShards) return NotOf(key, "it has too many shards");
  std::vector<PayloadPlace> places(static_cast<size_t>(manifest.tensors_size()));
  int part = 0;
  int64_t total = 0;
  for (int s = 0; s < manifest.shards_size(); ++s) {
    const v1::WeightShard& shard = manifest.shards(s);
    int64_t bytes = 0;
    if (shard.members_size() > 0 && shard.members_size() != shard.tensors()) {
      return NotOf(key, "a shard has the wrong number of tensors");
    }
    for (int i = 0; i < shard.tensors(); ++i, ++part) {
      const int index = shard.members_size() > 0 ? shard.members(i) : part;
      if (index < 0 || index >= manifest.tensors_size())
        return NotOf(key, "its shards have tensors that are missing from it");
      PayloadPlace& place = places[static_cast<size_t>(index)];
      if (place.shard >= 0) return NotOf(key, "two shards have the same tensor");
      place = {s, bytes};
      const int64_t payload = manifest.tensors(index).payload_bytes();
      if (payload < 0 || payload > max_bytes + kPayloadOverhead) return NotOf(key, "a payload's size is out of range");
      bytes += payload;
    }
    if (bytes != shard.bytes()) return NotOf(key, "a shard's payloads do not add up to its size");
    total += bytes;
    if (total > max_bytes + kPayloadOverhead * (part + 1)) return NotOf(key, "it is larger than the model");
  }
  if (part != manifest.tensors_size()) return NotOf(key, "its shards have fewer tensors than its manifest");
  return places;
}

std::string PrintJson(const google::protobuf::Message& message) {
  google::protobuf::util::JsonPrintOptions options;
  options.preserve_proto_field_names = true;
  options.add_whitespace = true;
  std::string text;
  // Fails only for messages with Any or invalid UTF-8. These have neither, because error messages are made printable.
  (void)google::protobuf::util::MessageToJsonString(message, &text, options);
  return text;
}

absl::Status ParseJson(const std::string& text, const char* what, google::protobuf::Message* message) {
  google::protobuf::util::JsonParseOptions options;
  options.ignore_unknown_fields = true;
  const auto parsed = google::protobuf::util::JsonStringToMessage(text, message, options);
  if (parsed.ok()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(what, " cannot be parsed: ", std::string(parsed.message())));
}

}  // namespace

std::string VersionFolder(const std::string& run, const HeldVersion& name) {
  return absl::StrCat(run, "/versions/", absl::StrFormat("%010d", name.version), "-", base::Hex(name.checksum));
}

std::string ManifestKey(const std::string& run, const HeldVersion& name, VersionKind kind) {
  return absl::StrCat(VersionFolder(run, name), "/", FolderOf(kind), "/manifest");
}

std::string LiveKey(const std::string& run) { return run + "/live"; }

std::string AckKey(const std::string& run, const std::string& engine) { return absl::StrCat(run, "/acks/", engine); }

v1::VersionName NameOf(const HeldVersion& version) {
  v1::VersionName name;
  name.set_version(version.version);
  name.set_checksum(version.checksum);
  return name;
}

HeldVersion FromName(const v1::VersionName& name) { return {name.version(), name.checksum()}; }

HeldVersion TargetOf(const v1::DeltaHeader& header) { return {header.target().version(), header.target().checksum()}; }

absl::Status StoreVersion(ObjectStore& store, const std::string& run, const EncodedDelta& delta, int shards) {
  const HeldVersion name = TargetOf(delta.header);
  const VersionKind kind = KindOf(delta.header);
  v1::VersionManifest manifest = ManifestWith(run, delta.header);
  for (const v1::TensorDelta& tensor : delta.tensors) {
    v1::TensorPart* part = manifest.add_tensors();
    part->set_coding(tensor.coding());
    part->set_payload_bytes(std::ssize(tensor.payload()));
  }
  std::vector<v1::WeightShard> runs = Divide(delta, shards);
  std::vector<int> first(runs.size());
  for (size_t i = 1; i < runs.size(); ++i) first[i] = first[i - 1] + runs[i - 1].tensors();
  INGOT_RETURN_IF_ERROR(ForAll(static_cast<int>(runs.size()), [&](int i) {
    v1::WeightShard& shard = runs[static_cast<size_t>(i)];
    std::string bytes;
    bytes.reserve(static_cast<size_t>(shard.bytes()));
    for (int t = first[static_cast<size_t>(i)]; t < first[static_cast<size_t>(i)] + shard.tensors(); ++t) {
      bytes += delta.tensors[static_cast<size_t>(t)].payload();
    }
    shard.set_checksum(base::Checksum64(bytes));
    return store.Put(ShardKey(run, name, kind, i), bytes);
  }));
  for (v1::WeightShard& shard : runs) *manifest.add_shards() = std::move(shard);
  return StoreManifest(store, manifest);
}

absl::StatusOr<v1::StoredShard> StoreShard(ObjectStore& store, const std::string& run, const HeldVersion& name,
                                           int shard, EncodedDelta delta, const std::vector<int32_t>& members) {
  v1::StoredShard stored;
  stored.set_changed_elements(delta.changed_elements);
  stored.set_total_elements(delta.total_elements);
  std::string bytes;
  for (size_t i = 0; i < delta.tensors.size(); ++i) {
    v1::TensorDelta& tensor = delta.tensors[i];
    Renumber(tensor, members[i]);
    stored.mutable_shard()->add_members(members[i]);
    v1::TensorPart* const part = stored.add_parts();
    part->set_coding(tensor.coding());
    part->set_payload_bytes(std::ssize(tensor.payload()));
    bytes += tensor.payload();
    tensor.clear_payload();
  }
  stored.mutable_shard()->set_tensors(stored.parts_size());
  stored.mutable_shard()->set_bytes(std::ssize(bytes));
  stored.mutable_shard()->set_checksum(base::Checksum64(bytes));
  INGOT_RETURN_IF_ERROR(store.Put(ShardKey(run, name, KindOf(delta.header), shard), bytes));
  return stored;
}

absl::StatusOr<v1::VersionManifest> ManifestOf(const std::string& run, const v1::DeltaHeader& header,
                                               const std::vector<v1::StoredShard>& shards) {
  v1::VersionManifest manifest = ManifestWith(run, header);
  for (int i = 0; i < header.target().tensors_size(); ++i) manifest.add_tensors();
  for (const v1::StoredShard& stored : shards) {
    for (int i = 0; i < stored.shard().members_size(); ++i) {
      const int32_t index = stored.shard().members(i);
      if (index >= 0 && index < manifest.tensors_size()) *manifest.mutable_tensors(index) = stored.parts(i);
    }
    *manifest.add_shards() = stored.shard();
  }
  const auto places = PlacesOf(ManifestKey(run, TargetOf(header), KindOf(header)), manifest, header.raw_bytes());
  if (!places.ok()) return absl::InternalError(std::string(places.status().message()));
  return manifest;
}

absl::Status StoreManifest(ObjectStore& store, const v1::VersionManifest& manifest) {
  return store.Put(ManifestKey(manifest.run(), TargetOf(manifest.header()), KindOf(manifest.header())),
                   WithChecksum(manifest.SerializeAsString()));
}

absl::StatusOr<EncodedDelta> LoadVersion(ObjectStore& store, const std::string& run, const HeldVersion& name,
                                         VersionKind kind, const CodecOptions& options, int64_t* fetched_bytes) {
  INGOT_ASSIGN_OR_RETURN(v1::VersionManifest manifest, LoadManifest(store, run, name, kind, fetched_bytes));
  INGOT_ASSIGN_OR_RETURN(const std::vector<PayloadPlace> places,
                         PlacesOf(ManifestKey(run, name, kind), manifest, options.max_bytes));
  std::vector<std::string> shards(static_cast<size_t>(manifest.shards_size()));
  INGOT_RETURN_IF_ERROR(ForAll(manifest.shards_size(), [&](int i) -> absl::Status {
    const std::string key = ShardKey(run, name, kind, i);
    const v1::WeightShard& shard = manifest.shards(i);
    absl::StatusOr<StoredObject> object = store.Get(key, shard.bytes());
    if (absl::IsResourceExhausted(object.status())) return Damaged(store, key);
    INGOT_RETURN_IF_ERROR(object.status());
    if (std::ssize(object->bytes) != shard.bytes() || base::Checksum64(object->bytes) != shard.checksum()) {
      return Damaged(store, key);
    }
    shards[static_cast<size_t>(i)] = std::move(object->bytes);
    return absl::OkStatus();
  }));
  ChunkAssembler assembler(options);
  v1::WeightChunk chunk;
  *chunk.mutable_header() = std::move(*manifest.mutable_header());
  INGOT_RETURN_IF_ERROR(assembler.Add(std::move(chunk)));
  for (const std::string& bytes : shards) *fetched_bytes += std::ssize(bytes);
  std::vector<int> left;  // tensors of each shard that are not read yet
  for (const v1::WeightShard& shard : manifest.shards()) left.push_back(shard.tensors());
  for (int t = 0; t < manifest.tensors_size(); ++t) {
    const PayloadPlace& place = places[static_cast<size_t>(t)];
    std::string& bytes = shards[static_cast<size_t>(place.shard)];
    const auto size = static_cast<size_t>(manifest.tensors(t).payload_bytes());
    const std::string_view payload = std::string_view(bytes).substr(static_cast<size_t>(place.begin), size);
    INGOT_RETURN_IF_ERROR(AddPayloads(manifest.tensors(), t, 1, payload, &assembler));
    if (--left[static_cast<size_t>(place.shard)] == 0) std::string().swap(bytes);
  }
  return assembler.Finish();
}

absl::Status AddPayloads(const google::protobuf::RepeatedPtrField<v1::TensorPart>& parts, int first, int count,
                         std::string_view bytes, ChunkAssembler* assembler) {
  if (first < 0 || count < 0 || first > parts.size() - count) {
    return absl::InvalidArgumentError("a version has fewer tensors than its payloads");
  }
  for (int t = first; t < first + count; ++t) {
    const int64_t size = parts[t].payload_bytes();
    if (size < 0 || size > std::ssize(bytes))
      return absl::InvalidArgumentError("a payload is larger than the bytes received");
    v1::WeightChunk chunk;
    chunk.mutable_tensor()->set_tensor(t);
    chunk.mutable_tensor()->set_coding(parts[t].coding());
    chunk.mutable_tensor()->set_payload(bytes.data(), static_cast<size_t>(size));
    INGOT_RETURN_IF_ERROR(assembler->Add(std::move(chunk)));
    bytes.remove_prefix(static_cast<size_t>(size));
  }
  return bytes.empty() ? absl::OkStatus() : absl::InvalidArgumentError("received more bytes than the payloads have");
}

int LastAnchor(const v1::VersionRoute& route) {
  int last = 0;
  for (int i = 0; i < route.steps_size(); ++i) {
    if (route.steps(i).anchor()) last = i;
  }
  return last;
}

int StepOf(const v1::VersionRoute& route, const HeldVersion& version) {
  for (int i = route.steps_size() - 1; i >= 0; --i) {
    if (FromName(route.steps(i).name()) == version) return i;
  }
  return -1;
}

std::string PrintLive(v1::LiveVersions live) {
  live.set_format(kStoreFormat.number);
  return PrintJson(live);
}

absl::StatusOr<v1::LiveVersions> ParseLive(const std::string& text, const std::string& run) {
  v1::LiveVersions live;
  INGOT_RETURN_IF_ERROR(ParseJson(text, "the object 'live'", &live));
  if (live.run() != run) {
    return absl::FailedPreconditionError(
        absl::StrCat("the object 'live' belongs to the run '", live.run(), "', not '", run, "'"));
  }
  INGOT_RETURN_IF_ERROR(CheckStoreFormat("the object 'live'", live.format()));
  const auto is_route = [](const v1::VersionRoute& route) { return route.steps_size() > 0 && route.steps(0).anchor(); };
  const bool routes = std::all_of(live.retained().begin(), live.retained().end(), is_route);
  if (!routes || (live.has_newest() && !is_route(live.newest()))) {
    return absl::InvalidArgumentError("the object 'live' has a version that cannot be reached from any full copy");
  }
  return live;
}

std::string PrintAck(const v1::EngineAck& ack) { return PrintJson(ack); }

absl::StatusOr<v1::EngineAck> ParseAck(const std::string& text, const std::string& engine) {
  v1::EngineAck ack;
  INGOT_RETURN_IF_ERROR(ParseJson(text, "an engine's acknowledgment", &ack));
  if (ack.engine() == engine) return ack;
  return absl::FailedPreconditionError(
      absl::StrCat("the acknowledgment belongs to engine '", ack.engine(), "', not '", engine, "'"));
}

}  // namespace ingot::weights
