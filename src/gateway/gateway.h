// Manages episodes and the calls made in them, without any sockets. Records every call in its episode's tree with
// exactly the ids that the engine sampled. The record is durable in the pool before the client receives the end of the
// answer.
//
//   HttpServer -> HttpApi --.                        .-> Dialect, Renderer    parse requests, render events and errors
//   GatewayService (gRPC) --+-> Gateway --> Answer --+
//   agents' runner ---------'      |                 `-> ChatCall, one per choice
//                                  |                       |-> rollout::Client     ids in, ids with log-probs out
//                                  |                       `-> datapool::Client    AppendCall, before the last event
//                                  `-> Episode             its history and rewards
//                                  `-> Admission           decides whether an episode may open
//
// Gateway only delegates. The objects below do the work, and each uses only the objects listed after it:
//
//   Answers             answers in flight and the limit on them
//   Openings            opens episodes; AbandonedEpisodes ends restarted runners' episodes
//   Snapshots           snapshots, forks of trunks, and snapshot files
//   Recovery            takes over the pool's open episodes
//   EpisodeEnds         stores and reports rewards, and ends episodes
//   EpisodeAccess       decides which episode a caller may use
//   Placement, Fencing  which gateway serves an episode; whether this gateway still does
//   OpenEpisodes        open episodes by id and key, places, remembered ended episodes
//   SnapshotRequests, Core  requests to runners; objects that all of these share
//
// Thread safe. OpenEpisode, RewardEpisode, and EndEpisode block on admission and on a durable write. EndEpisode also
// waits for the calls that it aborts. StartAnswer and Tick do not block because their work runs on the gateway's
// workers. Before destroying the gateway, destroy every server that uses it and release all Answers. The gateway's
// parts must outlive it.
//
// Locks: Answers, Openings, Placement, OpenEpisodes, SnapshotRequests, and FileTransfers each have a lock for their own
// state. No method holds a lock while it waits for the pool, another gateway, the scheduler, or a runner. Lock order:
// OpenEpisodes::mu_ or Answer::mu_ first, then Episode::mu_ or ChatCall::mu_. Other locks are never nested.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "base/status.h"
#include "gateway/answers.h"
#include "gateway/api/dialect.h"
#include "gateway/caller.h"
#include "gateway/calls/answer.h"
#include "gateway/core.h"
#include "gateway/episodes/open_episodes.h"
#include "gateway/episodes/snapshot_files.h"
#include "gateway/episodes/snapshot_requests.h"
#include "gateway/lifecycle/episode_access.h"
#include "gateway/lifecycle/episode_ends.h"
#include "gateway/lifecycle/openings.h"
#include "gateway/lifecycle/snapshots.h"
#include "gateway/options.h"
#include "gateway/placement/fencing.h"
#include "gateway/placement/placement.h"
#include "gateway/placement/recovery.h"
#include "proto/gateway.pb.h"

namespace ingot::gateway {

class Gateway {
 public:
  // Returns INVALID_ARGUMENT if the options are invalid or a part is missing.
  static absl::StatusOr<std::unique_ptr<Gateway>> Create(GatewayOptions options, GatewayParts parts);
  ~Gateway();
  Gateway(const Gateway&) = delete;
  Gateway& operator=(const Gateway&) = delete;

  // Requests admission and stores the episode durably. Repeated requests with the same idempotency key open only one
  // episode. Returns RESOURCE_EXHAUSTED if the run is at capacity, 410 if the run is over, 401 or 403 if the admin key
  // is required, and ABORTED if the runner has been restarted since.
  absl::StatusOr<v1::EpisodeOpenResponse> OpenEpisode(const v1::EpisodeOpenRequest& request);
  // Requires the owner's key or the admin key. OK means that the reward is durable in the pool. Returns UNAUTHENTICATED
  // if there is no key, PERMISSION_DENIED for a wrong key or the call key, NOT_FOUND for an unknown episode or call,
  // and 410 if the episode has ended. Returns CANCELLED if `client_gone` (RequestHead::client_gone, may be null)
  // returns true just before the reward is stored. By then, the client may have posted another reward, which this one
  // must not replace.
  absl::Status RewardEpisode(const v1::EpisodeRewardRequest& request,
                             const std::function<bool()>& client_gone = nullptr) {
    return ends_.RewardEpisode(request, client_gone);
  }
  absl::Status RewardEpisode(const std::string& episode_id, const std::string& api_key, std::optional<double> reward,
                             const std::map<std::string, double>& signals);
  // Stores a user's feedback on an answer (user_feedback.h). Returns 404 if this gateway does not learn from feedback.
  // Blocks for one fsync.
  absl::Status GiveFeedback(const std::string& api_key, const GivenFeedback& given);
  // Returns the assistant's messages so far, from the pool. Key errors are as for RewardEpisode.
  absl::StatusOr<v1::ReadMessagesResponse> ReadMessages(const v1::ReadMessagesRequest& request) {
    return access_.ReadMessages(request);
  }
  // Aborts and records the calls in flight, durably stores that the episode ended, and reports it to admission. May be
  // repeated with the same content until it returns OK. Returns 409 if the episode ended with another outcome or was
  // fenced by a newer attempt of its sample. In the latter case, the gateway forgets the episode.
  absl::StatusOr<v1::EpisodeEndResponse> EndEpisode(const v1::EpisodeEndRequest& request) {
    return ends_.EndEpisode(request);
  }
  // Ends episodes that external clients opened and that have made no calls. They count as lost. Blocks like EndEpisode.
  // Returns the errors of v1::Gateway.EndUncalled. After an error, some of the request's episodes may have ended.
  absl::StatusOr<v1::EndUncalledResponse> EndUncalled(const v1::EndUncalledRequest& request) {
    return ends_.EndUncalled(request);
  }
  // Takes a snapshot of the episode between two calls. Waits for calls in flight and for the runner, for up to
  // end_wait_s each. Returns 409 if the agent was started elsewhere or the runner could not take the snapshot. Key
  // errors are as for RewardEpisode.
  absl::StatusOr<v1::EpisodeSnapshotResponse> SnapshotEpisode(const v1::EpisodeSnapshotRequest& request) {
    return snapshots_.SnapshotEpisode(request);
  }
  // Called by runners. Requires the admin key. NextSnapshot blocks for up to wait_ms. The response is empty if there is
  // no request.
  absl::StatusOr<v1::NextSnapshotResponse> NextSnapshot(const v1::NextSnapshotRequest& request) {
    return snapshots_.NextSnapshot(request);
  }
  absl::Status SnapshotTaken(const v1::SnapshotTakenRequest& request) { return snapshots_.SnapshotTaken(request); }
  // Streams the files in the snapshot from which the caller's episode starts. Fails if the runner does not send
  // anything for end_wait_s. Blocks on the pool. Returns 401 if there is no key, or 404 if the episode does not start
  // from a snapshot.
  absl::StatusOr<std::shared_ptr<FileTransfer>> ReadSnapshotFiles(const Caller& caller, std::function<void()> wake) {
    return snapshots_.ReadSnapshotFiles(caller, std::move(wake));
  }
  // Called by runners. Requires the admin key. Blocks for a few seconds while the buffer is full.
  absl::Status SendSnapshotFiles(const v1::SnapshotFilesPart& part) { return snapshots_.SendSnapshotFiles(part); }
  // Called when one of the caller's requests ends with `status`. The caller's open episode, if any, remembers the last
  // error and records it when it ends. The gateway itself reports the results of model calls.
  void NoteAnswer(const Caller& caller, const absl::Status& status) { answers_.NoteAnswer(caller, status); }

  // Takes over the pool's open episodes from earlier processes of this role, or from role `gone` if it is not empty.
  // Restores their call history, so agents continue with the same keys and URLs. Also takes over episodes from roles
  // that are no longer part of the run. All other episodes stay where they are until they are requested. Must be called
  // before all other functions, and whenever a gateway is lost. Call Scheduler::Reconcile afterwards. Calls that were
  // in flight are lost, and clients retry them. An unreadable episode ends as lost.
  absl::Status Recover(const std::string& gone = "") { return recovery_.Recover(gone); }

  // With several gateways (GatewayParts::peers), one gateway serves each episode. Returns true if another gateway may
  // serve the caller's episode. Does not block.
  bool MayBeElsewhere(const Caller& caller) { return placement_.MayBeElsewhere(caller); }
  // Returns the role of the gateway that serves the caller's episode, or "" if it is this gateway or if there is no
  // such episode. Takes over the episode if its gateway is gone or does not answer. Blocks on the pool and on other
  // gateways.
  absl::StatusOr<std::string> Place(const Caller& caller) { return placement_.Place(caller); }
  // Like Place, but for a request to open an episode, which another gateway may already have handled. If a gateway does
  // not answer, looks for the episode in the pool and takes it over.
  absl::StatusOr<std::string> PlaceOpening(const std::string& idempotency_key) {
    return placement_.PlaceOpening(idempotency_key);
  }
  // Answers Place calls from other gateways. Does not block.
  v1::ServesResponse Serves(const v1::ServesRequest& request) { return placement_.Serves(request); }
  Peers* peers() const { return core_.parts.peers; }

  // Starts answering a request. All errors are reported through the answer. `wake` is Answer::Hooks::wake.
  std::shared_ptr<Answer> StartAnswer(const Caller& caller, const Dialect& dialect, RawRequest raw,
                                      std::function<void()> wake) {
    return answers_.Start(caller, dialect, std::move(raw), std::move(wake));
  }

  // Enforces deadlines and idle limits, using the injected clock. HttpServer calls it about once per second.
  void Tick();
  // Ends the open sessions as finished. Called after Shutdown, because no client will continue them. Blocks on the pool
  // for up to end_wait_s.
  void EndSessions();
  // Rejects new requests, aborts requests in flight, and waits up to end_wait_s for their records. Idempotent.
  void Shutdown();
  bool shutting_down() const { return answers_.closed(); }

  v1::GatewayStatusResponse Status() const;
  // Returns all models, with the trained model first, or only the model `name`. If an engine does not report when it
  // loaded the weights, the model's date is the gateway's start time. Blocks because it queries each engine once.
  std::vector<ServedModel> Models(const std::optional<std::string>& name = {}) const;
  // Returns the gateway's own metrics in Prometheus text format.
  std::string MetricsText() const;
  const GatewayOptions& options() const { return core_.options; }

  // Sets the URL that agents use for this gateway, such as "http://127.0.0.1:8080". Called by HttpServer.
  void SetBaseUrl(std::string url);
  // Runs `job` on a worker. Returns false if too many jobs are queued. Servers use it for the blocking calls above.
  bool RunOnWorker(std::function<void()> job) { return core_.workers.TryPost(std::move(job)).ok(); }

 private:
  Gateway(GatewayOptions options, GatewayParts parts);

  // Declared in dependency order. The destructor stops core_'s executors first.
  Core core_;
  SnapshotRequests snapshot_requests_;
  OpenEpisodes open_;
  Placement placement_;
  Fencing fencing_;
  EpisodeAccess access_;
  EpisodeEnds ends_;
  Recovery recovery_;
  Snapshots snapshots_;
  Openings openings_;
  Answers answers_;

  mutable base::Mutex mu_;
  std::string base_url_ ABSL_GUARDED_BY(mu_);
};

}  // namespace ingot::gateway
