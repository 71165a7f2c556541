#include "trainer/parallel/wire.h"

#include <algorithm>
#include <span>
#include <unordered_map>
#include <utility>

namespace ingot::trainer {
namespace {

void PutIds(std::span<const int32_t> ids, Writer& writer) {
  writer.PutText({reinterpret_cast<const char*>(ids.data()), ids.size_bytes()});
}

std::vector<int32_t> GetIds(Reader& reader) {
  const std::string_view bytes = reader.GetText();
  std::vector<int32_t> ids(bytes.size() / sizeof(int32_t));
  if (!ids.empty()) std::memcpy(ids.data(), bytes.data(), ids.size() * sizeof(int32_t));
  return ids;
}

void PutMeans(const std::map<std::string, MeanMax>& means, Writer& writer) {
  writer.Put(static_cast<uint64_t>(means.size()));
  for (const auto& [name, mean] : means) writer.PutText(name).Put(mean);
}

void AddMeans(Reader& reader, std::map<std::string, MeanMax>& means) {
  const auto count = reader.Get<uint64_t>();
  for (uint64_t i = 0; i < count && reader.status().ok(); ++i) {
    const std::string name(reader.GetText());
    means[name].Add(reader.Get<MeanMax>());
  }
}

template <typename Message>
absl::Status Parse(Reader& reader, Message& message) {
  const std::string_view bytes = reader.GetText();
  INGOT_RETURN_IF_ERROR(reader.status());
  if (message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat("rank 0 sent an unreadable ", message.GetTypeName()));
}

}  // namespace

std::string EncodeBatch(const TrainBatch& batch) {
  Writer writer;
  writer.Put(batch.step).PutText(batch.feed.SerializeAsString()).Put(static_cast<uint64_t>(batch.groups.size()));
  for (const v1::Group& group : batch.groups) writer.PutText(group.SerializeAsString());
  return writer.Release();
}

absl::StatusOr<TrainBatch> DecodeBatch(std::string_view bytes) {
  Reader reader(bytes);
  TrainBatch batch;
  batch.step = reader.Get<int64_t>();
  INGOT_RETURN_IF_ERROR(Parse(reader, batch.feed));
  const auto count = reader.Get<uint64_t>();
  for (uint64_t i = 0; i < count; ++i) INGOT_RETURN_IF_ERROR(Parse(reader, batch.groups.emplace_back()));
  INGOT_RETURN_IF_ERROR(reader.status());
  return batch;
}

// A context is encoded as the index of an earlier path (0 = the empty path), followed by the remaining runs of ids,
// each with its content. Each run adds a path with the next index.
void PutCalls(const std::vector<tree::CallPath>& calls, Writer& writer) {
  std::unordered_map<const void*, uint64_t> paths;
  writer.Put(static_cast<uint64_t>(calls.size()));
  for (const tree::CallPath& call : calls) {
    uint64_t from = 0;
    std::vector<std::pair<const void*, tree::TokenRun>> after;
    call.context.VisitBack([&](const void* key, const tree::TokenRun& run) {
      const auto found = paths.find(key);
      if (found == paths.end()) {
        after.emplace_back(key, run);
        return true;
      }
      from = found->second;
      return false;
    });
    writer.PutText(call.call_id).Put(call.episode).Put(call.group).Put(call.temperature);
    writer.Put(from).Put(static_cast<uint64_t>(after.size()));
    for (auto run = after.rbegin(); run != after.rend(); ++run) {
      PutIds(run->second.ids, writer);
      writer.PutText(run->second.content);
      paths.emplace(run->first, paths.size() + 1);
    }
    PutIds(call.sampled, writer);
  }
}

absl::StatusOr<std::vector<tree::CallPath>> ReadCalls(Reader& reader) {
  std::vector<tree::TokenPath> paths(1);
  std::vector<tree::CallPath> calls;
  for (auto left = reader.Get<uint64_t>(); left > 0 && reader.status().ok(); --left) {
    tree::CallPath& call = calls.emplace_back();
    call.call_id = reader.GetText();
    call.episode = reader.Get<int32_t>();
    call.group = reader.Get<int32_t>();
    call.temperature = reader.Get<float>();
    const auto from = reader.Get<uint64_t>();
    if (from >= paths.size()) return absl::DataLossError("rank 0 sent a call whose context continues an unknown path");
    call.context = paths[from];
    for (auto runs = reader.Get<uint64_t>(); runs > 0 && reader.status().ok(); --runs) {
      std::vector<int32_t> ids = GetIds(reader);
      call.context = call.context.Then(std::move(ids), std::string(reader.GetText()));
      paths.push_back(call.context);
    }
    call.sampled = GetIds(reader);
  }
  INGOT_RETURN_IF_ERROR(reader.status());
  return calls;
}

void PutSums(const MetricSums& sums, Writer& writer) {
  PutMeans(sums.means, writer);
  PutMeans(sums.maxima, writer);
}

void AddSums(Reader& reader, MetricSums& sums) {
  AddMeans(reader, sums.means);
  AddMeans(reader, sums.maxima);
}

}  // namespace ingot::trainer
