#include "rollout/cache/grpc_kv_store.h"

#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kv/chunk_io.h"
#include "kv/off_after_errors.h"
#include "proto/grpc_status.h"
#include "proto/kv_pull.grpc.pb.h"

namespace ingot::rollout {
namespace {

// Reads the bytes of a stream of messages.
class ByteStream {
 public:
  explicit ByteStream(grpc::ClientReader<v1::KvBytes>& reader) : reader_(reader) {}

  // Returns DATA_LOSS if the stream ends before `bytes` are filled.
  absl::Status Read(std::span<std::byte> bytes) {
    while (!bytes.empty()) {
      if (at_ == message_.bytes().size() && !Next()) return absl::DataLossError("the engine sent too few bytes");
      const size_t count = std::min(bytes.size(), message_.bytes().size() - at_);
      std::memcpy(bytes.data(), message_.bytes().data() + at_, count);
      at_ += count;
      bytes = bytes.subspan(count);
    }
    return absl::OkStatus();
  }
  // Returns true if all bytes have been read. Waits for the end of the stream.
  bool AtEnd() { return at_ == message_.bytes().size() && !Next(); }
  bool ended() const { return ended_; }

 private:
  bool Next() {
    at_ = 0;
    ended_ = !reader_.Read(&message_);
    if (ended_) message_.clear_bytes();
    return !ended_;
  }

  grpc::ClientReader<v1::KvBytes>& reader_;
  v1::KvBytes message_;
  size_t at_ = 0;  // bytes of `message_` that have been read
  bool ended_ = false;
};

v1::PullKvRequest RequestFor(const kv::Root& root, const kv::Chunk& chunk) {
  v1::PullKvRequest request;
  request.set_root(root.Text());
  v1::KvChunk& named = *request.mutable_chunk();
  named.set_parent(std::string(base::KeyBytes(chunk.parent)));
  named.set_key(std::string(base::KeyBytes(chunk.key)));
  named.set_first(chunk.first);
  named.mutable_ids()->Add(chunk.ids.begin(), chunk.ids.end());
  return request;
}

// Another engine. Every call returns within `timeout`.
class Peer {
 public:
  Peer(KvPeer peer, std::chrono::milliseconds timeout, const base::Clock& clock)
      : name_(std::move(peer.name)),
        timeout_(timeout),
        stubs_(std::move(peer.channel)),
        errors_(absl::StrCat("the KV of ", name_), clock) {}

  absl::StatusOr<int64_t> Find(const v1::FindKvRequest& request) {
    INGOT_RETURN_IF_ERROR(errors_.Check());
    grpc::ClientContext context;
    SetDeadline(context);
    v1::FindKvResponse response;
    INGOT_RETURN_IF_ERROR(Note(v1::FromGrpc(stubs_.Now()->FindKv(&context, request, &response))));
    return response.chunks();
  }

  absl::Status Pull(const kv::Root& root, const kv::Chunk& chunk, const kv::PlanesToRead& planes) {
    INGOT_RETURN_IF_ERROR(errors_.Check());
    grpc::ClientContext context;
    SetDeadline(context);
    const std::unique_ptr<grpc::ClientReader<v1::KvBytes>> reader =
        stubs_.Now()->PullKv(&context, RequestFor(root, chunk));
    ByteStream stream(*reader);
    absl::Status read = kv::ReadChunk(root, chunk, planes, name_,
                                      [&](std::span<std::byte> bytes, int64_t) { return stream.Read(bytes); });
    if (read.ok() && !stream.AtEnd()) read = absl::DataLossError(absl::StrCat(name_, " sent too many bytes"));
    if (!stream.ended()) context.TryCancel();
    const grpc::Status status = Finish(*reader);
    return Note(stream.ended() && !status.ok() ? v1::FromGrpc(status) : read);
  }

 private:
  void SetDeadline(grpc::ClientContext& context) const {
    context.set_deadline(std::chrono::system_clock::now() + timeout_);
  }

  // gRPC allows Finish only after the last message.
  static grpc::Status Finish(grpc::ClientReader<v1::KvBytes>& reader) {
    v1::KvBytes rest;
    while (reader.Read(&rest)) {
    }
    return reader.Finish();
  }

  // An engine that fails or hangs is not asked for a while.
  absl::Status Note(const absl::Status& status) {
    const bool answered = status.ok() || absl::IsNotFound(status) || absl::IsDataLoss(status);
    return errors_.Note(answered ? status : absl::UnavailableError(absl::StrCat(name_, ": ", status.message())));
  }

  const std::string name_;
  const std::chrono::milliseconds timeout_;
  const v1::Stubs<v1::KvPull> stubs_;
  kv::OffAfterErrors errors_;
};

class PulledStore final : public kv::Store {
 public:
  PulledStore(std::vector<KvPeer> peers, std::chrono::milliseconds timeout, const base::Clock& clock) {
    for (KvPeer& peer : peers) peers_.push_back(std::make_unique<Peer>(std::move(peer), timeout, clock));
  }

  int64_t Longest(const kv::Root& /*root*/, std::span<const kv::Chunk> chain) override {
    v1::FindKvRequest request;
    for (const kv::Chunk& chunk : chain) request.add_keys(std::string(base::KeyBytes(chunk.key)));
    int64_t most = 0;
    for (size_t i = 0; i < peers_.size() && most < std::ssize(chain); ++i) {
      const size_t peer = (i + best_) % peers_.size();
      const int64_t found = std::clamp<int64_t>(peers_[peer]->Find(request).value_or(0), 0, std::ssize(chain));
      if (found <= most) continue;
      most = found;
      best_ = peer;
    }
    return most;
  }

  // Starts with the engine that had the most chunks of the last prompt.
  absl::Status Get(const kv::Root& root, const kv::Chunk& chunk, const kv::PlanesToRead& planes) override {
    INGOT_RETURN_IF_ERROR(kv::CheckSizes(planes, root));
    absl::Status pulled;
    const size_t first = best_;
    for (size_t i = 0; i < peers_.size(); ++i) {
      pulled = peers_[(i + first) % peers_.size()]->Pull(root, chunk, planes);
      if (absl::IsDataLoss(pulled)) ++corrupt_;
      if (pulled.ok()) break;
    }
    return pulled;
  }

  absl::Status Put(const kv::Root&, const kv::Chunk&, const kv::PlanesToWrite&) override {
    return absl::UnavailableError("engines that pull KV keep none for others");
  }
  void Hold(std::vector<base::Key128>) override {}
  kv::StoreStats stats() const override {
    kv::StoreStats stats;
    stats.corrupt = corrupt_;
    return stats;
  }

 private:
  std::vector<std::unique_ptr<Peer>> peers_;
  std::atomic<size_t> best_{0};  // the engine to ask first
  std::atomic<int64_t> corrupt_{0};
};

}  // namespace

std::shared_ptr<kv::Store> NewPulledStore(std::vector<KvPeer> peers, std::chrono::milliseconds timeout,
                                          const base::Clock& clock) {
  return std::make_shared<PulledStore>(std::move(peers), timeout, clock);
}

}  // namespace ingot::rollout
