#include "engines/verification/engine_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>

#include "engines/external_rig.h"

namespace ingot::engines::engine_check_test {
namespace {

using namespace testing;  // NOLINT(google-build-using-namespace)
using ::testing::HasSubstr;

class EngineChecks : public OnEachServer {};
INSTANTIATE_TEST_SUITE_P(Servers, EngineChecks, kEachServer, KindName);

// A server whose weights are version 1, seed 101, and its check.
struct Checked {
  Checked() : folder(*ExchangeFolder::Open(ExchangeRoot(), "check", WriteSeed)) {
    control.set_url(server.url());
    const std::string dir = *folder->Write(snapshot);
    EXPECT_EQ(control.LoadAndLabel(dir, "given", std::chrono::seconds(10)), absl::OkStatus());
  }

  // Without `updates`, the check is faster, and asks nothing about new weights.
  absl::StatusOr<std::vector<Finding>> Run(bool updates = true) {
    std::function<absl::StatusOr<std::string>(const std::shared_ptr<const weights::Snapshot>&)> write;
    if (updates) write = [this](const auto& version) { return folder->Write(version); };
    return CheckEngine({.api = *api,
                        .control = control,
                        .model = {.vocab_size = kVocab, .context_length = 300, .eos_ids = {23}},
                        .reference = reference,
                        .snapshot = snapshot,
                        .write = write,
                        .tokenizer = tokenizer});
  }
  // Returns the finding whose question contains the words.
  Finding Of(const std::string& question, bool updates = false) {
    const auto findings = Run(updates);
    EXPECT_EQ(findings.status(), absl::OkStatus());
    return In(*findings, question);
  }
  static Finding In(const std::vector<Finding>& findings, const std::string& question) {
    for (const Finding& finding : findings) {
      if (finding.question.find(question) != std::string::npos) return finding;
    }
    ADD_FAILURE() << "nothing asks about " << question;
    return {};
  }

  FakeServer server;
  std::shared_ptr<const weights::Snapshot> snapshot = Seeded(1, 101);
  const std::unique_ptr<EngineApi> api = NewEngineApi(Kind());
  ServerControl control{*api, ""};
  SeededReference reference;
  std::shared_ptr<const text::Tokenizer> tokenizer;
  const std::unique_ptr<ExchangeFolder> folder;
};

TEST_P(EngineChecks, ReportsAServerThatCanSample) {
  Checked checked;
  checked.server.Fault("slow_ms", 3);
  const auto findings = checked.Run();
  ASSERT_EQ(findings.status(), absl::OkStatus());
  EXPECT_TRUE(CanSample(*findings));
  int required = 0;
  for (const Finding& finding : *findings) {
    EXPECT_TRUE(!finding.required || finding.verdict == Verdict::kRight) << finding.question << ": " << finding.text;
    required += finding.required;
  }
  EXPECT_EQ(required, 4);
  EXPECT_EQ(checked.server.State("seed"), 101);  // it has its weights again
  EXPECT_EQ(Checked::In(*findings, "recompute").verdict, Verdict::kRight);
}

TEST_P(EngineChecks, FindsOtherLogprobs) {
  Checked checked;
  checked.snapshot = Seeded(1, 102);
  const Finding finding = checked.Of("log-probs of sampled ids");
  EXPECT_EQ(finding.verdict, Verdict::kWrong);
  EXPECT_THAT(finding.text, HasSubstr("does the server run this folder"));
}

TEST_P(EngineChecks, FindsAnswersWithoutIds) {
  Checked checked;
  checked.server.Fault("no_ids", true);
  EXPECT_EQ(checked.Of("log-probs of sampled ids").verdict, Verdict::kWrong);
  EXPECT_EQ(checked.Of("stop ids").verdict, Verdict::kWrong);
  EXPECT_EQ(checked.Of("seeds").verdict, Verdict::kWrong);
}

TEST_P(EngineChecks, FindsTensorsThatALoadLeavesBehind) {
  Checked checked;
  checked.server.Fault("keep", "tensor");
  checked.server.Fault("keep_loads", 1);
  const Finding finding = checked.Of("weights from a folder", /*updates=*/true);
  EXPECT_EQ(finding.verdict, Verdict::kWrong);
  EXPECT_THAT(finding.text, HasSubstr("of its earlier weights"));
}

TEST_P(EngineChecks, FindsOutWhatTemperaturesMean) {
  Checked checked;
  checked.server.Fault("processed", false);
  EXPECT_EQ(checked.Of("temperature 0.7").verdict, Verdict::kNotOffered);
  checked.server.Fault("processed", true);
  EXPECT_EQ(checked.Of("temperature 0.7").verdict, Verdict::kRight);
  EXPECT_EQ(checked.Of("top_p").verdict, IsVllm() ? Verdict::kNotOffered : Verdict::kRight);
}

TEST_P(EngineChecks, FindsIgnoredKeysAndSeeds) {
  Checked checked;
  // vLLM ignores them.
  EXPECT_EQ(checked.Of("unknown sampling keys").verdict, IsVllm() ? Verdict::kWrong : Verdict::kRight);
  EXPECT_EQ(checked.Of("seeds").verdict, Verdict::kWrong);
}

TEST_P(EngineChecks, FindsGrammarsThatAreIgnored) {
  Checked checked;
  EXPECT_EQ(checked.Of("grammars").text, "a regex was accepted") << "without a tokenizer, answers are ids";
  std::vector<std::string> pieces;
  for (int i = 0; i < kVocab; ++i) pieces.push_back(std::string(1, static_cast<char>('a' + i)));
  checked.tokenizer = std::make_shared<rollout::PieceTokenizer>(pieces);
  const Finding ignored = checked.Of("grammars");
  EXPECT_EQ(ignored.verdict, Verdict::kWrong);
  EXPECT_THAT(ignored.text, HasSubstr("does not follow"));
  checked.server.Post("/fake/script", base::json::object{{"ids", base::json::array{0, 1, 0, 23}}});
  EXPECT_EQ(checked.Of("grammars").verdict, Verdict::kRight);
}

TEST_P(EngineChecks, FindsAnotherVocabulary) {
  Checked checked;
  checked.server.Kill();
  const FakeServer other(0, "--known 20");
  checked.control.set_url(other.url());
  const auto findings = checked.Run();
  ASSERT_EQ(findings.status(), absl::OkStatus());
  EXPECT_FALSE(CanSample(*findings));
  EXPECT_THAT(findings->at(0).text, HasSubstr("a vocabulary of 24 ids"));
}

TEST_P(EngineChecks, ReportsMissingParts) {
  Checked checked;
  checked.server.Fault("no_spans", true);
  const auto findings = checked.Run();
  ASSERT_EQ(findings.status(), absl::OkStatus());
  EXPECT_FALSE(CanSample(*findings));
  EXPECT_THAT(findings->at(0).text, HasSubstr("newer release"));
  checked.server.Kill();
  EXPECT_TRUE(absl::IsUnavailable(checked.Run().status()));
}

}  // namespace
}  // namespace ingot::engines::engine_check_test
