// Connects to another project's rollout engine, which runs as a server on this machine. Samples ids for calls (as a
// Client) through the server's HTTP API, and sends new weights to the server (as a Sink) through a folder in memory.
//
//   Generate --> waits for weights --> http::Streams --> server --> chunks, with provisional versions until the last one
//   Update, Share --> decode --> ExchangeFolder --> pause, load, label, resume, verify (on the caller's thread)
//   keeper thread --> starts the server, checks its health and label, reloads the weights after a restart
//   deadlines thread --> ends requests that waited too long for weights
//
// These rules prevent wrong tokens from being recorded:
//   1. Between `pause` and the end of `load`, no request is sent, and the server does not sample.
//   2. If a load fails, the server stays paused. All its requests end with UNAVAILABLE, and it receives a full copy
//      before it is resumed.
//   3. Each token's version comes from the server's label (AnswerReader). A label that Ingot did not set ends the call
//      with UNAVAILABLE, and the weights are reloaded.
//   4. The server runs the newest accepted weights. After a restart, they are loaded before its first request.
//   5. After each load, the server's log-probs are compared with Ingot's (WeightVerifier). Until then, no request is
//      sent, and finished answers are held. If the log-probs differ, these answers end with UNAVAILABLE.
//   6. An answer that does not follow its request's grammar ends with DATA_LOSS (AnswerGrammars).
//
// If the server fails to load a version after several attempts, or if its log-probs stay wrong, fault() reports it, and
// the engine ends all requests and stops serving. SetAside is for log-probs that a later measurement finds to be wrong.
//
// Full versions are not retained. The response to an update with `retain` reports this, and an update with
// Place::kBeside fails. A pinned version is served only while it is live.
//
// FLEETS (rollout.external.workers): requests go to a load balancer, and weights to each worker behind it. A swap pauses
// all workers before the first load, and resumes them after the last one. A worker that is gone is left out, and joins
// when it responds again: it gets the live version under a label that no answer may have (JoiningLabel), is verified,
// and then gets the version's label. So the load balancer may send it requests at any time. A member that fails a call of
// a swap, where others do not, gets such a label too and joins again. One that is lost before it was verified keeps the
// version's label, so the others load the version again under another label (UnusedLabel).
//
// ADAPTERS (Parts::adapters): each version is an adapter of the base model, and the server holds several of them
// (AdapterVersions). Rules 1 and 2 do not apply, because the server is never paused. A request uses one version until
// it ends, and a version gets requests only after it has been verified. The base arrives with the first version. A
// version with another base restarts the server.
//
// Thread safe. Generate and Status never block.
#pragma once

#include <atomic>
#include <chrono>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "base/clock.h"
#include "base/executor.h"
#include "base/mutex.h"
#include "base/waits.h"
#include "engines/api/engine_api.h"
#include "engines/engine_guard.h"
#include "engines/external/adapter_versions.h"
#include "engines/external/external_call.h"
#include "engines/external/external_options.h"
#include "engines/external/workers.h"
#include "engines/server/exchange_folder.h"
#include "engines/server/server_control.h"
#include "engines/server/server_process.h"
#include "engines/server/written_version.h"
#include "engines/verification/answer_grammar.h"
#include "engines/verification/weight_verifier.h"
#include "http/streams.h"
#include "rollout/served_engine.h"
#include "text/tokenizer/tokenizer.h"

namespace ingot::engines {

class ExternalEngine final : public rollout::ServedEngine, public EngineGuard {
 public:
  struct Parts {
    std::unique_ptr<EngineApi> api;
    ServedModel model;
    int64_t max_weight_bytes = 0;                      // ModelRunner::max_weight_bytes
    std::shared_ptr<const text::Tokenizer> tokenizer;  // null = requests with stop strings fail
    std::unique_ptr<ExchangeFolder> exchange;
    // Initial weights of a server that `command` starts. Requests never use them. Null if `adapters` is set.
    std::shared_ptr<const weights::Snapshot> start_model;
    bool adapters = false;  // true = the trainer's versions differ only in their adapters
    // Scores with Ingot's model. Null = loads are not verified, regardless of rollout.external.verify.
    std::unique_ptr<WeightReference> reference;
    std::map<std::string, std::string> command_words;  // more values for ServerProcess; the engine adds `model`
    std::string key;                                   // the server's bearer token; empty = none
    std::string log_path;                              // the log of a server that `command` starts
    const base::Clock* clock = &base::Clock::Real();   // must outlive the engine
  };

  // Returns immediately, although the server may take minutes to start. Requests and updates wait for it. If the server
  // cannot be used, fault() returns the reason. Returns INVALID_ARGUMENT if an option is invalid, and errors of the
  // exchange folder and of ClaimServer.
  static absl::StatusOr<std::unique_ptr<ExternalEngine>> Create(const rollout::EngineOptions& options,
                                                                const ExternalOptions& external, Parts parts);
  ~ExternalEngine() override;  // calls Shutdown()

  bool Drain(std::chrono::nanoseconds timeout) override;
  void Shutdown() override;  // also ends a server that `command` started

  std::unique_ptr<Request> Generate(v1::GenerateRequest request, OnChunk on_chunk) override;
  absl::StatusOr<v1::EngineStatusResponse> Status() override;

  // See weights::Sink. Updates are applied one at a time. Returns UNAVAILABLE if the server does not load the weights.
  // It then has no version until the next update, or until the keeper has reloaded the last accepted version.
  absl::StatusOr<v1::UpdateWeightsResponse> Update(const weights::EncodedDelta& delta) override {
    return UpdateUnless(delta, [] { return false; });
  }
  absl::StatusOr<v1::UpdateWeightsResponse> UpdateUnless(const weights::EncodedDelta& delta,
                                                         const std::function<bool()>& cancelled) override;
  bool SharesMemory() const override { return true; }
  absl::StatusOr<v1::UpdateWeightsResponse> Share(const std::shared_ptr<const weights::Snapshot>& snapshot,
                                                  weights::Place place) override;
  absl::Status Release(int64_t version) override;
  absl::StatusOr<int64_t> LiveVersion() override;
  absl::StatusOr<std::vector<weights::HeldVersion>> HeldVersions() override;

  const rollout::EngineOptions& options() const override { return options_; }
  const weights::CodecOptions& codec() const override { return codec_; }
  absl::Status fault() const override;
  absl::Status SetAside(const std::string& why) override;

  // The server's process id, for messages and tests. -1 = not started by the engine, or not running.
  std::string server_url() const { return workers_.url(); }
  pid_t server_pid() const { return server_pid_; }

 private:
  static constexpr int kMissedChecks = 3;  // in a row, until a server counts as gone

  class Handle;
  // Connects a request's handle to the engine. May outlive the engine.
  struct Link {
    explicit Link(ExternalEngine* owner) : engine(owner) {}
    base::Mutex mu;                              // acquired before mu_
    ExternalEngine* engine ABSL_GUARDED_BY(mu);  // null = destroyed
  };
  struct Live {
    int64_t version = -1;
    uint64_t checksum = 0;
    std::string label;
    int64_t loaded_unix_ns = 0;
  };
  using Written = WrittenVersion;
  struct FailedLoads {
    int64_t version = -1;
    int count = 0;
    std::chrono::nanoseconds since{0};
  };
  // A version that a sender wants to install.
  struct Wanted {
    const v1::Manifest& target;
    weights::Place place;
    // Creates the snapshot from the newest accepted snapshot, which may be null.
    std::function<absl::StatusOr<std::shared_ptr<const weights::Snapshot>>(
        const std::shared_ptr<const weights::Snapshot>& base)>
        make;
    const std::function<bool()>& cancelled;
    std::chrono::nanoseconds fetch;
  };

  ExternalEngine(const rollout::EngineOptions& options, const ExternalOptions& external, Parts parts);
  static absl::Status ShuttingDown();
  static double Millis(std::chrono::nanoseconds time) {
    return std::chrono::duration<double, std::milli>(time).count();
  }

  // --- requests (external_requests.cc) ---
  ExternalCall::Engine CallsEngine();
  absl::Status Check(const v1::GenerateRequest& request) const;
  absl::StatusOr<std::shared_ptr<ExternalCall>> Admit(v1::GenerateRequest request,
                                                      std::shared_ptr<rollout::ChunkGate> gate);
  // Sends the call if MaySend(). Otherwise, queues it until the server has weights and a request has ended.
  absl::Status Route(const std::shared_ptr<ExternalCall>& call);
  // Returns whether the server has weights and fewer than rollout.max_running requests. Further requests wait here,
  // because otherwise WeightVerifier's requests would wait behind them in the server's queue.
  bool MaySend() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Returns the version that the call uses. Returns NOT_FOUND or UNAVAILABLE if the server does not have it.
  absl::StatusOr<Live> VersionFor(const v1::GenerateRequest& request) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status SendCall(const std::shared_ptr<ExternalCall>& call) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status CheckGrammar(const ExternalCall& call, const AnswerEvent& whole) const;
  // Sends the second request of a call that follows a grammar.
  absl::Status SendScores(ExternalCall& call, const v1::GenerateRequest& score);
  void SendWaiting();
  void OnCallEnd(ExternalCall& call, bool foreign_label);
  void CountTokens(int64_t tokens);
  void Cancel(const std::shared_ptr<ExternalCall>& call);
  void EndAll(const absl::Status& why);
  // Ends the requests that have received nothing since then. Which worker of a fleet has a request is not known.
  void EndSilent(std::chrono::nanoseconds since, const absl::Status& why);
  void SettleAll();  // after a verification, or if the calls fail
  void AbortAtServer(const std::string& server_request_id);

  // Returns the salt for requests to the weights with this label. Verification uses the same salt to share their cache.
  std::string Salt(const std::string& label) const { return external_.salt ? label : ""; }

  // --- adapters (external_adapters.cc) ---
  absl::StatusOr<v1::UpdateWeightsResponse> TakeAdapter(const Wanted& wanted);
  // Provides the base model to a server that is not running yet.
  absl::Status OfferBase(const Wanted& wanted);
  absl::Status CheckBase(const std::shared_ptr<const weights::Snapshot>& snapshot)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(update_mu_);
  // Returns whether the engine has room for one more retained version.
  bool MayRetain(int64_t version) const;
  // Returns whether the server already has the version. If so, makes it live or retains it, depending on `place`.
  bool PlaceHeld(const v1::Manifest& target, weights::Place place);
  void PlaceLoaded(const Written& version, weights::Place place);
  // Loads the version's adapter and verifies it.
  absl::Status InstallAdapter(const Written& version) ABSL_EXCLUSIVE_LOCKS_REQUIRED(update_mu_);
  absl::Status TryAdapter(const Written& version) ABSL_EXCLUSIVE_LOCKS_REQUIRED(update_mu_);
  absl::Status LoadAdapter(const Written& version) ABSL_EXCLUSIVE_LOCKS_REQUIRED(update_mu_);
  absl::Status CallLoadAdapter(const std::string& name, const std::string& dir);
  void RestoreAdapters();
  // Unloads the versions that are no longer needed.
  void UnloadUnused() ABSL_EXCLUSIVE_LOCKS_REQUIRED(update_mu_);
  ServedWeights WeightsOf(const std::string& label) const {
    return {Salt(label), adapters_only_ ? AdapterName(label) : ""};
  }
  // Same, with a salt that no verification has used before.
  ServedWeights UnusedWeightsOf(const std::string& label) const;

  // --- weights ---
  absl::Status AwaitReady(const std::function<bool()>& cancelled);
  absl::StatusOr<v1::UpdateWeightsResponse> TakeUpdate(const Wanted& wanted);
  bool IsLive(const v1::Manifest& target) const;
  // Writes the version for the server, and computes the scores that the server must report for whole weights.
  absl::StatusOr<Written> Write(std::shared_ptr<const weights::Snapshot> snapshot)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(update_mu_);
  absl::Status Install(const Written& version, const std::function<bool()>& cancelled, v1::SwapTimes& times)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(update_mu_);
  absl::Status PauseServer(const std::function<bool()>& cancelled) ABSL_EXCLUSIVE_LOCKS_REQUIRED(update_mu_);
  std::chrono::milliseconds PauseTimeout(SwapMode mode) const;
  // Carries out the trial load after each start of a server, and leaves the server paused. Returns FAILED_PRECONDITION
  // if a part of the weights did not arrive.
  absl::Status TryLoading(const Written& version) ABSL_EXCLUSIVE_LOCKS_REQUIRED(update_mu_);
  // Writes the weights of a trial load; nullopt = there is none.
  absl::StatusOr<std::optional<Written>> WriteTrial(const Written& version) ABSL_EXCLUSIVE_LOCKS_REQUIRED(update_mu_);
  absl::Status TryWorker(Worker& worker, const WeightVerifier& verifier, const Written& trial, const Written& version);
  absl::Status LoadWithRetries(const Written& version) ABSL_EXCLUSIVE_LOCKS_REQUIRED(update_mu_);
  // Returns the version's label, with a number if a fleet's workers had this label before.
  std::string UnusedLabel(const Written& version) ABSL_EXCLUSIVE_LOCKS_REQUIRED(update_mu_);
  // Returns UNAVAILABLE if the fleet has fewer members than these.
  absl::Status CheckNoneLost(size_t members) const;
  absl::Status ResumeAndVerify(const Written& version, const std::string& label)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(update_mu_);
  absl::Status ResumeAll();
  absl::StatusOr<ScoreDifference> VerifyAll(const Written& version, const std::string& label)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(update_mu_);
  // Ends the requests of a server whose weights may not be the version's, and pauses the server.
  absl::Status TakeBack(const std::string& label, const absl::Status& why) ABSL_EXCLUSIVE_LOCKS_REQUIRED(update_mu_);
  // Gives up on the server or restarts it if it has failed to load the version several times.
  void CountFailedLoad(const Written& version, const absl::Status& why) ABSL_EXCLUSIVE_LOCKS_REQUIRED(update_mu_);
  // Ends SetAside, because the server has been restarted and will be verified.
  void TakeBackIn() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Ends all requests. After this, the server has no version until the next load.
  void Lose(const absl::Status& why, bool server_gone);

  // --- the keeper's thread (external_keeper.cc) ---
  void Tick();
  void ExpireWaiting();  // on the deadlines thread, which never waits for the server
  bool starts_server() const { return external_.url.empty(); }
  void StartServer();
  bool StartTimePassed() const;  // rollout.external.start_s, since the server was started or lost
  void TickWorker(Worker& worker);
  void AwaitServer(Worker& worker);
  absl::StatusOr<LogprobKind> CheckStart(Worker& worker) ABSL_LOCKS_EXCLUDED(update_mu_);
  void OnBadStart(Worker& worker, const absl::Status& why);
  void WatchServer(Worker& worker);
  void CheckLabel(Worker& worker) ABSL_EXCLUSIVE_LOCKS_REQUIRED(update_mu_);
  void Restore();

  // --- a fleet's workers (external_fleet.cc), on the keeper's thread ---
  void WatchWorker(Worker& worker);
  void CheckJoined(Worker& worker, const std::string& label) ABSL_EXCLUSIVE_LOCKS_REQUIRED(update_mu_);
  // Ends all requests, because no worker has the live version. Other workers may be ready to get it.
  void LoseLastJoined(const absl::Status& why);
  // Gives the worker the live version, if there is one and it does not have it.
  void Join(Worker& worker) ABSL_LOCKS_EXCLUDED(update_mu_);
  absl::Status TryJoin(Worker& worker, const Written& version) ABSL_EXCLUSIVE_LOCKS_REQUIRED(update_mu_);
  absl::Status TryJoiningWorker(Worker& worker, const Written& version) ABSL_EXCLUSIVE_LOCKS_REQUIRED(update_mu_);
  absl::Status VerifyJoining(Worker& worker, const Written& version) ABSL_EXCLUSIVE_LOCKS_REQUIRED(update_mu_);
  void LeaveOut(Worker& worker, const absl::Status& why);
  // Takes these workers out of the fleet until they join again. Returns whether there are any, and all are out.
  bool LeaveOutFailing(const std::vector<FailedWorker>& failing) ABSL_EXCLUSIVE_LOCKS_REQUIRED(update_mu_);

  void SetFault(const absl::Status& why);

  // Constant after construction.
  std::vector<base::Fd> claims_;  // of the server at `url` and of the workers
  const rollout::EngineOptions options_;
  const ExternalOptions external_;
  const std::unique_ptr<EngineApi> api_;
  const ServedModel model_;
  const std::shared_ptr<const text::Tokenizer> tokenizer_;
  AnswerGrammars grammars_;  // has its own synchronization
  const std::map<std::string, std::string> command_words_;
  const std::string key_, log_path_;
  const base::Clock& clock_;
  const std::chrono::nanoseconds started_;
  const weights::CodecOptions codec_;
  const std::shared_ptr<Link> link_;
  const ExternalCall::Engine calls_engine_;

  const bool adapters_only_;      // Parts::adapters
  const std::string base_label_;  // label of the server's base model

  Workers workers_;         // has its own synchronization
  ServerControl& control_;  // of the only server

  base::Mutex update_mu_;  // serializes weight changes; acquired before mu_
  const std::unique_ptr<ExchangeFolder> exchange_ ABSL_PT_GUARDED_BY(update_mu_);
  const std::unique_ptr<WeightReference> reference_;
  std::optional<WeightVerifier> verifier_ ABSL_GUARDED_BY(update_mu_);  // nullopt = loads are not verified
  // Weights that the server starts with; null = its first version has not arrived.
  std::shared_ptr<const weights::Snapshot> start_model_ ABSL_GUARDED_BY(update_mu_);
  // The newest accepted version. Deltas are based on it, and the keeper restores it.
  Written accepted_ ABSL_GUARDED_BY(update_mu_);
  std::map<std::string, FailedLoads> failed_loads_ ABSL_GUARDED_BY(update_mu_);  // failed loads since the last success,
                                                                                 // by label of the version

  std::map<std::string, int> loads_ ABSL_GUARDED_BY(update_mu_);  // into a fleet, by label of the version

  mutable base::Mutex mu_;
  base::CondVar changed_;                      // signaled when the server becomes ready, a fault is set, or a call ends
  bool ready_ ABSL_GUARDED_BY(mu_) = false;    // a server responds and passed the startup check
  bool sending_ ABSL_GUARDED_BY(mu_) = false;  // requests may be sent: the server runs `live_` and is not paused
  bool lost_ ABSL_GUARDED_BY(mu_) = false;     // the server lost its weights; requests are rejected
  bool suspect_ ABSL_GUARDED_BY(mu_) = false;  // an answer had a label that Ingot did not set
  std::optional<Live> live_ ABSL_GUARDED_BY(mu_);
  std::optional<Live> candidate_ ABSL_GUARDED_BY(mu_);          // loaded, and being verified
  std::map<std::string, int64_t> labels_ ABSL_GUARDED_BY(mu_);  // version by label, for every version loaded so far
  std::optional<LogprobKind> logprobs_ ABSL_GUARDED_BY(mu_);    // nullopt = not known yet
  std::set<std::shared_ptr<ExternalCall>> running_ ABSL_GUARDED_BY(mu_);
  std::deque<std::shared_ptr<ExternalCall>> waiting_ ABSL_GUARDED_BY(mu_);
  bool draining_ ABSL_GUARDED_BY(mu_) = false;
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  absl::Status fault_ ABSL_GUARDED_BY(mu_);
  absl::Status aside_ ABSL_GUARDED_BY(mu_);  // why the engine is set aside; OK = it is not set aside
  std::optional<base::Wait> aside_wait_ ABSL_GUARDED_BY(mu_);
  AdapterVersions adapters_ ABSL_GUARDED_BY(mu_);
  v1::ServerStatus server_ ABSL_GUARDED_BY(mu_);                  // counters, and times of the last swap
  v1::EngineStatusResponse status_ ABSL_GUARDED_BY(mu_);          // counters
  std::optional<v1::SwapTimes> swapped_in_ ABSL_GUARDED_BY(mu_);  // newest version's times, until its first token
  std::chrono::nanoseconds swapped_at_ ABSL_GUARDED_BY(mu_){0};

  // When the server was started or lost. For a server at `url`, initially the engine's creation time.
  std::chrono::nanoseconds server_since_ ABSL_GUARDED_BY(mu_);

  std::atomic<pid_t> server_pid_{-1};
  std::atomic<bool> restart_wanted_{false};  // true = the keeper restarts the server
  std::atomic<bool> has_start_model_;

  // Used by the keeper's thread.
  std::optional<ServerProcess> process_;
  base::Fd process_claim_;  // of its server
  int failed_starts_ = 0;   // in a row
  int64_t starts_ = 0;

  const std::unique_ptr<http::Streams> streams_;
  base::Executor keeper_, deadlines_;  // declared last: their threads use the other members
  base::Timer tick_, expiry_;
};

}  // namespace ingot::engines
