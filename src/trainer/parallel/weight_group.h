// The trainer and a set of engines as a c10d group, in which the trainer, rank 0, broadcasts bytes: Gloo between
// processes, NCCL between their devices, by the same calls. weights/broadcast_set.h decides what the bytes are and
// which engines join.
//
// A broadcast and the connecting have a timeout. After an error the group is unusable. Thread safe: Abort may be called
// while another thread waits.
#pragma once

#include <chrono>
#include <memory>
#include <span>
#include <string>

#include "base/status.h"
#include "trainer/parallel/nccl_group.h"
#include "trainer/parallel/process_group.h"

namespace ingot::trainer {

struct WeightGroupOptions {
  int rank = 0;
  int size = 2;
  std::string host = "127.0.0.1";  // the meeting place, which rank 0 serves
  int port = 0;                    // for rank 0: 0 = a free one
  std::string own_host;            // this rank's address for the others
  std::string secret;              // of the meeting place
  std::chrono::milliseconds timeout{10000};
  // As in RankOptions; no two ranks share a device.
  std::string device = "cpu";
  decltype(&ingot_cuda_nccl_group) nccl = nullptr;
};

class WeightGroup {
 public:
  // Rank 0 listens at once, so that the port can be passed to the others. INVALID_ARGUMENT: it cannot listen.
  static absl::StatusOr<std::unique_ptr<WeightGroup>> Make(WeightGroupOptions options);
  ~WeightGroup();  // Abort

  const WeightGroupOptions& options() const { return options_; }

  // Blocks until all ranks are connected. DEADLINE_EXCEEDED: the timeout passed first.
  absl::Status Connect();
  // Gives every rank the bytes of rank 0; sizes are equal. ABORTED: it failed, or took longer than the timeout.
  absl::Status Broadcast(std::span<char> bytes);
  void Abort();

 private:
  struct State;
  WeightGroup(WeightGroupOptions options, int listener);

  WeightGroupOptions options_;
  const std::unique_ptr<State> state_;
};

}  // namespace ingot::trainer
