// Answers a page's requests with JSON about its run, from the record, journal, pool, and, while the run is live, its
// roles.
//
//   /api/run                            name, facts, progress, newest row, efficiency, roles
//   /api/config                         the run's config.yaml
//   /api/curves?names=a,b&points=400    metrics over the steps; a warm start has its own steps
//   /api/window                         the groups in the window with their samples
//   /api/time?steps=200                 how seconds and tokens were spent
//   /api/step?step=7                    the groups in a batch
//   /api/episodes?...                   a list (listing.h)
//   /api/group?group=3&kind=train       a group's episodes side by side
//   /api/episode?id=E                   an episode's calls and tree
//   /api/tokens?id=E&call=2             a call's tokens
//   POST /api/end_uncalled?id=E         ends an episode without calls (all=1: all of them); requires the admin key
//
// Methods block on the pool and the roles. Thread safe. Repeated requests within kFresh get the same answer, so many
// tabs cost no more than one.
#pragma once

#include <chrono>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "base/clock.h"
#include "base/json.h"
#include "base/mutex.h"
#include "base/status.h"
#include "view/answers.h"
#include "view/query.h"
#include "view/rows.h"
#include "view/runs/journal.h"
#include "view/runs/run_source.h"
#include "view/runs/waits.h"

namespace ingot::view {

class RunView final : public Answers {
 public:
  // `clock` must outlive the view.
  explicit RunView(RunSource source, const base::Clock& clock = base::Clock::Real());

  // Answers
  absl::StatusOr<std::string> Answer(std::string_view target) override;
  absl::StatusOr<std::string> EndUncalled(std::string_view target, const std::string& key) override;

  static constexpr std::chrono::milliseconds kFresh{900};

 private:
  absl::StatusOr<std::string> Make(std::string_view path, const Query& query);
  absl::StatusOr<base::json::value> MakeValue(std::string_view path, const Query& query);
  absl::StatusOr<base::json::value> Run();
  absl::StatusOr<base::json::value> Config() const;
  absl::StatusOr<base::json::value> Curves(const Query& query);
  absl::StatusOr<base::json::value> Window();
  absl::StatusOr<base::json::value> Time(const Query& query);
  absl::StatusOr<base::json::value> Step(const Query& query);
  absl::StatusOr<base::json::value> Episodes(const Query& query);
  absl::StatusOr<base::json::value> Group(const Query& query);
  absl::StatusOr<base::json::value> Episode(const Query& query);
  absl::StatusOr<std::string> Tokens(const Query& query);

  // Returns the pool after reading the journal to its end.
  absl::StatusOr<std::shared_ptr<datapool::Client>> Pool();
  void AddPool(base::json::object& run);
  absl::StatusOr<v1::EpisodeTree> Tree(datapool::Client& pool, const Query& query);
  // Returns one value per call in the tree, or none if they are unknown.
  std::vector<double> AdvantagesOf(datapool::Client& pool, const v1::EpisodeTree& tree);
  base::json::object Tokens(const std::vector<Row>& rows, datapool::Client* pool);

  const RunSource source_;
  const base::Clock& clock_;
  Rows rows_, warm_start_;
  Journal journal_;
  Waits waits_;
  base::Mutex mu_;
  std::map<int64_t, int64_t> sampled_in_ ABSL_GUARDED_BY(mu_);  // tokens of dropped and failed groups; -1 = deleted
  int64_t generation_ ABSL_GUARDED_BY(mu_) = 0;                 // the journal's generation for waits_ and sampled_in_
  std::map<std::string, std::pair<std::chrono::nanoseconds, std::string>> answers_ ABSL_GUARDED_BY(mu_);
};

}  // namespace ingot::view
