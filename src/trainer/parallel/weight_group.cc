#include "trainer/parallel/weight_group.h"

#include <ATen/ATen.h>
#include <unistd.h>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include <algorithm>
#include <functional>
#include <thread>
#include <utility>

#include "base/mutex.h"
#include "trainer/parallel/meeting_place.h"

namespace ingot::trainer {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int64_t kPieceBytes = int64_t{256} << 20;  // per exchange
constexpr std::chrono::milliseconds kWaitSlice{50};  // polling interval of a wait that has its own timeout

}  // namespace

struct WeightGroup::State {
  int listener = -1;  // owned by rank 0 until the store takes it over
  c10::intrusive_ptr<c10d::Store> store;
  base::Mutex mu;
  ProcessGroup group ABSL_GUARDED_BY(mu);
  NcclGroup devices ABSL_GUARDED_BY(mu);
  bool aborted ABSL_GUARDED_BY(mu) = false;
};

absl::StatusOr<std::unique_ptr<WeightGroup>> WeightGroup::Make(WeightGroupOptions options) {
  if (options.size < 2 || options.rank < 0 || options.rank >= options.size) {
    return absl::InvalidArgumentError(
        absl::StrCat("rank ", options.rank, " of ", options.size, " is not a valid rank"));
  }
  SurviveClosedSockets();
  int listener = -1;
  if (options.rank == 0) {
    INGOT_ASSIGN_OR_RETURN(listener, ListenForRanks(options.host, &options.port));
  }
  return std::unique_ptr<WeightGroup>(new WeightGroup(std::move(options), listener));
}

WeightGroup::WeightGroup(WeightGroupOptions options, int listener)
    : options_(std::move(options)), state_(std::make_unique<State>()) {
  state_->listener = listener;
}

WeightGroup::~WeightGroup() {
  Abort();
  if (state_->listener >= 0) ::close(state_->listener);
}

absl::Status WeightGroup::Connect() {
  const MeetingOptions meeting{options_.host,      options_.port, options_.secret,
                               options_.rank == 0, options_.size, options_.timeout};
  auto store = OpenMeetingPlace(meeting, std::exchange(state_->listener, -1));
  if (!store.ok()) return absl::DeadlineExceededError(store.status().message());
  state_->store = *store;
  ProcessGroupOptions options{options_.own_host.empty() ? options_.host : options_.own_host, options_.rank,
                              options_.size, options_.timeout, options_.timeout};
  absl::StatusOr<ProcessGroup> group = MakeGlooGroup(options, *store);
  if (!group.ok()) return absl::DeadlineExceededError(group.status().message());
  {
    base::MutexLock lock(state_->mu);
    if (state_->aborted) return absl::DeadlineExceededError("the group has ended");
    state_->group = *std::move(group);
    if (options_.nccl != nullptr) {
      try {
        options_.nccl(c10::make_intrusive<c10d::PrefixStore>("ingot/devices", *store), options_.rank, options_.size,
                      &state_->devices);
      } catch (const std::exception& error) {
        return absl::DeadlineExceededError(error.what());
      }
    }
  }
  // A rank may be connected before the others are, and NCCL connects at the first exchange.
  char first = 0;
  const absl::Status connected = Broadcast({&first, 1});
  return connected.ok() ? connected : absl::DeadlineExceededError(connected.message());
}

absl::Status WeightGroup::Broadcast(std::span<char> bytes) {
  c10::intrusive_ptr<c10d::Backend> backend;
  {
    base::MutexLock lock(state_->mu);
    if (state_->aborted || state_->group.backend == nullptr) return absl::AbortedError("the group has ended");
    backend = options_.nccl == nullptr ? state_->group.backend : state_->devices.backend;
  }
  const bool on_device = options_.nccl != nullptr;
  const Clock::time_point deadline = Clock::now() + options_.timeout;
  const auto fail = [&](const std::string& why) {
    Abort();
    return absl::AbortedError(absl::StrCat("the broadcast to ", options_.size - 1, " engines failed: ", why));
  };
  try {
    for (int64_t at = 0; at < std::ssize(bytes); at += kPieceBytes) {
      const int64_t count = std::min(kPieceBytes, std::ssize(bytes) - at);
      const at::Tensor host = at::from_blob(bytes.data() + at, {count}, at::kByte);
      std::vector<at::Tensor> tensors = {on_device ? host.to(options_.device) : host};
      const c10::intrusive_ptr<c10d::Work> work = backend->broadcast(tensors, c10d::BroadcastOptions());
      while (!work->isCompleted()) {
        if (on_device) {
          if (Clock::now() >= deadline)
            return fail(absl::StrCat("it did not finish within ", options_.timeout.count(), " ms"));
          std::this_thread::sleep_for(kDevicePoll);
          continue;
        }
        // Gloo ends its work on its own, at the group's timeout. Until then, it uses `bytes`.
        try {
          work->wait(kWaitSlice);
        } catch (const std::exception&) {  // handled below
        }
      }
      if (work->exception() != nullptr) std::rethrow_exception(work->exception());
      if (!on_device) continue;
      work->synchronize();
      host.copy_(tensors[0]);
    }
  } catch (const c10::Error& error) {
    return fail(error.what_without_backtrace());
  } catch (const std::exception& error) {
    return fail(error.what());
  }
  return absl::OkStatus();
}

void WeightGroup::Abort() {
  std::function<void()> group, devices;
  {
    base::MutexLock lock(state_->mu);
    state_->aborted = true;
    group = std::exchange(state_->group.abort, nullptr);
    devices = std::exchange(state_->devices.abort, nullptr);
  }
  if (devices != nullptr) devices();
  if (group != nullptr) group();
}

}  // namespace ingot::trainer
