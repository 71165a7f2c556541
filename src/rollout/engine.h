// The rollout engine samples ids for calls (a Client) and takes new weights (a Sink). One step thread runs an
// EngineCore; every other thread talks to it through an inbox that the step thread empties between two steps.
//
//   Generate --> inbox --+                       +--> OnChunk (on the step thread)
//   ~Request -> closed --+--> step thread: step -+
//   Update --> decode, verify, load (caller's thread) --> swapped in between two steps --> returns
//   Share  -->                 load (caller's thread) --> swapped in between two steps --> returns
//
// A swap to a newer version does not stop requests in flight: a request continues on its KV cache, which is then mixed
// and recorded as mixed. A swap to an older version ends requests whose min_version is later with UNAVAILABLE. A pinned
// request runs on its version to the end, and that version stays in memory until then.
//
// The engine holds the newest version and the retained versions. If a version number was pushed twice with different
// weights, requests that pin the number get the latest push.
//
// Thread safe. Generate and Status never wait for a step. Generate compiles a new grammar (grammar/grammar.h); the
// first grammar reads the whole vocabulary. Update and Release are for the sender's threads. The engine does not depend
// on torch: ModelRunner hides the model (NewTorchRunner in rollout/torch_runner.h).
#pragma once

#include <chrono>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/executor.h"
#include "base/mutex.h"
#include "rollout/client.h"
#include "rollout/engine_core.h"
#include "rollout/engine_options.h"
#include "rollout/loaded_versions.h"
#include "rollout/sequence_maker.h"
#include "text/tokenizer/tokenizer.h"
#include "weights/sink.h"

namespace ingot::rollout {

class Engine final : public Client, public weights::Sink {
 public:
  // The objects that an engine works with. `runner` is required.
  struct Parts {
    std::unique_ptr<ModelRunner> runner;
    std::shared_ptr<const text::Tokenizer> tokenizer;  // null = requests with stop strings or grammars fail
    const base::Clock* clock = &base::Clock::Real();   // outlives the engine
  };

  // Starts the step thread. If `initial` is null, requests wait until the first Update. INVALID_ARGUMENT: an option or
  // the snapshot does not fit the model.
  static absl::StatusOr<std::unique_ptr<Engine>> Create(const EngineOptions& options, Parts parts,
                                                        std::shared_ptr<const weights::Snapshot> initial);
  ~Engine() override;  // Shutdown()

  // For an engine that leaves: new requests get UNAVAILABLE and go elsewhere. Returns when the requests in flight have
  // ended; false: some still run after `timeout`.
  bool Drain(std::chrono::nanoseconds timeout);
  // Ends every request with UNAVAILABLE and stops the step thread; later calls are UNAVAILABLE. Not from an OnChunk.
  void Shutdown();

  std::unique_ptr<Request> Generate(v1::GenerateRequest request, OnChunk on_chunk) override;
  absl::StatusOr<v1::EngineStatusResponse> Status() override;

  // As weights::Sink says. INVALID_ARGUMENT: more bytes than the model has. DEADLINE_EXCEEDED: the running step did not
  // end within update_deadline_ms; nothing changed. Updates are applied one at a time. If the version and checksum are
  // already live, the answer is OK without a swap. If max_retained_versions are already retained, a version to retain
  // still becomes live, and the answer says that it is not retained; a version for Place::kBeside is
  // RESOURCE_EXHAUSTED.
  absl::StatusOr<v1::UpdateWeightsResponse> Update(const weights::EncodedDelta& delta) override {
    return Update(delta, [] { return false; });
  }
  // As above, for a sender that may give up. The engine calls `cancelled` when it is this update's turn, and again
  // before the swap; true: CANCELLED, and nothing changed. So an update that waited for a later update does not replace
  // it.
  absl::StatusOr<v1::UpdateWeightsResponse> Update(const weights::EncodedDelta& delta,
                                                   const std::function<bool()>& cancelled);
  // As Update, on the tensors of this process's own snapshot, which are not verified. The answers are the same.
  bool SharesMemory() const override { return true; }
  absl::StatusOr<v1::UpdateWeightsResponse> Share(const std::shared_ptr<const weights::Snapshot>& snapshot,
                                                  weights::Place place) override;
  // Retains a version of this process without making it live: requests may pin it until its release. It has its own KV
  // cache. RESOURCE_EXHAUSTED: the engine already holds as many versions as it may. INVALID_ARGUMENT: it is not a
  // version of the model, or the engine already holds its number.
  absl::Status Hold(std::shared_ptr<const weights::Snapshot> snapshot);
  absl::Status Release(int64_t version) override;
  absl::StatusOr<int64_t> LiveVersion() override;
  absl::StatusOr<std::vector<weights::HeldVersion>> HeldVersions() override;

  // The newest live weights; null before the first update.
  std::shared_ptr<const weights::Snapshot> newest() const;
  const EngineOptions& options() const { return options_; }
  // The size limit of a decoded update: the bytes of the model, even if the update sends fewer.
  const weights::CodecOptions& codec() const { return codec_; }

 private:
  class Handle;
  struct Wake;  // a Request handle's way to wake the step thread; may outlive the engine
  struct Swap {
    LoadedVersion next;
    LoadedVersion previous, replaced;  // freed by the sender's thread, not between two steps
    bool retain = false;
    bool done = false;
    std::chrono::nanoseconds posted{0};
    v1::SwapTimes times;  // once done, complete except for the first token
  };
  // A version that a sender wants in the engine.
  struct WantedVersion {
    const v1::Manifest& target;
    weights::Place place;
    // Makes its snapshot from the live snapshot, or from null for Place::kBeside.
    std::function<absl::StatusOr<std::shared_ptr<const weights::Snapshot>>(
        const std::shared_ptr<const weights::Snapshot>& live)>
        make;
    const std::function<bool()>& cancelled;
    std::chrono::nanoseconds fetch;
  };

  Engine(const EngineOptions& options, Parts parts);
  absl::Status Enqueue(std::unique_ptr<Sequence> sequence);
  bool HasRoom(int64_t version);  // whether the engine can retain it
  absl::StatusOr<v1::UpdateWeightsResponse> TakeUpdate(const WantedVersion& wanted)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(update_mu_);
  absl::Status HoldBeside(const WantedVersion& wanted) ABSL_EXCLUSIVE_LOCKS_REQUIRED(update_mu_);
  absl::StatusOr<LoadedVersion> LoadVersion(std::shared_ptr<const weights::Snapshot> snapshot)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(update_mu_);
  // Returns `times` with the swap's times.
  absl::StatusOr<v1::SwapTimes> SwapIn(LoadedVersion next, bool retain, v1::SwapTimes times)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(update_mu_);
  // Completes swapped_in_ if the step that took `busy` sampled on the newest version.
  void NoteFirstToken(std::chrono::nanoseconds busy) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Run();
  bool TakeInbox();
  void Settle(const std::vector<Emission>& emissions, std::chrono::nanoseconds busy);
  void Report() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  // Constant after construction.
  const EngineOptions options_;
  const std::unique_ptr<ModelRunner> runner_;
  const weights::CodecOptions codec_;
  const std::shared_ptr<const text::Tokenizer> tokenizer_;
  const base::Clock& clock_;
  const std::chrono::nanoseconds started_;
  const std::shared_ptr<Wake> wake_;

  SequenceMaker sequences_;  // own synchronisation

  base::Mutex update_mu_;  // one update at a time; taken before mu_
  uint64_t next_salt_ ABSL_GUARDED_BY(update_mu_) = 1;

  mutable base::Mutex mu_;
  base::CondVar swapped_;  // a swap is done, or the last request of a draining engine has ended
  std::deque<std::unique_ptr<Sequence>> inbox_ ABSL_GUARDED_BY(mu_);
  Swap* swap_ ABSL_GUARDED_BY(mu_) = nullptr;  // SwapIn posts and owns it
  LoadedVersions versions_ ABSL_GUARDED_BY(mu_);
  int64_t next_order_ ABSL_GUARDED_BY(mu_) = 0;
  int64_t outstanding_ ABSL_GUARDED_BY(mu_) = 0;  // requests accepted and not ended
  bool draining_ ABSL_GUARDED_BY(mu_) = false;
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  v1::EngineStatusResponse status_ ABSL_GUARDED_BY(mu_);  // as of the last step, like the next one
  Prefill prefill_ ABSL_GUARDED_BY(mu_);
  // The newest version until it samples a token; nullopt after that, and before the first swap.
  std::optional<v1::SwapTimes> swapped_in_ ABSL_GUARDED_BY(mu_);
  std::chrono::nanoseconds swapped_at_ ABSL_GUARDED_BY(mu_){0};  // the end of its pause

  EngineCore core_;             // the step thread's
  base::Executor step_thread_;  // one thread that runs Run(); last: ends before the rest goes
};

}  // namespace ingot::rollout
