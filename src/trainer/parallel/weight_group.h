// Connects the trainer and a set of engines as a c10d group. The trainer is rank 0 and broadcasts bytes to the engines,
// with Gloo between processes or with NCCL between their devices. Both use the same calls. weights/broadcast_set.h
// decides which bytes are sent and which engines join.
//
// Broadcast and Connect have a timeout. The group is unusable after an error. Thread safe: Abort may be called while
// another thread is waiting.
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
  int port = 0;                    // 0 = a free port (rank 0 only)
  std::string own_host;            // this rank's address for the others
  std::string secret;              // for the meeting place
  std::chrono::milliseconds timeout{10000};
  // As in RankOptions. Ranks must not share a device.
  std::string device = "cpu";
  decltype(&ingot_cuda_nccl_group) nccl = nullptr;
};

class WeightGroup {
 public:
  // Rank 0 listens immediately, so its port can be sent to the others. Returns INVALID_ARGUMENT if it cannot listen.
  static absl::StatusOr<std::unique_ptr<WeightGroup>> Make(WeightGroupOptions options);
  ~WeightGroup();  // calls Abort

  const WeightGroupOptions& options() const { return options_; }

  // Blocks until all ranks are connected. Returns DEADLINE_EXCEEDED if the timeout passes first.
  absl::Status Connect();
  // Sends rank 0's bytes to every rank. Sizes must be equal. Returns ABORTED if the broadcast failed or timed out.
  absl::Status Broadcast(std::span<char> bytes);
  void Abort();

 private:
  struct State;
  WeightGroup(WeightGroupOptions options, int listener);

  WeightGroupOptions options_;
  const std::unique_ptr<State> state_;
};

}  // namespace ingot::trainer
