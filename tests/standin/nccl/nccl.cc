// NCCL's functions (communicator.h).
#include <nccl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "standin/nccl/communicator.h"
#include "standin/runtime/device.h"
#include "standin/runtime/settings.h"
#include "standin/runtime/streams.h"

using namespace ingot::standin;

struct ncclComm {
  std::shared_ptr<Communicator> communicator;
};

namespace {

// The calls between ncclGroupStart and ncclGroupEnd.
struct Group {
  int depth = 0;
  std::vector<std::pair<StreamPtr, std::shared_ptr<Exchange>>> exchanges;
};
thread_local Group group;

size_t BytesOf(ncclDataType_t type) {
  switch (type) {
    case ncclInt8:
    case ncclUint8:
    case ncclFloat8e4m3:
    case ncclFloat8e5m2:
      return 1;
    case ncclFloat16:
    case ncclBfloat16:
      return 2;
    case ncclInt32:
    case ncclUint32:
    case ncclFloat32:
      return 4;
    default:
      return 8;
  }
}

void Queue(const StreamPtr& stream, const std::shared_ptr<Exchange>& exchange) {
  GetStreams().Push(stream, [] {}, [exchange] { return exchange->Advance(); });
}

// The exchange to which a call adds: that of its stream in the running group.
Exchange& ExchangeOn(const StreamPtr& stream, const ncclComm& comm) {
  for (auto& [on, exchange] : group.exchanges) {
    if (on == stream && exchange->BelongsTo(*comm.communicator)) return *exchange;
  }
  return *group.exchanges.emplace_back(stream, std::make_shared<Exchange>(comm.communicator)).second;
}

// Adds to the stream's exchange what `add` does, between ncclGroupStart and ncclGroupEnd.
ncclResult_t Call(ncclComm_t comm, cudaStream_t handle, const std::function<bool(Exchange&)>& add) {
  const StreamPtr stream = GetStreams().Find(handle);
  if (comm == nullptr || stream == nullptr) return ncclInvalidArgument;
  if (DeviceFault() != cudaSuccess) return ncclUnhandledCudaError;
  ncclGroupStart();
  const bool valid = add(ExchangeOn(stream, *comm));
  ncclGroupEnd();
  return valid ? ncclSuccess : ncclInvalidArgument;
}

bool AddBroadcast(Exchange& exchange, const void* from, void* to, size_t bytes, int root) {
  const Communicator& communicator = exchange.communicator();
  if (communicator.rank() != root) return exchange.AddReceive(to, bytes, root);
  bool valid = exchange.AddCopy(from, to, bytes);
  for (int peer = 0; peer < communicator.size(); ++peer) {
    if (peer != root) valid = exchange.AddSend(from, bytes, peer) && valid;
  }
  return valid;
}

bool AddAllGather(Exchange& exchange, const void* from, void* to, size_t bytes) {
  const Communicator& communicator = exchange.communicator();
  auto* const target = static_cast<std::byte*>(to);
  bool valid = exchange.AddCopy(from, target + static_cast<size_t>(communicator.rank()) * bytes, bytes);
  for (int peer = 0; peer < communicator.size(); ++peer) {
    if (peer == communicator.rank()) continue;
    valid = exchange.AddSend(from, bytes, peer) && valid;
    valid = exchange.AddReceive(target + static_cast<size_t>(peer) * bytes, bytes, peer) && valid;
  }
  return valid;
}

}  // namespace

extern "C" {

ncclResult_t ncclGetVersion(int* version) {
  *version = NCCL_VERSION_CODE;
  return ncclSuccess;
}

const char* ncclGetErrorString(ncclResult_t result) {
  switch (result) {
    case ncclSuccess:
      return "no error";
    case ncclUnhandledCudaError:
      return "unhandled cuda error";
    case ncclInvalidArgument:
      return "invalid argument";
    case ncclInvalidUsage:
      return "invalid usage";
    default:
      return "error of the stand-in";
  }
}

const char* ncclGetLastError(ncclComm_t) { return ""; }

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  static std::atomic<int> made{0};
  const char* temporary = std::getenv("TMPDIR");
  const std::string folder = std::string(temporary == nullptr ? "/tmp" : temporary) + "/standin-nccl-" +
                             std::to_string(::getpid()) + "-" + std::to_string(made++);
  if (folder.size() >= sizeof(id->internal)) Die("NCCL: TMPDIR is too long: %s", folder.c_str());
  if (::mkdir(folder.c_str(), 0700) != 0) return ncclSystemError;
  std::memset(id->internal, 0, sizeof(id->internal));
  std::memcpy(id->internal, folder.data(), folder.size());
  return ncclSuccess;
}

// Does not wait for the other ranks, unlike NCCL. The first exchange does.
ncclResult_t ncclCommInitRank(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank) {
  if (rank < 0 || rank >= ranks) return ncclInvalidArgument;
  const auto communicator = std::make_shared<Communicator>(id.internal, rank, ranks, CurrentDevice());
  if (!communicator->TakeDevice()) return ncclInvalidUsage;
  if (GetSettings().statistics) std::fprintf(stderr, "stand-in: NCCL rank %d of %d\n", rank, ranks);
  *comm = new ncclComm{communicator};
  return ncclSuccess;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank, ncclConfig_t*) {
  return ncclCommInitRank(comm, ranks, id, rank);
}

ncclResult_t ncclCommFinalize(ncclComm_t) { return ncclSuccess; }

// Exchanges that wait in streams keep the communicator.
ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  delete comm;
  return ncclSuccess;
}

ncclResult_t ncclCommAbort(ncclComm_t comm) {
  comm->communicator->Abort();
  return ncclCommDestroy(comm);
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t, ncclResult_t* error) {
  *error = ncclSuccess;
  return ncclSuccess;
}

ncclResult_t ncclCommCount(ncclComm_t comm, int* ranks) {
  *ranks = comm->communicator->size();
  return ncclSuccess;
}

ncclResult_t ncclCommUserRank(ncclComm_t comm, int* rank) {
  *rank = comm->communicator->rank();
  return ncclSuccess;
}

ncclResult_t ncclGroupStart() {
  ++group.depth;
  return ncclSuccess;
}

ncclResult_t ncclGroupEnd() {
  if (group.depth == 0) return ncclInvalidUsage;
  if (--group.depth > 0) return ncclSuccess;
  for (const auto& [stream, exchange] : std::exchange(group.exchanges, {})) Queue(stream, exchange);
  return ncclSuccess;
}

ncclResult_t ncclSend(const void* from, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  return Call(comm, stream, [&](Exchange& e) { return e.AddSend(from, count * BytesOf(type), peer); });
}

ncclResult_t ncclRecv(void* to, size_t count, ncclDataType_t type, int peer, ncclComm_t comm, cudaStream_t stream) {
  return Call(comm, stream, [&](Exchange& e) { return e.AddReceive(to, count * BytesOf(type), peer); });
}

ncclResult_t ncclBroadcast(const void* from, void* to, size_t count, ncclDataType_t type, int root, ncclComm_t comm,
                           cudaStream_t stream) {
  return Call(comm, stream, [&](Exchange& e) { return AddBroadcast(e, from, to, count * BytesOf(type), root); });
}

ncclResult_t ncclBcast(void* buffer, size_t count, ncclDataType_t type, int root, ncclComm_t comm,
                       cudaStream_t stream) {
  return ncclBroadcast(buffer, buffer, count, type, root, comm, stream);
}

ncclResult_t ncclAllGather(const void* from, void* to, size_t count, ncclDataType_t type, ncclComm_t comm,
                           cudaStream_t stream) {
  return Call(comm, stream, [&](Exchange& e) { return AddAllGather(e, from, to, count * BytesOf(type)); });
}

}  // extern "C"
