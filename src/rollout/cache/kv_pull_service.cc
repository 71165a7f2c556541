#include "rollout/cache/kv_pull_service.h"

#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>

#include "base/checksum.h"
#include "proto/grpc_status.h"
#include "proto/kv_pull.grpc.pb.h"

namespace ingot::rollout {
namespace {

constexpr size_t kMessageBytes = size_t{1} << 20;

absl::StatusOr<kv::Chunk> ChunkOf(const v1::PullKvRequest& request) {
  const v1::KvChunk& named = request.chunk();
  const std::optional<base::Key128> parent = base::KeyOfBytes(named.parent()), key = base::KeyOfBytes(named.key());
  if (!parent.has_value() || !key.has_value()) return absl::InvalidArgumentError("a chunk's key must have 16 bytes");
  return kv::Chunk{
      base::ContentKey128(request.root()), *parent, *key, named.first(), {named.ids().begin(), named.ids().end()}};
}

// Returns false if the caller is gone.
bool Send(grpc::ServerWriter<v1::KvBytes>& writer, std::string_view bytes) {
  v1::KvBytes message;
  for (; !bytes.empty(); bytes.remove_prefix(message.bytes().size())) {
    message.set_bytes(std::string(bytes.substr(0, kMessageBytes)));
    if (!writer.Write(message)) return false;
  }
  return true;
}

class KvPullService final : public v1::KvPull::Service {
 public:
  explicit KvPullService(std::shared_ptr<kv::MemoryStore> store) : store_(std::move(store)) {}

  grpc::Status FindKv(grpc::ServerContext*, const v1::FindKvRequest* request, v1::FindKvResponse* response) override {
    const auto has = [this](const std::string& bytes) {
      const std::optional<base::Key128> key = base::KeyOfBytes(bytes);
      return key.has_value() && store_->Has(*key);
    };
    const auto& keys = request->keys();
    response->set_chunks(std::find_if_not(keys.begin(), keys.end(), has) - keys.begin());
    return grpc::Status::OK;
  }

  grpc::Status PullKv(grpc::ServerContext*, const v1::PullKvRequest* request,
                      grpc::ServerWriter<v1::KvBytes>* writer) override {
    const absl::StatusOr<kv::Chunk> chunk = ChunkOf(*request);
    if (!chunk.ok()) return v1::ToGrpc(chunk.status());
    const kv::KeptChunkPtr stored = store_->Find(request->root(), *chunk);
    if (stored == nullptr) return v1::ToGrpc(absl::NotFoundError("the engine does not have the chunk"));
    const std::string_view planes(reinterpret_cast<const char*>(stored->planes.get()),
                                  static_cast<size_t>(stored->plane_bytes));
    if (Send(*writer, stored->header) && Send(*writer, planes)) return grpc::Status::OK;
    return grpc::Status::CANCELLED;
  }

 private:
  const std::shared_ptr<kv::MemoryStore> store_;
};

}  // namespace

std::unique_ptr<grpc::Service> NewKvPullService(std::shared_ptr<kv::MemoryStore> store) {
  return std::make_unique<KvPullService>(std::move(store));
}

}  // namespace ingot::rollout
