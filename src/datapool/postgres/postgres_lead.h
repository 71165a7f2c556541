// Decides which server in a PostgreSQL cluster leads, and records the timelines that were seen.
//
// A promotion increments the promoted server's timeline. A replaced primary that restarts without being fenced still
// claims to be writable, on its old timeline:
//
//   db-a  primary, timeline 1 ──stopped──────────────────────── back: still "primary", timeline 1   rejected
//   db-b  standby ──────────────────promoted: timeline 2 ─────────────────────────────────────────  leads
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "base/status.h"
#include "datapool/database.h"

namespace ingot::datapool {

// Identifies one start of a server.
struct PostgresIdentity {
  std::string system;    // pg_control_system().system_identifier; the same for a primary and its standbys
  int64_t timeline = 0;  // >= 1
  std::string started;   // pg_postmaster_start_time(), to the microsecond; distinguishes servers in a cluster
  bool operator==(const PostgresIdentity&) const = default;
};

// A server's report about itself.
struct PostgresAnswer {
  std::string host;  // for messages: "db-a:5432"
  bool standby = false;
  PostgresIdentity identity;
};

// The server that a pool uses, until the pool switches to another server or the server restarts. Thread safe.
class PostgresLead final : public ReadSource {
 public:
  PostgresLead(std::string host, PostgresIdentity identity) : host_(std::move(host)), identity_(std::move(identity)) {}

  const std::string& host() const { return host_; }
  const PostgresIdentity& identity() const { return identity_; }
  // Returns, for example, "db-a:5432 (timeline 2)".
  std::string name() const override { return absl::StrCat(host_, " (timeline ", identity_.timeline, ")"); }
  bool leads() const override { return !over_; }
  bool must_commit() const override { return replicates; }

  // Ends the lead. Keeps the first reason. Its connections are no longer used, not even to finish a read.
  void End(const std::string& why);
  bool over() const { return over_; }
  std::string why() const;

  // True = the server has synchronous standbys, so a commit proves that it leads. Set to false only after verifying
  // that the server has every shard's acknowledged commits.
  std::atomic<bool> replicates{true};
  std::atomic<bool> slow{false};  // a statement has waited for a second, so there may be another leader
  std::atomic<bool> hung{false};  // a statement timed out

 private:
  const std::string host_;
  const PostgresIdentity identity_;
  std::atomic<bool> over_{false};
  mutable base::Mutex mu_;
  std::string why_ ABSL_GUARDED_BY(mu_);
};

// Tracks the highest timeline per cluster that a writable server has reported or a standby has followed. Thread safe.
class PostgresTimelines {
 public:
  // `folder` persists the timelines across restarts, each in a file timeline-SYSTEM-NUMBER that contains the server's
  // name. Files are only added, so several processes may share the directory. Empty = in memory only.
  explicit PostgresTimelines(std::string folder = "", bool read_only = false)
      : folder_(std::move(folder)), read_only_(read_only) {}
  // Reads the timelines in the directory. A missing or unreadable directory counts as empty.
  void Load();
  // Returns 0 if no timeline was seen.
  int64_t Highest(const std::string& system) const;
  // Records the timeline of `answer`'s server. Logs a warning if its file cannot be written.
  void Saw(const PostgresAnswer& answer);
  // Returns where a higher timeline was seen and how to fix a server on a lower one.
  std::string Remedy(const std::string& system) const;

 private:
  struct SeenServer {
    int64_t timeline = 0;
    std::string host;
  };

  std::string FileOf(const std::string& system, int64_t timeline) const;
  // Returns false if an equal or higher timeline was already seen.
  bool Raise(const std::string& system, SeenServer seen);

  const std::string folder_;
  const bool read_only_;
  mutable base::Mutex mu_;
  std::map<std::string, SeenServer> highest_ ABSL_GUARDED_BY(mu_);
};

// Returns the index of the leading server: the writable server on its cluster's highest timeline, according to
// `answers` and `timelines`. `last` is the previous leader; null = none. Error messages name the hosts:
//
//   UNAVAILABLE          no server is writable; the writable server is on a lower timeline; or two are writable on the
//                        highest timeline, and neither is `last`
//   FAILED_PRECONDITION  servers of two clusters are writable
absl::StatusOr<size_t> ChooseLeader(const std::vector<PostgresAnswer>& answers, const PostgresTimelines& timelines,
                                    const PostgresIdentity* last);

}  // namespace ingot::datapool
