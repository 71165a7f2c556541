#include "trainer/parallel/ranks.h"

#include <ATen/ATen.h>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/Types.hpp>

#include <algorithm>
#include <thread>
#include <utility>

#include "absl/strings/cord.h"
#include "base/device_failure.h"
#include "base/log.h"
#include "base/waits.h"
#include "trainer/parallel/meeting_place.h"

namespace ingot::trainer {
namespace {

using std::chrono::milliseconds;

constexpr char kAgreedPayload[] = "ingot.agreed";
constexpr char kBeatsKey[] = "beats_port";
constexpr milliseconds kSlice{200};  // interval at which a wait checks whether all ranks are alive

// Exchanges only copy data, so bytes are sufficient. Gloo does not support all of our types.
at::Tensor AsBytes(const at::Tensor& tensor) { return tensor.detach().view({-1}).view(at::kByte); }

at::Tensor BytesOf(const std::string& text, int64_t size) {
  at::Tensor bytes = at::zeros({size}, at::kByte);
  std::copy(text.begin(), text.end(), static_cast<char*>(bytes.mutable_data_ptr()));  // the text may be empty
  return bytes;
}

std::string TextOf(const at::Tensor& bytes, int64_t size) {
  if (size == 0) return {};
  return {static_cast<const char*>(bytes.const_data_ptr()), static_cast<size_t>(size)};
}

// Returns the error that all ranks get from one that failed. A rank whose device failed is lost to the others: its
// process must end, and the group can continue from the last checkpoint.
absl::Status AgreedError(absl::StatusCode code, const std::string& text, bool device_failed, bool own) {
  absl::Status agreed = !device_failed ? absl::Status(code, text) : own ? base::DeviceFailure(text) : RankLost(text);
  agreed.SetPayload(kAgreedPayload, absl::Cord("1"));
  return agreed;
}

absl::Status JoinFailed(const RankOptions& options, const std::string& why) {
  return RankLost(absl::StrCat("rank ", options.rank, " of ", options.size, " could not join the others at ",
                               options.host, ":", options.port, " within ", options.join_timeout.count(),
                               " ms: ", why));
}

absl::StatusOr<c10::intrusive_ptr<c10d::Store>> MeetRanks(const RankOptions& options) {
  MeetingOptions meeting{options.host,      options.port, options.secret,
                         options.rank == 0, options.size, options.join_timeout};
  int fd = -1;
  if (meeting.serves) {  // listens first, so that a port in use is rank 0's own error and not a lost rank
    INGOT_ASSIGN_OR_RETURN(fd, ListenForRanks(options.host, &meeting.port));
  }
  absl::StatusOr<c10::intrusive_ptr<c10d::Store>> store = OpenMeetingPlace(meeting, fd);
  if (!store.ok()) return JoinFailed(options, std::string(store.status().message()));
  return store;
}

absl::StatusOr<std::unique_ptr<Liveness>> BeginBeats(const RankOptions& options, c10d::Store& store) {
  const LivenessOptions beats{options.rank,     options.size,         options.host,   options.secret,
                              options.deadline, options.join_timeout, options.on_lost};
  if (options.rank == 0) {
    INGOT_ASSIGN_OR_RETURN(std::unique_ptr<Liveness> leader, Liveness::Listen(beats));
    const std::string port = absl::StrCat(leader->port());
    store.set(kBeatsKey, std::vector<uint8_t>(port.begin(), port.end()));
    INGOT_RETURN_IF_ERROR(leader->Accept());
    return leader;
  }
  const std::vector<uint8_t> port = store.get(kBeatsKey);
  return Liveness::Connect(beats, std::atoi(std::string(port.begin(), port.end()).c_str()));
}

}  // namespace

absl::Status RankOptions::Validate() const {
  if (size < 1 || size > 128) return absl::InvalidArgumentError("a trainer must have 1 to 128 ranks");
  if (rank < 0 || rank >= size) {
    return absl::InvalidArgumentError(absl::StrCat("rank ", rank, " is not one of ", size, " (from 0)"));
  }
  if (deadline.count() < 1 || join_timeout.count() < 1) {
    return absl::InvalidArgumentError("the ranks' deadlines must be above 0");
  }
  if ((device == "cpu") != (nccl == nullptr)) {
    return absl::InvalidArgumentError(absl::StrCat("ranks on ", device, " need the device library's collectives"));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Ranks>> Ranks::Join(const RankOptions& options) {
  INGOT_RETURN_IF_ERROR(options.Validate());
  SurviveClosedSockets();
  const base::Wait wait(absl::StrCat("the trainer's other ranks to join at ", options.host, ":", options.port),
                        base::WaitKind::kWork);  // starting a rank may take as long as loading a model
  INGOT_ASSIGN_OR_RETURN(const c10::intrusive_ptr<c10d::Store> store, MeetRanks(options));
  try {
    INGOT_ASSIGN_OR_RETURN(std::unique_ptr<Liveness> liveness, BeginBeats(options, *store));
    ProcessGroupOptions group_options{options.own_host.empty() ? options.host : options.own_host, options.rank,
                                      options.size, options.join_timeout};
    absl::StatusOr<ProcessGroup> group = MakeGlooGroup(group_options, store);
    if (!group.ok()) {
      return absl::IsUnavailable(group.status()) ? RankLost(std::string(group.status().message())) : group.status();
    }
    std::unique_ptr<Ranks> joined(new Ranks(options, *std::move(group), std::move(liveness)));
    // A rank may be connected before the others are. The first exchange blocks all ranks until all are connected.
    INGOT_RETURN_IF_ERROR(joined->JoinDevices(store));
    INGOT_LOG(info, "rank {} of {}: all ranks are connected", options.rank, options.size);
    return joined;
  } catch (const std::exception& error) {
    return JoinFailed(options, error.what());
  }
}

Ranks::Ranks(const RankOptions& options, ProcessGroup group, std::unique_ptr<Liveness> liveness)
    : options_(options), group_(std::move(group)), liveness_(std::move(liveness)) {}

Ranks::~Ranks() = default;

absl::Status Ranks::JoinDevices(const c10::intrusive_ptr<c10d::Store>& store) {
  const bool here = options_.nccl != nullptr;
  INGOT_ASSIGN_OR_RETURN(const std::vector<at::Tensor> all, AllGather(at::full({1}, here ? 1 : 0, at::kByte)));
  for (size_t r = 0; r < all.size(); ++r) {
    if ((all[r].item<uint8_t>() != 0) == here) continue;
    return absl::InvalidArgumentError(absl::StrCat("rank ", rank(), " computes on ", options_.device, ", rank ", r,
                                                   here ? " on the CPU" : " on a device",
                                                   ": set device to cpu, or to cuda if every rank has a GPU"));
  }
  if (!here) return absl::OkStatus();
  options_.nccl(c10::make_intrusive<c10d::PrefixStore>("ingot/devices", store), rank(), size(), &device_group_);
  // NCCL connects at the first exchange. This makes it connect now, not in the middle of a step.
  return AllGather(at::zeros({1}, at::dtype(at::kByte).device(options_.device))).status();
}

void Ranks::Leave() { liveness_->Leave(); }

absl::Status Ranks::Break(const absl::Status& own) {
  if (broken_.ok()) {
    broken_ = own;
    group_.abort();
    if (device_group_.backend != nullptr) device_group_.abort();
  }
  return own;
}

absl::Status Ranks::Wait(const char* what, c10d::Work& work, bool on_device) {
  // Reports a suspended or dead rank as lost. A rank that is computing may take any amount of time.
  const base::Wait wait(absl::StrCat("the trainer's other ranks (", what, ")"), base::WaitKind::kWork);
  while (!work.isCompleted()) {
    if (on_device) {
      std::this_thread::sleep_for(kDevicePoll);
    } else {
      try {
        work.wait(kSlice);
      } catch (const std::exception&) {  // handled below
      }
    }
    if (work.isCompleted()) break;
    if (const absl::Status lives = liveness_->status(); !lives.ok()) return Break(base::Annotate(lives, what));
  }
  if (work.exception() == nullptr) {
    if (on_device) work.synchronize();  // makes later computation wait for it
    return absl::OkStatus();
  }
  try {
    std::rethrow_exception(work.exception());
  } catch (const std::exception& error) {
    const absl::Status own = model::FromTorchException(error, kMemoryAdvice);
    if (base::IsDeviceFailure(own)) return Break(base::Annotate(own, what));
    // A connection fails before Liveness has detected which rank is lost.
    return Break(RankLost(absl::StrCat(what, ": rank ", rank(), " lost another rank: ", error.what())));
  }
}

template <typename Start>
absl::Status Ranks::Exchange(const char* what, const at::Tensor& tensor, Start start) {
  if (!broken_.ok()) return broken_;
  try {
    const bool on_device = !tensor.is_cpu();
    TORCH_CHECK(!on_device || device_group_.backend != nullptr, "a tensor on ", tensor.device(),
                " among ranks that joined without devices");
    const c10::intrusive_ptr<c10d::Work> work = start(on_device ? *device_group_.backend : *group_.backend);
    return Wait(what, *work, on_device);
  } catch (const std::exception& error) {
    return Break(base::Annotate(model::FromTorchException(error, kMemoryAdvice), what));
  }
}

absl::Status Ranks::Broadcast(const at::Tensor& tensor, int root) {
  if (tensor.numel() == 0) return absl::OkStatus();
  std::vector<at::Tensor> tensors = {AsBytes(tensor)};
  return Exchange("broadcast", tensor, [&](c10d::Backend& backend) {
    c10d::BroadcastOptions options;
    options.rootRank = root;
    return backend.broadcast(tensors, options);
  });
}

absl::StatusOr<std::vector<at::Tensor>> Ranks::Gather(const at::Tensor& tensor, int root) {
  std::vector<at::Tensor> inputs = {AsBytes(tensor)};
  std::vector<std::vector<at::Tensor>> outputs;
  if (rank() == root) {
    outputs.emplace_back();
    for (int r = 0; r < size(); ++r) outputs[0].push_back(at::empty_like(inputs[0]));
  }
  INGOT_RETURN_IF_ERROR(Exchange("gather", tensor, [&](c10d::Backend& backend) {
    c10d::GatherOptions options;
    options.rootRank = root;
    return backend.gather(outputs, inputs, options);
  }));
  std::vector<at::Tensor> gathered;
  if (rank() != root) return gathered;
  for (const at::Tensor& bytes : outputs[0]) gathered.push_back(bytes.view(tensor.scalar_type()).view(tensor.sizes()));
  return gathered;
}

absl::StatusOr<std::vector<at::Tensor>> Ranks::AllGather(const at::Tensor& tensor) {
  std::vector<at::Tensor> inputs = {AsBytes(tensor)};
  std::vector<std::vector<at::Tensor>> outputs(1);
  for (int r = 0; r < size(); ++r) outputs[0].push_back(at::empty_like(inputs[0]));
  INGOT_RETURN_IF_ERROR(Exchange("all-gather", tensor, [&](c10d::Backend& backend) {
    return backend.allgather(outputs, inputs, c10d::AllgatherOptions());
  }));
  for (at::Tensor& bytes : outputs[0]) bytes = bytes.view(tensor.scalar_type());
  return outputs[0];
}

absl::StatusOr<std::string> Ranks::BroadcastBytes(std::string bytes, int root) {
  const at::Tensor size = at::full({1}, static_cast<int64_t>(bytes.size()), at::kLong);
  INGOT_RETURN_IF_ERROR(Broadcast(size, root));
  const auto count = size.item<int64_t>();
  const at::Tensor buffer = rank() == root ? BytesOf(bytes, count) : at::empty({count}, at::kByte);
  INGOT_RETURN_IF_ERROR(Broadcast(buffer, root));
  return rank() == root ? std::move(bytes) : TextOf(buffer, count);
}

absl::StatusOr<std::vector<std::string>> Ranks::AllGatherBytes(const std::string& bytes) {
  return ExchangeBytes(bytes, [this](const at::Tensor& own) { return AllGather(own); });
}

absl::StatusOr<std::vector<std::string>> Ranks::GatherBytes(const std::string& bytes, int root) {
  return ExchangeBytes(bytes, [&](const at::Tensor& own) { return Gather(own, root); });
}

template <typename Collect>
absl::StatusOr<std::vector<std::string>> Ranks::ExchangeBytes(const std::string& bytes, Collect collect) {
  INGOT_ASSIGN_OR_RETURN(const std::vector<at::Tensor> sizes,
                         AllGather(at::full({1}, static_cast<int64_t>(bytes.size()), at::kLong)));
  int64_t largest = 1;  // gathered tensors must have the same size
  for (const at::Tensor& size : sizes) largest = std::max(largest, size.item<int64_t>());
  INGOT_ASSIGN_OR_RETURN(const std::vector<at::Tensor> all, collect(BytesOf(bytes, largest)));
  std::vector<std::string> texts;
  for (size_t r = 0; r < all.size(); ++r) texts.push_back(TextOf(all[r], sizes[r].item<int64_t>()));
  return texts;
}

absl::Status Ranks::Agree(const absl::Status& own) {
  if (IsAgreed(own)) return own;
  if (!broken_.ok()) return own.ok() ? broken_ : own;
  while (true) {
    INGOT_ASSIGN_OR_RETURN(const std::vector<int64_t> wanted, Round(own, kNothing));
    if (std::all_of(wanted.begin(), wanted.end(), [](int64_t what) { return what == kNothing; })) {
      return absl::OkStatus();
    }
    INGOT_RETURN_IF_ERROR(Serve(wanted));
  }
}

absl::Status Ranks::Want(int64_t what) {
  if (!broken_.ok()) return broken_;
  INGOT_ASSIGN_OR_RETURN(const std::vector<int64_t> wanted, Round(absl::OkStatus(), what));
  return Serve(wanted);
}

absl::Status Ranks::Serve(const std::vector<int64_t>& wanted) {
  return BreakUnless([&]() -> absl::Status {
    if (server_ == nullptr)
      return absl::InternalError("another rank requests an exchange, but this rank has no server for it");
    return server_(wanted);
  });
}

// Sends `own` and `wanted` to all ranks. Returns every rank's `wanted`, or the error of the lowest rank that has one.
absl::StatusOr<std::vector<int64_t>> Ranks::Round(const absl::Status& own, int64_t wanted) {
  at::Tensor said = at::empty({3}, at::kLong);
  said.mutable_data_ptr<int64_t>()[0] = static_cast<int64_t>(own.code());
  said.mutable_data_ptr<int64_t>()[1] = wanted;
  said.mutable_data_ptr<int64_t>()[2] = base::IsDeviceFailure(own) ? 1 : 0;
  INGOT_ASSIGN_OR_RETURN(const std::vector<at::Tensor> all, AllGather(said));
  std::vector<int64_t> wants;
  for (size_t r = 0; r < all.size(); ++r) {
    const int64_t* const words = all[r].const_data_ptr<int64_t>();
    wants.push_back(words[1]);
    if (words[0] == 0) continue;
    INGOT_ASSIGN_OR_RETURN(const std::string text, BroadcastBytes(std::string(own.message()), static_cast<int>(r)));
    const std::string named = r == 0 ? text : absl::StrCat("rank ", r, ": ", text);
    return AgreedError(static_cast<absl::StatusCode>(words[0]), named, words[2] != 0, static_cast<int>(r) == rank());
  }
  return wants;
}

bool Ranks::IsAgreed(const absl::Status& status) { return status.GetPayload(kAgreedPayload).has_value(); }

absl::Status Agree(Ranks* ranks, const absl::Status& own) { return ranks == nullptr ? own : ranks->Agree(own); }

absl::Status ShareError(Ranks* ranks, const absl::Status& own) {
  if (ranks == nullptr || own.ok() || ranks->broken()) return own;
  return ranks->Agree(own);
}

absl::Status ShareEarlyError(Ranks* ranks, const absl::Status& own) {
  return Leads(ranks) ? own : ShareError(ranks, own);
}

}  // namespace ingot::trainer
