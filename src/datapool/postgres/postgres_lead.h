// Which server of a PostgreSQL cluster leads: pure decisions, and the timelines seen so far.
//
// A promotion raises the promoted server's timeline by one. A replaced primary that comes back without being fenced
// still reports that it writes, on its old timeline:
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
  std::string system;    // pg_control_system().system_identifier: the same for a primary and its standbys
  int64_t timeline = 0;  // >= 1
  std::string started;   // pg_postmaster_start_time(), to the microsecond: distinguishes the servers of a cluster
  bool operator==(const PostgresIdentity&) const = default;
};

// What a server reports about itself.
struct PostgresAnswer {
  std::string host;  // for messages: "db-a:5432"
  bool standby = false;
  PostgresIdentity identity;
};

// The server that a pool uses, until the pool switches to another server or to a new start of this one. Thread safe.
class PostgresLead final : public ReadSource {
 public:
  PostgresLead(std::string host, PostgresIdentity identity) : host_(std::move(host)), identity_(std::move(identity)) {}

  const std::string& host() const { return host_; }
  const PostgresIdentity& identity() const { return identity_; }
  // "db-a:5432 (timeline 2)"
  std::string name() const override { return absl::StrCat(host_, " (timeline ", identity_.timeline, ")"); }
  bool leads() const override { return !over_; }
  bool must_commit() const override { return replicates; }

  // No connection to it is used after this, not even for an answer in progress. The first reason stays.
  void End(const std::string& why);
  bool over() const { return over_; }
  std::string why() const;

  // It names synchronous standbys: a commit proves that it leads. False only once the server was checked for the
  // acknowledged commits of all shards.
  std::atomic<bool> replicates{true};
  std::atomic<bool> slow{false};  // a statement has waited for a second: is there another leader?
  std::atomic<bool> hung{false};  // a statement had no answer in time

 private:
  const std::string host_;
  const PostgresIdentity identity_;
  std::atomic<bool> over_{false};
  mutable base::Mutex mu_;
  std::string why_ ABSL_GUARDED_BY(mu_);
};

// The highest timeline of each cluster on which a server was seen to write, or which a standby was seen to follow, so
// that a server writes or wrote there. Thread safe.
class PostgresTimelines {
 public:
  // `folder` keeps them across restarts, each as a file timeline-SYSTEM-NUMBER that holds the server's name. Files are
  // only added, so that several processes may share the folder. Empty = only in memory.
  explicit PostgresTimelines(std::string folder = "", bool read_only = false)
      : folder_(std::move(folder)), read_only_(read_only) {}
  // Reads the timelines in the folder. A missing or unreadable folder has none.
  void Load();
  // 0 = none was seen.
  int64_t Highest(const std::string& system) const;
  // Remembers the timeline of `answer`'s server. Logs a warning if its file cannot be written.
  void Saw(const PostgresAnswer& answer);
  // Where a higher timeline was seen, and what to do about a server on a lower one.
  std::string Remedy(const std::string& system) const;

 private:
  struct SeenServer {
    int64_t timeline = 0;
    std::string host;
  };

  std::string FileOf(const std::string& system, int64_t timeline) const;
  // False: an equal or higher timeline was seen before.
  bool Raise(const std::string& system, SeenServer seen);

  const std::string folder_;
  const bool read_only_;
  mutable base::Mutex mu_;
  std::map<std::string, SeenServer> highest_ ABSL_GUARDED_BY(mu_);
};

// The index of the leading server: it writes, on the highest timeline of its cluster known from answers or `timelines`.
// `last`: the server that led before; null = none. Errors name the hosts:
//   UNAVAILABLE          no server writes; the server that writes is on a lower timeline; two write on the highest
//                        timeline, and neither is `last`
//   FAILED_PRECONDITION  servers of two clusters write
absl::StatusOr<size_t> ChooseLeader(const std::vector<PostgresAnswer>& answers, const PostgresTimelines& timelines,
                                    const PostgresIdentity* last);

}  // namespace ingot::datapool
