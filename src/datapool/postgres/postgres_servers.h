// Manages the servers in a connection string, one of which leads. A pool's shards share one object.
//
//   ConnectLeader ──survey of all──▶ ChooseLeader ──▶ PostgresLead ◀── connections hold it, and fail once it ends
//   watch         ──survey of all──▶ a higher timeline ends the lead
//                 ──survey of hung servers──▶ surveys wait again for a server that answers
//   Acknowledge   ──▶ ConnectLeader checks the server for the acknowledged commits of all shards
//   Reject        ──▶ a server that lacks one stops leading all shards, and does not lead again
//
// The watch polls once per second while a statement is pending. With several servers (hosts, or addresses for one
// name), it also polls every few seconds. A server that did not answer counts as hung for a while: if another server is
// writable, a survey queries the hung server but does not wait for it. The watch does wait for hung servers, once per
// second, without blocking callers. Thread safe.
#pragma once

#include <atomic>
#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/executor.h"
#include "base/mutex.h"
#include "base/status.h"
#include "datapool/postgres/postgres_commits.h"
#include "datapool/postgres/postgres_connection.h"
#include "datapool/postgres/postgres_lead.h"
#include "datapool/postgres/postgres_survey.h"

namespace ingot::datapool {

class PostgresServers {
 public:
  struct Options {
    std::string url = "";
    std::chrono::milliseconds answer_timeout{20000};
    std::string folder = "";                      // stores timelines (PostgresTimelines)
    bool read_only = false;                       // do not write to `folder`
    bool watch = true;                            // false for short use
    std::chrono::milliseconds look_every{1000};   // poll interval while a statement is pending
    std::chrono::milliseconds watch_every{5000};  // poll interval at other times, if there are several servers
    std::chrono::seconds hung_for{30};            // how long a server that did not answer counts as hung
    PostgresResolver resolve = SystemAddresses;
  };

  // Returns INVALID_ARGUMENT if the URL is not a connection string. Does not connect. `clock` must outlive this object.
  static absl::StatusOr<std::shared_ptr<PostgresServers>> Make(Options options,
                                                               const base::Clock& clock = base::Clock::Real());
  ~PostgresServers();
  PostgresServers(const PostgresServers&) = delete;
  PostgresServers& operator=(const PostgresServers&) = delete;

  // Connects to the leading server, checks that it has all acknowledged commits, and makes it lead(). Fails with the
  // errors of ChooseLeader, INVALID_ARGUMENT, FAILED_PRECONDITION if every server rejects this user or database, or
  // UNAVAILABLE if the server lacks an acknowledged commit. Blocks for the duration of SurveyPostgres and two
  // statements.
  absl::StatusOr<std::unique_ptr<PostgresConnection>> ConnectLeader();
  // Opens another connection to lead(). The server may not have been checked for acknowledged commits yet;
  // must_commit() is true until it has been. Returns UNAVAILABLE if there is no lead, or if its host now runs a
  // different server.
  absl::StatusOr<std::unique_ptr<PostgresConnection>> ConnectSame();
  // Rejects this server instance because it lacks records that another server acknowledged. `why` is the error to
  // return if no other server leads.
  void Reject(PostgresLead& lead, const std::string& why);
  // Records that `lead`'s server acknowledged commit `number` for a shard. From then on, a server that lacks this
  // commit cannot lead. Returns UNAVAILABLE if `lead` has ended, because the next server may already have been checked.
  // In that case, the commit does not count as acknowledged.
  absl::Status Acknowledge(const PostgresLead& lead, const PostgresCommits& shard, int64_t number);
  // Removes the shard with this key. Called when the shard is closed.
  void Forget(const std::string& key);
  // Returns null if no leader has been found yet.
  std::shared_ptr<PostgresLead> lead() const;

 private:
  struct Hung {
    PostgresHost host;
    std::chrono::nanoseconds until;
  };
  // The servers that a survey waits for. kWriter: a writable server and all servers that are not hung. kOthers: the
  // same as kWriter but without the lead, to find another leader. kAll: all servers, including hung ones.
  enum class Await { kWriter, kOthers, kAll };

  PostgresServers(Options options, PostgresUrl url, const base::Clock& clock);

  std::vector<PostgresFound> Survey(const std::vector<PostgresHost>& hosts, Await await = Await::kWriter);
  // Records the answers, and ends the lead if an answer reports a higher timeline.
  void Learn(const std::vector<PostgresFound>& found, Await await);
  // Returns the lead with this identity, or UNAVAILABLE if a higher timeline has been seen since.
  absl::StatusOr<std::shared_ptr<PostgresLead>> Lead(const PostgresAnswer& answer, const PostgresHost& host);
  // Returns UNAVAILABLE if the server lacks a commit that was acknowledged to a shard. In that case, the server no
  // longer leads.
  absl::Status CheckHolds(PostgresConnection& connection);
  // Turns the answers of rejected servers into errors.
  void LeaveOutRejected(std::vector<PostgresFound>& found) const;
  absl::Status CheckRejected(const PostgresIdentity& identity) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Watch();
  void QueryHungServers();
  bool HasSeveral() const;

  const Options options_;
  const PostgresUrl url_;
  const base::Clock& clock_;
  PostgresTimelines timelines_;
  std::atomic<bool> closing_{false};
  mutable base::Mutex mu_;
  std::shared_ptr<PostgresLead> lead_ ABSL_GUARDED_BY(mu_);
  PostgresHost lead_host_ ABSL_GUARDED_BY(mu_);
  std::map<std::string, Hung> hung_ ABSL_GUARDED_BY(mu_);  // by name
  // Rejected servers and the reasons.
  std::vector<std::pair<PostgresIdentity, std::string>> rejected_ ABSL_GUARDED_BY(mu_);
  std::map<std::string, PostgresCommits> acknowledged_ ABSL_GUARDED_BY(mu_);  // by key
  std::map<std::string, int64_t> reported_
      ABSL_GUARDED_BY(mu_);  // timelines of unfenced hosts, by host, that were already logged
  std::chrono::nanoseconds watched_ ABSL_GUARDED_BY(mu_){0};  // time of the watch's last poll
  std::unique_ptr<base::Executor> watcher_;                   // null = no watch
  base::Timer timer_, hung_timer_;                            // must be last
};

}  // namespace ingot::datapool
