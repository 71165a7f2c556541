#include "scheduler/simulation.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <numbers>
#include <numeric>
#include <queue>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "base/rng.h"

namespace ingot::scheduler {
namespace {

// Random streams derived from the seed.
enum Stream : uint64_t { kTask = 1, kSample, kFactor, kDrop, kShuffle };

constexpr double kNever = 1e300;

// Returns a standard normal value from two uniform values (Box-Muller).
double Normal(double u, double v) { return std::sqrt(-2 * std::log1p(-u)) * std::cos(2 * std::numbers::pi * v); }

// A distribution of Durations: its name and numbers.
class Distribution {
 public:
  static absl::StatusOr<Distribution> Parse(const std::string& text) {
    static const std::map<std::string, size_t, std::less<>> kNumbers = {
        {"constant", 1}, {"uniform", 2}, {"exponential", 1}, {"lognormal", 2}, {"pareto", 2}};
    Distribution made;
    const size_t colon = text.find(':');
    made.name_ = text.substr(0, colon);
    bool good = colon != std::string::npos && kNumbers.contains(made.name_);
    for (const auto& word : absl::StrSplit(colon == std::string::npos ? "" : text.substr(colon + 1), ',')) {
      double number = 0;
      good = good && absl::SimpleAtod(word, &number) && std::isfinite(number) && number >= 0;
      made.numbers_.push_back(number);
    }
    good = good && made.numbers_.size() == kNumbers.at(made.name_);
    good = good && (made.name_ == "uniform" ? made.numbers_[1] >= made.numbers_[0] : made.numbers_[0] > 0);
    good = good && (made.name_ != "pareto" || made.numbers_[1] > 0);
    if (good) return made;
    return absl::InvalidArgumentError(
        absl::StrCat("durations '", text,
                     "': constant:SECONDS, uniform:LOW,HIGH, exponential:MEAN, lognormal:MEDIAN,SIGMA, or "
                     "pareto:LEAST,SHAPE, with numbers above 0"));
  }

  double Draw(uint64_t seed) const {
    const double u = base::UniformAt(seed, 0);
    if (name_ == "constant") return numbers_[0];
    if (name_ == "uniform") return numbers_[0] + u * (numbers_[1] - numbers_[0]);
    if (name_ == "exponential") return -numbers_[0] * std::log1p(-u);
    if (name_ == "pareto") return numbers_[0] * std::pow(1 - u, -1 / numbers_[1]);
    return numbers_[0] * std::exp(numbers_[1] * Normal(u, base::UniformAt(seed, 1)));
  }

 private:
  std::string name_;
  std::vector<double> numbers_;
};

// Returns the bin of a value, among ten bins with equal shares.
size_t BinOf(const std::vector<double>& borders, double value) {
  return static_cast<size_t>(std::upper_bound(borders.begin(), borders.end(), value) - borders.begin());
}

// KL divergences of samples of durations against all durations.
class DurationBins {
 public:
  explicit DurationBins(std::vector<double> submitted) {
    constexpr size_t kBins = 10;
    std::sort(submitted.begin(), submitted.end());
    for (size_t i = 1; i < kBins; ++i) borders_.push_back(submitted[i * submitted.size() / kBins]);
    shares_.assign(kBins, 0);
    for (const double value : submitted) shares_[BinOf(borders_, value)] += 1;
    for (double& share : shares_) share /= static_cast<double>(submitted.size());
  }

  double Kl(const std::vector<double>& sample) const {
    std::vector<double> counts(shares_.size(), 0);
    for (const double value : sample) counts[BinOf(borders_, value)] += 1;
    double kl = 0;
    for (size_t i = 0; i < counts.size(); ++i) {
      const double p = counts[i] / static_cast<double>(sample.size());
      if (p > 0) kl += p * std::log(p / shares_[i]);  // every bin of the sample is also a bin of the submitted episodes
    }
    return kl;
  }

 private:
  std::vector<double> borders_;  // between the bins; if durations are equal, some bins are empty
  std::vector<double> shares_;
};

struct Group {
  int64_t admitted_at = 0;        // the live version at that time
  int64_t running = 0;            // samples that are not done yet
  std::vector<double> durations;  // durations of its samples
  bool dropped = false;
  bool trained = false;
};

class World {
 public:
  World(const SimulationOptions& options, Distribution distribution)
      : options_(options), distribution_(std::move(distribution)), window_(options.window), idle_(options.workers) {}

  SimulationReport Run() {
    while (true) {
      Decide();
      if (trained_steps_ == options_.steps) break;
      const double next = std::min({ends_.empty() ? kNever : ends_.top().time, step_end_, NextLive()});
      Advance(next);
    }
    return Report();
  }

 private:
  struct End {
    double time = 0;
    int64_t order = 0;  // start order, for equal times
    int64_t group = 0;
    bool operator>(const End& other) const { return time != other.time ? time > other.time : order > other.order; }
  };

  double NextLive() const { return publishing_.empty() ? kNever : publishing_.front(); }

  // Starts everything that can start now.
  void Decide() {
    if (step_end_ == kNever && trained_steps_ + (training_ ? 1 : 0) < options_.steps) {
      if (const auto batch = window_.ReadyBatch()) TakeBatch(*batch);
    }
    while (idle_ > 0) {
      if (next_sample_ == options_.group_size || groups_.empty()) {
        if (!window_.CanAdmit()) return;
        Admit();
      }
      StartSample();
    }
  }

  void Admit() {
    const int64_t id = window_.next_group();
    (void)window_.AdmitGroup(id);
    Group group;
    group.admitted_at = window_.live_version();
    group.running = options_.group_size;
    group.dropped = base::UniformAt(base::DeriveSeed(options_.seed, kDrop), id) < options_.drop_share;
    groups_.push_back(std::move(group));
    next_sample_ = 0;
  }

  double DurationOf(int64_t group, int64_t sample) const {
    const auto id = static_cast<uint64_t>(group);
    const uint64_t seed = base::DeriveSeed(base::DeriveSeed(options_.seed, kSample), (id << 20) + sample);
    if (const auto& recorded = options_.durations.recorded; !recorded.empty()) {
      const double pick = base::UniformAt(base::DeriveSeed(options_.seed, kTask), id);
      const auto& list = recorded[static_cast<size_t>(pick * static_cast<double>(recorded.size()))];
      return list[static_cast<size_t>(base::UniformAt(seed, 0) * static_cast<double>(list.size()))];
    }
    const uint64_t factor = base::DeriveSeed(base::DeriveSeed(options_.seed, kFactor), id);
    return distribution_.Draw(seed) *
           std::exp(options_.task_sigma * Normal(base::UniformAt(factor, 0), base::UniformAt(factor, 1)));
  }

  void StartSample() {
    const auto id = static_cast<int64_t>(groups_.size()) - 1;
    const double duration = DurationOf(id, next_sample_++);
    groups_.back().durations.push_back(duration);
    ends_.push({now_ + duration, starts_++, id});
    --idle_;
  }

  void TakeBatch(const std::vector<int64_t>& batch) {
    (void)window_.TakeBatch(window_.next_step(), batch);
    std::vector<double> durations;
    for (const int64_t id : batch) {
      Group& group = groups_[static_cast<size_t>(id)];
      group.trained = true;
      const auto age = static_cast<size_t>(window_.next_step() - 1 - group.admitted_at);
      if (ages_.size() <= age) ages_.resize(age + 1);
      ++ages_[age];
      durations.insert(durations.end(), group.durations.begin(), group.durations.end());
    }
    batches_.push_back(std::move(durations));
    training_ = true;
    step_end_ = now_ + options_.step_seconds;
  }

  // Advances the time to the next event and applies it.
  void Advance(double next) {
    const double passed = next - now_;
    idle_time_ += passed * idle_;
    trainer_idle_ += training_ ? 0 : passed;
    now_ = next;
    if (step_end_ <= now_) {
      training_ = false;
      step_end_ = kNever;
      ++trained_steps_;
      publishing_.push_back(now_ + options_.publish_seconds);
    }
    while (NextLive() <= now_) {
      publishing_.erase(publishing_.begin());
      (void)window_.SetLiveVersion(window_.live_version() + 1);
    }
    while (!ends_.empty() && ends_.top().time <= now_) {
      const int64_t id = ends_.top().group;
      ends_.pop();
      ++idle_;
      if (Group& group = groups_[static_cast<size_t>(id)]; --group.running == 0) {
        (void)(group.dropped ? window_.CloseGroup(id) : window_.FinishGroup(id));
      }
    }
  }

  SimulationReport Report() const {
    SimulationReport report;
    report.seconds = now_;
    report.groups = std::accumulate(ages_.begin(), ages_.end(), int64_t{0});
    report.episodes_per_hour = static_cast<double>(report.groups * options_.group_size) * 3600 / now_;
    report.worker_idle = idle_time_ / (now_ * options_.workers);
    report.trainer_idle = trainer_idle_ / now_;
    report.ages = ages_;
    for (size_t age = 0; age < ages_.size(); ++age) {
      report.mean_age +=
          static_cast<double>(age) * static_cast<double>(ages_[age]) / static_cast<double>(report.groups);
    }
    AddWork(report);
    AddKl(report);
    return report;
  }

  void AddWork(SimulationReport& report) const {
    const double busy = now_ * options_.workers - idle_time_;
    double dropped = 0, used = 0;
    for (const Group& group : groups_) {
      const double work = std::accumulate(group.durations.begin(), group.durations.end(), 0.0);
      if (group.trained) used += work;
      if (group.dropped && group.running == 0) dropped += work;
    }
    report.dropped_work = dropped / busy;
    report.unused_work = std::max(0.0, (busy - dropped - used) / busy);
  }

  // Covers the groups that can reach a batch. Dropped groups are excluded for their rewards, not durations.
  void AddKl(SimulationReport& report) const {
    std::vector<double> submitted, pool;
    for (const Group& group : groups_) {
      if (!group.dropped) submitted.insert(submitted.end(), group.durations.begin(), group.durations.end());
    }
    for (const auto& batch : batches_) pool.insert(pool.end(), batch.begin(), batch.end());
    const uint64_t seed = base::DeriveSeed(options_.seed, kShuffle);
    for (size_t i = pool.size(); i > 1; --i) {
      std::swap(pool[i - 1], pool[static_cast<size_t>(base::UniformAt(seed, i) * static_cast<double>(i))]);
    }
    const DurationBins bins(std::move(submitted));
    const size_t early = std::max<size_t>(1, batches_.size() / 10);
    size_t drawn = 0;
    for (size_t i = 0; i < batches_.size(); ++i) {
      const size_t size = batches_[i].size();
      const double kl = bins.Kl(batches_[i]);
      report.batch_kl += kl / static_cast<double>(batches_.size());
      if (i < early) report.early_kl += kl / static_cast<double>(early);
      const auto from = pool.begin() + static_cast<int64_t>(drawn);
      report.noise_kl += bins.Kl({from, from + static_cast<int64_t>(size)}) / static_cast<double>(batches_.size());
      drawn += size;
    }
  }

  const SimulationOptions& options_;
  const Distribution distribution_;
  WindowedFifo window_;
  double now_ = 0;
  std::vector<Group> groups_;  // by id
  int64_t next_sample_ = 0;    // index in the newest group; older groups have started all their samples
  int64_t starts_ = 0;
  std::priority_queue<End, std::vector<End>, std::greater<>> ends_;
  int idle_;
  bool training_ = false;
  double step_end_ = kNever;
  int64_t trained_steps_ = 0;
  std::vector<double> publishing_;  // times when versions become live, ascending
  double idle_time_ = 0, trainer_idle_ = 0;
  std::vector<int64_t> ages_;
  std::vector<std::vector<double>> batches_;  // the durations of each batch's episodes
};

}  // namespace

absl::Status SimulationOptions::Validate() const {
  INGOT_RETURN_IF_ERROR(window.Validate());
  const auto reject = [](const std::string& what) { return absl::InvalidArgumentError(what); };
  if (group_size < 1 || group_size > (1 << 16)) return reject("the group size must be 1 to 65536");
  if (steps < 1 || steps > 10'000'000) return reject("steps must be 1 to 10000000");
  if (workers < 1 || workers > kMaxWorkers) return reject(absl::StrCat("workers must be 1 to ", kMaxWorkers));
  if (steps * window.groups_per_step > kMaxEpisodes / group_size) {
    return reject(absl::StrCat("steps x groups per step x group size must be at most ", kMaxEpisodes));
  }
  INGOT_RETURN_IF_ERROR(Distribution::Parse(durations.distribution).status());
  if (!(task_sigma >= 0 && task_sigma <= 10)) return reject("task sigma must be 0 to 10");
  if (!(step_seconds > 0 && step_seconds < 1e9)) return reject("the step duration must be above 0 s");
  if (!(publish_seconds >= 0 && publish_seconds < 1e9)) return reject("the publish duration must be at least 0 s");
  if (!(drop_share >= 0 && drop_share < 1)) return reject("the share of dropped groups must be in [0, 1)");
  for (const auto& group : durations.recorded) {
    if (group.empty()) return reject("a recorded group has no durations");
    for (const double duration : group) {
      if (!(duration >= 0 && duration < 1e9)) return reject("a recorded duration must be at least 0 s");
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<SimulationReport> Simulate(const SimulationOptions& options) {
  INGOT_RETURN_IF_ERROR(options.Validate());
  INGOT_ASSIGN_OR_RETURN(Distribution distribution, Distribution::Parse(options.durations.distribution));
  return World(options, std::move(distribution)).Run();
}

}  // namespace ingot::scheduler
