// Builds the store's keys. Numbers are big-endian, so RocksDB sorts keys numerically. Ids contain no zero bytes, and a
// zero byte follows them in keys, so one episode's keys are never a prefix of another's.
//
//   family          key                                    value
//   meta            "schema", "layout", "counters"         text, text, PoolStatusResponse
//   episodes        episode                                Episode: its opening (datapool/episode_record.h)
//   episodes        0 episode                              Episode: its progress
//   order           purpose group sample attempt episode   -    (the order of ListEpisodes)
//   calls           episode sequence                       Call
//   call_ids        call id                                key in `calls`
//   segments        group content-key                      Segment
//   segment_infos   group content-key                      SegmentInfo
//   journal         index                                  JournalRecord
//   appends         content key of a journal request       index of its first record
//
// Segments belong to a group. No record spans two groups, so every group can be read and deleted separately. A serving
// episode is its own group.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "proto/tree.pb.h"

namespace ingot::datapool {

enum Family { kMeta, kEpisodes, kOrder, kCalls, kCallIds, kSegments, kSegmentInfos, kJournal, kAppends, kFamilies };

inline constexpr size_t kContentKeyBytes = 16;

inline std::string BigEndian(uint64_t value, int bytes) {
  std::string text(bytes, '\0');
  for (int i = 0; i < bytes; ++i) text[i] = static_cast<char>(value >> (8 * (bytes - 1 - i)));
  return text;
}

inline uint64_t FromBigEndian(std::string_view text) {
  uint64_t value = 0;
  for (const unsigned char byte : text) value = value << 8 | byte;
  return value;
}

inline std::string EpisodePrefix(const std::string& episode_id) { return episode_id + '\0'; }

// Progress records have their own key range, so their table blocks contain no large tasks.
inline std::string ProgressKey(const std::string& episode_id) { return '\0' + episode_id; }

inline std::string CallKey(const std::string& episode_id, int32_t sequence) {
  return EpisodePrefix(episode_id) + BigEndian(sequence, 4);
}

inline std::string GroupPrefix(v1::EpisodePurpose purpose, int64_t group_id) {
  return BigEndian(purpose, 1) + BigEndian(group_id, 8);
}
inline std::string SamplePrefix(v1::EpisodePurpose purpose, const v1::EpisodeRef& ref) {
  return GroupPrefix(purpose, ref.group_id()) + BigEndian(ref.sample_index(), 4);
}
inline std::string OrderKey(const v1::Episode& episode) {
  return SamplePrefix(episode.purpose(), episode.ref()) + BigEndian(episode.ref().attempt(), 4) + episode.episode_id();
}
inline constexpr size_t kSamplePrefixBytes = 1 + 8 + 4;
inline constexpr size_t kOrderFixedBytes = kSamplePrefixBytes + 4;

// Returns the key prefix shared by all segments that the episode can reference.
inline std::string SegmentPrefix(const v1::Episode& episode) {
  if (episode.purpose() == v1::PURPOSE_SERVE) {
    return BigEndian(episode.purpose(), 1) + EpisodePrefix(episode.episode_id());
  }
  return GroupPrefix(episode.purpose(), episode.ref().group_id());
}

// Segment metadata for appends and trims. It is stored separately because they do not need the segments themselves.
struct SegmentInfo {
  int64_t tokens = 0;
  bool sampled = false;

  std::string Encode() const { return BigEndian(tokens, 4) + BigEndian(sampled, 1); }
  static SegmentInfo Decode(std::string_view text) {
    return {static_cast<int64_t>(FromBigEndian(text.substr(0, 4))), text.size() > 4 && text[4] != 0};
  }
};

}  // namespace ingot::datapool
