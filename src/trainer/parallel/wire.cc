#include "trainer/parallel/wire.h"

namespace ingot::trainer {
namespace {

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
  return absl::DataLossError(absl::StrCat("rank 0 sent a ", message.GetTypeName(), " that cannot be read"));
}

}  // namespace

std::string EncodeBatch(const TrainBatch& batch) {
  Writer writer;
  writer.Put(batch.step).PutText(batch.feed.SerializeAsString()).Put(static_cast<uint64_t>(batch.groups.size()));
  for (const v1::Group& group : batch.groups) writer.PutText(group.SerializeAsString());
  return writer.Take();
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

void PutSums(const MetricSums& sums, Writer& writer) {
  PutMeans(sums.means, writer);
  PutMeans(sums.maxima, writer);
}

void AddSums(Reader& reader, MetricSums& sums) {
  AddMeans(reader, sums.means);
  AddMeans(reader, sums.maxima);
}

}  // namespace ingot::trainer
