#include "datapool/client.h"

namespace ingot::datapool {

EpisodePages::EpisodePages(Client& pool, v1::EpisodePurpose purpose, int64_t first_group, int64_t last_group)
    : pool_(pool) {
  request_.set_purpose(purpose);
  request_.set_first_group(first_group);
  request_.set_last_group(last_group);
  request_.set_limit(10'000);
  request_.set_all_attempts(true);
}

absl::StatusOr<v1::ListEpisodesResponse> EpisodePages::Next() {
  while (true) {
    INGOT_ASSIGN_OR_RETURN(v1::ListEpisodesResponse page, pool_.ListEpisodes(request_));
    done_ = !page.more();
    if (done_) return page;
    if (page.episodes().empty()) return absl::InternalError("the pool says that there are more episodes, gives none");
    // The page may end inside a group: that group is asked for again, whole.
    const int64_t cut = page.episodes().rbegin()->ref().group_id();
    if (cut == request_.first_group()) {
      if (request_.limit() > (1 << 29)) return absl::InternalError(absl::StrCat("group ", cut, " has no end"));
      request_.set_limit(request_.limit() * 2);
      continue;
    }
    request_.set_first_group(cut);
    auto* episodes = page.mutable_episodes();
    while (episodes->rbegin()->ref().group_id() == cut) episodes->RemoveLast();
    return page;
  }
}

}  // namespace ingot::datapool
