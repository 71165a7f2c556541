#include "datapool/client.h"

namespace ingot::datapool {

EpisodePages::EpisodePages(Client& pool, v1::EpisodePurpose purpose, int64_t first_group, int64_t last_group,
                           bool only_open)
    : pool_(pool) {
  request_.set_purpose(purpose);
  request_.set_first_group(first_group);
  request_.set_last_group(last_group);
  request_.set_only_open(only_open);
  request_.set_all_attempts(true);
}

absl::StatusOr<v1::ListEpisodesResponse> EpisodePages::Next() {
  INGOT_ASSIGN_OR_RETURN(v1::ListEpisodesResponse page, pool_.ListEpisodes(request_));
  done_ = !page.more();
  request_.set_after(page.next());
  return page;
}

}  // namespace ingot::datapool
