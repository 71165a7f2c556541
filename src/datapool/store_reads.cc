#include "datapool/store_reads.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "base/checksum.h"
#include "datapool/episode_listing.h"
#include "datapool/episode_record.h"
#include "datapool/keys.h"
#include "datapool/page.h"
#include "datapool/serialize.h"
#include "datapool/trim_plan.h"

namespace ingot::datapool {
namespace {

absl::StatusOr<std::set<int64_t>> CoveredGroups(const Database::Reader& reader, int64_t checkpoint_step) {
  TrimPlan plan(checkpoint_step);
  absl::Status damage;
  INGOT_RETURN_IF_ERROR(reader.Scan(kJournal, "", "", [&](std::string_view, std::string_view value) {
    const absl::StatusOr<v1::JournalRecord> record = ParseRecord<v1::JournalRecord>(value, "a journal record");
    if (record.ok()) plan.Add(*record);
    damage.Update(record.status());
    return damage.ok();
  }));
  INGOT_RETURN_IF_ERROR(damage);
  return plan.Groups();
}

}  // namespace

absl::StatusOr<v1::EpisodeTree> LoadTree(const Database::Reader& reader, const std::string& episode_id,
                                         bool with_calls) {
  v1::EpisodeTree tree;
  INGOT_ASSIGN_OR_RETURN(*tree.mutable_episode(), LoadEpisode(reader, episode_id));
  if (!with_calls) return tree;
  const std::string prefix = EpisodePrefix(episode_id);
  absl::Status damage;
  INGOT_RETURN_IF_ERROR(reader.Scan(kCalls, prefix, prefix, [&](std::string_view, std::string_view value) {
    absl::StatusOr<v1::Call> call = ParseRecord<v1::Call>(value, "a call of episode '" + episode_id + "'");
    damage = call.status();
    if (call.ok()) *tree.add_calls() = *std::move(call);
    return damage.ok();
  }));
  INGOT_RETURN_IF_ERROR(damage);
  std::set<std::string> keys;
  for (const v1::Call& call : tree.calls()) {
    keys.insert(call.context_keys().begin(), call.context_keys().end());
    keys.insert(call.sampled_keys().begin(), call.sampled_keys().end());
  }
  const std::string group = SegmentPrefix(tree.episode());
  for (const std::string& key : keys) {
    const absl::StatusOr<std::string> stored = reader.Get(kSegments, group + key);
    if (absl::IsNotFound(stored.status())) {
      return absl::DataLossError("segment " + base::Hex(key) + " of episode '" + episode_id +
                                 "' is no longer in the pool");
    }
    INGOT_RETURN_IF_ERROR(stored.status());
    INGOT_ASSIGN_OR_RETURN((*tree.mutable_segments())[base::Hex(key)],
                           ParseRecord<v1::Segment>(*stored, "segment " + base::Hex(key)));
  }
  return tree;
}

absl::Status CheckJournalEnd(const Database::Reader& reader) {
  const absl::StatusOr<std::string> counters = reader.Get(kMeta, "counters");
  if (!counters.ok() && !absl::IsNotFound(counters.status())) return counters.status();
  v1::PoolStatusResponse counted;
  if (counters.ok()) {
    INGOT_ASSIGN_OR_RETURN(counted, ParseRecord<v1::PoolStatusResponse>(*counters, "the counters"));
  }
  const absl::StatusOr<std::string> last = reader.LastKey(kJournal);
  if (!last.ok() && !absl::IsNotFound(last.status())) return last.status();
  const int64_t end = last.ok() ? static_cast<int64_t>(FromBigEndian(*last)) + 1 : 0;
  if (end == counted.journal_end()) return absl::OkStatus();
  return reader.Damaged(absl::StrCat("its journal ends at ", end, " instead of ", counted.journal_end()));
}

absl::StatusOr<std::vector<std::string>> EpisodesToTrim(const Database::Reader& reader,
                                                        const v1::TrimRequest& request) {
  std::set<int64_t> groups(request.group_ids().begin(), request.group_ids().end());
  if (groups.empty()) {
    INGOT_ASSIGN_OR_RETURN(groups, CoveredGroups(reader, request.checkpoint_step()));
  }
  std::vector<std::string> keys;
  for (const int64_t group : groups) {
    const std::string prefix = GroupPrefix(v1::PURPOSE_TRAIN, group);
    INGOT_RETURN_IF_ERROR(reader.Scan(kOrder, prefix, prefix, [&](std::string_view key, std::string_view) {
      keys.emplace_back(key);
      return true;
    }));
  }
  return keys;
}

absl::StatusOr<v1::Group> ReadGroup(const Database::Reader& reader, const v1::GetGroupRequest& request) {
  const std::string prefix = GroupPrefix(request.purpose(), request.group_id());
  std::map<std::string, std::string> newest;  // sample -> episode; attempts ascend
  INGOT_RETURN_IF_ERROR(reader.Scan(kOrder, prefix, prefix, [&](std::string_view key, std::string_view) {
    newest[std::string(key.substr(0, kSamplePrefixBytes))] = key.substr(kOrderFixedBytes);
    return true;
  }));
  if (newest.empty()) {
    return absl::NotFoundError(absl::StrCat("group ", request.group_id(),
                                            " is not in the pool: no sample was opened, or the group was trimmed"));
  }
  v1::Group group;
  group.set_group_id(request.group_id());
  for (const auto& [sample, episode_id] : newest) {
    INGOT_ASSIGN_OR_RETURN(*group.add_episodes(), LoadTree(reader, episode_id, true));
  }
  *group.mutable_task() = group.episodes(0).episode().task();
  return group;
}

absl::StatusOr<v1::ListEpisodesResponse> ReadEpisodes(const Database::Reader& reader,
                                                      const v1::ListEpisodesRequest& request) {
  const std::string first = GroupPrefix(request.purpose(), std::max<int64_t>(request.first_group(), 0));
  const std::string from = request.after().empty() ? first : std::max(first, request.after() + '\0');
  EpisodeListing listing(reader, request);
  INGOT_RETURN_IF_ERROR(reader.Scan(kOrder, BigEndian(request.purpose(), 1), from,
                                    [&](std::string_view key, std::string_view) { return listing.Visit(key); }));
  INGOT_RETURN_IF_ERROR(listing.status());
  return std::move(listing).response();
}

absl::StatusOr<v1::ReadJournalResponse> ReadJournalPage(const Database::Reader& reader,
                                                        const v1::ReadJournalRequest& request) {
  const absl::StatusOr<std::string> counters = reader.Get(kMeta, "counters");
  if (!counters.ok() && !absl::IsNotFound(counters.status())) return counters.status();
  v1::ReadJournalResponse response;
  if (counters.ok()) {
    INGOT_ASSIGN_OR_RETURN(const auto parsed, ParseRecord<v1::PoolStatusResponse>(*counters, "the counters"));
    response.set_end_index(parsed.journal_end());
  }
  PageBound bound(request.limit());
  absl::Status damage;
  INGOT_RETURN_IF_ERROR(
      reader.Scan(kJournal, "", BigEndian(request.from_index(), 8), [&](std::string_view, std::string_view value) {
        if (bound.Full(response.records_size())) return false;
        absl::StatusOr<v1::JournalRecord> record = ParseRecord<v1::JournalRecord>(value, "a journal record");
        damage = record.status();
        if (record.ok()) *response.add_records() = *std::move(record);
        bound.Add(static_cast<int64_t>(value.size()));
        return damage.ok();
      }));
  INGOT_RETURN_IF_ERROR(damage);
  return response;
}

absl::StatusOr<v1::PoolStatusResponse> ReadStatus(const Database::Reader& reader) {
  const absl::StatusOr<std::string> counters = reader.Get(kMeta, "counters");
  v1::PoolStatusResponse response;
  if (counters.ok()) {
    INGOT_ASSIGN_OR_RETURN(response, ParseRecord<v1::PoolStatusResponse>(*counters, "the counters"));
  } else if (!absl::IsNotFound(counters.status())) {
    return counters.status();
  }
  response.set_bytes_on_disk(reader.BytesOnDisk());
  return response;
}

}  // namespace ingot::datapool
