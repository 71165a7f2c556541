// The gateway without its sockets: episodes, and the calls made in them. Every call is recorded in its episode's tree
// with exactly the ids that the engine sampled. The record is durable in the pool before the client sees the answer's
// end.
//
//   HttpServer -> HttpApi --.                        .-> Dialect, Renderer    requests, events, errors in its words
//   GatewayService (gRPC) --+-> Gateway --> Answer --+
//   agents' runner ---------'      |                 `-> ChatCall, one per choice
//                                  |                       |-> rollout::Client     ids in, ids with log-probs out
//                                  |                       `-> datapool::Client    AppendCall, before the last event
//                                  `-> Episode             its history and rewards
//                                  `-> Admission           decides whether an episode may open
//
// Thread safe. OpenEpisode, RewardEpisode and EndEpisode block: for admission, for a durable write, and EndEpisode for
// the calls that it aborts. StartAnswer and Tick do not block: their work runs on the gateway's workers. First destroy
// every server in front of the gateway and drop all Answers. Its parts outlive it.
#pragma once

#include <chrono>
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
#include <vector>

#include "base/mutex.h"
#include "base/status.h"
#include "gateway/api/dialect.h"
#include "gateway/calls/answer.h"
#include "gateway/core.h"
#include "gateway/episodes/episode.h"
#include "gateway/episodes/incarnations.h"
#include "gateway/placement/key_search.h"
#include "gateway/episodes/snapshot_desk.h"
#include "gateway/episodes/snapshot_files.h"
#include "gateway/options.h"
#include "proto/gateway.pb.h"

namespace ingot::gateway {

// The sender of a request, known by an API key. An episode id in the URL must match the key's episode: ids appear in
// logs, pages and records, and give no access.
struct Caller {
  std::string api_key;  // empty = none was sent
  std::string episode;  // from /s/{episode}/v1; empty = none
};

class Gateway {
 public:
  // INVALID_ARGUMENT: options that do not validate, or a missing part.
  static absl::StatusOr<std::unique_ptr<Gateway>> Create(GatewayOptions options, GatewayParts parts);
  ~Gateway();
  Gateway(const Gateway&) = delete;
  Gateway& operator=(const Gateway&) = delete;

  // Asks admission and stores the episode durably. Repeated requests with one idempotency key open one episode.
  // RESOURCE_EXHAUSTED: full at the moment. 410: the run is over. 401 or 403: the admin key is required. ABORTED: the
  // runner was started again since.
  absl::StatusOr<v1::EpisodeOpenResponse> OpenEpisode(const v1::EpisodeOpenRequest& request);
  // Needs the owner's key or the admin key. OK means that the reward is durable in the pool. UNAUTHENTICATED: no key.
  // PERMISSION_DENIED: the wrong key, or the call key. NOT_FOUND: an unknown episode or call. 410: the episode has
  // ended. CANCELLED: `client_gone` (RequestHead::client_gone; may be null) was true just before the reward would have
  // been stored: the client may have posted another one since, which this one must not replace.
  absl::Status RewardEpisode(const v1::EpisodeRewardRequest& request,
                             const std::function<bool()>& client_gone = nullptr);
  absl::Status RewardEpisode(const std::string& episode_id, const std::string& api_key, std::optional<double> reward,
                             const std::map<std::string, double>& signals);
  // Aborts and records the calls in flight, stores the end durably, and reports it to admission. May be repeated with
  // the same content until it returns OK. 409: it ended with another outcome, or a newer attempt of its sample fenced
  // it; then the gateway forgets it.
  absl::StatusOr<v1::EpisodeEndResponse> EndEpisode(const v1::EpisodeEndRequest& request);
  // Takes a snapshot of the episode between two calls. Blocks for calls in flight and for its runner, at most
  // end_wait_s each. 409: the agent was started elsewhere, or the runner could not take it. Errors of keys as
  // RewardEpisode.
  absl::StatusOr<v1::EpisodeSnapshotResponse> SnapshotEpisode(const v1::EpisodeSnapshotRequest& request);
  // For runners, with the admin key. NextSnapshot blocks for at most wait_ms; an empty response = no request.
  absl::StatusOr<v1::NextSnapshotResponse> NextSnapshot(const v1::NextSnapshotRequest& request);
  absl::Status SnapshotTaken(const v1::SnapshotTakenRequest& request);
  // Streams the files of the snapshot that the caller's episode starts from. Fails if the runner sends nothing for
  // end_wait_s. Blocks for the pool. 401: no key. 404: the episode does not start from a snapshot.
  absl::StatusOr<std::shared_ptr<FileTransfer>> ReadSnapshotFiles(const Caller& caller, std::function<void()> wake);
  // For runners, with the admin key. Blocks for some seconds while the buffer is full.
  absl::Status SendSnapshotFiles(const v1::SnapshotFilesPart& part);
  // A request of the caller ended with `status`. The caller's open episode, if any, remembers its last error for its
  // end. The gateway itself notes the results of model calls.
  void NoteAnswer(const Caller& caller, const absl::Status& status);

  // Takes over the pool's open episodes of earlier processes of this role, with the history of their calls: agents
  // continue with the same keys and URLs. With another role as `gone`, takes that role's episodes. Also takes the
  // episodes of roles that the run no longer has. All other episodes stay where they are until a request asks for them.
  // Call it before all other functions, and when a gateway is gone; then call Scheduler::Reconcile. Calls that were in
  // flight are lost, and clients send them again. An episode that cannot be read ends as lost.
  absl::Status Recover(const std::string& gone = "");

  // With several gateways (GatewayParts::peers), one gateway serves each episode. Whether another gateway may serve the
  // caller's episode. Does not block.
  bool MayBeElsewhere(const Caller& caller);
  // The role of the gateway that serves the caller's episode; empty = this gateway, or there is no such episode. Takes
  // over the episode if its gateway is gone or does not answer. Blocks for the pool and for other gateways.
  absl::StatusOr<std::string> Place(const Caller& caller);
  // Like Place, for an opening that may repeat an opening at another gateway. If a gateway does not answer, looks for
  // the opening in the pool and takes over its episode.
  absl::StatusOr<std::string> PlaceOpening(const std::string& idempotency_key);
  // The answer to other gateways' Place. Does not block.
  v1::ServesResponse Serves(const v1::ServesRequest& request);
  Peers* peers() const { return core_.parts.peers; }

  // Starts answering a request. Every error comes through the answer. `wake`: Answer::Hooks::wake.
  std::shared_ptr<Answer> StartAnswer(const Caller& caller, const Dialect& dialect, RawRequest raw,
                                      std::function<void()> wake);

  // Enforces deadlines and idle limits by the injected clock. HttpServer calls it about once a second.
  void Tick();
  // Rejects new requests, aborts requests in flight and waits for their records, at most end_wait_s. Idempotent.
  void Shutdown();
  bool shutting_down() const;

  v1::GatewayStatusResponse Status() const;
  // All models, the trained model first; with `name`, only that model. If an engine does not report when it loaded the
  // weights, its model has the date of the gateway's start. Blocks: asks each engine once.
  std::vector<ServedModel> Models(const std::optional<std::string>& name = {}) const;
  // Prometheus text exposition of the gateway's own metrics.
  std::string MetricsText() const;
  const GatewayOptions& options() const { return core_.options; }

  // The URL at which agents reach this gateway, such as "http://127.0.0.1:8080". HttpServer sets it once it listens.
  void SetBaseUrl(std::string url);
  // Runs `job` on a worker; false: too many jobs wait. For servers of the blocking calls above.
  bool RunOnWorker(std::function<void()> job) { return core_.workers.TryPost(std::move(job)).ok(); }

 private:
  // An episode that is over.
  struct EndedEpisode {
    std::string episode_id;
    v1::EpisodeState state;
    std::string detail;     // as the client that ended it sent it
    std::string rejection;  // Episode::End::rejection
  };

  Gateway(GatewayOptions options, GatewayParts parts)
      : snapshots_(*parts.clock),
        transfers_(*parts.clock),
        key_search_(parts.pool),
        core_(std::move(options), std::move(parts)) {}

  // The episode that the caller may use; null = none so far, but a session may be opened for its key.
  absl::StatusOr<std::shared_ptr<Episode>> FindForCall(const Caller& caller);
  // The episode, if `key` is its owner's or the admin key.
  absl::StatusOr<std::shared_ptr<Episode>> FindByKey(const std::string& episode_id, const std::string& key);
  // Ends the episodes that earlier incarnations of the runner left open. ABORTED: a newer incarnation was seen, and
  // this request of an earlier incarnation came late.
  absl::Status EndAbandoned(const std::string& runner, const std::string& incarnation);
  // Ends an episode whose runner was started again while it was opened: then ABORTED.
  absl::Status EndIfAbandoned(const std::shared_ptr<Episode>& opened);
  // Prepares the answer, once the gate of its episode lets it pass.
  void Prepare(const Caller& caller, const std::shared_ptr<Answer>& answer);
  // An answer that had passed the gate is over.
  void Leave(const std::shared_ptr<Episode>& episode);
  // Asks the runner of a trunk that has reached its fork to end it.
  void AskForFork(const std::shared_ptr<Episode>& episode);
  absl::StatusOr<v1::EpisodeTree> TrunkOf(const std::string& episode_id);
  // Asks for a sample of the group of the snapshot's episode, and sets the record's fork.
  absl::Status AskAsFork(const std::string& snapshot_id, v1::Episode& record, v1::AdmitRequest& ask);
  // The trunk's calls up to the record's fork, whose fields it completes; nothing without a fork.
  absl::StatusOr<Episode::EarlierCalls> JoinTrunk(v1::Episode& record);
  // Gives an admitted place back.
  void GiveBack(const v1::Episode& record, const std::string& why);
  // Takes over the episodes of earlier incarnations that other gateways serve.
  absl::Status TakeAbandoned(const std::string& runner, const std::string& incarnation);
  // Copies the scheduler's ticket into `record`.
  absl::Status Admit(const v1::EpisodeOpenRequest& request, v1::Episode& record);
  // A restarted scheduler handed out an attempt that already has an episode in the pool. If that episode is over,
  // reports its end to the scheduler; otherwise its end is reported later.
  void ReportHolder(const v1::Episode& rejected);
  // Stores the episode in the pool. On an error the place is given back to admission.
  absl::Status Store(const v1::Episode& record, bool admitted);
  // The episode that `owner_key` owns, opened if there is none. Concurrent callers get the same episode.
  absl::StatusOr<std::shared_ptr<Episode>> OpenOnce(const v1::EpisodeOpenRequest& request, const std::string& owner_key,
                                                    bool session);
  // Asks admission, unless it is a session, and stores the episode.
  absl::StatusOr<std::shared_ptr<Episode>> Open(const v1::EpisodeOpenRequest& request, const std::string& key_hash,
                                                bool session);
  absl::Status CheckAdmin(const std::string& key) const;
  bool IsAdmin(const std::string& key) const;
  v1::EpisodeLimits LimitsFor(const v1::EpisodeLimits& asked) const;
  // Reserves a place for a new episode (`opening_`). At the limit it ends the session that was idle longest and gives
  // its place to the caller; concurrent callers end different sessions. RESOURCE_EXHAUSTED: there is no idle session.
  absl::Status ReserveEpisode();
  std::shared_ptr<Episode> OldestIdleSession() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Episodes that are open or being opened, without the sessions that are being closed for a new episode.
  int PlacesTaken() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // `free_key`: the key may open a new session. Otherwise its requests get the error that the episode is over.
  absl::StatusOr<v1::EpisodeEndResponse> End(const std::shared_ptr<Episode>& episode, const Episode::AskedEnd& asked,
                                             bool free_key);
  // Stores the end in the pool. If the pool rejects it for good, `end` becomes the end that the pool holds, or the end
  // of a lost episode, and `rejected` the reason. An outcome that another process stored instead does not count: the
  // episode is lost.
  absl::Status StoreEnd(v1::StoreEndRequest& end, std::string& rejected);
  // Reports the stored end to admission. If admission will never know the episode, `rejected` becomes the reason.
  absl::Status ReportEnd(const Episode& episode, const v1::StoreEndRequest& end, std::string& rejected);
  // The open episode of this id or key hash; null = not here. Forgets an episode that another gateway took.
  std::shared_ptr<Episode> FindOpen(const std::string& episode_id) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  std::shared_ptr<Episode> FindOpenByHash(const std::string& key_hash) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  std::shared_ptr<Episode> UnlessTaken(const std::shared_ptr<Episode>& episode) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Number of episodes that other gateways have taken from this gateway. An episode lost between its placing and its
  // use is not an unknown episode.
  int64_t Losses() const;
  // Whether this gateway has the open episode in memory.
  bool IsHere(const std::string& episode_id);
  absl::StatusOr<std::string> PlaceByKey(const std::string& key);
  struct KeyPlace {
    std::string role;           // of the gateway that says it serves the key's episode; empty = none
    std::string episode_id;     // of that episode
    bool all_answered = false;  // all other gateways of the run
  };
  KeyPlace AskForKey(const std::string& key);
  // The role of the gateway that serves the pool's open episode of this key, as PlaceById. Empty = no such episode.
  absl::StatusOr<std::string> PlaceByPool(const std::string& key);
  absl::StatusOr<std::string> PlaceById(const std::string& episode_id);
  absl::StatusOr<std::string> FindPlace(const std::string& episode_id);
  // Asks a gateway; UNAVAILABLE at once, if it did not answer a moment ago.
  absl::StatusOr<v1::ServesResponse> Ask(const std::string& role, const v1::ServesRequest& question);
  // Whether a gateway answers that it serves the episode.
  bool AnswersFor(const std::string& role, const std::string& episode_id);
  // Makes this gateway serve the pool's open episode, unless it took the episode after `episode` was read.
  // FAILED_PRECONDITION: the episode has ended, or another gateway was faster.
  absl::Status TakeOver(const v1::Episode& episode);
  // REQUIRES: placing_ holds the episode, so that no token has two Episodes in this process.
  absl::Status TakeAlone(const v1::Episode& episode);
  // Waits until no other thread is placing or taking the episode; LeavePlacing must follow.
  void EnterPlacing(const std::string& episode_id) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void LeavePlacing(const std::string& episode_id);
  // Forgets an episode that another gateway took, and returns the error of its requests.
  absl::Status GiveUp(const std::shared_ptr<Episode>& episode);
  // gateway_fencing.cc: OK = the pool says that this gateway still serves the episode. Blocks for the pool.
  absl::Status CheckServed(const std::shared_ptr<Episode>& episode);
  // Returns `rejection` if it is confirmed by the pool or needs no confirmation; otherwise an error that makes the
  // client retry.
  absl::Status Confirmed(const std::shared_ptr<Episode>& episode, absl::Status rejection);
  // Whether a snapshot request for the episode may go out. Forgets requests of episodes that are no longer here.
  bool IsServed(const std::string& episode_id);
  // Call it before naming a call by its number, or by an id that is not known here: finds out which calls with lost responses the pool holds. UNAVAILABLE:
  // the pool does not answer, or has answered only some of the requests within end_wait_s.
  absl::Status SettleCalls(const std::shared_ptr<Episode>& episode);
  // Call it before an end that depends on an earlier reward: if no reward is known, reads from the pool whether there
  // is one.
  absl::Status ReadReward(const std::shared_ptr<Episode>& episode);
  // Serves an open episode, starting from its stored tree.
  absl::Status GoOn(v1::EpisodeTree tree);
  absl::Status GoOnAlone(const std::string& episode_id);
  // Ends an unreadable episode as lost, so that its sample is tried again.
  absl::Status EndUnread(const v1::Episode& episode, const absl::Status& why);
  void Remove(const std::shared_ptr<Episode>& episode, EndedEpisode ended, bool free_key);
  void RememberEnd(const std::string& key_hash, EndedEpisode ended, bool free_key) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void RecallEnd(const std::string& episode_id);
  void EndIdle();
  std::string BaseUrl(const std::string& episode_id) const;
  absl::Status Reserve(int calls) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void OnDone(const Caller& caller, const std::shared_ptr<Answer>& answer, int extra);

  std::string admin_key_;  // empty = none; constant after Create

  mutable base::Mutex mu_;
  base::CondVar changed_;
  bool shutdown_ ABSL_GUARDED_BY(mu_) = false;
  std::string base_url_ ABSL_GUARDED_BY(mu_);
  int opening_ ABSL_GUARDED_BY(mu_) = 0;
  std::set<std::string> making_room_ ABSL_GUARDED_BY(mu_);   // ids of sessions that ReserveEpisode is ending
  std::set<std::string> opening_keys_ ABSL_GUARDED_BY(mu_);  // hashes of keys for which OpenOnce opens an episode
  std::unordered_map<std::string, std::shared_ptr<Episode>> by_id_ ABSL_GUARDED_BY(mu_);
  std::unordered_map<std::string, std::shared_ptr<Episode>> by_key_ ABSL_GUARDED_BY(mu_);  // by Episode::key_hash
  std::set<std::shared_ptr<Answer>> answers_ ABSL_GUARDED_BY(mu_);
  int64_t oldest_group_ ABSL_GUARDED_BY(mu_) = 0;  // Ticket.oldest_group of the newest ticket
  int active_calls_ ABSL_GUARDED_BY(mu_) = 0;      // of all answers; an answer that is not parsed yet counts as one
  // Ended episodes, so that late requests get the right error. The oldest are forgotten.
  std::unordered_map<std::string, EndedEpisode> ended_by_key_ ABSL_GUARDED_BY(mu_);
  std::unordered_map<std::string, std::string> ended_keys_ ABSL_GUARDED_BY(mu_);  // Episode::key_hash, by episode id
  std::deque<std::string> ended_order_ ABSL_GUARDED_BY(mu_);                      // hashes of keys
  Incarnations incarnations_ ABSL_GUARDED_BY(mu_);
  std::set<std::string> ending_ ABSL_GUARDED_BY(mu_);  // ids of episodes that Tick is ending
  // Ends requested while the pool could not say whether the episode has a reward. Tick asks again.
  std::map<std::string, Episode::AskedEnd> unread_ends_ ABSL_GUARDED_BY(mu_);
  int64_t losses_ ABSL_GUARDED_BY(mu_) = 0;             // Losses()
  std::set<std::string> placing_ ABSL_GUARDED_BY(mu_);  // ids of episodes that are being placed or taken
  // Gateways that did not answer, by role: until this time they are not asked again, and their episodes are taken over.
  std::map<std::string, std::chrono::nanoseconds> silent_until_ ABSL_GUARDED_BY(mu_);

  SnapshotDesk snapshots_;   // own synchronisation
  FileTransfers transfers_;  // own synchronisation
  KeySearch key_search_;     // own synchronisation

  Core core_;  // last: its workers use all members above, and are joined first
};

}  // namespace ingot::gateway
