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
// It only passes requests on. The work is done by its objects, each of which uses only the objects below it:
//
//   Answers             answers in flight, and their limit
//   Openings            opens episodes; AbandonedEpisodes ends those of restarted runners
//   Snapshots           snapshots, forks of trunks, and files of snapshots
//   Recovery            takes over the pool's open episodes
//   EpisodeEnds         stores and reports rewards and ends
//   EpisodeAccess       which episode a caller may use
//   Placement, Fencing  which gateway serves an episode; whether this one still does
//   OpenEpisodes        open episodes by id and key, places, remembered ends
//   SnapshotDesk, Core  requests to runners; what all objects share
//
// Thread safe. OpenEpisode, RewardEpisode and EndEpisode block: for admission, for a durable write, and EndEpisode for
// the calls that it aborts. StartAnswer and Tick do not block: their work runs on the gateway's workers. First destroy
// every server in front of the gateway and drop all Answers. Its parts outlive it.
//
// Locks: Answers, Openings, Placement, OpenEpisodes, SnapshotDesk and FileTransfers have one each, for their own state.
// No lock is held while a method blocks for the pool, for another gateway, for the scheduler or for a runner. The lock
// order: first OpenEpisodes::mu_ or Answer::mu_, then Episode::mu_ or ChatCall::mu_. All other locks of the gateway are
// held alone.
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
#include "gateway/episodes/snapshot_desk.h"
#include "gateway/episodes/snapshot_files.h"
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
                             const std::function<bool()>& client_gone = nullptr) {
    return ends_.RewardEpisode(request, client_gone);
  }
  absl::Status RewardEpisode(const std::string& episode_id, const std::string& api_key, std::optional<double> reward,
                             const std::map<std::string, double>& signals);
  // The assistant's messages so far, from the pool. Errors of keys as RewardEpisode.
  absl::StatusOr<v1::ReadMessagesResponse> ReadMessages(const v1::ReadMessagesRequest& request) {
    return access_.ReadMessages(request);
  }
  // Aborts and records the calls in flight, stores the end durably, and reports it to admission. May be repeated with
  // the same content until it returns OK. 409: it ended with another outcome, or a newer attempt of its sample fenced
  // it; then the gateway forgets it.
  absl::StatusOr<v1::EpisodeEndResponse> EndEpisode(const v1::EpisodeEndRequest& request) {
    return ends_.EndEpisode(request);
  }
  // Ends episodes that outside clients opened and that have made no call, as lost. Blocks like EndEpisode. Errors are in
  // v1::Gateway.EndUncalled; with an error, earlier episodes of the request may have ended.
  absl::StatusOr<v1::EndUncalledResponse> EndUncalled(const v1::EndUncalledRequest& request) {
    return ends_.EndUncalled(request);
  }
  // Takes a snapshot of the episode between two calls. Blocks for calls in flight and for its runner, at most
  // end_wait_s each. 409: the agent was started elsewhere, or the runner could not take it. Errors of keys as
  // RewardEpisode.
  absl::StatusOr<v1::EpisodeSnapshotResponse> SnapshotEpisode(const v1::EpisodeSnapshotRequest& request) {
    return snapshots_.SnapshotEpisode(request);
  }
  // For runners, with the admin key. NextSnapshot blocks for at most wait_ms; an empty response = no request.
  absl::StatusOr<v1::NextSnapshotResponse> NextSnapshot(const v1::NextSnapshotRequest& request) {
    return snapshots_.NextSnapshot(request);
  }
  absl::Status SnapshotTaken(const v1::SnapshotTakenRequest& request) { return snapshots_.SnapshotTaken(request); }
  // Streams the files of the snapshot that the caller's episode starts from. Fails if the runner sends nothing for
  // end_wait_s. Blocks for the pool. 401: no key. 404: the episode does not start from a snapshot.
  absl::StatusOr<std::shared_ptr<FileTransfer>> ReadSnapshotFiles(const Caller& caller, std::function<void()> wake) {
    return snapshots_.ReadSnapshotFiles(caller, std::move(wake));
  }
  // For runners, with the admin key. Blocks for some seconds while the buffer is full.
  absl::Status SendSnapshotFiles(const v1::SnapshotFilesPart& part) { return snapshots_.SendSnapshotFiles(part); }
  // A request of the caller ended with `status`. The caller's open episode, if any, remembers its last error for its
  // end. The gateway itself notes the results of model calls.
  void NoteAnswer(const Caller& caller, const absl::Status& status) { answers_.NoteAnswer(caller, status); }

  // Takes over the pool's open episodes of earlier processes of this role, with the history of their calls: agents
  // continue with the same keys and URLs. With another role as `gone`, takes that role's episodes. Also takes the
  // episodes of roles that the run no longer has. All other episodes stay where they are until a request asks for them.
  // Call it before all other functions, and when a gateway is gone; then call Scheduler::Reconcile. Calls that were in
  // flight are lost, and clients send them again. An episode that cannot be read ends as lost.
  absl::Status Recover(const std::string& gone = "") { return recovery_.Recover(gone); }

  // With several gateways (GatewayParts::peers), one gateway serves each episode. Whether another gateway may serve the
  // caller's episode. Does not block.
  bool MayBeElsewhere(const Caller& caller) { return placement_.MayBeElsewhere(caller); }
  // The role of the gateway that serves the caller's episode; empty = this gateway, or there is no such episode. Takes
  // over the episode if its gateway is gone or does not answer. Blocks for the pool and for other gateways.
  absl::StatusOr<std::string> Place(const Caller& caller) { return placement_.Place(caller); }
  // Like Place, for an opening that may repeat an opening at another gateway. If a gateway does not answer, looks for
  // the opening in the pool and takes over its episode.
  absl::StatusOr<std::string> PlaceOpening(const std::string& idempotency_key) {
    return placement_.PlaceOpening(idempotency_key);
  }
  // The answer to other gateways' Place. Does not block.
  v1::ServesResponse Serves(const v1::ServesRequest& request) { return placement_.Serves(request); }
  Peers* peers() const { return core_.parts.peers; }

  // Starts answering a request. Every error comes through the answer. `wake`: Answer::Hooks::wake.
  std::shared_ptr<Answer> StartAnswer(const Caller& caller, const Dialect& dialect, RawRequest raw,
                                      std::function<void()> wake) {
    return answers_.Start(caller, dialect, std::move(raw), std::move(wake));
  }

  // Enforces deadlines and idle limits by the injected clock. HttpServer calls it about once a second.
  void Tick();
  // Ends the open served sessions as finished: nobody continues them. For a server that stops, after Shutdown; gives up
  // after end_wait_s. Blocks for the pool.
  void EndSessions();
  // Rejects new requests, aborts requests in flight and waits for their records, at most end_wait_s. Idempotent.
  void Shutdown();
  bool shutting_down() const { return answers_.closed(); }

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
  Gateway(GatewayOptions options, GatewayParts parts);

  // Declared in the order of their dependencies. The destructor stops the executors of core_ first.
  Core core_;
  SnapshotDesk desk_;
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
