// A small run for the tests of its page: four groups of two samples, of which one was trained, one dropped, one is
// finished and one open.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "base/clock.h"
#include "datapool/make_pool.h"
#include "text/tokenizer/tokenizer.h"
#include "view/runs/run_source.h"

namespace ingot::view::testing {

namespace pools = datapool::testing;

class SmallRun {
 public:
  SmallRun() : pool_(datapool::OpenPool(pools::QuickOptions(dir_.path() + "/pool")).value()) {
    for (int group = 0; group < 4; ++group) {
      v1::GroupAdmitted& admitted = *Record().mutable_admitted();
      admitted.set_group_id(group);
      admitted.set_group_size(2);
      admitted.mutable_task()->set_task_id("task-" + std::to_string(group));
      Write();
      for (int sample = 0; sample < 2; ++sample) Sample(group, sample, group < 3 || sample == 0);
    }
    for (const int group : {0, 2}) {
      v1::GroupRewarded& rewarded = *Record().mutable_rewarded();
      rewarded.set_group_id(group);
      rewarded.add_returns(0);
      rewarded.add_returns(1);
      Write();
    }
    v1::GroupClosed& closed = *Record().mutable_closed();
    closed.set_group_id(1);
    closed.set_outcome(v1::GROUP_DROPPED);
    Write();
    EXPECT_TRUE(pool_->AppendJournal(pools::BatchRecord(0, {0})).ok());
  }

  datapool::Client& pool() { return *pool_; }
  const std::string& folder() const { return dir_.path(); }

  RunSource Source() {
    RunSource source;
    source.name = "small";
    source.folder = dir_.path();
    source.facts = {
        .total_steps = 4, .groups_per_step = 1, .group_size = 2, .max_staleness = 3, .budget = 4, .window = 2};
    source.pool = [this]() -> absl::StatusOr<std::shared_ptr<datapool::Client>> { return pool_; };
    source.tokenizer = text::MakeByteTokenizer({"<|im_end|>"});
    return source;
  }

 private:
  v1::JournalRecord& Record() {
    request_ = {};
    return *request_.add_records();
  }
  void Write() { EXPECT_TRUE(pool_->AppendJournal(request_).ok()); }

  void Sample(int group, int sample, bool ended) {
    const std::string id = "g" + std::to_string(group) + "s" + std::to_string(sample);
    v1::StoreEpisodeRequest open = pools::Open(id, group, sample);
    open.mutable_episode()->mutable_task()->set_domain(group % 2 == 0 ? "even" : "odd");
    open.mutable_episode()->set_scaffold("agent");
    open.mutable_episode()->set_opened_unix_ns(base::Clock::Real().UnixNanos());
    EXPECT_TRUE(pool_->StoreEpisode(open).ok());
    v1::AppendCallRequest call =
        pools::Append(id, 0, {pools::Prompt({'a', 'b'})}, {pools::Sampled({'x', '0' + group})});
    if (group == 2) call.mutable_call()->set_fork_cause("edited");
    EXPECT_TRUE(pool_->AppendCall(call).ok());
    if (ended) {
      v1::StoreEndRequest end = pools::End(id, v1::EPISODE_FINISHED, sample);
      end.set_ended_unix_ns(base::Clock::Real().UnixNanos());
      EXPECT_TRUE(pool_->StoreEnd(end).ok());
    }
  }

  pools::TempDir dir_;
  std::shared_ptr<datapool::Client> pool_;
  v1::AppendJournalRequest request_;
};

}  // namespace ingot::view::testing
