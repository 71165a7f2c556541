// The gateway without its sockets: episodes, and the calls made in them. Every call becomes a record of its
// episode's token tree: what the engine sampled, exactly, durable in the pool before the client sees the end of it.
//
//   HttpServer -> HttpApi -.                     .-> Dialect       its words for requests, events and errors
//   GatewayService (gRPC) --+-> Gateway -> Answer -+-> ChatCall -+-> rollout::Client   ids in, ids with log-probs out
//   agents' runner --------'      |                  one a choice `-> datapool::Client  AppendCall, before the last
//   event
//                                 `-> Episode, Admission            who may open an episode
//
// Thread safe. OpenEpisode, RewardEpisode and EndEpisode block (admission, one durable write, for EndEpisode the calls
// it aborts); StartAnswer and Tick do not: their work runs on the gateway's own workers. Destroy it after every server
// in front of it, and drop all Answers before it; its parts outlive it.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>

#include "base/mutex.h"
#include "base/status.h"
#include "gateway/answer.h"
#include "gateway/api/dialect.h"
#include "gateway/core.h"
#include "gateway/episode.h"
#include "gateway/options.h"
#include "proto/gateway.pb.h"

namespace ingot::gateway {

// Who sends a request: the bearer of an API key, or of an episode's unguessable id in the URL. Both must agree.
struct Caller {
  std::string api_key;  // empty: none was sent
  std::string episode;  // from /s/{episode}/v1; empty: none
};

class Gateway {
 public:
  // INVALID_ARGUMENT for options that do not validate or a missing part.
  static absl::StatusOr<std::unique_ptr<Gateway>> Create(GatewayOptions options, GatewayParts parts);
  ~Gateway();
  Gateway(const Gateway&) = delete;
  Gateway& operator=(const Gateway&) = delete;

  // Admission, then durable in the pool, then the answer; once for an idempotency key, however often it is asked.
  // RESOURCE_EXHAUSTED: no place now. 410: the run is over. 401 or 403 without the admin key, where there is one.
  absl::StatusOr<v1::EpisodeOpenResponse> OpenEpisode(const v1::EpisodeOpenRequest& request);
  // Needs the episode's owner's key or the admin key: UNAUTHENTICATED without, PERMISSION_DENIED with another's or the
  // key that only calls, NOT_FOUND for an unknown episode or call, 410 after its end. Durable in the pool when it
  // answers OK.
  absl::Status RewardEpisode(const v1::EpisodeRewardRequest& request);
  absl::Status RewardEpisode(const std::string& episode_id, const std::string& api_key, std::optional<double> reward,
                             const std::map<std::string, double>& signals);
  // Aborts and records the calls in flight, then durable in the pool, then known to admission. May be repeated, with
  // the same content, until it answers OK.
  absl::Status EndEpisode(const v1::EpisodeEndRequest& request);

  // Takes over the episodes that the pool holds as open, with the history of their calls: their agents go on under the
  // same keys and URLs. Once, before anything else is asked of it, by the only gateway of a run. Calls that were in
  // flight are lost with the gateway that had them; clients send them again.
  absl::Status Recover();

  // Starts answering a request; every fault comes through the answer. `wake`: Answer::Hooks::wake.
  std::shared_ptr<Answer> StartAnswer(const Caller& caller, const Dialect& dialect, RawRequest raw,
                                      std::function<void()> wake);

  // Enforces deadlines and idle limits by the injected clock; to be called about once a second (HttpServer does).
  void Tick();
  // Refuses what comes, aborts and records what is in flight. Waits for that at most end_wait_s. Idempotent.
  void Shutdown();
  bool shutting_down() const;

  v1::GatewayStatusResponse Status() const;
  // Prometheus text exposition of the gateway's own metrics.
  std::string MetricsText() const;
  const GatewayOptions& options() const { return core_.options; }

  // Where agents reach this gateway, e.g. "http://127.0.0.1:8080"; HttpServer sets it once it listens.
  void SetBaseUrl(std::string url);
  // Runs `job` on a worker; false if too much waits already. For those who serve the blocking calls above.
  bool RunOnWorker(std::function<void()> job) { return core_.workers.TrySubmit(std::move(job)); }

 private:
  struct Ended {
    std::string episode_id;
    v1::EpisodeState state;
    std::string detail;
  };

  Gateway(GatewayOptions options, GatewayParts parts) : core_(std::move(options), std::move(parts)) {}

  // The episode that the caller may use; null: none yet, but one may be opened for its key, as a session.
  absl::StatusOr<std::shared_ptr<Episode>> FindForCall(const Caller& caller);
  // For those who own it.
  absl::StatusOr<std::shared_ptr<Episode>> FindByKey(const std::string& episode_id, const std::string& key);
  // Ends what earlier incarnations of the runner left open.
  void EndAbandoned(const std::string& runner, const std::string& incarnation);
  // Fills in what the scheduler's ticket says.
  absl::Status Admit(const v1::EpisodeOpenRequest& request, v1::Episode& record);
  // In the pool; if that cannot be, the place is given back.
  absl::Status Store(const v1::Episode& record, bool admitted);
  // The episode that `owner_key` owns, opened if there is none: all who ask for it at once get the same one.
  absl::StatusOr<std::shared_ptr<Episode>> OpenOnce(const v1::EpisodeOpenRequest& request, const std::string& owner_key,
                                                    bool session);
  // Admits, unless it is a session, and stores.
  absl::StatusOr<std::shared_ptr<Episode>> Open(const v1::EpisodeOpenRequest& request, const std::string& key_hash,
                                                bool session);
  absl::Status CheckAdmin(const std::string& key) const;
  bool IsAdmin(const std::string& key) const;
  v1::EpisodeLimits LimitsFor(const v1::EpisodeLimits& asked) const;
  absl::Status ReserveEpisode();
  // `free_key`: the key may open a new session, instead of hearing that its episode is over.
  absl::Status End(const std::shared_ptr<Episode>& episode, v1::EpisodeState state, const std::string& detail,
                   bool free_key);
  absl::Status Recover(const std::string& episode_id);
  void Remove(const std::shared_ptr<Episode>& episode, v1::EpisodeState state, const std::string& detail,
              bool free_key);
  void RememberEnd(const std::string& key_hash, Ended ended, bool free_key) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void RecallEnd(const std::string& episode_id);
  void EndIdle();
  std::string BaseUrl(const std::string& episode_id) const;
  absl::Status Reserve(int calls) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void OnDone(const std::shared_ptr<Answer>& answer, int extra);

  std::string admin_key_;  // empty: there is none; constant after Create

  mutable base::Mutex mu_;
  base::CondVar changed_;
  bool shutdown_ ABSL_GUARDED_BY(mu_) = false;
  std::string base_url_ ABSL_GUARDED_BY(mu_);
  int opening_ ABSL_GUARDED_BY(mu_) = 0;
  std::set<std::string> opening_keys_ ABSL_GUARDED_BY(mu_);  // those that OpenOnce opens, by Episode::key_hash
  std::unordered_map<std::string, std::shared_ptr<Episode>> by_id_ ABSL_GUARDED_BY(mu_);
  std::unordered_map<std::string, std::shared_ptr<Episode>> by_key_ ABSL_GUARDED_BY(mu_);  // by Episode::key_hash
  std::set<std::shared_ptr<Answer>> answers_ ABSL_GUARDED_BY(mu_);
  int active_calls_ ABSL_GUARDED_BY(mu_) = 0;  // of all answers; one that is not parsed yet counts as one
  // Ended ones, so that what comes late is told so; the oldest are forgotten.
  std::unordered_map<std::string, Ended> ended_by_key_ ABSL_GUARDED_BY(mu_);
  std::unordered_map<std::string, std::string> ended_keys_ ABSL_GUARDED_BY(mu_);    // Episode::key_hash, by episode id
  std::deque<std::string> ended_order_ ABSL_GUARDED_BY(mu_);                        // hashes of keys
  std::unordered_map<std::string, std::string> incarnations_ ABSL_GUARDED_BY(mu_);  // the newest, by runner
  std::set<std::string> ending_ ABSL_GUARDED_BY(mu_);  // ids of episodes that Tick is ending

  Core core_;  // last: its workers, which use all of the above, are joined first
};

}  // namespace ingot::gateway
