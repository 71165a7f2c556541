// The ranks of one trainer: processes that train each batch together. They run one agreed sequence of exchanges. Rank 0
// leads, and only it talks to the scheduler, the engines and the record of the run; the others follow.
//
//   Join      meet at host:port (a c10d store that rank 0 serves), connect: the process group and Liveness. A process
//             without the secret finds no key of the store, and Liveness rejects it; Gloo and NCCL know no secret
//   exchanges every rank makes the same ones in the same order; an exchange takes as long as the slowest rank works
//   Agree     before each exchange of a step: did any rank fail so far? Then all stop at the same place with the same
//             error, and can continue with other work
//   Want      asks the others for something meanwhile, whatever they do: ranks in Agree serve it, and agree only when
//             no rank wants anything
//
// When a rank is lost, every wait for it ends with RankLost, and the group is broken: all later calls return the same.
// Tensors are on the CPU (Gloo) or on the ranks' devices (NCCL), one device a rank. One thread at a time, which blocks.
#pragma once

#include <ATen/core/Tensor.h>

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "trainer/parallel/liveness.h"
#include "trainer/parallel/nccl_group.h"
#include "trainer/parallel/process_group.h"
#include "trainer/torch_edge.h"

namespace ingot::trainer {

struct RankOptions {
  int rank = 0;
  int size = 1;  // in [1, 128]
  std::string host = "127.0.0.1";
  int port = 0;          // the ranks' meeting place; rank 0 listens there, only at `host`
  std::string own_host;  // this rank's address for the others; empty = host
  // The same on all ranks, and not known to other programs that can connect to `port`. Empty = none.
  std::string secret;
  // The rank's device, as torch names it ("cuda:1"), and the function kNcclGroupSymbol of libingot_cuda.so. "cpu" and
  // null = tensors are only on the CPU. No two ranks share a device.
  std::string device = "cpu";
  decltype(&ingot_cuda_nccl_group) nccl = nullptr;
  std::chrono::milliseconds deadline{30000};         // of silence, after which a rank is lost
  std::chrono::milliseconds join_timeout{120000};    // for all ranks to connect
  std::function<void(const absl::Status&)> on_lost;  // LivenessOptions::on_lost

  absl::Status Validate() const;
};

class Ranks {
 public:
  // INVALID_ARGUMENT: wrong options, or only some ranks have devices; UNAVAILABLE: the port is taken, or not all ranks
  // connected in time. From here on the process ignores SIGPIPE, unless it has its own handler.
  static absl::StatusOr<std::unique_ptr<Ranks>> Join(const RankOptions& options);
  // A rank that did not Leave before counts as lost for the others.
  ~Ranks();

  int rank() const { return options_.rank; }
  int size() const { return options_.size; }
  bool leads() const { return rank() == 0; }

  // Exchanges. Each returns RankLost, or INTERNAL if the exchange failed; the group is broken then.
  //
  // `tensor`, contiguous and of one size and type on all ranks, gets root's values.
  absl::Status Broadcast(const at::Tensor& tensor, int root);
  // On `root` returns the tensors of all ranks (of one size and type) in the order of ranks, elsewhere nothing.
  absl::StatusOr<std::vector<at::Tensor>> Gather(const at::Tensor& tensor, int root);
  // Any bytes: root's on every rank, and every rank's in the order of ranks.
  absl::StatusOr<std::string> BroadcastBytes(std::string bytes, int root);
  absl::StatusOr<std::vector<std::string>> AllGatherBytes(const std::string& bytes);

  // OK if `own` is OK on every rank. Otherwise every rank gets the error of the lowest rank that has one, marked as
  // agreed (IsAgreed). An already agreed error is returned at once.
  absl::Status Agree(const absl::Status& own);

  // Asks all ranks for `what`, 0 or more. REQUIRES: every other rank is in Agree or Want, or will be. All of them then
  // call their Server with what each rank wants, by rank (kNothing = a rank in Agree), and it makes the exchanges.
  // Errors as Agree.
  static constexpr int64_t kNothing = -1;
  absl::Status Want(int64_t what);
  using Server = std::function<absl::Status(const std::vector<int64_t>& wanted)>;
  void ServeWith(Server server) { server_ = std::move(server); }

  static bool IsAgreed(const absl::Status& status);

  // Ends the group after this rank failed between exchanges of the others: they get RankLost. Returns `own`.
  absl::Status Break(const absl::Status& own);
  // Runs `body`, several exchanges in a row. A failure on only this rank would leave the others waiting, so it breaks
  // the group.
  template <typename Body>
  absl::Status BreakUnless(Body&& body) {
    const absl::Status status = AtTorchEdge("exchange", std::forward<Body>(body));
    return status.ok() ? status : Break(status);
  }
  bool broken() const { return !broken_.ok(); }

  // Says goodbye: the others may end or continue, and this rank does not count as lost. No exchange may follow.
  void Leave();

 private:
  Ranks(const RankOptions& options, ProcessGroup group, std::unique_ptr<Liveness> liveness);
  absl::Status JoinDevices(const c10::intrusive_ptr<c10d::Store>& store);
  template <typename Start>
  absl::Status Exchange(const char* what, const at::Tensor& tensor, Start start);
  absl::Status Wait(const char* what, c10d::Work& work, bool on_device);
  absl::StatusOr<std::vector<at::Tensor>> AllGather(const at::Tensor& tensor);
  absl::StatusOr<std::vector<int64_t>> Round(const absl::Status& own, int64_t wanted);
  absl::Status Serve(const std::vector<int64_t>& wanted);

  const RankOptions options_;
  ProcessGroup group_;
  NcclGroup device_group_;  // without devices its backend is null
  const std::unique_ptr<Liveness> liveness_;
  absl::Status broken_;
  Server server_;
};

// Whether this process is rank 0; null = the only rank.
inline bool Leads(const Ranks* ranks) { return ranks == nullptr || ranks->leads(); }
// Ranks::Agree; with one rank (null) `own`.
absl::Status Agree(Ranks* ranks, const absl::Status& own);
// Passes this rank's error in common work to the others, which get it at their next exchange.
absl::Status ShareError(Ranks* ranks, const absl::Status& own);
// An error of this rank before rank 0's order for common work. Rank 0 returns it at once, since no other rank has
// begun; the others share it.
absl::Status ShareEarlyError(Ranks* ranks, const absl::Status& own);

}  // namespace ingot::trainer
