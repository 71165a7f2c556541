#include "app/training/weight_transports.h"

#include <algorithm>
#include <cstdlib>
#include <set>
#include <utility>

#include "base/clock.h"
#include "base/file.h"
#include "base/random.h"
#include "weights/grpc_sink.h"
#include "weights/stores/directory_store.h"
#include "weights/stores/object_sink.h"
#include "weights/stores/s3_store.h"

namespace ingot::app {
namespace {

using std::chrono::milliseconds;

// Startup does not wait for a server that is down.
constexpr milliseconds kCheckDeadline{5000};

// File with the id of the run's folder. A run with the same name in another folder has a different id.
constexpr char kHistoryFile[] = "weights_history";

const char* KeyOf(WeightTransport transport) {
  return transport == WeightTransport::kS3 ? "weights.s3" : "weights.directory.path";
}

std::string Variable(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

absl::StatusOr<weights::S3Credentials> Credentials(const WeightTransportConfig& options) {
  if (!options.s3.credentials_file.empty()) return weights::ReadS3Credentials(options.s3.credentials_file);
  weights::S3Credentials credentials{Variable("AWS_ACCESS_KEY_ID"), Variable("AWS_SECRET_ACCESS_KEY"),
                                     Variable("AWS_SESSION_TOKEN")};
  if (!credentials.key_id.empty() && !credentials.secret.empty()) return credentials;
  return absl::InvalidArgumentError(
      "there are no credentials: name a file in weights.s3.credentials_file, or set AWS_ACCESS_KEY_ID and "
      "AWS_SECRET_ACCESS_KEY");
}

absl::StatusOr<std::shared_ptr<weights::ObjectStore>> OpenStore(const RunConfig& config, const std::string& folder,
                                                                WeightTransport transport, milliseconds deadline) {
  const WeightTransportConfig& options = config.weights.transports;
  weights::S3Options s3 = options.s3;
  s3.deadline = deadline;
  absl::StatusOr<std::unique_ptr<weights::ObjectStore>> store = absl::InternalError("");
  if (transport == WeightTransport::kS3) {
    absl::StatusOr<weights::S3Credentials> credentials = Credentials(options);
    if (!credentials.ok()) return base::Annotate(credentials.status(), KeyOf(transport));
    store = weights::OpenS3Store(std::move(s3), *std::move(credentials));
  } else {
    store = weights::OpenDirectoryStore(options.directory.empty() ? folder + "/weights" : options.directory);
  }
  if (!store.ok()) return base::Annotate(store.status(), KeyOf(transport));
  return *std::move(store);
}

absl::StatusOr<std::string> HistoryOf(const RunDir& dir) {
  const absl::StatusOr<std::string> text = base::ReadFile(absl::StrCat(dir.path(), "/", kHistoryFile));
  if (text.ok() || !absl::IsNotFound(text.status())) return text;
  const std::string made = base::RandomHex(16);
  INGOT_RETURN_IF_ERROR(dir.WriteFile(kHistoryFile, made));
  return made;
}

// Returns whether there is no `live` object, or it belongs to `history`.
absl::StatusOr<bool> IsOwn(weights::ObjectStore& store, const std::string& run, const std::string& history) {
  const auto live = store.Get(weights::LiveKey(run), weights::kMaxPointerBytes);
  if (absl::IsNotFound(live.status())) return true;
  INGOT_RETURN_IF_ERROR(live.status());
  INGOT_ASSIGN_OR_RETURN(const v1::LiveVersions parsed, weights::ParseLive(live->bytes, run));
  return parsed.history() == history;
}

// Returns the store transports that engines use.
absl::StatusOr<std::set<WeightTransport>> StoresOf(const RunConfig& config) {
  std::set<WeightTransport> used;
  for (int i = 0; i < config.cluster.rollout_engines; ++i) {
    INGOT_ASSIGN_OR_RETURN(const WeightTransport transport,
                           TransportOf(config.weights.transports, absl::StrCat("rollout-", i)));
    if (transport == WeightTransport::kDirectory || transport == WeightTransport::kS3) used.insert(transport);
  }
  return used;
}

}  // namespace

absl::Status CheckWeightStores(const RunConfig& config, const std::string& folder) {
  INGOT_ASSIGN_OR_RETURN(std::set<WeightTransport> used, StoresOf(config));
  // The default directory is in the run's folder, which is checked and created separately.
  if (config.weights.transports.directory.empty()) used.erase(WeightTransport::kDirectory);
  for (const WeightTransport transport : used) {
    INGOT_ASSIGN_OR_RETURN(const auto store, OpenStore(config, folder, transport, kCheckDeadline));
    INGOT_RETURN_IF_ERROR(base::Annotate(weights::CheckStore(*store, config.name), KeyOf(transport)));
    if (config.if_exists == IfExists::kReplace)
      continue;  // ClaimWeightStores reports versions that must not be replaced
    const absl::StatusOr<std::string> history = base::ReadFile(absl::StrCat(folder, "/", kHistoryFile));
    INGOT_ASSIGN_OR_RETURN(const bool own, IsOwn(*store, config.name, history.ok() ? *history : ""));
    if (!own) return base::Annotate(weights::OtherRun(*store, config.name), KeyOf(transport));
  }
  return absl::OkStatus();
}

absl::Status ClaimWeightStores(const RunConfig& config, const RunDir& dir) {
  INGOT_ASSIGN_OR_RETURN(const std::set<WeightTransport> used, StoresOf(config));
  for (const WeightTransport transport : used) {
    INGOT_ASSIGN_OR_RETURN(const std::string history, HistoryOf(dir));
    INGOT_ASSIGN_OR_RETURN(const auto store, OpenStore(config, dir.path(), transport, kCheckDeadline));
    INGOT_ASSIGN_OR_RETURN(const bool own, IsOwn(*store, config.name, history));
    if (own) continue;
    if (dir.existed() || config.if_exists != IfExists::kReplace) {
      return base::Annotate(weights::OtherRun(*store, config.name), KeyOf(transport));
    }
    // The trainer removes the objects that `live` referred to.
    INGOT_RETURN_IF_ERROR(store->Delete(weights::LiveKey(config.name)));
  }
  return absl::OkStatus();
}

bool RanksStoreVersions(const RunConfig& config) {
  const WeightTransportConfig& options = config.weights.transports;
  const int ranks = config.cluster.trainer_ranks;
  if (ranks < 2 || ranks > weights::kMaxShards || options.shards != 0) return false;
  if (options.transport != WeightTransport::kDirectory && options.transport != WeightTransport::kS3) return false;
  const bool one = std::all_of(options.engines.begin(), options.engines.end(), [&](const auto& exception) {
    const auto transport = TransportOf(options, exception.first);
    return transport.ok() && *transport == options.transport;
  });
  // Rank 0 saves complete copies of pinned versions and of versions that may be the best.
  return one && !config.eval.keep_best &&
         std::none_of(config.gateway.models.begin(), config.gateway.models.end(),
                      [](const auto& model) { return model.weights == gateway::ModelWeights::kPinned; });
}

absl::StatusOr<weights::VersionStore> RankStoreOf(const RunConfig& config, const RunDir& dir) {
  weights::VersionStore store;
  store.run = config.name;
  store.codec = config.weights.Options().codec;
  store.codec.threads = std::max(config.trainer.threads, 1);
  INGOT_ASSIGN_OR_RETURN(store.store, OpenStore(config, dir.path(), config.weights.transports.transport,
                                                config.weights.Options().deadline));
  return store;
}

absl::StatusOr<std::shared_ptr<weights::VersionWriter>> WeightTransports::RankWriter() {
  if (!RanksStoreVersions(config_)) return std::shared_ptr<weights::VersionWriter>();
  return WriterTo(config_.weights.transports.transport);
}

absl::StatusOr<std::shared_ptr<weights::VersionWriter>> WeightTransports::WriterTo(WeightTransport transport) {
  std::shared_ptr<weights::VersionWriter>& writer = writers_[transport];
  if (writer != nullptr) return writer;
  INGOT_ASSIGN_OR_RETURN(std::shared_ptr<weights::ObjectStore> store,
                         OpenStore(config_, dir_.path(), transport, config_.weights.Options().deadline));
  const WeightTransportConfig& transports = config_.weights.transports;
  weights::WriterOptions options;
  options.run = config_.name;
  INGOT_ASSIGN_OR_RETURN(options.history, HistoryOf(dir_));
  options.shards =
      transports.shards > 0 ? transports.shards : std::min<int>(config_.cluster.trainer_ranks, weights::kMaxShards);
  options.rank_shards = RanksStoreVersions(config_);
  options.anchor_every = transports.anchor_every;
  options.codec = config_.weights.Options().codec;
  INGOT_ASSIGN_OR_RETURN(writer, weights::VersionWriter::Open(std::move(store), std::move(options),
                                                              [&from = publisher_] { return from.newest(); }));
  return writer;
}

absl::StatusOr<std::shared_ptr<weights::Sink>> WeightTransports::SinkTo(const std::string& engine,
                                                                        v1::RoleChannel channel) {
  INGOT_ASSIGN_OR_RETURN(const WeightTransport transport, TransportOf(config_.weights.transports, engine));
  const milliseconds deadline = config_.weights.Options().deadline;
  if (transport == WeightTransport::kGrpc || transport == WeightTransport::kBroadcast) {
    weights::GrpcSinkOptions options;
    options.deadline = deadline;
    INGOT_ASSIGN_OR_RETURN(std::shared_ptr<weights::Sink> direct, weights::NewGrpcSink(channel, options));
    if (transport == WeightTransport::kGrpc) return direct;
    if (broadcasts_ == nullptr) {
      INGOT_ASSIGN_OR_RETURN(broadcasts_, weights::BroadcastSet::Make({}, ends_.make_root));
    }
    return weights::BroadcastSet::SinkTo(broadcasts_, engine, ends_.member(std::move(channel)), std::move(direct));
  }
  weights::ObjectSinkOptions options;
  options.deadline = deadline;
  options.poll = milliseconds(config_.weights.transports.poll_ms);
  options.silence = milliseconds(static_cast<int64_t>(config_.weights.transports.silence_s * 1e3));
  INGOT_ASSIGN_OR_RETURN(std::shared_ptr<weights::VersionWriter> writer, WriterTo(transport));
  return weights::NewObjectSink(std::move(writer), engine, options);
}

absl::StatusOr<std::unique_ptr<weights::Follower>> FollowWeights(const RunConfig& config, const RunDir& dir,
                                                                 const std::string& engine, weights::Sink& sink,
                                                                 const weights::CodecOptions& codec) {
  INGOT_ASSIGN_OR_RETURN(const WeightTransport transport, TransportOf(config.weights.transports, engine));
  if (transport == WeightTransport::kGrpc || transport == WeightTransport::kBroadcast) return nullptr;
  INGOT_ASSIGN_OR_RETURN(std::shared_ptr<weights::ObjectStore> store,
                         OpenStore(config, dir.path(), transport, config.weights.Options().deadline));
  weights::FollowerOptions options;
  options.run = config.name;
  // Engines in other clusters do not share the run's folder.
  const absl::StatusOr<std::string> history = base::ReadFile(absl::StrCat(dir.path(), "/", kHistoryFile));
  if (history.ok()) options.history = *history;
  options.engine = engine;
  options.poll = milliseconds(config.weights.transports.poll_ms);
  // Several heartbeats within the silence limit.
  options.heartbeat = milliseconds(static_cast<int64_t>(config.weights.transports.silence_s * 1e3 / 5));
  options.codec = codec;
  return weights::Follower::Start(std::move(store), sink, std::move(options));
}

}  // namespace ingot::app
