// Every preset compared with its paper's formula, which is written down here a second time as in the paper. It goes
// from rewards to one number, by loops over groups, samples, turns and tokens, and is differentiated by finite
// differences. It uses none of the trainer's advantages, weights or objectives.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "../makers.h"
#include "../preset_options.h"
#include "trainer/batch.h"
#include "trainer/objectives/step_loss.h"

namespace ingot::trainer::paper_formulas_test {
namespace {

struct Token {
  double now, recorded, reference;  // log-probs
};
using Turn = std::vector<Token>;
struct Sample {
  double outcome = 0;
  std::vector<double> earned;  // per turn
  std::vector<Turn> turns;
};
using Group = std::vector<Sample>;
using Groups = std::vector<Group>;

double Return(const Sample& s) {
  double sum = s.outcome;
  for (const double r : s.earned) sum += r;
  return sum;
}

double Length(const Sample& s) {
  double tokens = 0;
  for (const Turn& turn : s.turns) tokens += static_cast<double>(turn.size());
  return tokens;
}

double MeanReturn(const Group& group) {
  double sum = 0;
  for (const Sample& s : group) sum += Return(s);
  return sum / static_cast<double>(group.size());
}

double StdReturn(const Group& group) {
  double squares = 0;
  for (const Sample& s : group) squares += std::pow(Return(s) - MeanReturn(group), 2);
  return std::sqrt(squares / static_cast<double>(group.size()));
}

double MeanOfOthers(const Group& group, size_t i) {
  return (MeanReturn(group) * static_cast<double>(group.size()) - Return(group[i])) /
         static_cast<double>(group.size() - 1);
}

// Sum over a sample's log-probs less that of `than`.
double LogRatio(const Sample& s, double Token::* than) {
  double sum = 0;
  for (const Turn& turn : s.turns) {
    for (const Token& t : turn) sum += t.now - t.*than;
  }
  return sum;
}

double Clipped(double ratio, double low, double high, double advantage) {
  return std::min(ratio * advantage, std::clamp(ratio, 1 - low, 1 + high) * advantage);
}

// A quantity that a paper maximises is returned with the opposite sign. `held` is the same batch; its numbers are not
// differentiated.
using Formula = std::function<double(const Groups& x, const Groups& held)>;

// arXiv 2402.03300, eq. 3 with the estimator of eq. 4.
double Grpo(const Groups& x, const Groups&) {
  double objective = 0;
  for (const Group& group : x) {
    for (const Sample& o : group) {
      const double advantage = (Return(o) - MeanReturn(group)) / (StdReturn(group) + 1e-6);
      for (const Turn& turn : o.turns) {
        for (const Token& t : turn) {
          const double kl = std::exp(t.reference - t.now) - (t.reference - t.now) - 1;
          objective += (Clipped(std::exp(t.now - t.recorded), 0.2, 0.2, advantage) - 0.04 * kl) / Length(o) /
                       static_cast<double>(group.size());
        }
      }
    }
  }
  return -objective / static_cast<double>(x.size());
}

// arXiv 2503.20783, section 3.2 and listing 1: a constant in place of the length, no deviation.
double DrGrpo(const Groups& x, const Groups&) {
  double objective = 0;
  for (const Group& group : x) {
    for (const Sample& o : group) {
      for (const Turn& turn : o.turns) {
        for (const Token& t : turn) {
          objective += Clipped(std::exp(t.now - t.recorded), 0.2, 0.2, Return(o) - MeanReturn(group)) / 1024 /
                       static_cast<double>(group.size());
        }
      }
    }
  }
  return -objective / static_cast<double>(x.size());
}

// arXiv 2503.14476, eq. 8 to 11: the mean over all tokens of the groups that dynamic sampling leaves.
double Dapo(const Groups& x, const Groups&) {
  double objective = 0, tokens = 0;
  for (const Group& group : x) {
    if (StdReturn(group) == 0) continue;
    for (const Sample& o : group) {
      const double advantage = (Return(o) - MeanReturn(group)) / (StdReturn(group) + 1e-6);
      tokens += Length(o);
      for (const Turn& turn : o.turns) {
        for (const Token& t : turn) objective += Clipped(std::exp(t.now - t.recorded), 0.2, 0.28, advantage);
      }
    }
  }
  return -objective / tokens;
}

// arXiv 2507.18071, eq. 5 to 7.
double Gspo(const Groups& x, const Groups&) {
  double objective = 0;
  for (const Group& group : x) {
    for (const Sample& o : group) {
      const double s = std::exp(LogRatio(o, &Token::recorded) / Length(o));
      const double advantage = (Return(o) - MeanReturn(group)) / (StdReturn(group) + 1e-6);
      objective += Clipped(s, 3e-4, 4e-4, advantage) / static_cast<double>(group.size());
    }
  }
  return -objective / static_cast<double>(x.size());
}

// arXiv 2511.20347: the gate (4 / tau) sigmoid(tau (r - 1)), tau 1 for positive advantages and 1.05 for others; the mean
// over a sample's tokens, then over samples.
double Sapo(const Groups& x, const Groups&) {
  double objective = 0;
  for (const Group& group : x) {
    for (const Sample& o : group) {
      const double advantage = (Return(o) - MeanReturn(group)) / (StdReturn(group) + 1e-6);
      const double tau = advantage > 0 ? 1.0 : 1.05;
      for (const Turn& turn : o.turns) {
        for (const Token& t : turn) {
          const double ratio = std::exp(t.now - t.recorded);
          objective +=
              4 / tau / (1 + std::exp(-tau * (ratio - 1))) * advantage / Length(o) / static_cast<double>(group.size());
        }
      }
    }
  }
  return -objective / static_cast<double>(x.size());
}

// arXiv 1707.06347, eq. 7, the mean over time steps. The advantage is that of arXiv 2402.14740: the return less the
// mean return of the other samples.
double Ppo(const Groups& x, const Groups&) {
  double objective = 0, tokens = 0;
  for (const Group& group : x) {
    for (size_t i = 0; i < group.size(); ++i) {
      tokens += Length(group[i]);
      for (const Turn& turn : group[i].turns) {
        for (const Token& t : turn) {
          objective += Clipped(std::exp(t.now - t.recorded), 0.2, 0.2, Return(group[i]) - MeanOfOthers(group, i));
        }
      }
    }
  }
  return -objective / tokens;
}

// arXiv 2402.14740, section 3.2: the mean over samples of REINFORCE on the whole sample, against the others' mean. The
// ratio to the policy that sampled is 1 there.
double Rloo(const Groups& x, const Groups& held) {
  double objective = 0, samples = 0;
  for (size_t g = 0; g < x.size(); ++g) {
    for (size_t i = 0; i < x[g].size(); ++i) {
      ++samples;
      for (size_t turn = 0; turn < x[g][i].turns.size(); ++turn) {
        for (size_t t = 0; t < x[g][i].turns[turn].size(); ++t) {
          const Token& fixed = held[g][i].turns[turn][t];
          const double weight = std::clamp(std::exp(fixed.now - fixed.recorded), 0.0, 5.0);
          objective += weight * (Return(x[g][i]) - MeanOfOthers(x[g], i)) * x[g][i].turns[turn][t].now;
        }
      }
    }
  }
  return -objective / samples;
}

// arXiv 2501.03262, REINFORCE++ with a baseline: less the group's mean, in deviations over the batch.
double ReinforcePlusPlus(const Groups& x, const Groups&) {
  double squares = 0, sum = 0, samples = 0;
  for (const Group& group : x) {
    for (const Sample& o : group) {
      const double centered = Return(o) - MeanReturn(group);
      squares += centered * centered;
      sum += centered;
      ++samples;
    }
  }
  const double deviation = std::sqrt(squares / samples - std::pow(sum / samples, 2));
  double objective = 0, tokens = 0;
  for (const Group& group : x) {
    for (const Sample& o : group) {
      const double advantage = (Return(o) - MeanReturn(group)) / (deviation + 1e-6);
      tokens += Length(o);
      for (const Turn& turn : o.turns) {
        for (const Token& t : turn) objective += Clipped(std::exp(t.now - t.recorded), 0.2, 0.2, advantage);
      }
    }
  }
  return -objective / tokens;
}

// arXiv 2501.12599, eq. 3: its gradient is that of this sum; tau 1.
double K15(const Groups& x, const Groups&) {
  double objective = 0;
  for (const Group& group : x) {
    for (const Sample& y : group) {
      double logprob = 0;
      for (const Turn& turn : y.turns) {
        for (const Token& t : turn) logprob += t.now;
      }
      const double log_ratio = LogRatio(y, &Token::recorded);
      objective +=
          (logprob * (Return(y) - MeanReturn(group)) - 0.5 * log_ratio * log_ratio) / static_cast<double>(group.size());
    }
  }
  return -objective / static_cast<double>(x.size());
}

// CISPO, arXiv 2506.13585, eq. 4, over the tokens of a group. The advantage of turn t is the reward from t on less a
// baseline that does not depend on t: the mean return of the others.
double Forge(const Groups& x, const Groups& held) {
  double objective = 0;
  for (size_t g = 0; g < x.size(); ++g) {
    double tokens = 0, sum = 0;
    for (size_t i = 0; i < x[g].size(); ++i) {
      const Sample& o = x[g][i];
      tokens += Length(o);
      double to_go = o.outcome;
      for (size_t turn = o.turns.size(); turn-- > 0;) {
        to_go += o.earned[turn];
        for (size_t t = 0; t < o.turns[turn].size(); ++t) {
          const Token& fixed = held[g][i].turns[turn][t];
          const double weight = std::clamp(std::exp(fixed.now - fixed.recorded), 0.0, 5.0);
          sum += weight * (to_go - MeanOfOthers(x[g], i)) * o.turns[turn][t].now;
        }
      }
    }
    objective += sum / tokens;
  }
  return -objective / static_cast<double>(x.size());
}

// arXiv 2305.18290, eq. 7, on the first of the best and the first of the worst; beta 0.1.
double Dpo(const Groups& x, const Groups&) {
  double loss = 0, pairs = 0;
  for (const Group& group : x) {
    const auto less = [](const Sample& a, const Sample& b) { return Return(a) < Return(b); };
    const Sample& chosen = *std::max_element(group.begin(), group.end(), less);
    const Sample& rejected = *std::min_element(group.begin(), group.end(), less);
    if (Return(chosen) == Return(rejected)) continue;
    const double margin = 0.1 * (LogRatio(chosen, &Token::reference) - LogRatio(rejected, &Token::reference));
    loss += std::log(1 + std::exp(-margin));
    ++pairs;
  }
  return loss / pairs;
}

// A mask M of a token, from numbers that are not differentiated: `o` and its token `t`.
using Mask = std::function<bool(const Sample& o, const Token& t, double advantage)>;

// IcePop, in Ring-1T (arXiv 2510.18855): M is 1 where k = pi_train / pi_infer of the token is in [alpha, beta].
bool IcePop(const Sample&, const Token& t, double) {
  const double k = std::exp(t.now - t.recorded);
  return 0.8 <= k && k <= 1.3;
}

// The geometric mean of a sequence's ratios (verl's rejection by seq_mean): M is 1 where it is within bounds.
bool Geometric(const Sample& o, const Token&, double) {
  const double root = std::pow(std::exp(LogRatio(o, &Token::recorded)), 1 / Length(o));
  return 0.9 <= root && root <= 1.1;
}

// DeepSeek-V3.2 (arXiv 2512.02556), off-policy sequence masking: M is 0 where the advantage is below 0 and
// 1/|o| sum log(pi_old / pi) is above delta.
bool Opsm(const Sample& o, const Token&, double advantage) {
  double sum = 0;
  for (const Turn& turn : o.turns) {
    for (const Token& t : turn) sum += t.recorded - t.now;
  }
  return !(advantage < 0 && sum / Length(o) > 0.02);
}

// GRPO with M before the surrogate, as both papers have it: 1/|o| and the KL's sum are over all tokens.
Formula MaskedGrpo(const Mask& mask) {
  return [mask](const Groups& x, const Groups& held) {
    double objective = 0;
    for (size_t g = 0; g < x.size(); ++g) {
      for (size_t i = 0; i < x[g].size(); ++i) {
        const Sample& o = x[g][i];
        const double advantage = (Return(o) - MeanReturn(x[g])) / (StdReturn(x[g]) + 1e-6);
        for (size_t turn = 0; turn < o.turns.size(); ++turn) {
          for (size_t n = 0; n < o.turns[turn].size(); ++n) {
            const Token& t = o.turns[turn][n];
            const double kl = std::exp(t.reference - t.now) - (t.reference - t.now) - 1;
            const bool kept = mask(held[g][i], held[g][i].turns[turn][n], advantage);
            const double surrogate = kept ? Clipped(std::exp(t.now - t.recorded), 0.2, 0.2, advantage) : 0;
            objective += (surrogate - 0.04 * kl) / Length(o) / static_cast<double>(x[g].size());
          }
        }
      }
    }
    return -objective / static_cast<double>(x.size());
  };
}

// The loss of Dr. GRPO with the advantage of another paper.
using Advantage = std::function<double(const Group& group, const Sample& o)>;
Formula DrGrpoWith(const Advantage& advantage) {
  return [advantage](const Groups& x, const Groups&) {
    double objective = 0;
    for (const Group& group : x) {
      for (const Sample& o : group) {
        for (const Turn& turn : o.turns) {
          for (const Token& t : turn) {
            objective += Clipped(std::exp(t.now - t.recorded), 0.2, 0.2, advantage(group, o)) / 1024 /
                         static_cast<double>(group.size());
          }
        }
      }
    }
    return -objective / static_cast<double>(x.size());
  };
}

// GSPO's equation 5, clip 0.2, and k1.5's equation 3: a masked sequence has no term, and the samples are still counted.
double GeometricGspo(const Groups& x, const Groups& held) {
  double objective = 0;
  for (size_t g = 0; g < x.size(); ++g) {
    for (size_t i = 0; i < x[g].size(); ++i) {
      const Sample& o = x[g][i];
      const double advantage = (Return(o) - MeanReturn(x[g])) / (StdReturn(x[g]) + 1e-6);
      if (!Geometric(held[g][i], {}, advantage)) continue;
      const double s = std::exp(LogRatio(o, &Token::recorded) / Length(o));
      objective += Clipped(s, 0.2, 0.2, advantage) / static_cast<double>(x[g].size());
    }
  }
  return -objective / static_cast<double>(x.size());
}

double OpsmK15(const Groups& x, const Groups& held) {
  double objective = 0;
  for (size_t g = 0; g < x.size(); ++g) {
    for (size_t i = 0; i < x[g].size(); ++i) {
      const Sample& y = x[g][i];
      const double advantage = Return(y) - MeanReturn(x[g]);
      if (!Opsm(held[g][i], {}, advantage)) continue;
      double logprob = 0;
      for (const Turn& turn : y.turns) {
        for (const Token& t : turn) logprob += t.now;
      }
      const double log_ratio = LogRatio(y, &Token::recorded);
      objective += (logprob * advantage - 0.5 * log_ratio * log_ratio) / static_cast<double>(x[g].size());
    }
  }
  return -objective / static_cast<double>(x.size());
}

// arXiv 2505.23585: the baseline is the mean return by lengths.
double Opo(const Group& group, const Sample& o) {
  double weighted = 0, length = 0;
  for (const Sample& other : group) {
    weighted += Length(other) * Return(other);
    length += Length(other);
  }
  return Return(o) - weighted / length;
}

// arXiv 2602.02710: in means of the group.
double MaxRl(const Group& group, const Sample& o) {
  return MeanReturn(group) > 0 ? (Return(o) - MeanReturn(group)) / MeanReturn(group) : 0;
}

// The discounted sum of what a sample earned from `turn` on, the outcome at its last turn.
double DiscountedFrom(const Sample& o, size_t turn, double discount) {
  double sum = 0;
  for (size_t u = turn; u < o.turns.size(); ++u) {
    const double earned = o.earned[u] + (u + 1 == o.turns.size() ? o.outcome : 0);
    sum += std::pow(discount, static_cast<double>(u - turn)) * earned;
  }
  return sum;
}

// REINFORCE with held ratios over the tokens of a batch: the discounted reward to go, less the mean discounted return
// of the group.
double DiscountedToGo(const Groups& x, const Groups& held) {
  double objective = 0, tokens = 0;
  for (size_t g = 0; g < x.size(); ++g) {
    double baseline = 0;
    for (const Sample& o : x[g]) baseline += DiscountedFrom(o, 0, 0.5) / static_cast<double>(x[g].size());
    for (size_t i = 0; i < x[g].size(); ++i) {
      tokens += Length(x[g][i]);
      for (size_t turn = 0; turn < x[g][i].turns.size(); ++turn) {
        for (size_t t = 0; t < x[g][i].turns[turn].size(); ++t) {
          const Token& fixed = held[g][i].turns[turn][t];
          const double weight = std::clamp(std::exp(fixed.now - fixed.recorded), 0.0, 5.0);
          objective += weight * (DiscountedFrom(x[g][i], turn, 0.5) - baseline) * x[g][i].turns[turn][t].now;
        }
      }
    }
  }
  return -objective / tokens;
}

// Four groups of four; all samples of one group have the same reward.
Groups RandomGroups(uint64_t seed) {
  Draws draws(seed);
  Groups groups(4);
  for (size_t g = 0; g < groups.size(); ++g) {
    for (int i = 0; i < 4; ++i) {
      Sample& s = groups[g].emplace_back();
      s.outcome = g == 2 ? 0.25 : static_cast<double>(draws.Below(5)) / 4.0;
      const double wander = draws.Below(2) == 0 ? 0.5 : 0.01;
      for (int64_t turn = 0, turns = 1 + draws.Below(3); turn < turns; ++turn) {
        s.earned.push_back(g == 2 ? 0.0 : static_cast<double>(draws.Below(3)) / 4.0);
        Turn& tokens = s.turns.emplace_back();
        for (int64_t t = 0, count = 1 + draws.Below(4); t < count; ++t) {
          const double now = draws.Between(-4, -1);
          tokens.push_back({now, static_cast<double>(static_cast<float>(now + draws.Between(-wander, wander))),
                            now + draws.Between(-0.5, 0.5)});
        }
      }
    }
  }
  return groups;
}

// The same batch in the trainer's form. Every token and context is one id: here they do not matter.
TrainBatch BatchOf(const Groups& groups) {
  TrainBatch batch;
  for (size_t g = 0; g < groups.size(); ++g) {
    std::vector<v1::EpisodeTree> episodes;
    for (size_t i = 0; i < groups[g].size(); ++i) {
      const Sample& s = groups[g][i];
      std::vector<CallSpec> calls;
      for (const Turn& turn : s.turns) {
        CallSpec& call = calls.emplace_back();
        call.context = {static_cast<int32_t>(calls.size())};
        for (const Token& t : turn) {
          call.sampled.push_back(7);
          call.logprobs.push_back(static_cast<float>(t.recorded));
        }
      }
      const std::string id = absl::StrCat("g", g, "s", i);
      v1::EpisodeTree episode = MakeEpisode(id, s.outcome, calls);
      for (size_t turn = 0; turn < s.earned.size(); ++turn) {
        (*episode.mutable_episode()->mutable_call_rewards())[absl::StrCat(id, "/", turn)] = s.earned[turn];
      }
      episodes.push_back(std::move(episode));
    }
    batch.groups.push_back(MakeGroup(static_cast<int64_t>(g), std::move(episodes)));
  }
  return batch;
}

// By the call's id, its tokens.
std::map<std::string, const Turn*> TurnsOf(const Groups& groups) {
  std::map<std::string, const Turn*> turns;
  for (size_t g = 0; g < groups.size(); ++g) {
    for (size_t i = 0; i < groups[g].size(); ++i) {
      for (size_t t = 0; t < groups[g][i].turns.size(); ++t) {
        turns[absl::StrCat("g", g, "s", i, "/", t)] = &groups[g][i].turns[t];
      }
    }
  }
  return turns;
}

struct Result {
  double loss = 0;
  std::map<std::pair<std::string, size_t>, double> derivative;  // by call and token; absent = 0
};

Result TrainersOwn(const TrainerOptions& options, const Groups& groups) {
  const auto batch = PrepareBatch(BatchOf(groups), options, 10, 0);
  EXPECT_TRUE(batch.ok()) << batch.status();
  const auto objective = *MakeObjective(options);
  StepLoss loss(*objective, CoefficientsOf(options), *batch, options.off_policy_mask);
  const auto turns = TurnsOf(groups);
  std::vector<tree::LossEntry> entries;
  std::vector<double> now, reference;
  for (size_t c = 0; c < batch->calls.size(); ++c) {
    const Turn& turn = *turns.at(batch->calls[c].call_id);
    for (size_t t = 0; t < turn.size(); ++t) {
      entries.push_back({0, 7, static_cast<int32_t>(c), static_cast<int32_t>(t)});
      now.push_back(turn[t].now);
      reference.push_back(turn[t].reference);
    }
  }
  if (loss.needs_reference()) loss.RecordReference(entries, reference);
  if (loss.needs_scores()) {
    loss.RecordCurrent(entries, now);
    loss.Fix();
  }
  std::vector<double> entropy(entries.size(), 0.0), by_logprob(entries.size()), by_entropy(entries.size());
  Result result;
  result.loss = loss.Evaluate(entries, now, entropy, by_logprob, by_entropy);
  for (size_t e = 0; e < entries.size(); ++e) {
    const std::string& call = batch->calls[static_cast<size_t>(entries[e].call)].call_id;
    result.derivative[{call, static_cast<size_t>(entries[e].offset)}] = by_logprob[e];
  }
  return result;
}

// Compares loss and gradient with the formula's on a random batch. Returns the trainer's loss.
double ExpectFormula(const TrainerOptions& options, const Formula& formula, uint64_t seed) {
  constexpr double kStep = 1e-5;
  EXPECT_TRUE(options.Validate().ok()) << options.Validate();
  Groups groups = RandomGroups(seed);
  const Groups held = groups;
  const Result own = TrainersOwn(options, groups);
  EXPECT_NEAR(own.loss, formula(groups, held), 1e-9);
  double largest = 0;
  for (size_t g = 0; g < groups.size(); ++g) {
    for (size_t i = 0; i < groups[g].size(); ++i) {
      for (size_t turn = 0; turn < groups[g][i].turns.size(); ++turn) {
        for (size_t t = 0; t < groups[g][i].turns[turn].size(); ++t) {
          double& logprob = groups[g][i].turns[turn][t].now;
          const double before = logprob;
          logprob = before + kStep;
          const double above = formula(groups, held);
          logprob = before - kStep;
          const double derivative = (above - formula(groups, held)) / (2 * kStep);
          logprob = before;
          const auto found = own.derivative.find({absl::StrCat("g", g, "s", i, "/", turn), t});
          EXPECT_NEAR(found == own.derivative.end() ? 0.0 : found->second, derivative, 1e-8)
              << "group " << g << " sample " << i << " turn " << turn << " token " << t;
          largest = std::max(largest, std::abs(derivative));
        }
      }
    }
  }
  EXPECT_GT(largest, 1e-5);
  return own.loss;
}

// The same on several batches.
void ExpectFormula(const std::string& name, const TrainerOptions& options, const Formula& formula) {
  for (uint64_t seed = 1; seed <= 8; ++seed) {
    SCOPED_TRACE(absl::StrCat(name, ", seed ", seed));
    ExpectFormula(options, formula, seed);
  }
}

TEST(Papers, EstimatorsBesideThePresets) {
  TrainerOptions options = OptionsOf("dr_grpo");
  options.advantage_baseline = "length";
  ExpectFormula("opo", options, DrGrpoWith(Opo));
  options = OptionsOf("dr_grpo");
  options.advantage_normalization = "mean";
  ExpectFormula("max_rl", options, DrGrpoWith(MaxRl));
  options = {};
  options.advantage_credit = "reward_to_go";
  options.turn_discount = 0.5;
  ExpectFormula("turn_discount", options, DiscountedToGo);
}

TEST(Papers, LossAndGradientOfEveryPreset) {
  const std::map<std::string, Formula> formulas = {{"forge", Forge},
                                                   {"grpo", Grpo},
                                                   {"dr_grpo", DrGrpo},
                                                   {"dapo", Dapo},
                                                   {"gspo", Gspo},
                                                   {"ppo", Ppo},
                                                   {"k1.5", K15},
                                                   {"dpo", Dpo},
                                                   {"sapo", Sapo},
                                                   {"rloo", Rloo},
                                                   {"reinforce_plus_plus", ReinforcePlusPlus}};
  for (const std::string& preset : PresetNames()) {
    if (preset == "none") continue;
    ASSERT_TRUE(formulas.contains(preset)) << preset << " has no formula here";
    ExpectFormula(preset, OptionsOf(preset), formulas.at(preset));
  }
}

TEST(Papers, LossAndGradientUnderMasks) {
  struct Case {
    std::string name, preset;
    OffPolicyMaskOptions masks;
    Formula formula;
  };
  const OffPolicyMaskOptions geometric{.sequence_low = 0.9, .sequence_high = 1.1}, opsm{.opsm_delta = 0.02};
  const std::vector<Case> cases = {
      {"icepop", "grpo", {.token_low = 0.8, .token_high = 1.3}, MaskedGrpo(IcePop)},
      {"geometric", "grpo", geometric, MaskedGrpo(Geometric)},
      {"opsm", "grpo", opsm, MaskedGrpo(Opsm)},
      {"geometric gspo", "gspo", geometric, GeometricGspo},
      {"opsm k1.5", "k1.5", opsm, OpsmK15},
  };
  for (const Case& c : cases) {
    int64_t acted = 0;
    for (uint64_t seed = 1; seed <= 8; ++seed) {
      SCOPED_TRACE(absl::StrCat(c.name, ", seed ", seed));
      TrainerOptions options = OptionsOf(c.preset);
      if (c.preset == "gspo") options.eps_clip_low = options.eps_clip_high = 0.2;
      const double plain = TrainersOwn(options, RandomGroups(seed)).loss;
      options.off_policy_mask = c.masks;
      acted += ExpectFormula(options, c.formula, seed) != plain;
    }
    EXPECT_GT(acted, 4) << c.name;
  }
}

}  // namespace
}  // namespace ingot::trainer::paper_formulas_test
