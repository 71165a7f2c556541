#include "registry/local_registry.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <thread>
#include <utility>

#include "base/file.h"
#include "base/log.h"
#include "base/outage.h"
#include "base/random.h"
#include "proto/registry.pb.h"
#include "registry/arguments.h"
#include "registry/lease_keeper.h"
#include "registry/view.h"

namespace ingot::registry {
namespace {

using std::chrono::nanoseconds;
using Table = v1::RegistryTable;

// An open file with a lock that other processes respect.
class LockedFile {
 public:
  LockedFile() = default;
  explicit LockedFile(int fd) : fd_(fd) {}
  LockedFile(LockedFile&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  LockedFile& operator=(LockedFile&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~LockedFile() {
    if (fd_ >= 0) close(fd_);
  }
  bool TryLock(int mode) const { return flock(fd_, mode | LOCK_NB) == 0; }
  bool opened() const { return fd_ >= 0; }

 private:
  int fd_ = -1;
};

absl::Status FileError(const char* what, const std::string& path) {
  return absl::UnavailableError(absl::StrCat("the registry cannot ", what, " ", path, ": ", std::strerror(errno)));
}

Entry ToEntry(const v1::RegistryEntry& stored) {
  return {stored.key(), stored.value(), stored.create_revision(), stored.mod_revision(), stored.lease()};
}

v1::RegistryEntry* Find(Table& table, const std::string& key) {
  const auto found = std::find_if(table.mutable_entries()->begin(), table.mutable_entries()->end(),
                                  [&](const v1::RegistryEntry& entry) { return entry.key() == key; });
  return found == table.mutable_entries()->end() ? nullptr : &*found;
}

v1::RegistryLease* FindLease(Table& table, int64_t id) {
  const auto found = std::find_if(table.mutable_leases()->begin(), table.mutable_leases()->end(),
                                  [&](const v1::RegistryLease& lease) { return lease.id() == id; });
  return found == table.mutable_leases()->end() ? nullptr : &*found;
}

template <typename Repeated, typename Is>
bool EraseIf(Repeated& list, const Is& is) {
  const auto end = std::remove_if(list.begin(), list.end(), is);
  const bool any = end != list.end();
  list.erase(end, list.end());
  return any;
}

void EraseEntries(Table& table, const std::function<bool(const v1::RegistryEntry&)>& is) {
  if (EraseIf(*table.mutable_entries(), is)) table.set_revision(table.revision() + 1);
}

class LocalRegistry final : public Registry {
 public:
  LocalRegistry(LocalOptions options, const base::Clock& clock)
      : options_(std::move(options)),
        clock_(clock),
        session_(base::RandomHex(8)),
        keeper_(clock, {[this](int64_t id, nanoseconds) { return Renew(id); },
                        [this](int64_t id, nanoseconds) { Revoke(id); }}) {}
  ~LocalRegistry() override { unlink(SessionPath(session_).c_str()); }

  absl::Status Open();

  std::string Describe() const override { return absl::StrCat("the registry in ", options_.folder); }
  absl::StatusOr<std::unique_ptr<Lease>> Grant(std::chrono::milliseconds ttl, std::function<void()> on_lost) override;
  absl::StatusOr<PutResult> Put(const std::string& key, const std::string& value, const PutOptions& options) override;
  absl::StatusOr<std::optional<Entry>> Get(const std::string& key) override;
  absl::StatusOr<Listing> List(const std::string& prefix) override;
  absl::Status Delete(const std::string& key) override;
  absl::StatusOr<std::unique_ptr<Watcher>> Watch(const std::string& prefix, Observer observer) override;

  const LocalOptions& options() const { return options_; }
  const base::Clock& clock() const { return clock_; }

 private:
  std::string SessionPath(const std::string& session) const {
    return absl::StrCat(options_.folder, "/sessions/", session);
  }
  std::string TablePath() const { return absl::StrCat(options_.folder, "/table"); }

  absl::StatusOr<LockedFile> LockTable() const;
  absl::StatusOr<Table> Load() const;
  absl::Status Store(const Table& table, bool durably) const;
  // Returns the table without expired leases.
  absl::StatusOr<Table> Read();
  // Changes the table while other processes are locked out. If `change` returns an error, the table is unchanged.
  absl::Status Write(const std::function<absl::Status(Table&)>& change);
  bool IsOver(const v1::RegistryLease& lease) const;
  void Sweep(Table& table) const;
  // Deletes the files of sessions whose processes are gone. REQUIRES: the table is locked.
  void DropDeadSessions() const;
  absl::Status Renew(int64_t id);
  void Revoke(int64_t id);

  const LocalOptions options_;
  const base::Clock& clock_;
  const std::string session_;
  LockedFile session_lock_;  // set by Open
  LeaseKeeper keeper_;
};

absl::Status LocalRegistry::Open() {
  if (mkdir(options_.folder.c_str(), 0700) != 0 && errno != EEXIST) return FileError("make", options_.folder);
  const std::string sessions = SessionPath("");
  if (mkdir(sessions.c_str(), 0700) != 0 && errno != EEXIST) return FileError("make", sessions);
  // Holds the table lock, so no process mistakes the new file for a dead process's file.
  INGOT_ASSIGN_OR_RETURN(const LockedFile table, LockTable());
  DropDeadSessions();
  const std::string path = SessionPath(session_);
  session_lock_ = LockedFile(open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!session_lock_.opened() || !session_lock_.TryLock(LOCK_EX)) return FileError("lock", path);
  return absl::OkStatus();
}

void LocalRegistry::DropDeadSessions() const {
  std::error_code error;
  for (const auto& file : std::filesystem::directory_iterator(SessionPath(""), error)) {
    const LockedFile session(open(file.path().c_str(), O_RDWR | O_CLOEXEC));
    if (session.opened() && session.TryLock(LOCK_SH)) unlink(file.path().c_str());
  }
}

absl::StatusOr<LockedFile> LocalRegistry::LockTable() const {
  const std::string path = absl::StrCat(options_.folder, "/lock");
  LockedFile file(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!file.opened()) return FileError("open", path);
  const auto end = std::chrono::steady_clock::now() + options_.deadline;
  while (!file.TryLock(LOCK_EX)) {
    if (errno != EWOULDBLOCK && errno != EINTR) return FileError("lock", path);
    if (std::chrono::steady_clock::now() >= end) {
      return absl::UnavailableError(absl::StrCat("another process has held ", path, " for ", options_.deadline.count(),
                                                 " ms: it may be paused; `fuser ", path, "` names it"));
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return file;
}

absl::StatusOr<Table> LocalRegistry::Load() const {
  Table table;
  const absl::StatusOr<std::string> bytes = base::ReadFile(TablePath());
  // An empty file, which a machine crash may leave behind, parses as a message without a revision.
  if (bytes.ok() && table.ParseFromString(*bytes) && table.revision() > 0) return table;
  if (!bytes.ok() && !absl::IsNotFound(bytes.status())) return bytes.status();
  if (bytes.ok()) INGOT_LOG(warn, "{} is damaged: the registry starts over empty", TablePath());
  table.Clear();
  table.set_revision(clock_.UnixNanos() / 1000);
  return table;
}

absl::Status LocalRegistry::Store(const Table& table, bool durably) const {
  const absl::Status stored =
      base::ReplaceFile(TablePath(), table.SerializeAsString(), {.mode = 0600, .durable = durably});
  return stored.ok() ? stored : absl::UnavailableError(absl::StrCat("the registry ", stored.message()));
}

bool LocalRegistry::IsOver(const v1::RegistryLease& lease) const {
  if (clock_.Now().count() >= lease.expires_ns()) return true;
  if (lease.session() == session_) return false;
  const LockedFile session(open(SessionPath(lease.session()).c_str(), O_RDWR | O_CLOEXEC));
  return session.opened() ? session.TryLock(LOCK_SH) : errno == ENOENT;
}

void LocalRegistry::Sweep(Table& table) const {
  std::vector<int64_t> over;
  for (const v1::RegistryLease& lease : table.leases()) {
    if (IsOver(lease)) over.push_back(lease.id());
  }
  const auto is_over = [&](int64_t id) { return std::find(over.begin(), over.end(), id) != over.end(); };
  EraseEntries(table, [&](const v1::RegistryEntry& entry) { return is_over(entry.lease()); });
  EraseIf(*table.mutable_leases(), [&](const v1::RegistryLease& lease) { return is_over(lease.id()); });
}

absl::StatusOr<Table> LocalRegistry::Read() {
  INGOT_ASSIGN_OR_RETURN(Table table, Load());
  if (std::none_of(table.leases().begin(), table.leases().end(), [&](const auto& lease) { return IsOver(lease); })) {
    return table;
  }
  INGOT_RETURN_IF_ERROR(Write([&](Table& swept) {
    table = swept;
    return absl::OkStatus();
  }));
  return table;
}

absl::Status LocalRegistry::Write(const std::function<absl::Status(Table&)>& change) {
  INGOT_ASSIGN_OR_RETURN(const LockedFile lock, LockTable());
  INGOT_ASSIGN_OR_RETURN(Table table, Load());
  const int64_t before = table.revision();
  Sweep(table);
  INGOT_RETURN_IF_ERROR(change(table));
  return Store(table, table.revision() != before);
}

absl::StatusOr<std::unique_ptr<Lease>> LocalRegistry::Grant(std::chrono::milliseconds ttl,
                                                            std::function<void()> on_lost) {
  INGOT_ASSIGN_OR_RETURN(const std::chrono::seconds seconds, WholeSeconds(ttl));
  const nanoseconds sent = clock_.Now();
  int64_t id = 0;
  INGOT_RETURN_IF_ERROR(Write([&](Table& table) {
    // Lease ids are drawn from the revisions, which never repeat.
    table.set_revision(table.revision() + 1);
    id = table.revision();
    v1::RegistryLease& lease = *table.add_leases();
    lease.set_id(id);
    lease.set_session(session_);
    lease.set_ttl_ns(nanoseconds(seconds).count());
    lease.set_expires_ns((sent + seconds).count());
    return absl::OkStatus();
  }));
  return keeper_.KeepAlive(id, seconds, sent, std::move(on_lost));
}

absl::Status LocalRegistry::Renew(int64_t id) {
  const nanoseconds sent = clock_.Now();
  return Write([&](Table& table) -> absl::Status {
    v1::RegistryLease* const lease = FindLease(table, id);
    if (lease == nullptr) return absl::NotFoundError(absl::StrCat("lease ", id, " has expired"));
    lease->set_expires_ns(sent.count() + lease->ttl_ns());
    return absl::OkStatus();
  });
}

void LocalRegistry::Revoke(int64_t id) {
  const absl::Status revoked = Write([&](Table& table) {
    EraseEntries(table, [&](const v1::RegistryEntry& entry) { return entry.lease() == id; });
    EraseIf(*table.mutable_leases(), [&](const v1::RegistryLease& lease) { return lease.id() == id; });
    return absl::OkStatus();
  });
  if (!revoked.ok())
    INGOT_LOG(warn, "cannot revoke a lease; it stays until it expires: {}", std::string(revoked.message()));
}

absl::StatusOr<PutResult> LocalRegistry::Put(const std::string& key, const std::string& value,
                                             const PutOptions& options) {
  INGOT_RETURN_IF_ERROR(CheckPut(key, value));
  PutResult result;
  const auto change = [&](Table& table) -> absl::Status {
    if (options.lease != 0 && FindLease(table, options.lease) == nullptr) return NoLease(key, options.lease);
    if (options.fence.has_value()) {
      const v1::RegistryEntry* const fence = Find(table, options.fence->key);
      if (fence == nullptr || fence->create_revision() != options.fence->token) return StaleFence(*options.fence);
    }
    v1::RegistryEntry* entry = Find(table, key);
    const int64_t there = entry == nullptr ? 0 : entry->mod_revision();
    if (options.expected_revision.has_value() && *options.expected_revision != there) {
      if (entry != nullptr) result.entry = ToEntry(*entry);
      result.written = IsOwn(result.entry, key, value, options.lease);
      return absl::OkStatus();
    }
    table.set_revision(table.revision() + 1);
    if (entry == nullptr) {
      entry = table.add_entries();
      entry->set_key(key);
      entry->set_create_revision(table.revision());
    }
    entry->set_value(value);
    entry->set_lease(options.lease);
    entry->set_mod_revision(table.revision());
    result = {true, ToEntry(*entry)};
    return absl::OkStatus();
  };
  INGOT_RETURN_IF_ERROR(Write(change));
  return result;
}

absl::StatusOr<std::optional<Entry>> LocalRegistry::Get(const std::string& key) {
  INGOT_RETURN_IF_ERROR(CheckPut(key, ""));
  INGOT_ASSIGN_OR_RETURN(Table table, Read());
  const v1::RegistryEntry* const entry = Find(table, key);
  return entry == nullptr ? std::nullopt : std::make_optional(ToEntry(*entry));
}

absl::StatusOr<Listing> LocalRegistry::List(const std::string& prefix) {
  INGOT_RETURN_IF_ERROR(CheckPut(prefix, ""));
  INGOT_ASSIGN_OR_RETURN(const Table table, Read());
  Listing listing;
  listing.revision = table.revision();
  for (const v1::RegistryEntry& entry : table.entries()) {
    if (entry.key().starts_with(prefix)) listing.entries.push_back(ToEntry(entry));
  }
  std::sort(listing.entries.begin(), listing.entries.end(),
            [](const Entry& a, const Entry& b) { return a.key < b.key; });
  return listing;
}

absl::Status LocalRegistry::Delete(const std::string& key) {
  INGOT_RETURN_IF_ERROR(CheckPut(key, ""));
  return Write([&](Table& table) {
    EraseEntries(table, [&](const v1::RegistryEntry& entry) { return entry.key() == key; });
    return absl::OkStatus();
  });
}

class LocalWatcher final : public Watcher {
 public:
  LocalWatcher(LocalRegistry& registry, std::string prefix, const Listing& first, Registry::Observer observer)
      : registry_(registry),
        prefix_(std::move(prefix)),
        observer_(std::move(observer)),
        thread_([this, first] { Run(first); }) {}
  ~LocalWatcher() override {
    {
      base::MutexLock lock(mu_);
      stopping_ = true;
      changed_.SignalAll();
    }
    thread_.join();
  }

 private:
  void Run(const Listing& first) {
    View view;
    base::Outage outage(absl::StrCat("the watch of ", prefix_), registry_.clock());
    absl::StatusOr<Listing> listing = first;
    do {
      outage.Note(listing.status());
      if (!listing.ok()) continue;
      for (const Event& event : view.Replace(*listing)) observer_(event);
    } while (Wait() && (listing = registry_.List(prefix_), true));
  }

  // Returns false if it should stop.
  bool Wait() {
    base::MutexLock lock(mu_);
    const nanoseconds next = registry_.clock().Now() + registry_.options().poll;
    while (!stopping_ && registry_.clock().WaitUntil(changed_, mu_, next)) {
    }
    return !stopping_;
  }

  LocalRegistry& registry_;
  const std::string prefix_;
  const Registry::Observer observer_;
  base::Mutex mu_;
  base::CondVar changed_;
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  std::thread thread_;
};

absl::StatusOr<std::unique_ptr<Watcher>> LocalRegistry::Watch(const std::string& prefix, Observer observer) {
  INGOT_ASSIGN_OR_RETURN(const Listing first, List(prefix));
  return std::make_unique<LocalWatcher>(*this, prefix, first, std::move(observer));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Registry>> OpenLocalRegistry(const LocalOptions& options, const base::Clock& clock) {
  auto registry = std::make_unique<LocalRegistry>(options, clock);
  INGOT_RETURN_IF_ERROR(registry->Open());
  return registry;
}

}  // namespace ingot::registry
