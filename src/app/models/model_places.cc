#include "app/models/model_places.h"

#include <chrono>
#include <utility>

#include "app/run/named_models.h"

namespace ingot::app {
namespace {

// Collects the response to one request for the thread that waits for it.
class Answer {
 public:
  void AddChunk(absl::StatusOr<v1::GenerateChunk> chunk) {
    base::MutexLock lock(mu_);
    if (!chunk.ok()) {
      error_ = chunk.status();
      done_ = true;
    } else {
      whole_.MergeFrom(*chunk);
      done_ = chunk->finish() != v1::FINISH_UNSPECIFIED;
    }
    changed_.SignalAll();
  }
  absl::StatusOr<v1::GenerateChunk> Wait(double seconds) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
    base::MutexLock lock(mu_);
    while (!done_) {
      const auto left = deadline - std::chrono::steady_clock::now();
      if (left <= left.zero()) return absl::UnavailableError("the model did not respond in time");
      changed_.WaitFor(mu_, std::chrono::duration_cast<std::chrono::nanoseconds>(left));
    }
    if (!error_.ok()) return error_;
    return whole_;
  }

 private:
  base::Mutex mu_;
  base::CondVar changed_;
  bool done_ ABSL_GUARDED_BY(mu_) = false;
  absl::Status error_ ABSL_GUARDED_BY(mu_);
  v1::GenerateChunk whole_ ABSL_GUARDED_BY(mu_);
};

}  // namespace

absl::StatusOr<ModelPlaces::Place> ModelPlaces::PlaceOf(const std::string& name) const {
  base::MutexLock lock(mu_);
  if (const auto known = places_.find(name); known != places_.end()) return known->second;
  const gateway::ModelOptions* model = FindModel(gateway_, name);
  if (model == nullptr) return absl::NotFoundError(absl::StrCat("gateway.models has no model '", name, "'"));
  Place place;
  const bool pinned = model->weights == gateway::ModelWeights::kPinned;
  if (pinned) {
    place.client = own_;
  } else if (const auto found = external_.find(name); found != external_.end()) {
    place.client = found->second;
  }
  if (place.client == nullptr) return absl::NotFoundError(absl::StrCat("no engine here serves '", name, "'"));
  const absl::StatusOr<v1::EngineStatusResponse> status = place.client->Status();
  if (!status.ok()) {
    return absl::UnavailableError(absl::StrCat("model '", name, "' does not respond: ", status.status().message()));
  }
  if (!pinned && status->version() < 0) {
    return absl::UnavailableError(absl::StrCat("model '", name, "' has no weights yet"));
  }
  place.version = pinned ? model->version : status->version();
  place.tokenizer = status->tokenizer_fingerprint();
  places_.emplace(name, place);
  return place;
}

absl::StatusOr<v1::GenerateChunk> ModelPlaces::Ask(rollout::Client& client, v1::GenerateRequest request,
                                                   double seconds) {
  Answer answer;
  const auto handle = client.Generate(
      std::move(request), [&answer](absl::StatusOr<v1::GenerateChunk> chunk) { answer.AddChunk(std::move(chunk)); });
  absl::StatusOr<v1::GenerateChunk> chunk = answer.Wait(seconds);
  if (absl::IsResourceExhausted(chunk.status()) || absl::IsDeadlineExceeded(chunk.status()))
    return absl::UnavailableError(chunk.status().message());
  return chunk;
}

}  // namespace ingot::app
