// The rollout engine samples ids for calls (as a Client) and receives new weights (as a Sink). One step thread runs an
// EngineCore. All other threads communicate with it through an inbox that the step thread empties between steps.
//
//   Generate --> inbox --+                       +--> OnChunk (on the step thread)
//   ~Request -> closed --+--> step thread: step -+
//   Update --> decode, verify, load (caller's thread) --> swapped in between two steps --> returns
//   Share  -->                 load (caller's thread) --> swapped in between two steps --> returns
//
// A swap to a newer version does not stop running requests. A request keeps its KV cache, which is then recorded as
// mixed. After a swap to an older version, requests with a later min_version end with UNAVAILABLE. A pinned request
// uses its version until it ends, and the version stays in memory until then. With rollout.episode_version: pinned, so
// does a request with a preferred version, for which the engine also keeps the last few versions.
//
// The engine keeps the newest version and the retained versions. If a version number is pushed twice with different
// weights, requests that pin the number get the latest push.
//
// Thread safe. Generate and Status never wait for a step. Generate compiles new grammars (grammar/grammar.h), and the
// first grammar reads the whole vocabulary. Update and Release run on the sender's threads. The engine does not depend
// on torch because ModelRunner hides the model (NewTorchRunner in rollout/engine/torch_runner.h).
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
#include "rollout/engine/engine_core.h"
#include "rollout/engine/engine_options.h"
#include "rollout/engine/loaded_versions.h"
#include "rollout/engine/sequence_maker.h"
#include "rollout/parking.h"
#include "rollout/served_engine.h"
#include "text/tokenizer/tokenizer.h"

namespace ingot::rollout {

class Engine final : public ServedEngine, public Parking {
 public:
  // The objects that an engine uses. `runner` must not be null.
  struct Parts {
    std::unique_ptr<ModelRunner> runner;
    std::shared_ptr<const text::Tokenizer> tokenizer;  // null = requests with stop strings or grammars fail
    const base::Clock* clock = &base::Clock::Real();   // must outlive the engine
    std::vector<std::unique_ptr<Drafter>> drafters{};  // replace those of options.speculation; empty = those
    std::shared_ptr<kv::Store> store{};                // KV that engines share (options.kv_store); null = none
  };

  // Starts the step thread. If `initial` is null, requests wait for the first Update. Returns INVALID_ARGUMENT if an
  // option or the snapshot does not match the model.
  static absl::StatusOr<std::unique_ptr<Engine>> Create(const EngineOptions& options, Parts parts,
                                                        std::shared_ptr<const weights::Snapshot> initial);
  ~Engine() override;  // calls Shutdown()

  bool Drain(std::chrono::nanoseconds timeout) override;
  void Shutdown() override;  // also stops the step thread
  // Set once the device failed, once forward passes have failed for too long (EngineCore::fault), or once
  // kMaxFailedLoads versions in a row found no memory. Never a transient error (base/retry.h). From then on, requests end
  // with UNAVAILABLE.
  absl::Status fault() const override;

  std::unique_ptr<Request> Generate(v1::GenerateRequest request, OnChunk on_chunk) override;
  absl::StatusOr<v1::EngineStatusResponse> Status() override;

  // See weights::Sink. Updates are applied one at a time. Returns INVALID_ARGUMENT if the update has more bytes than
  // the model. Returns DEADLINE_EXCEEDED and changes nothing if the running step did not end within update_deadline_ms.
  // If the version and checksum are already live, returns OK without a swap. If max_retained_versions versions are
  // already retained, a new version still becomes live, the response reports that it is not retained, and
  // Place::kBeside returns RESOURCE_EXHAUSTED.
  absl::StatusOr<v1::UpdateWeightsResponse> Update(const weights::EncodedDelta& delta) override {
    return UpdateUnless(delta, [] { return false; });
  }
  absl::StatusOr<v1::UpdateWeightsResponse> UpdateUnless(const weights::EncodedDelta& delta,
                                                         const std::function<bool()>& cancelled) override;
  // Same as Update, but uses the tensors of a snapshot in this process, which are not verified.
  bool SharesMemory() const override { return true; }
  absl::StatusOr<v1::UpdateWeightsResponse> Share(const std::shared_ptr<const weights::Snapshot>& snapshot,
                                                  weights::Place place) override;
  // Retains a version in this process without making it live. Requests may pin it until it is released. It has its own
  // KV cache. Returns RESOURCE_EXHAUSTED if the engine already retains the maximum number of versions, and
  // INVALID_ARGUMENT if the snapshot is for another model or the engine already has its version number.
  absl::Status Hold(std::shared_ptr<const weights::Snapshot> snapshot);
  absl::Status Release(int64_t version) override;
  absl::StatusOr<int64_t> LiveVersion() override;
  absl::StatusOr<std::vector<weights::HeldVersion>> HeldVersions() override;

  // See Parking. Weights stay in memory, because the next version may be a delta from them.
  absl::StatusOr<v1::ParkResponse> Park(const v1::ParkRequest& request) override;
  absl::Status Resume() override;

  // Returns the newest live weights, or null before the first update.
  std::shared_ptr<const weights::Snapshot> newest() const;
  const EngineOptions& options() const override { return options_; }
  const weights::CodecOptions& codec() const override { return codec_; }

 private:
  class Handle;
  static constexpr int kMaxFailedLoads = 3;
  struct Wake;  // lets a request handle wake the step thread; may outlive the engine
  struct Swap {
    LoadedVersion next;
    std::vector<LoadedVersion> previous;  // this and `replaced` are freed on the sender's thread, not between two steps
    LoadedVersion replaced;
    bool retain = false;
    bool done = false;
    std::chrono::nanoseconds posted{0};
    v1::SwapTimes times;  // once done, complete except for the first token
  };
  // A version that a sender wants to add to the engine.
  struct WantedVersion {
    const v1::Manifest& target;
    weights::Place place;
    // Creates the snapshot from the live snapshot, or from null for Place::kBeside.
    std::function<absl::StatusOr<std::shared_ptr<const weights::Snapshot>>(
        const std::shared_ptr<const weights::Snapshot>& live)>
        make;
    const std::function<bool()>& cancelled;
    std::chrono::nanoseconds fetch;
  };

  Engine(const EngineOptions& options, Parts parts);
  static std::optional<KvTransfer::Parts> TransferOf(Parts& parts, const EngineOptions& options,
                                                     const std::shared_ptr<Wake>& wake);
  absl::Status Enqueue(std::unique_ptr<Sequence> sequence);
  bool HasRoom(int64_t version);  // true = the engine can retain this version
  absl::StatusOr<v1::UpdateWeightsResponse> TakeUpdate(const WantedVersion& wanted)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(update_mu_);
  absl::Status HoldVersion(const WantedVersion& wanted) ABSL_EXCLUSIVE_LOCKS_REQUIRED(update_mu_);
  absl::StatusOr<LoadedVersion> LoadVersion(std::shared_ptr<const weights::Snapshot> snapshot)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(update_mu_);
  // Counts a failed load, which may be a fault.
  void NoteFailedLoad(const absl::Status& error) ABSL_EXCLUSIVE_LOCKS_REQUIRED(update_mu_);
  // Returns `times` with the swap's times added.
  absl::StatusOr<v1::SwapTimes> SwapIn(LoadedVersion next, bool retain, v1::SwapTimes times)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(update_mu_);
  // Completes swapped_in_ if the last step, which took `busy`, sampled with the newest version.
  void NoteFirstToken(std::chrono::nanoseconds busy) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Run();
  void WakeStepThread();
  bool TakeInbox();
  // On the step thread, between steps (engine_parking.cc): parks or resumes the core if that is wanted.
  void FollowParking();
  bool WantsToPark() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
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

  SequenceMaker sequences_;  // has its own synchronization

  base::Mutex update_mu_;  // one update at a time; acquired before mu_
  uint64_t next_salt_ ABSL_GUARDED_BY(update_mu_) = 1;
  int failed_loads_ ABSL_GUARDED_BY(update_mu_) = 0;  // in a row

  mutable base::Mutex mu_;
  // Signaled when a swap is done, when draining starts, when a draining engine's last request has ended, and when the
  // engine parks or resumes.
  base::CondVar swapped_;
  std::deque<std::unique_ptr<Sequence>> inbox_ ABSL_GUARDED_BY(mu_);
  Swap* swap_ ABSL_GUARDED_BY(mu_) = nullptr;  // posted and owned by SwapIn
  LoadedVersions versions_ ABSL_GUARDED_BY(mu_);
  int64_t next_order_ ABSL_GUARDED_BY(mu_) = 0;
  int64_t outstanding_ ABSL_GUARDED_BY(mu_) = 0;  // accepted requests that have not ended
  bool draining_ ABSL_GUARDED_BY(mu_) = false;
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  // Parking. `parked_` follows `park_until_`, or has the error of the runner, which cannot park.
  std::chrono::nanoseconds park_until_ ABSL_GUARDED_BY(mu_){0};  // end of the lease; 0 = do not park
  bool parked_ ABSL_GUARDED_BY(mu_) = false;
  absl::StatusOr<int64_t> freed_bytes_ ABSL_GUARDED_BY(mu_) = 0;  // of the last Park that the step thread executed
  absl::Status fault_ ABSL_GUARDED_BY(mu_);
  v1::EngineStatusResponse status_ ABSL_GUARDED_BY(mu_);  // as of the last step
  Prefill prefill_ ABSL_GUARDED_BY(mu_);                  // as of the last step
  // Times of the newest version until it samples a token; nullopt after that, and before the first swap.
  std::optional<v1::SwapTimes> swapped_in_ ABSL_GUARDED_BY(mu_);
  std::chrono::nanoseconds swapped_at_ ABSL_GUARDED_BY(mu_){0};  // end of the pause for its swap

  EngineCore core_;  // used by the step thread
  // runs Run() on one thread; declared last, so it stops before other members are destroyed
  base::Executor step_thread_;
};

}  // namespace ingot::rollout
