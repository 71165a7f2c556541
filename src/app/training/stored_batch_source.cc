#include "app/training/stored_batch_source.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <utility>

#include "absl/strings/str_join.h"

namespace ingot::app {
namespace {

absl::StatusOr<std::set<int64_t>> StoredGroups(datapool::Client& pool) {
  std::set<int64_t> groups;
  for (datapool::EpisodePages pages(pool, v1::PURPOSE_TRAIN, 0, -1); !pages.done();) {
    INGOT_ASSIGN_OR_RETURN(const v1::ListEpisodesResponse page, pages.Next());
    for (const v1::Episode& episode : page.episodes()) groups.insert(episode.ref().group_id());
  }
  return groups;
}

// Subtracts `steps` from every version, but not below 0, because the trainer's own versions begin at 0.
void LowerVersions(int64_t steps, v1::Group& group) {
  if (steps == 0) return;
  for (v1::EpisodeTree& tree : *group.mutable_episodes()) {
    for (auto& segment : *tree.mutable_segments()) {
      for (v1::VersionRun& run : *segment.second.mutable_versions()) {
        run.set_version(std::max<int64_t>(0, run.version() - steps));
      }
    }
  }
}

}  // namespace

std::vector<StoredBatch> StoredBatches::Whole() const {
  std::vector<StoredBatch> whole;
  std::copy_if(trained.begin(), trained.end(), std::back_inserter(whole),
               [](const StoredBatch& batch) { return batch.whole; });
  return whole;
}

std::vector<int64_t> StoredBatches::Gone() const {
  std::vector<int64_t> gone;
  for (int64_t step = 0; step < lost; ++step) gone.push_back(step);
  for (const StoredBatch& batch : trained) {
    if (!batch.whole) gone.push_back(batch.step);
  }
  return gone;
}

absl::StatusOr<StoredBatches> ReadStoredBatches(datapool::Client& pool) {
  StoredBatches stored;
  int64_t newest = 0;  // newest version that was created
  for (datapool::JournalPages pages(pool); !pages.done();) {
    INGOT_ASSIGN_OR_RETURN(const v1::ReadJournalResponse page, pages.Next());
    for (const v1::JournalRecord& record : page.records()) {
      if (record.has_begun()) stored.lost = record.begun().step();
      if (record.has_live()) newest = std::max(newest, record.live().version());
      if (record.has_checkpoint()) newest = std::max(newest, record.checkpoint().step());
      if (!record.has_batch()) continue;
      StoredBatch batch;
      batch.step = record.batch().step();
      batch.group_ids.assign(record.batch().group_ids().begin(), record.batch().group_ids().end());
      stored.trained.push_back(std::move(batch));
    }
  }
  std::erase_if(stored.trained, [newest](const StoredBatch& batch) { return batch.step >= newest; });
  INGOT_ASSIGN_OR_RETURN(const std::set<int64_t> groups, StoredGroups(pool));
  for (StoredBatch& batch : stored.trained) {
    batch.whole = std::all_of(batch.group_ids.begin(), batch.group_ids.end(),
                              [&groups](int64_t id) { return groups.contains(id); });
  }
  return stored;
}

std::string DescribeSteps(const std::vector<int64_t>& steps) {
  std::vector<std::string> ranges;
  for (size_t first = 0; first < steps.size();) {
    size_t last = first;
    while (last + 1 < steps.size() && steps[last + 1] == steps[last] + 1) ++last;
    ranges.push_back(first == last ? absl::StrCat(steps[first]) : absl::StrCat(steps[first], " to ", steps[last]));
    first = last + 1;
  }
  return absl::StrJoin(ranges, ", ");
}

StoredBatchSource::StoredBatchSource(datapool::Client& pool, std::vector<StoredBatch> batches, std::string fingerprint,
                                     const RetryPolicy& retry)
    : pool_(pool), batches_(std::move(batches)), fingerprint_(std::move(fingerprint)), retry_(retry) {}

absl::StatusOr<trainer::TrainBatch> StoredBatchSource::Next(int64_t step) {
  if (retry_.stopped()) return absl::CancelledError("the run was stopped");
  if (step < 0 || step >= std::ssize(batches_)) {
    return absl::OutOfRangeError(absl::StrCat("no stored batch ", step, " among ", batches_.size()));
  }
  const StoredBatch& stored = batches_[static_cast<size_t>(step)];
  trainer::TrainBatch batch;
  batch.step = step;
  for (const int64_t id : stored.group_ids) {
    INGOT_ASSIGN_OR_RETURN(v1::Group group, Read(id, stored.step));
    INGOT_RETURN_IF_ERROR(CheckTokenizer(group));
    LowerVersions(stored.step - step, group);
    batch.groups.push_back(std::move(group));
  }
  return batch;
}

absl::StatusOr<v1::Group> StoredBatchSource::Read(int64_t id, int64_t step) {
  v1::GetGroupRequest request;
  request.set_group_id(id);
  request.set_purpose(v1::PURPOSE_TRAIN);
  v1::Group group;
  const std::string what = absl::StrCat("reading group ", id, " of the stored step ", step);
  const absl::Status read = Persist(retry_, what, [&]() -> absl::Status {
    INGOT_ASSIGN_OR_RETURN(group, pool_.GetGroup(request));
    return absl::OkStatus();
  });
  if (absl::IsNotFound(read)) {
    return absl::NotFoundError(absl::StrCat("group ", id, " of the stored step ", step,
                                            " is no longer in the pool: the run that trained it has trimmed it "
                                            "(datapool.keep_steps)"));
  }
  INGOT_RETURN_IF_ERROR(read);
  return group;
}

absl::Status StoredBatchSource::CheckTokenizer(const v1::Group& group) const {
  for (const v1::EpisodeTree& tree : group.episodes()) {
    for (const v1::Call& call : tree.calls()) {
      if (call.tokenizer_fingerprint().empty() || call.tokenizer_fingerprint() == fingerprint_) continue;
      return absl::InvalidArgumentError(
          absl::StrCat("call ", call.call_id(), " of group ", group.group_id(),
                       " was sampled with another tokenizer than the model's: its ids mean other text. Set "
                       "model.path to a model with the stored run's tokenizer"));
    }
  }
  return absl::OkStatus();
}

}  // namespace ingot::app
