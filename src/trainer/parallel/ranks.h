// Connects the ranks of one trainer: processes that train each batch together and run the same sequence of exchanges.
// Only rank 0, which leads, communicates with the scheduler, the engines, and the run's record.
//
//   Join      meets at host:port (a c10d store that rank 0 serves) and connects the process group and Liveness. A
//             process without the secret finds no keys in the store and is rejected by Liveness. Gloo and NCCL do
//             not check the secret.
//   exchanges every rank runs the same ones in the same order; an exchange is as slow as the slowest rank
//   Agree     called before each exchange of a step: if any rank has failed, all ranks stop at the same point with
//             the same error, and can continue with other work
//   Want      requests something from the others at any time. Ranks in Agree serve the request, and agree only when
//             no requests are left.
//
// When a rank is lost, all calls waiting for it return RankLost and the group is broken: all later calls return the
// same error. Tensors are on the CPU (Gloo) or on the ranks' devices (NCCL), one device per rank. Used by one thread at
// a time, which blocks.
#pragma once

#include <ATen/core/Tensor.h>

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "trainer/parallel/c10d_types.h"
#include "trainer/parallel/liveness.h"
#include "trainer/parallel/nccl_group.h"
#include "trainer/parallel/process_group.h"
#include "trainer/torch_edge.h"

namespace ingot::trainer {

struct RankOptions {
  int rank = 0;
  int size = 1;  // in [1, 128]
  std::string host = "127.0.0.1";
  int port = 0;          // the ranks' meeting place, where rank 0 listens, only on `host`
  std::string own_host;  // this rank's address for the others; empty = host
  // The same on all ranks. Other programs that can connect to `port` must not know it. Empty = none.
  std::string secret;
  // The rank's device in torch notation ("cuda:1"), and the function kNcclGroupSymbol in libingot_cuda.so. "cpu" and
  // null = all tensors are on the CPU. Ranks must not share a device.
  std::string device = "cpu";
  decltype(&ingot_cuda_nccl_group) nccl = nullptr;
  std::chrono::milliseconds deadline{30000};         // a rank that is silent for longer is lost
  std::chrono::milliseconds join_timeout{120000};    // maximum time for all ranks to connect
  std::function<void(const absl::Status&)> on_lost;  // LivenessOptions::on_lost

  absl::Status Validate() const;
};

class Ranks {
 public:
  // Returns INVALID_ARGUMENT if the options are wrong or only some ranks have devices, and UNAVAILABLE if the port is
  // taken or not all ranks connected in time. After this call, the process ignores SIGPIPE unless it has its own
  // handler.
  static absl::StatusOr<std::unique_ptr<Ranks>> Join(const RankOptions& options);
  // Unless Leave was called before, the others count this rank as lost.
  ~Ranks();

  int rank() const { return options_.rank; }
  int size() const { return options_.size; }
  bool leads() const { return rank() == 0; }

  // The exchanges return RankLost if a rank is lost, and INTERNAL if they failed. The group is broken after an error.
  //
  // Sets `tensor` to root's values on every rank. It must be contiguous and have the same size and type on all ranks.
  absl::Status Broadcast(const at::Tensor& tensor, int root);
  // Returns all ranks' tensors in rank order on `root`, and nothing elsewhere. They have the same size and type.
  absl::StatusOr<std::vector<at::Tensor>> Gather(const at::Tensor& tensor, int root);
  // Exchange arbitrary bytes. BroadcastBytes returns root's bytes on every rank, and AllGatherBytes returns every
  // rank's bytes in rank order. GatherBytes returns them on `root`, and nothing elsewhere.
  absl::StatusOr<std::string> BroadcastBytes(std::string bytes, int root);
  absl::StatusOr<std::vector<std::string>> GatherBytes(const std::string& bytes, int root);
  absl::StatusOr<std::vector<std::string>> AllGatherBytes(const std::string& bytes);

  // Returns OK if `own` is OK on every rank. Otherwise, every rank gets the error from the lowest failed rank, marked
  // as agreed (IsAgreed). If that error is a base::DeviceFailure, the other ranks get a RankLost with its message.
  // Returns immediately if the error is already agreed.
  absl::Status Agree(const absl::Status& own);

  // Requests `what` >= 0 from all ranks. REQUIRES: every other rank is in Agree or Want, or will be. All ranks then
  // call their Server with each rank's request, by rank (kNothing = the rank is in Agree). The Server performs the
  // exchanges. Same errors as Agree.
  static constexpr int64_t kNothing = -1;
  absl::Status Want(int64_t what);
  using Server = std::function<absl::Status(const std::vector<int64_t>& wanted)>;
  void ServeWith(Server server) { server_ = std::move(server); }

  static bool IsAgreed(const absl::Status& status);

  // Ends the group after this rank has failed while the others are in an exchange. The others get RankLost. Returns
  // `own`.
  absl::Status Break(const absl::Status& own);
  // Runs `body`, a series of exchanges. If only this rank fails, the group breaks, because the others would wait for
  // it.
  template <typename Body>
  absl::Status BreakUnless(Body&& body) {
    const absl::Status status = AtTorchEdge("exchange", std::forward<Body>(body));
    return status.ok() ? status : Break(status);
  }
  bool broken() const { return !broken_.ok(); }

  // Sends a goodbye, so that the others do not count this rank as lost. They may exit or continue. No exchange may
  // follow.
  void Leave();

 private:
  Ranks(const RankOptions& options, ProcessGroup group, std::unique_ptr<Liveness> liveness);
  absl::Status JoinDevices(const c10::intrusive_ptr<c10d::Store>& store);
  template <typename Start>
  absl::Status Exchange(const char* what, const at::Tensor& tensor, Start start);
  absl::Status Wait(const char* what, c10d::Work& work, bool on_device);
  absl::StatusOr<std::vector<at::Tensor>> AllGather(const at::Tensor& tensor);
  // Returns what `collect` returns for all ranks' bytes, padded to the same size.
  template <typename Collect>
  absl::StatusOr<std::vector<std::string>> ExchangeBytes(const std::string& bytes, Collect collect);
  absl::StatusOr<std::vector<int64_t>> Round(const absl::Status& own, int64_t wanted);
  absl::Status Serve(const std::vector<int64_t>& wanted);

  const RankOptions options_;
  ProcessGroup group_;
  NcclGroup device_group_;  // null backend = no devices
  const std::unique_ptr<Liveness> liveness_;
  absl::Status broken_;
  Server server_;
};

// Returns whether this process is rank 0. Null `ranks` = the only rank.
inline bool Leads(const Ranks* ranks) { return ranks == nullptr || ranks->leads(); }
// Calls Ranks::Agree, or returns `own` if `ranks` is null (one rank).
absl::Status Agree(Ranks* ranks, const absl::Status& own);
// Reports this rank's error during joint work to the others, which receive it at their next exchange.
absl::Status ShareError(Ranks* ranks, const absl::Status& own);
// Handles an error on this rank before rank 0's order for joint work. Rank 0 returns it immediately, because no other
// rank has started. The other ranks share it.
absl::Status ShareEarlyError(Ranks* ranks, const absl::Status& own);

}  // namespace ingot::trainer
