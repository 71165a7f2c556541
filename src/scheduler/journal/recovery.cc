#include "scheduler/journal/recovery.h"

#include <algorithm>
#include <utility>

#include "base/log.h"

namespace ingot::scheduler {
namespace {

// Applies the journal's records to `run` and returns their number.
absl::StatusOr<int64_t> Replay(datapool::Client& pool, JournaledRun& run) {
  int64_t end = 0;
  for (datapool::JournalPages pages(pool); !pages.done();) {
    INGOT_ASSIGN_OR_RETURN(const v1::ReadJournalResponse page, pages.Next());
    for (const v1::JournalRecord& record : page.records()) {
      if (record.index() != end) {
        return absl::DataLossError(absl::StrCat("journal record ", end, " is missing (", record.index(), " follows)"));
      }
      ++end;
      if (const absl::Status status = run.Apply(record); !status.ok()) {
        return absl::DataLossError(absl::StrCat("journal record ", record.index(), ": ", status.message()));
      }
    }
    if (pages.done() && page.end_index() != end) {
      return absl::DataLossError(absl::StrCat("the journal has ", end, " records, but ", page.end_index(),
                                              " were written", datapool::PoolRecoveryHint()));
    }
  }
  run.EndReplay(end);
  return end;
}

// Begins an empty journal at the checkpoint.
absl::Status BeginJournal(const ResumePoint& resume, JournaledRun& run) {
  v1::JournalRecord record;
  record.mutable_begun()->set_step(resume.step);
  // Assumes that every earlier step used all of its groups, so ids do not collide and tasks continue after the last
  // step.
  record.mutable_begun()->set_group(std::max(resume.next_group, resume.step * run.policy().groups_per_step()));
  INGOT_LOG(warn,
            "the pool is empty: the run continues from checkpoint {} with an empty journal, at group {}. Groups that "
            "were admitted but not trained are lost, as are all earlier episodes",
            resume.step, record.begun().group());
  return run.Write(std::move(record));
}

// Ends an open episode that lost its client, in the pool and in `episode`.
absl::Status EndLeft(datapool::Client& pool, const base::Clock& clock, v1::Episode& episode) {
  v1::StoreEndRequest end;  // without a reward, so posted values are kept
  end.set_episode_id(episode.episode_id());
  end.set_state(episode.has_reward() ? v1::EPISODE_FINISHED : v1::EPISODE_FENCED);
  end.set_detail(absl::StrCat("the run was restarted", episode.has_reward() ? "; its reward had been posted" : ""));
  end.set_ended_unix_ns(clock.UnixNanos());
  end.set_gateway_token(episode.gateway_token());
  const absl::Status ended = pool.StoreEnd(end);
  if (absl::IsFailedPrecondition(ended) || absl::IsAlreadyExists(ended) || absl::IsAborted(ended)) {
    v1::GetEpisodeRequest get;  // the new gateway ended it first
    get.set_episode_id(episode.episode_id());
    INGOT_ASSIGN_OR_RETURN(v1::EpisodeTree tree, pool.GetEpisode(get));
    episode = std::move(*tree.mutable_episode());
    return absl::OkStatus();
  }
  episode.set_state(end.state());
  return base::Annotate(ended, "ending an episode that the run left open");
}

// Restores the samples of the open groups. If `end_open`, ends their open episodes.
absl::Status ReadEpisodes(datapool::Client& pool, const base::Clock& clock, bool end_open, JournaledRun& run) {
  if (run.policy().head() >= run.policy().next_group()) return absl::OkStatus();
  run.AdvanceGroups();
  datapool::EpisodePages pages(pool, v1::PURPOSE_TRAIN, run.policy().head(), run.policy().next_group() - 1);
  while (!pages.done()) {
    INGOT_ASSIGN_OR_RETURN(v1::ListEpisodesResponse page, pages.Next());
    for (v1::Episode& episode : *page.mutable_episodes()) {
      if (!run.groups().contains(episode.ref().group_id())) continue;
      if (end_open && episode.state() == v1::EPISODE_OPEN) INGOT_RETURN_IF_ERROR(EndLeft(pool, clock, episode));
      run.groups().Restore(episode);
    }
  }
  run.groups().FinishRestore();
  return absl::OkStatus();
}

}  // namespace

absl::Status RecoverRun(datapool::Client& pool, const base::Clock& clock, const std::optional<ResumePoint>& resume,
                        JournaledRun& run) {
  INGOT_ASSIGN_OR_RETURN(const int64_t records, Replay(pool, run));
  if (resume.has_value()) {
    if (records == 0 && resume->step > 0) INGOT_RETURN_IF_ERROR(BeginJournal(*resume, run));
    INGOT_RETURN_IF_ERROR(run.ResumeAt(resume->step));
  }
  if (records > 0) {
    INGOT_LOG(info, "journal: {} records, {} groups admitted, {} batches, version {} live", records,
              run.policy().next_group(), run.policy().next_step(), run.policy().live_version());
  }
  return ReadEpisodes(pool, clock, /*end_open=*/resume.has_value(), run);
}

}  // namespace ingot::scheduler
