#include "app/cluster/run_registry.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <set>
#include <utility>

#include "app/run/process.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/json.h"
#include "base/log.h"
#include "registry/grpc_etcd.h"
#include "registry/local_registry.h"

namespace ingot::app {
namespace {

namespace json = base::json;

std::string RolesPrefix(const std::string& run) { return absl::StrCat("ingot/", run, "/roles/"); }

// `began` distinguishes processes on one machine that had the same pid at different times.
std::string PlaceText(const std::string& address, int64_t began, const std::string& http = "",
                      const std::string& waits = "") {
  json::object place{
      {"address", address}, {"node", MachineName()}, {"pid", static_cast<int64_t>(getpid())}, {"began", began}};
  if (!http.empty()) place["http"] = http;
  if (!waits.empty()) place["waits"] = waits;
  return base::PrintJson(place);
}

std::string NodesPrefix(const std::string& run) { return absl::StrCat("ingot/", run, "/nodes/"); }
std::string EnginesPrefix(const std::string& run) { return absl::StrCat("ingot/", run, "/engines/"); }

std::string NodeText(const std::string& roles, int64_t unix_ns) {
  return base::PrintJson(json::object{
      {"node", MachineName()}, {"pid", static_cast<int64_t>(getpid())}, {"roles", roles}, {"reported", unix_ns}});
}

std::string TextField(const json::value& parsed, const char* field) {
  const json::value* const found = base::Find(parsed, field);
  return found != nullptr && found->is_string() ? std::string(found->as_string().c_str()) : "";
}

int64_t NumberField(const json::value& parsed, const char* field) {
  const json::value* const found = base::Find(parsed, field);
  return found != nullptr && found->is_int64() ? found->as_int64() : 0;
}

// Returns INVALID_ARGUMENT if the value was not written by PlaceText.
absl::StatusOr<RolePlace> ParsePlace(const std::string& name, const std::string& value) {
  INGOT_ASSIGN_OR_RETURN(const json::value parsed, base::ParseJson(value));
  RolePlace place{.name = name,
                  .address = TextField(parsed, "address"),
                  .node = TextField(parsed, "node"),
                  .http = TextField(parsed, "http"),
                  .waits = TextField(parsed, "waits")};
  place.pid = NumberField(parsed, "pid");
  if (!place.address.empty()) return place;
  return absl::InvalidArgumentError(absl::StrCat(name, ": the registry's entry names no address"));
}

absl::StatusOr<std::string> FileOf(const char* key, const std::string& path) {
  if (path.empty()) return std::string();
  const absl::StatusOr<std::string> text = base::ReadFile(path);
  return text.ok() ? text : base::Annotate(text.status(), absl::StrCat("cluster.registry.", key));
}

absl::StatusOr<std::unique_ptr<registry::Registry>> OpenEtcd(const RegistryConfig& config) {
  registry::EtcdOptions options;
  options.endpoints = config.endpoints;
  options.user = config.user;
  INGOT_ASSIGN_OR_RETURN(options.password, FileOf("password_file", config.password_file));
  while (!options.password.empty() && (options.password.back() == '\n' || options.password.back() == '\r')) {
    options.password.pop_back();
  }
  INGOT_ASSIGN_OR_RETURN(options.ca, FileOf("ca", config.ca));
  INGOT_ASSIGN_OR_RETURN(options.certificate, FileOf("certificate", config.certificate));
  INGOT_ASSIGN_OR_RETURN(options.key, FileOf("key", config.key));
  return registry::ConnectEtcd(options);
}

// Describes the process in an entry's value.
std::string DescribeHolder(const std::string& value) {
  const absl::StatusOr<json::value> parsed = base::ParseJson(value);
  const int64_t pid = parsed.ok() ? NumberField(*parsed, "pid") : 0;
  const std::string machine = parsed.ok() ? TextField(*parsed, "node") : "";
  if (pid == 0 || machine.empty()) return "another process";
  return absl::StrCat("process ", pid, " on ", machine);
}

// Returns true for streams, and for judging a group, because the reward stage itself reports which server it is waiting
// for.
bool TakesItsTime(const LongCall& call) { return call.stream || call.method == "Grade"; }

}  // namespace

std::string MachineName() {
  std::array<char, 256> name = {};
  return gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "unknown";
}

std::string OwnHost(const ClusterOptions& cluster) { return cluster.host == "auto" ? MachineName() : cluster.host; }

std::string DescribeTaken(const std::string& name, const std::string& holder, double ttl_s) {
  return absl::StrCat(DescribeHolder(holder), " is now ", name, ", because this process was silent for longer than ",
                      ttl_s, " s (cluster.registry.ttl_s); this process exits and stops everything that it started");
}

std::string RoleName(const std::string& role, int index) {
  return role == "rollout" || index > 0 ? absl::StrCat(role, "-", index) : role;
}

absl::StatusOr<std::unique_ptr<RunRegistry>> RunRegistry::Open(const RunConfig& config, const std::string& folder,
                                                               RpcAccess access, const base::Clock& clock) {
  const RegistryConfig& options = config.cluster.registry;
  auto opened = options.kind == RegistryKind::kEtcd ? OpenEtcd(options)
                                                    : registry::OpenLocalRegistry({.folder = folder + "/registry"});
  if (!opened.ok()) return base::Annotate(opened.status(), "cluster.registry");
  return Over(*std::move(opened), config, std::move(access), clock);
}

std::unique_ptr<RunRegistry> RunRegistry::Over(std::unique_ptr<registry::Registry> registry, const RunConfig& config,
                                               RpcAccess access, const base::Clock& clock) {
  return std::unique_ptr<RunRegistry>(
      new RunRegistry(config.name, config.cluster.registry, std::move(access), std::move(registry), clock));
}

RunRegistry::RunRegistry(std::string run, RegistryConfig config, RpcAccess access,
                         std::unique_ptr<registry::Registry> registry, const base::Clock& clock)
    : run_(std::move(run)),
      config_(std::move(config)),
      access_(std::move(access)),
      registry_(std::move(registry)),
      clock_(clock),
      began_(clock.UnixNanos()) {}

RunRegistry::~RunRegistry() {
  watcher_.reset();
  // destroyed without the lock, because their destructors call the registry
  std::vector<std::unique_ptr<registry::Registration>> ending;
  base::MutexLock lock(mu_);
  ending.swap(registrations_);
}

absl::Status RunRegistry::Follow() {
  INGOT_ASSIGN_OR_RETURN(watcher_, registry_->Watch(RolesPrefix(run_), [this](const auto& event) { Note(event); }));
  return absl::OkStatus();
}

void RunRegistry::Note(const registry::Event& event) {
  const std::string name = event.entry.key.substr(RolesPrefix(run_).size());
  if (event.deleted) return NoteGone(name);
  const absl::StatusOr<RolePlace> place = ParsePlace(name, event.entry.value);
  if (!place.ok()) {
    INGOT_LOG(warn, "{}", std::string(place.status().message()));
    return;
  }
  std::vector<std::shared_ptr<RunningCalls>> closed;
  {
    base::MutexLock lock(mu_);
    last_places_[name] = *place;
    const bool back = gone_.erase(name) > 0;
    const bool moved = std::exchange(addresses_[name], place->address) != place->address;
    if (moved && lines_.contains(name)) {
      INGOT_LOG(info, "{} is found at {}", name, place->address);
      closed.push_back(Reopen(name));
    }
    if (!moved && !back) return;
    // The new process replaces missing processes that calls are waiting for.
    for (const std::string& other : replaceable_.contains(name) ? replaceable_ : std::set<std::string>()) {
      if (!IsThere(other)) closed.push_back(Reopen(other));
    }
  }
  for (const auto& calls : closed) calls->Close();
  ReportFollowing();
}

// A missing role may return at its old address. Callers keep waiting for that address until the role registers another
// one, unless other processes can replace it.
void RunRegistry::NoteGone(const std::string& name) {
  std::shared_ptr<RunningCalls> closed;
  {
    base::MutexLock lock(mu_);
    gone_.insert(name);
    last_places_.erase(name);
    if (!replaceable_.contains(name)) return;
    INGOT_LOG(info, "{} is gone; other processes take over", name);
    closed = Reopen(name);
  }
  closed->Close();
}

std::shared_ptr<RunningCalls> RunRegistry::Reopen(const std::string& name) {
  Line& line = lines_.at(name);
  std::shared_ptr<RunningCalls> calls = line.calls;
  left_.push_back(line);
  Lead(name, addresses_[name], line);
  return calls;
}

void RunRegistry::OnRole(const std::string& kind, std::function<void(const std::string& name)> observer) {
  {
    base::MutexLock lock(following_mu_);
    following_.push_back({.kind = kind, .observer = std::move(observer), .reported = {}});
  }
  ReportFollowing();
}

void RunRegistry::ReportFollowing() {
  base::MutexLock following_lock(following_mu_);
  std::vector<std::string> names;
  {
    base::MutexLock lock(mu_);
    for (const auto& [name, address] : addresses_) {
      if (!address.empty()) names.push_back(name);
    }
  }
  for (Following& following : following_) {
    for (const std::string& name : names) {
      const bool of_kind = name == following.kind || name.starts_with(following.kind + "-");
      if (of_kind && following.reported.insert(name).second) following.observer(name);
    }
  }
}

void RunRegistry::Lead(const std::string& name, const std::string& address, Line& line) const {
  line.address = address;
  line.calls = std::make_shared<RunningCalls>();
  line.channel =
      address.empty()
          ? ConnectNowhere(absl::StrCat("the role ", name, " is not registered in ", registry_->Describe()), line.calls)
          : Connect(address, access_, line.calls);
}

v1::RoleChannel RunRegistry::To(const std::string& name) {
  {
    base::MutexLock lock(mu_);
    if (!lines_.contains(name)) Lead(name, addresses_[name], lines_[name]);
  }
  return v1::RoleChannel([this, name] {
    base::MutexLock lock(mu_);
    return lines_.at(name).channel;
  });
}

v1::RoleChannel RunRegistry::ToAny(std::vector<std::string> names) {
  for (const std::string& name : names) {
    (void)To(name);
    base::MutexLock lock(mu_);
    replaceable_.insert(name);
  }
  return v1::RoleChannel([this, names = std::move(names)] {
    base::MutexLock lock(mu_);
    for (const std::string& name : names) {
      if (IsThere(name)) return lines_.at(name).channel;
    }
    return lines_.at(names.front()).channel;
  });
}

bool RunRegistry::IsThere(const std::string& name) const {
  return !gone_.contains(name) && !lines_.at(name).address.empty();
}

absl::StatusOr<registry::Registration*> RunRegistry::KeepEntry(const std::string& key, const std::string& name,
                                                               const std::string& value,
                                                               std::optional<std::chrono::milliseconds> timeout,
                                                               bool leads) {
  registry::RegistrationOptions options;
  options.key = key;
  options.value = value;
  options.ttl = ttl();
  options.timeout = timeout;
  options.leads = leads;
  options.describe = [](const registry::Entry& holder) { return DescribeHolder(holder.value); };
  options.on_taken = [name, ttl_s = config_.ttl_s](const registry::Entry& holder) {
    _exit(Fail(absl::AbortedError(DescribeTaken(name, holder.value, ttl_s))));
  };
  INGOT_ASSIGN_OR_RETURN(auto registration, registry::Registration::Start(*registry_, std::move(options)));
  base::MutexLock lock(mu_);
  registrations_.push_back(std::move(registration));
  return registrations_.back().get();
}

absl::StatusOr<int64_t> RunRegistry::Lead(const std::string& role) {
  INGOT_ASSIGN_OR_RETURN(const registry::Registration* const leads,
                         KeepEntry(absl::StrCat("ingot/", run_, "/leaders/", role), "the leader of " + role,
                                   PlaceText("none", began_), std::nullopt, /*leads=*/true));
  return leads->token();
}

absl::Status RunRegistry::Register(const std::string& name, const std::string& address, const std::string& http) {
  INGOT_ASSIGN_OR_RETURN(registry::Registration* const kept,
                         KeepEntry(RolesPrefix(run_) + name, name, PlaceText(address, began_, http), std::nullopt));
  base::MutexLock lock(mu_);
  if (own_ != nullptr) return absl::OkStatus();
  own_ = kept;
  own_address_ = address;
  own_http_ = http;
  if (!own_waits_.empty()) own_->Update(PlaceText(own_address_, began_, own_http_, own_waits_));
  return absl::OkStatus();
}

std::vector<std::string> RunRegistry::LongCalls(std::chrono::milliseconds than) {
  const auto when = std::chrono::steady_clock::now() - than;
  std::set<std::string> waits;
  base::MutexLock lock(mu_);
  for (const auto& [name, line] : lines_) {
    const bool reached = line.channel->GetState(false) == GRPC_CHANNEL_READY;
    for (const LongCall& call : line.calls->Before(when)) {
      if (TakesItsTime(call) && reached) continue;
      const std::string place = line.address.empty() ? "not registered" : "no answer at " + line.address;
      waits.insert(absl::StrCat(name, " (", call.method, reached ? "" : ": ", reached ? "" : place, ")"));
    }
  }
  return {waits.begin(), waits.end()};
}

void RunRegistry::ReportWaits(const std::string& waits) {
  base::MutexLock lock(mu_);
  own_waits_ = waits;
  if (own_ != nullptr) own_->Update(PlaceText(own_address_, began_, own_http_, waits));
}

absl::Status RunRegistry::ClaimRun() {
  const absl::Status claimed = KeepEntry(absl::StrCat("ingot/", run_, "/launch"), "the launcher",
                                         PlaceText("none", began_), ttl() + std::chrono::seconds(3))
                                   .status();
  return absl::IsAlreadyExists(claimed)
             ? absl::FailedPreconditionError(absl::StrCat("the run '", run_, "' is already launched: ",
                                                          claimed.message(), "; choose another run.name, or stop it"))
             : claimed;
}

std::chrono::milliseconds RunRegistry::ttl() const {
  return std::chrono::milliseconds(static_cast<int64_t>(config_.ttl_s * 1e3));
}

absl::Status RunRegistry::RegisterNode(const std::string& name, const std::string& roles,
                                       std::chrono::milliseconds timeout) {
  const auto kept =
      KeepEntry(NodesPrefix(run_) + name, "the agent of node " + name, NodeText(roles, clock_.UnixNanos()), timeout);
  if (absl::IsAlreadyExists(kept.status())) {
    return absl::FailedPreconditionError(absl::StrCat(
        "another process runs node ", name, " of the run, or has taken over its roles: ", kept.status().message(),
        "; this node can start again once that process has ended"));
  }
  INGOT_RETURN_IF_ERROR(kept.status());
  base::MutexLock lock(mu_);
  nodes_.push_back(*kept);
  return absl::OkStatus();
}

void RunRegistry::UpdateNodes(const std::string& roles) {
  const std::string value = NodeText(roles, clock_.UnixNanos());
  base::MutexLock lock(mu_);
  for (registry::Registration* node : nodes_) node->Update(value);
}

absl::StatusOr<std::vector<NodePlace>> RunRegistry::Nodes() {
  INGOT_ASSIGN_OR_RETURN(const registry::Listing listing, registry_->List(NodesPrefix(run_)));
  std::vector<NodePlace> nodes;
  for (const registry::Entry& entry : listing.entries) {
    INGOT_ASSIGN_OR_RETURN(const json::value parsed, base::ParseJson(entry.value));
    nodes.push_back({.name = entry.key.substr(NodesPrefix(run_).size()),
                     .machine = TextField(parsed, "node"),
                     .roles = TextField(parsed, "roles"),
                     .reported_unix_ns = NumberField(parsed, "reported"),
                     .token = entry.create_revision});
  }
  return nodes;
}

absl::Status RunRegistry::ClaimEngine(const std::string& engine, std::chrono::milliseconds timeout) {
  return KeepEntry(EnginesPrefix(run_) + engine, "the node of " + engine, NodeText(engine, clock_.UnixNanos()), timeout)
      .status();
}

absl::StatusOr<std::set<std::string>> RunRegistry::ClaimedEngines() {
  INGOT_ASSIGN_OR_RETURN(const registry::Listing listing, registry_->List(EnginesPrefix(run_)));
  std::set<std::string> engines;
  for (const registry::Entry& entry : listing.entries) engines.insert(entry.key.substr(EnginesPrefix(run_).size()));
  return engines;
}

std::vector<RolePlace> RunRegistry::LastPlaces() {
  std::vector<RolePlace> places;
  base::MutexLock lock(mu_);
  for (const auto& [name, place] : last_places_) places.push_back(place);
  return places;
}

absl::StatusOr<std::vector<RolePlace>> RunRegistry::Places() {
  INGOT_ASSIGN_OR_RETURN(const registry::Listing listing, registry_->List(RolesPrefix(run_)));
  std::vector<RolePlace> places;
  for (const registry::Entry& entry : listing.entries) {
    absl::StatusOr<RolePlace> place = ParsePlace(entry.key.substr(RolesPrefix(run_).size()), entry.value);
    if (place.ok()) places.push_back(*std::move(place));
  }
  return places;
}

}  // namespace ingot::app
