#include "datapool/episode_listing.h"

#include "datapool/episode_record.h"
#include "datapool/keys.h"

namespace ingot::datapool {

EpisodeListing::EpisodeListing(const Database::Reader& reader, const v1::ListEpisodesRequest& request)
    : reader_(reader),
      request_(request),
      newest_only_(!request.all_attempts() && request.purpose() != v1::PURPOSE_SERVE),
      bound_(request.limit(), request.max_bytes()) {}

bool EpisodeListing::Visit(std::string_view key) {
  const auto group = static_cast<int64_t>(FromBigEndian(key.substr(1, 8)));
  if (request_.last_group() >= 0 && group > request_.last_group()) return false;
  const bool newer_attempt =
      newest_only_ && key.substr(0, kSamplePrefixBytes) == std::string_view(last_).substr(0, kSamplePrefixBytes);
  if (bound_.Full(response_.episodes_size()) && !newer_attempt) {
    response_.set_more(true);
    response_.set_next(last_);
    return false;
  }
  last_ = key;
  status_ = Add(std::string(key.substr(kOrderFixedBytes)), newer_attempt);
  return status_.ok();
}

absl::Status EpisodeListing::Add(const std::string& episode_id, bool newer_attempt) {
  bool wanted = true;
  if (request_.only_open()) {  // decided before the large opening is read
    INGOT_ASSIGN_OR_RETURN(const v1::Episode progress, LoadProgress(reader_, episode_id));
    bound_.Add(static_cast<int64_t>(last_.size() + progress.ByteSizeLong()));
    wanted = progress.state() == v1::EPISODE_OPEN;
  }
  if (newer_attempt && listed_) response_.mutable_episodes()->RemoveLast();
  listed_ = wanted;
  if (!wanted) return absl::OkStatus();
  INGOT_ASSIGN_OR_RETURN(v1::Episode episode, LoadEpisode(reader_, episode_id));
  bound_.Add(static_cast<int64_t>(episode.ByteSizeLong()));
  *response_.add_episodes() = std::move(episode);
  return absl::OkStatus();
}

}  // namespace ingot::datapool
