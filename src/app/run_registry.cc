#include "app/run_registry.h"

#include <unistd.h>

#include <array>
#include <utility>

#include "app/process.h"
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

// `began` tells processes of one machine apart that had one process number after the other.
std::string PlaceText(const std::string& address) {
  return base::PrintJson(json::object{{"address", address},
                                      {"node", MachineName()},
                                      {"pid", static_cast<int64_t>(getpid())},
                                      {"began", base::Clock::Real().UnixNanos()}});
}

// INVALID_ARGUMENT: the value is none of PlaceText's.
absl::StatusOr<RolePlace> ParsePlace(const std::string& name, const std::string& value) {
  INGOT_ASSIGN_OR_RETURN(const json::value parsed, base::ParseJson(value));
  const auto text = [&parsed](const char* field) -> std::string {
    const json::value* const found = base::Find(parsed, field);
    return found != nullptr && found->is_string() ? std::string(found->as_string().c_str()) : "";
  };
  RolePlace place{name, text("address"), text("node"), 0};
  const json::value* const pid = base::Find(parsed, "pid");
  if (pid != nullptr && pid->is_int64()) place.pid = pid->as_int64();
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

}  // namespace

std::string MachineName() {
  std::array<char, 256> name = {};
  return gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "unknown";
}

std::string RoleName(const std::string& role, int index) {
  return role == "rollout" || index > 0 ? absl::StrCat(role, "-", index) : role;
}

absl::StatusOr<std::unique_ptr<RunRegistry>> RunRegistry::Open(const RunConfig& config, const std::string& folder,
                                                               RpcAccess access) {
  const RegistryConfig& options = config.cluster.registry;
  auto opened = options.kind == RegistryKind::kEtcd ? OpenEtcd(options)
                                                    : registry::OpenLocalRegistry({.folder = folder + "/registry"});
  if (!opened.ok()) return base::Annotate(opened.status(), "cluster.registry");
  return std::unique_ptr<RunRegistry>(new RunRegistry(config.name, options, std::move(access), *std::move(opened)));
}

RunRegistry::RunRegistry(std::string run, RegistryConfig config, RpcAccess access,
                         std::unique_ptr<registry::Registry> registry)
    : run_(std::move(run)), config_(std::move(config)), access_(std::move(access)), registry_(std::move(registry)) {}

RunRegistry::~RunRegistry() {
  watcher_.reset();
  registrations_.clear();
}

absl::Status RunRegistry::Follow() {
  INGOT_ASSIGN_OR_RETURN(watcher_, registry_->Watch(RolesPrefix(run_), [this](const auto& event) { Note(event); }));
  return absl::OkStatus();
}

void RunRegistry::Note(const registry::Event& event) {
  // A role that is gone may come back where it was: its callers wait there until it is found elsewhere.
  if (event.deleted) return;
  const std::string name = event.entry.key.substr(RolesPrefix(run_).size());
  const absl::StatusOr<RolePlace> place = ParsePlace(name, event.entry.value);
  if (!place.ok()) {
    INGOT_LOG(warn, "{}", std::string(place.status().message()));
    return;
  }
  std::shared_ptr<RunningCalls> closed;
  {
    base::MutexLock lock(mu_);
    if (std::exchange(addresses_[name], place->address) == place->address) return;
    const auto line = lines_.find(name);
    if (line == lines_.end()) return;
    INGOT_LOG(info, "{} is found at {}", name, place->address);
    closed = line->second.calls;
    left_.push_back(line->second);
    Lead(name, place->address, line->second);
  }
  closed->Close();
}

void RunRegistry::Lead(const std::string& name, const std::string& address, Line& line) const {
  line.address = address;
  line.calls = std::make_shared<RunningCalls>();
  line.channel =
      address.empty()
          ? ConnectNowhere(absl::StrCat("the role ", name, " is not registered in ", registry_->Describe(), " yet"),
                           line.calls)
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

absl::Status RunRegistry::Keep(const std::string& key, const std::string& name, const std::string& address,
                               std::optional<std::chrono::milliseconds> patience) {
  registry::RegistrationOptions options;
  options.key = key;
  options.value = PlaceText(address);
  options.ttl = std::chrono::milliseconds(static_cast<int64_t>(config_.ttl_s * 1e3));
  options.patience = patience;
  options.on_taken = [name](const registry::Entry& holder) {
    _exit(Fail(absl::AbortedError(
        absl::StrCat("another process is ", name, " by now: ", holder.value, "; this one was silent for too long"))));
  };
  INGOT_ASSIGN_OR_RETURN(auto registration, registry::Registration::Start(*registry_, std::move(options)));
  registrations_.push_back(std::move(registration));
  return absl::OkStatus();
}

absl::Status RunRegistry::Register(const std::string& name, const std::string& address) {
  return Keep(RolesPrefix(run_) + name, name, address, std::nullopt);
}

absl::Status RunRegistry::ClaimRun() {
  const absl::Status claimed = Keep(absl::StrCat("ingot/", run_, "/launch"), "the launcher", "none",
                                    std::chrono::milliseconds(static_cast<int64_t>(config_.ttl_s * 1e3) + 3000));
  return absl::IsAlreadyExists(claimed)
             ? absl::FailedPreconditionError(absl::StrCat("the run '", run_, "' is launched already: ",
                                                          claimed.message(), "; choose another run.name, or stop it"))
             : claimed;
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
