// The servers that a connection string names. One of them leads. All shards of a pool share the object.
//
//   ConnectLeader ──survey of all──▶ ChooseLeader ──▶ PostgresLead ◀── connections hold it, and fail once it is over
//   watch         ──survey of all──▶ a higher timeline ends the lead
//                 ──survey of hung servers──▶ a server that answers is awaited again
//   Acknowledge   ──▶ ConnectLeader checks the server for the acknowledged commits of all shards
//   Reject        ──▶ a server that lacks one ends as lead for all shards, and does not lead again
//
// The watch polls once a second while a statement waits. With several servers (hosts, or addresses of one name) it also
// polls every few seconds. A server that did not answer is remembered for a while: if another server writes, a survey
// asks it but does not wait for it. The watch, which blocks no caller, waits for it every second. Thread safe.
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
    std::string folder = "";                      // remembers timelines (PostgresTimelines)
    bool read_only = false;                       // writes nothing there
    bool watch = true;                            // false for a short use
    std::chrono::milliseconds look_every{1000};   // while a statement waits
    std::chrono::milliseconds watch_every{5000};  // anyway, with several servers
    std::chrono::seconds hung_for{30};            // how long surveys do not wait for a server that did not answer
    PostgresResolver resolve = SystemAddresses;
  };

  // INVALID_ARGUMENT: the url is not a connection string. Connects to nothing. `clock` outlives the servers.
  static absl::StatusOr<std::shared_ptr<PostgresServers>> Make(Options options,
                                                               const base::Clock& clock = base::Clock::Real());
  ~PostgresServers();
  PostgresServers(const PostgresServers&) = delete;
  PostgresServers& operator=(const PostgresServers&) = delete;

  // A connection to the leading server, which becomes lead() and has all commits that were acknowledged. Errors:
  // ChooseLeader's, INVALID_ARGUMENT, FAILED_PRECONDITION if every server rejects this user or database, and
  // UNAVAILABLE if the server lacks an acknowledged commit. Blocks as long as SurveyPostgres and two statements.
  absl::StatusOr<std::unique_ptr<PostgresConnection>> ConnectLeader();
  // Another connection to lead(), which may not have been checked for the acknowledged commits yet: until then
  // must_commit() holds. UNAVAILABLE: there is none, or its host has another server now.
  absl::StatusOr<std::unique_ptr<PostgresConnection>> ConnectSame();
  // This start of `lead`'s server lacks records that another server acknowledged. `why` is the error if no other leads.
  void Reject(PostgresLead& lead, const std::string& why);
  // The server of `lead` acknowledged commit `number` of a shard: from now on, a server that lacks it does not lead.
  // UNAVAILABLE: `lead` is over, so the next server may have been checked before. The commit is not acknowledged.
  absl::Status Acknowledge(const PostgresLead& lead, const PostgresCommits& shard, int64_t number);
  // The shard whose commits have this key is closed.
  void Forget(const std::string& key);
  // null = no leader was found so far.
  std::shared_ptr<PostgresLead> lead() const;

 private:
  struct Hung {
    PostgresHost host;
    std::chrono::nanoseconds until;
  };
  // The servers that a survey waits for. kWriter: a writer and all servers that have not hung. kOthers: the same
  // without the lead, to find another leader. kAll: all servers, which have hung before.
  enum class Await { kWriter, kOthers, kAll };

  PostgresServers(Options options, PostgresUrl url, const base::Clock& clock);

  std::vector<PostgresFound> Survey(const std::vector<PostgresHost>& hosts, Await await = Await::kWriter);
  // Remembers the answers, and ends a lead that they show to be over.
  void Learn(const std::vector<PostgresFound>& found, Await await);
  // The lead of this identity. UNAVAILABLE: a higher timeline was seen meanwhile.
  absl::StatusOr<std::shared_ptr<PostgresLead>> Lead(const PostgresAnswer& answer, const PostgresHost& host);
  // UNAVAILABLE: the server lacks a commit that was acknowledged to a shard. It no longer leads.
  absl::Status CheckHolds(PostgresConnection& connection);
  // Turns the answers of rejected servers into errors.
  void LeaveOutRejected(std::vector<PostgresFound>& found) const;
  absl::Status CheckRejected(const PostgresIdentity& identity) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Watch();
  void AskHung();
  bool HasSeveral() const;

  const Options options_;
  const PostgresUrl url_;
  const base::Clock& clock_;
  PostgresTimelines timelines_;
  std::atomic<bool> closing_{false};
  mutable base::Mutex mu_;
  std::shared_ptr<PostgresLead> lead_ ABSL_GUARDED_BY(mu_);
  PostgresHost lead_host_ ABSL_GUARDED_BY(mu_);
  std::map<std::string, Hung> hung_ ABSL_GUARDED_BY(mu_);                                // by name
  std::vector<std::pair<PostgresIdentity, std::string>> rejected_ ABSL_GUARDED_BY(mu_);  // and why
  std::map<std::string, PostgresCommits> acknowledged_ ABSL_GUARDED_BY(mu_);             // by key
  std::map<std::string, int64_t> reported_
      ABSL_GUARDED_BY(mu_);                                   // unfenced hosts and their timelines that the log names
  std::chrono::nanoseconds watched_ ABSL_GUARDED_BY(mu_){0};  // the last poll of the watch
  std::unique_ptr<base::Executor> watcher_;                   // null = without a watch
  base::Timer timer_, hung_timer_;                            // last
};

}  // namespace ingot::datapool
