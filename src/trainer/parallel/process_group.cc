// The only file that includes Gloo.
#define USE_C10D_GLOO 1

#include "trainer/parallel/process_group.h"

#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include <cstdlib>
#include <utility>

namespace ingot::trainer {
namespace {

// Practically unlimited, but small enough that clocks can add it.
constexpr std::chrono::hours kNoLimit{24 * 365};

// c10d records every exchange in one process-wide table and writes part of it without its lock (2.11,
// FlightRecorder::recordWithResetEnabled), so the first exchanges of two groups on two threads corrupt it. Nothing
// reads the table here, so it is disabled. Set before main, when there are no other threads.
[[maybe_unused]] const int kNoFlightRecorder = setenv("TORCH_FR_BUFFER_SIZE", "0", 0);

class Gloo final : public c10d::ProcessGroupGloo {
 public:
  using c10d::ProcessGroupGloo::ProcessGroupGloo;

  void CloseConnections() {
    for (const auto& context : contexts_) context->closeConnections();
  }
};

}  // namespace

absl::StatusOr<ProcessGroup> MakeGlooGroup(const ProcessGroupOptions& options,
                                           const c10::intrusive_ptr<c10d::Store>& store) {
  try {
    auto gloo_options = c10d::ProcessGroupGloo::Options::create(options.join_timeout);
    gloo_options->devices.push_back(c10d::ProcessGroupGloo::createDeviceForHostname(options.host));
    auto group = c10::make_intrusive<Gloo>(store, options.rank, options.size, gloo_options);
    group->setTimeout(options.exchange_timeout.count() > 0 ? options.exchange_timeout : kNoLimit);
    return ProcessGroup{group, [group] { group->CloseConnections(); }};
  } catch (const std::exception& error) {
    return absl::UnavailableError(absl::StrCat("rank ", options.rank, " of ", options.size,
                                               " could not connect to the others from ", options.host, " within ",
                                               options.join_timeout.count(), " ms: ", error.what()));
  }
}

}  // namespace ingot::trainer
