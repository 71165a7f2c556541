#include "weights/stores/version_writer.h"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "base/log.h"

namespace ingot::weights {
namespace {

void AddStep(const HeldVersion& name, bool anchor, v1::VersionRoute* route) {
  v1::VersionStep* const step = route->add_steps();
  *step->mutable_name() = NameOf(name);
  step->set_anchor(anchor);
}

HeldVersion LastOf(const v1::VersionRoute& route) {
  return route.steps_size() == 0 ? HeldVersion() : FromName(route.steps(route.steps_size() - 1).name());
}

// Sets the anchor at `at`. Lagging engines start at the previous anchor or later.
void SetAnchor(int at, v1::VersionRoute* route) {
  const int before = LastAnchor(*route);
  route->mutable_steps(at)->set_anchor(true);
  if (before < at) route->mutable_steps()->DeleteSubrange(0, before);
}

void Retain(v1::VersionRoute route, v1::LiveVersions* live) {
  route.mutable_steps()->DeleteSubrange(0, LastAnchor(route));
  const int64_t version = LastOf(route).version;
  auto& retained = *live->mutable_retained();
  const auto same = [&](const v1::VersionRoute& one) { return LastOf(one).version == version; };
  retained.erase(std::remove_if(retained.begin(), retained.end(), same), retained.end());
  *live->add_retained() = std::move(route);
}

bool Retains(const v1::LiveVersions& live, const HeldVersion& version) {
  return std::any_of(live.retained().begin(), live.retained().end(),
                     [&](const v1::VersionRoute& route) { return LastOf(route) == version; });
}

}  // namespace

absl::Status WriterOptions::Validate() const {
  if (!IsObjectKey(run)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the run's name '", run, "' cannot be part of object names: use letters, digits, '.', '_', and '-'"));
  }
  if (shards < 1 || shards > kMaxShards) {
    return absl::InvalidArgumentError(absl::StrCat("shards is ", shards, ": 1 to ", kMaxShards));
  }
  if (anchor_every < 1) {
    return absl::InvalidArgumentError(absl::StrCat("anchor_every is ", anchor_every, ": must be at least 1"));
  }
  return codec.Validate();
}

VersionWriter::VersionWriter(std::shared_ptr<ObjectStore> store, WriterOptions options, Newest newest)
    : store_(std::move(store)),
      options_(std::move(options)),
      newest_(std::move(newest)),
      anchors_({.name = "anchors", .threads = 1}) {}

absl::Status OtherRun(const ObjectStore& store, const std::string& run) {
  return absl::FailedPreconditionError(absl::StrCat(
      store.Describe(), " has versions of another run '", run,
      "': choose another run.name, set run.if_exists to replace, or remove the objects under '", run, "/'"));
}

absl::StatusOr<std::unique_ptr<VersionWriter>> VersionWriter::Open(std::shared_ptr<ObjectStore> store,
                                                                   WriterOptions options, Newest newest) {
  INGOT_RETURN_IF_ERROR(options.Validate());
  std::unique_ptr<VersionWriter> writer(new VersionWriter(std::move(store), std::move(options), std::move(newest)));
  const WriterOptions& own = writer->options_;
  base::MutexLock lock(writer->mu_);
  writer->live_.set_run(own.run);
  writer->live_.set_history(own.history);
  const absl::StatusOr<StoredObject> object = writer->store_->Get(LiveKey(own.run), kMaxPointerBytes);
  if (absl::IsNotFound(object.status())) return writer;
  INGOT_RETURN_IF_ERROR(object.status());
  absl::StatusOr<v1::LiveVersions> live = ParseLive(object->bytes, own.run);
  if (!live.ok()) return base::Annotate(live.status(), writer->store_->Describe());
  if (live->history() != own.history) return OtherRun(*writer->store_, own.run);
  writer->live_ = *live;
  writer->tag_ = object->tag;
  INGOT_RETURN_IF_ERROR(writer->MoveLive(*std::move(live)).status());
  return writer;
}

// Another trainer may have moved `live` while this process was paused. It does that before storing anything, so objects
// listed before this check cannot belong to it.
absl::Status VersionWriter::CheckLiveIsOwn() const {
  const std::string key = LiveKey(options_.run);
  INGOT_ASSIGN_OR_RETURN(const StoredObject found, store_->Get(key, kMaxPointerBytes));
  if (found.tag == tag_) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      store_->Describe(), ": '", key, "' has changed since this trainer's last update, so no objects are removed"));
}

absl::StatusOr<int64_t> VersionWriter::MoveLive(v1::LiveVersions next) {
  next.set_sequence(live_.sequence() + 1);
  const std::string key = LiveKey(options_.run), text = PrintLive(next);
  absl::StatusOr<std::string> tag = store_->Swap(key, text, tag_);
  if (absl::IsAborted(tag.status())) {
    // This move, or an earlier one that timed out, may have succeeded.
    INGOT_ASSIGN_OR_RETURN(const StoredObject found, store_->Get(key, kMaxPointerBytes));
    if (found.bytes == text) {
      tag = found.tag;
    } else if (!attempted_.empty() && found.bytes == attempted_) {
      tag = store_->Swap(key, text, found.tag);
    }
  }
  attempted_ = tag.ok() ? "" : text;
  if (absl::IsAborted(tag.status())) {
    return absl::FailedPreconditionError(absl::StrCat(
        store_->Describe(), ": '", key,
        "' was updated by another trainer of this run, which continues; this trainer can no longer publish"));
  }
  INGOT_RETURN_IF_ERROR(tag.status());
  live_ = std::move(next);
  tag_ = *std::move(tag);
  return live_.sequence();
}

bool VersionWriter::FindRoute(const HeldVersion& version, v1::VersionRoute* route) const {
  const auto take = [&](const v1::VersionRoute& from) {
    const int at = StepOf(from, version);
    if (at < 0) return false;
    *route = from;
    route->mutable_steps()->DeleteSubrange(at + 1, from.steps_size() - at - 1);
    return true;
  };
  return take(live_.newest()) || std::any_of(live_.retained().begin(), live_.retained().end(), take);
}

// Stores the objects of a route to the delta's target, and returns the route.
absl::StatusOr<v1::VersionRoute> VersionWriter::RouteOf(const EncodedDelta& delta, bool anchor) {
  const HeldVersion target = TargetOf(delta.header);
  const bool full = IsFullCopy(delta.header);
  v1::VersionRoute route;
  if (delta.stored != nullptr) return RouteOfShards(delta, anchor);
  const bool found = FindRoute(target, &route);
  if (found && !(full && anchor)) return route;
  if (!full && LastOf(live_.newest()) != HeldVersion{delta.header.base_version(), delta.header.base_checksum()}) {
    return absl::FailedPreconditionError(
        absl::StrCat(store_->Describe(), " has no version ", delta.header.base_version(), " as the newest version"));
  }
  INGOT_RETURN_IF_ERROR(StoreVersion(*store_, options_.run, delta, options_.shards));
  if (found) {
    SetAnchor(route.steps_size() - 1, &route);
  } else {
    if (!full) route = live_.newest();
    AddStep(target, full, &route);
  }
  return route;
}

// Same as RouteOf, but for shards that are already stored.
absl::StatusOr<v1::VersionRoute> VersionWriter::RouteOfShards(const EncodedDelta& delta, bool anchor) {
  const HeldVersion target = TargetOf(delta.header);
  v1::VersionRoute route;
  if (FindRoute(target, &route)) {
    anchor_wanted_ |= anchor;
    return route;
  }
  const v1::DeltaHeader& header = delta.stored->header();
  const bool full = IsFullCopy(header);
  if (!full) {
    if (LastOf(live_.newest()) != HeldVersion{header.base_version(), header.base_checksum()}) {
      return absl::FailedPreconditionError(
          absl::StrCat(store_->Describe(), " has no version ", header.base_version(), " as the newest version"));
    }
    route = live_.newest();
  }
  INGOT_RETURN_IF_ERROR(StoreManifest(*store_, *delta.stored));
  AddStep(target, full, &route);
  if (delta.stored_anchor != nullptr) {
    INGOT_RETURN_IF_ERROR(StoreManifest(*store_, *delta.stored_anchor));
    SetAnchor(route.steps_size() - 1, &route);
  }
  if (full || delta.stored_anchor != nullptr) anchor_wanted_ = false;
  return route;
}

HeldVersion VersionWriter::newest() const {
  base::MutexLock lock(mu_);
  return LastOf(live_.newest());
}

bool VersionWriter::AnchorDue() const {
  base::MutexLock lock(mu_);
  // The next step makes the route one longer.
  return anchor_wanted_ || live_.newest().steps_size() - LastAnchor(live_.newest()) >= options_.anchor_every;
}

absl::StatusOr<int64_t> VersionWriter::Publish(const EncodedDelta& delta, bool anchor) {
  base::MutexLock lock(mu_);
  const HeldVersion target = TargetOf(delta.header);
  INGOT_ASSIGN_OR_RETURN(const v1::VersionRoute route, RouteOf(delta, anchor));
  const bool moves = LastOf(live_.newest()) != target || (anchor && IsFullCopy(delta.header));
  if (!moves && (!delta.header.retain() || Retains(live_, target))) return live_.sequence();
  v1::LiveVersions next = live_;
  *next.mutable_newest() = route;
  if (delta.header.retain()) Retain(route, &next);
  INGOT_ASSIGN_OR_RETURN(const int64_t sequence, MoveLive(std::move(next)));
  if (delta.stored == nullptr) {
    MakeAnchorIfDue();
  } else if (LastAnchor(route) == route.steps_size() - 1) {
    anchors_.Post([this] {
      if (const absl::Status removed = RemoveOld(); !removed.ok()) {
        INGOT_LOG(warn, "cannot remove old versions: {}", removed.ToString());
      }
    });
  }
  return sequence;
}

absl::StatusOr<int64_t> VersionWriter::HoldVersion(const EncodedDelta& full) {
  base::MutexLock lock(mu_);
  if (Retains(live_, TargetOf(full.header))) return live_.sequence();
  INGOT_ASSIGN_OR_RETURN(const v1::VersionRoute route, RouteOf(full, false));
  v1::LiveVersions next = live_;
  Retain(route, &next);
  return MoveLive(std::move(next));
}

absl::StatusOr<int64_t> VersionWriter::Release(int64_t version) {
  base::MutexLock lock(mu_);
  v1::LiveVersions next = live_;
  auto& retained = *next.mutable_retained();
  const auto is_it = [&](const v1::VersionRoute& route) { return LastOf(route).version == version; };
  retained.erase(std::remove_if(retained.begin(), retained.end(), is_it), retained.end());
  if (retained.size() == live_.retained_size()) return live_.sequence();
  return MoveLive(std::move(next));
}

void VersionWriter::MakeAnchorIfDue() {
  const v1::VersionRoute& route = live_.newest();
  if (making_anchor_ || route.steps_size() - 1 - LastAnchor(route) < options_.anchor_every) return;
  std::shared_ptr<const Snapshot> snapshot = newest_();
  if (snapshot == nullptr || StepOf(route, {snapshot->version(), snapshot->checksum()}) < 0) return;
  making_anchor_ = true;
  anchors_.Post([this, snapshot = std::move(snapshot)] {
    absl::Status made = MakeAnchor(*snapshot);
    if (made.ok()) made = RemoveOld();
    if (!made.ok())
      INGOT_LOG(warn, "anchor of version {} or removal of old versions failed, retrying: {}", snapshot->version(),
                made.ToString());
    base::MutexLock lock(mu_);
    making_anchor_ = false;
  });
}

absl::Status VersionWriter::MakeAnchor(const Snapshot& snapshot) {
  INGOT_ASSIGN_OR_RETURN(const EncodedDelta full, Encode(nullptr, snapshot, false, options_.codec));
  INGOT_RETURN_IF_ERROR(StoreVersion(*store_, options_.run, full, options_.shards));
  base::MutexLock lock(mu_);
  v1::LiveVersions next = live_;
  const int at = StepOf(next.newest(), TargetOf(full.header));
  if (at < 0) return absl::OkStatus();  // a full copy has replaced the newest version's route
  SetAnchor(at, next.mutable_newest());
  return MoveLive(std::move(next)).status();
}

std::set<std::string> VersionWriter::NeededFolders() const {
  std::set<std::string> needed;
  const auto add = [&](const v1::VersionRoute& route) {
    for (int i = 0; i < route.steps_size(); ++i) {
      const std::string folder = VersionFolder(options_.run, FromName(route.steps(i).name()));
      if (route.steps(i).anchor()) needed.insert(folder + "/anchor/");
      if (i > 0) needed.insert(folder + "/delta/");
    }
  };
  add(live_.newest());
  for (const v1::VersionRoute& route : live_.retained()) add(route);
  return needed;
}

absl::Status VersionWriter::RemoveOld() {
  INGOT_ASSIGN_OR_RETURN(const std::vector<std::string> keys, store_->List(options_.run + "/versions/"));
  std::map<std::string, std::vector<std::string>> folders;
  for (const std::string& key : keys) folders[key.substr(0, key.rfind('/') + 1)].push_back(key);
  for (const auto& [folder, objects] : folders) {
    // Versions are stored under the lock, except the trainer ranks' shards, which belong to a version after the newest.
    // So any other directory without a route is unused. Between directories, the lock is free for other calls.
    base::MutexLock lock(mu_);
    const bool next = folder >= VersionFolder(options_.run, {LastOf(live_.newest()).version + 1, 0});
    if (NeededFolders().contains(folder) || (options_.rank_shards && next)) continue;
    INGOT_RETURN_IF_ERROR(CheckLiveIsOwn());
    for (const std::string& key : objects) INGOT_RETURN_IF_ERROR(store_->Delete(key));
  }
  return absl::OkStatus();
}

}  // namespace ingot::weights
