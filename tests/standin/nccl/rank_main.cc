// One rank on its own device of the stand-in, for ranks_test.py:
//
//   standin_nccl_rank CASE RANK SIZE PORT STORE_PORT
//
// CASE is
//   kill, stop   a trainer's ranks. They compare every collective on devices with the same one between CPUs. They then exchange until the
//                last rank kills or stops itself.
//   versions     a trainer's ranks. They train, and rank 0 compares every version with the weights: the optimizer's marks of all ranks give the
//                delta of a comparison, with parameters on every rank and divided by layer, in bf16 and in fp32. No second part.
//   weights      the trainer and its engines. Rank 0 sends weights of several sizes. It then sends until the last rank kills itself.
//
// Prints "RANK equal" once the first part is done, and "RANK lost: ERROR" with the error that ended the second one. Exits with 0 then, and with 1
// and the reason if anything else happened. INGOT_CUDA_LIBRARY names libingot_cuda.so.
#include <ATen/ATen.h>
#include <dlfcn.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>
#include <vector>

#include "trainer/makers.h"
#include "trainer/parallel/process_group.h"
#include "trainer/parallel/ranks.h"
#include "trainer/parallel/weight_group.h"
#include "trainer/tiny_model.h"
#include "trainer/trainer.h"
#include "weights/delta.h"

namespace ingot::trainer {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kDeadline{6000};  // of silence, and of a broadcast of weights
constexpr milliseconds kUntilDeath{1000};
constexpr at::ScalarType kTypes[] = {at::kFloat, at::kBFloat16, at::kDouble, at::kLong, at::kByte};
constexpr int64_t kSizes[] = {1, 1000, 300007};

struct Place {
  int rank, size, port, store_port;
  std::string device() const { return absl::StrCat("cuda:", rank); }
};

using StorePtr = c10::intrusive_ptr<c10d::Store>;

#define CHECK_OR_RETURN(condition, ...) \
  if (!(condition)) return absl::InternalError(absl::StrCat(__VA_ARGS__))

absl::StatusOr<decltype(&ingot_cuda_nccl_group)> OpenDevices() {
  const char* const path = std::getenv("INGOT_CUDA_LIBRARY");
  void* const library = ::dlopen(path == nullptr ? "" : path, RTLD_NOW | RTLD_LOCAL);
  CHECK_OR_RETURN(library != nullptr, ::dlerror());
  void* const symbol = ::dlsym(library, kNcclGroupSymbol);
  CHECK_OR_RETURN(symbol != nullptr, path, " has no ", kNcclGroupSymbol);
  at::globalContext().lazyInitDevice(at::kCUDA);
  return reinterpret_cast<decltype(&ingot_cuda_nccl_group)>(symbol);
}

// Different on every rank.
at::Tensor ValuesOf(int rank, int64_t count, at::ScalarType type) {
  const at::Tensor numbers = at::arange(count, at::kDouble).add(rank + 1);
  return (at::isFloatingType(type) ? numbers.sin() : numbers.remainder(251)).to(type);
}

// Both must hold the same bits.
absl::Status CheckEqual(const std::string& what, const std::vector<at::Tensor>& devices,
                        const std::vector<at::Tensor>& hosts) {
  CHECK_OR_RETURN(devices.size() == hosts.size(), what, ": ", devices.size(), " tensors instead of ", hosts.size());
  for (size_t i = 0; i < hosts.size(); ++i) {
    CHECK_OR_RETURN(devices[i].is_cuda(), what, ": tensor ", i, " is not on a device");
    CHECK_OR_RETURN(at::equal(devices[i].cpu(), hosts[i]), what, ": tensor ", i, " differs");
  }
  return absl::OkStatus();
}

absl::Status CompareRanks(Ranks& ranks, const at::Tensor& host, const std::string& device, const std::string& what) {
  const int last = ranks.size() - 1;
  for (const int root : {0, last}) {
    const at::Tensor here = host.clone(), there = host.to(device), sent = there.clone();
    INGOT_ASSIGN_OR_RETURN(const std::vector<at::Tensor> gathered, ranks.Gather(here, root));
    INGOT_ASSIGN_OR_RETURN(const std::vector<at::Tensor> on_device, ranks.Gather(sent, root));
    sent.zero_();  // must wait until it is sent
    INGOT_RETURN_IF_ERROR(CheckEqual("gather of " + what, on_device, gathered));
    INGOT_RETURN_IF_ERROR(ranks.Broadcast(here, root));
    INGOT_RETURN_IF_ERROR(ranks.Broadcast(there, root));
    INGOT_RETURN_IF_ERROR(CheckEqual("broadcast of " + what, {there}, {here}));
  }
  return absl::OkStatus();
}

std::vector<at::Tensor> AllGather(c10d::Backend& backend, const at::Tensor& own, int size) {
  std::vector<at::Tensor> inputs = {own};
  std::vector<std::vector<at::Tensor>> outputs(1);
  for (int rank = 0; rank < size; ++rank) outputs[0].push_back(at::empty_like(own));
  const auto work = backend.allgather(outputs, inputs, c10d::AllgatherOptions());
  work->wait();
  return outputs[0];
}

// Returns once all ranks have started, which may take one much longer than another.
StorePtr Meet(const Place& place) {
  c10d::TCPStoreOptions options;
  options.port = static_cast<uint16_t>(place.store_port);
  options.isServer = place.rank == 0;
  options.waitWorkers = false;
  auto store = c10::make_intrusive<c10d::TCPStore>("127.0.0.1", options);
  store->set(absl::StrCat("started/", place.rank), std::vector<uint8_t>{1});
  std::vector<std::string> all;
  for (int rank = 0; rank < place.size; ++rank) all.push_back(absl::StrCat("started/", rank));
  store->wait(all);
  return store;
}

absl::Status CompareAllGather(const Place& place, const StorePtr& store, decltype(&ingot_cuda_nccl_group) nccl) {
  ProcessGroupOptions options;
  options.rank = place.rank;
  options.size = place.size;
  INGOT_ASSIGN_OR_RETURN(const ProcessGroup hosts, MakeGlooGroup(options, store));
  NcclGroup devices;
  nccl(c10::make_intrusive<c10d::PrefixStore>("devices", store), place.rank, place.size, &devices);
  for (const int64_t count : kSizes) {
    const at::Tensor own = ValuesOf(place.rank, count, at::kByte);
    const std::vector<at::Tensor> there = AllGather(*devices.backend, own.to(place.device()), place.size);
    INGOT_RETURN_IF_ERROR(CheckEqual("all-gather", there, AllGather(*hosts.backend, own, place.size)));
  }
  AllGather(*hosts.backend, at::zeros({1}, at::kByte), place.size);  // nobody leaves before all are done
  return absl::OkStatus();
}

void Report(int rank, const std::string& what) {
  std::printf("%d %s\n", rank, what.c_str());
  std::fflush(stdout);
}

TrainerOptions VersionOptions(const std::string& dtype, bool by_layer) {
  TrainerOptions options;
  options.dtype = dtype;
  options.optimizer.learning_rate = 0.02;
  options.optimizer.decay = "constant";
  options.threads = 1;
  options.micro_batch_tokens = 128;
  if (by_layer) options.sharding = "layers";
  return options;
}

using Versions = std::vector<std::shared_ptr<const weights::Snapshot>>;

std::shared_ptr<const weights::Snapshot> Unmarked(const weights::Snapshot& snapshot) {
  std::vector<weights::TensorView> views;
  for (size_t i = 0; i < snapshot.size(); ++i) {
    weights::TensorView view = snapshot.view(i);
    view.owner = nullptr;  // copied
    views.push_back(std::move(view));
  }
  return *weights::Snapshot::Copy(snapshot.version(), views);
}

absl::Status CheckDelta(const weights::Snapshot& base, const weights::Snapshot& target) {
  CHECK_OR_RETURN(target.changes() != nullptr, "version ", target.version(), " has no marks");
  INGOT_ASSIGN_OR_RETURN(const weights::EncodedDelta marked, weights::Encode(&base, target, false));
  INGOT_ASSIGN_OR_RETURN(const weights::EncodedDelta compared, weights::Encode(&base, *Unmarked(target), false));
  CHECK_OR_RETURN(marked.changed_elements > 0 && marked.changed_elements == compared.changed_elements,
                  marked.changed_elements, " changes instead of ", compared.changed_elements);
  CHECK_OR_RETURN(marked.header.SerializeAsString() == compared.header.SerializeAsString(), "the headers differ");
  for (size_t i = 0; i < marked.tensors.size(); ++i) {
    CHECK_OR_RETURN(marked.tensors[i].SerializeAsString() == compared.tensors[i].SerializeAsString(), "tensor ", i,
                    " of version ", target.version(), " differs");
  }
  return absl::OkStatus();
}

// Rank 0 trains and returns its versions. The others follow.
absl::StatusOr<Versions> Train(Ranks& ranks, const std::string& device, const TrainerOptions& options) {
  const model::ModelConfig config = TinyConfig(37);
  model::Parameters parameters = TinyParameters(config, 1, at::kFloat);
  for (auto& [name, tensor] : parameters.tensors()) tensor = tensor.to(device);
  INGOT_ASSIGN_OR_RETURN(const std::unique_ptr<Trainer> trainer,
                         Trainer::Create(options, config, std::move(parameters), base::Clock::Real(), &ranks));
  Versions versions;
  if (!ranks.leads()) {
    INGOT_RETURN_IF_ERROR(trainer->Follow());
    return versions;
  }
  for (int64_t step = 0;; ++step) {
    INGOT_ASSIGN_OR_RETURN(versions.emplace_back(), trainer->TakeSnapshot());
    if (options.sharding != "layers") {
      for (size_t i = 0; i < versions.back()->size(); ++i) {
        const weights::TensorView view = versions.back()->view(i);
        const at::Tensor host = trainer->parameters().at(view.name).detach().cpu();
        CHECK_OR_RETURN(host.nbytes() == view.bytes.size() &&
                            std::memcmp(host.const_data_ptr(), view.bytes.data(), view.bytes.size()) == 0,
                        view.name, " of version ", step, " is not the parameter");
      }
    }
    if (step == 2) break;
    INGOT_RETURN_IF_ERROR(trainer->TrainStep(RandomBatch(static_cast<uint64_t>(7 + step), 37, step)).status());
  }
  INGOT_RETURN_IF_ERROR(trainer->Dismiss());
  return versions;
}

absl::Status RunVersions(const Place& place) {
  INGOT_ASSIGN_OR_RETURN(const auto nccl, OpenDevices());
  const StorePtr store = Meet(place);
  RankOptions options;
  options.rank = place.rank;
  options.size = place.size;
  options.port = place.port;
  options.device = place.device();
  options.nccl = nccl;
  INGOT_ASSIGN_OR_RETURN(const std::unique_ptr<Ranks> ranks, Ranks::Join(options));
  for (const std::string dtype : {"bf16", "fp32"}) {
    Versions whole;
    for (const bool by_layer : {false, true}) {
      const std::string what = absl::StrCat(dtype, by_layer ? ", divided by layer" : "");
      const absl::StatusOr<Versions> versions = Train(*ranks, place.device(), VersionOptions(dtype, by_layer));
      INGOT_RETURN_IF_ERROR(base::Annotate(versions.status(), what));
      for (size_t i = 0; i < versions->size(); ++i) {
        if (i > 0) INGOT_RETURN_IF_ERROR(base::Annotate(CheckDelta(*(*versions)[i - 1], *(*versions)[i]), what));
        CHECK_OR_RETURN(whole.empty() || whole[i]->checksum() == (*versions)[i]->checksum(), what, ": version ", i,
                        " differs from that of undivided parameters");
      }
      whole = *versions;
    }
  }
  Report(place.rank, "equal");
  ranks->Leave();
  return absl::OkStatus();
}

void DieLater(int signal) {
  std::thread([signal] {
    std::this_thread::sleep_for(kUntilDeath);
    ::kill(::getpid(), signal);
  }).detach();
}

absl::Status RunRanks(const Place& place, int signal) {
  INGOT_ASSIGN_OR_RETURN(const auto nccl, OpenDevices());
  const StorePtr store = Meet(place);
  RankOptions options;
  options.rank = place.rank;
  options.size = place.size;
  options.port = place.port;
  options.device = place.device();
  options.nccl = nccl;
  options.deadline = kDeadline;
  INGOT_ASSIGN_OR_RETURN(const std::unique_ptr<Ranks> ranks, Ranks::Join(options));
  for (const at::ScalarType type : kTypes) {
    for (const int64_t count : kSizes) {
      INGOT_RETURN_IF_ERROR(CompareRanks(*ranks, ValuesOf(place.rank, count, type), place.device(),
                                         absl::StrCat(count, " of ", c10::toString(type))));
    }
  }
  INGOT_RETURN_IF_ERROR(CompareAllGather(place, store, nccl));
  Report(place.rank, "equal");
  if (place.rank == place.size - 1) DieLater(signal);
  const at::Tensor tensor = at::zeros({1000}, at::device(place.device()).dtype(at::kFloat));
  absl::Status status;
  while (status.ok()) {
    status = ranks->Broadcast(tensor, 0);
    if (status.ok()) status = ranks->Gather(tensor, 0).status();
  }
  CHECK_OR_RETURN(IsRankLost(status), "not a lost rank: ", status.ToString());
  Report(place.rank, absl::StrCat("lost: ", status.message()));
  return absl::OkStatus();
}

absl::Status RunWeights(const Place& place) {
  WeightGroupOptions options;
  options.rank = place.rank;
  options.size = place.size;
  options.port = place.port;
  options.timeout = kDeadline;
  options.device = place.device();
  INGOT_ASSIGN_OR_RETURN(options.nccl, OpenDevices());
  const StorePtr store = Meet(place);
  INGOT_ASSIGN_OR_RETURN(const std::unique_ptr<WeightGroup> group, WeightGroup::Make(options));
  INGOT_RETURN_IF_ERROR(group->Connect());
  for (const int64_t count : {1, 1000, 3000001}) {
    std::string weights(static_cast<size_t>(count), place.rank == 0 ? 'w' : '-');
    INGOT_RETURN_IF_ERROR(group->Broadcast(weights));
    CHECK_OR_RETURN(weights == std::string(static_cast<size_t>(count), 'w'), count, " bytes differ");
  }
  Report(place.rank, "equal");
  if (place.rank == place.size - 1) DieLater(SIGKILL);
  std::string weights(1000, 'w');
  absl::Status status;
  while (status.ok()) status = group->Broadcast(weights);
  CHECK_OR_RETURN(absl::IsAborted(status), "not an aborted group: ", status.ToString());
  CHECK_OR_RETURN(absl::IsAborted(group->Broadcast(weights)), "the group can be used again");
  Report(place.rank, absl::StrCat("lost: ", status.message()));
  return absl::OkStatus();
}

int Main(int argc, char** argv) {
  if (argc != 6) return 2;
  const std::string name = argv[1];
  const Place place{std::atoi(argv[2]), std::atoi(argv[3]), std::atoi(argv[4]), std::atoi(argv[5])};
  const absl::Status status = name == "weights"    ? RunWeights(place)
                              : name == "versions" ? RunVersions(place)
                                                   : RunRanks(place, name == "kill" ? SIGKILL : SIGSTOP);
  if (!status.ok()) std::fprintf(stderr, "rank %d: %s\n", place.rank, status.ToString().c_str());
  return status.ok() ? 0 : 1;
}

}  // namespace
}  // namespace ingot::trainer

int main(int argc, char** argv) { return ingot::trainer::Main(argc, argv); }
