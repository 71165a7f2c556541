// Law: any history that the gateway delivered can be sent back, whatever the model wrote, wherever it was cut off, in
// every dialect and to every template; and the gateway knows it for its own.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <random>
#include <sstream>

#include "gateway/clients.h"
#include "gateway/prompt/history.h"
#include "text/chat/rejecting_templates.h"
#include "text/output/output_samples.h"
#include "trials.h"

namespace ingot::gateway {
namespace {

using base::json::array;
using base::json::object;
using text::RejectingTemplate;

constexpr Client kClients[] = {kChatClient, kMessagesClient, kResponsesClient, kGoogleClient};

// A gateway whose model wrote `sampled` as its first answer of each conversation.
struct ReturningWorld : World {
  ReturningWorld(const RejectingTemplate& of, const std::string& output)
      : World([this](const v1::GenerateRequest&) {
          Script script;
          script.ids = next;
          script.end_of_turn = !cut;
          script.finish = cut ? v1::FINISH_LENGTH : v1::FINISH_STOP;
          script.chunk = 16;
          return script;
        }) {
    engine->tokenizer = text::TokenizerOf(of);
    engine->inline_chunks = true;
    format = text::FormatOf(of, output);
    options.worker_threads = 1;
  }
  World::Outcome Ask(const Client& client, const std::string& key, const array& history, bool streams) {
    object body = client.body(history);
    body["stream"] = streams;
    const bool other = streams && client.stream_dialect != nullptr;
    return World::Ask(other ? client.stream_dialect : client.dialect, key, base::PrintJson(body));
  }

  std::vector<int32_t> next;  // the ids that the model samples
  bool cut = false;           // at its length limit
};

struct Verdict {
  bool rewrites = false;                      // the template may write an answer differently once more messages follow
  int64_t calls = 0;                          // that continue an answer
  std::map<std::string, int64_t> forks = {};  // by cause
};

// Samples `ids` and sends the answer back with results of its calls, twice.
void ExpectReturns(ReturningWorld& world, const Client& client, const std::vector<int32_t>& ids, bool cut, bool streams,
                   std::mt19937& random, const std::string& place, Verdict& verdict) {
  const auto episode = world.Open();
  array history;
  if (random() % 3 == 0) history.push_back(Msg("system", "be good"));
  if (random() % 6 == 0) history.push_back(Msg("system", "be brief"));
  history.push_back(Msg("user", "go"));
  const std::vector<int32_t> done = world.engine->tokenizer->Encode("Done.", true);
  for (int turn = 0; turn < 3; ++turn) {
    world.next = turn == 0 ? ids : done;
    world.cut = turn == 0 && cut;
    const auto outcome = world.Ask(client, episode.api_key(), history, streams);
    ASSERT_TRUE(outcome.status.ok()) << place << ", turn " << turn << ": " << outcome.status << "\n"
                                     << base::PrintJson(history);
    const size_t before = history.size();
    const bool called = client.keep(outcome, history);
    if (turn > 0) {
      const v1::Call call = world.pool.calls().back();
      ++verdict.calls;
      if (!call.fork_cause().empty()) ++verdict.forks[call.fork_cause()];
      const bool known = call.fork_cause().empty() || call.fork_cause() == kForkThinkingStripped ||
                         (verdict.rewrites && call.fork_cause() == kForkTemplateDiffers);
      EXPECT_TRUE(known) << place << ", turn " << turn << ": " << call.fork_cause() << "\n" << base::PrintJson(history);
    }
    if (history.size() == before) return;  // an empty answer, of which nothing comes back
    if (random() % 8 == 0) history.push_back(Msg("system", "the date has changed"));
    if (!called || random() % 2 == 0) history.push_back(Msg("user", "go on"));
  }
}

TEST(ReturningHistories, OfEveryFormatToEveryTemplate) {
  const int trials = Trials(8, 24);  // 8 = each client, with a whole answer and with a cut one
  std::mt19937 random(11);
  Verdict verdict;
  for (const RejectingTemplate& of : text::RejectingTemplates()) {
    for (const std::string& output : text::OutputFormatNames()) {
      ReturningWorld world(of, output);
      text::Outputs outputs(**text::FindOutputFormat(output), static_cast<unsigned>(random()));
      for (int trial = 0; trial < trials; ++trial) {
        std::vector<int32_t> ids = world.engine->tokenizer->Encode(outputs.Next(), true);
        if (ids.empty()) continue;
        const bool cut = trial / std::size(kClients) % 2 == 0;
        if (cut) ids.resize(1 + random() % ids.size());
        const Client& client = kClients[trial % std::size(kClients)];
        const bool streams = random() % 2 == 0;
        ExpectReturns(world, client, ids, cut, streams, random, of.name + " " + output + " " + client.dialect, verdict);
        if (HasFatalFailure()) return;
      }
    }
  }
  int64_t forked = 0;
  for (const auto& [cause, count] : verdict.forks) forked += count;
  std::printf("%lld calls continued an answer, of them forked %s\n", static_cast<long long>(verdict.calls),
              testing::PrintToString(verdict.forks).c_str());
  EXPECT_GT(verdict.calls, 4000 * trials / 24);
  EXPECT_LT(forked, verdict.calls / 4);
}

// Two calls of each format, cut behind each of their tokens, or every third one.
TEST(ReturningHistories, CutAtEveryToken) {
  const size_t stride = static_cast<size_t>(Trials(3, 1));
  std::mt19937 random(12);
  Verdict verdict;
  const std::vector<RejectingTemplate> templates = text::RejectingTemplates();
  size_t next = 0;
  for (const std::string& output : text::OutputFormatNames()) {
    if (output == "plain") continue;
    const std::vector<text::ToolCall> calls = {{"", "add", R"({"a": 1, "b": "two\n", "c": [true, {"d": null}]})"},
                                               {"", "add", R"({"a": 2})"}};
    const std::string text = *(*text::FindOutputFormat(output))->WriteCalls("I add.", calls);
    for (size_t trial = 0; trial < 2; ++trial) {
      const RejectingTemplate& of = templates[next++ % templates.size()];
      ReturningWorld world(of, output);
      const std::vector<int32_t> ids = world.engine->tokenizer->Encode(text, true);
      for (size_t size = 1 + trial % stride; size <= ids.size(); size += stride) {
        const std::vector<int32_t> first(ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(size));
        const Client& client = kClients[(size + trial) % std::size(kClients)];
        ExpectReturns(world, client, first, size < ids.size(), false, random,
                      of.name + " " + output + " " + client.dialect + " cut " + std::to_string(size), verdict);
        if (HasFatalFailure()) return;
      }
    }
  }
  EXPECT_GT(verdict.calls, 4000 / static_cast<int64_t>(stride));
}

// The templates in the folder INGOT_TEST_TEMPLATES, if it is set, each with the format of its calls.
TEST(ReturningHistories, ToPublishedTemplates) {
  const char* folder = std::getenv("INGOT_TEST_TEMPLATES");
  if (folder == nullptr) GTEST_SKIP() << "INGOT_TEST_TEMPLATES names no folder";
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (entry.path().extension() != ".jinja") continue;
    std::stringstream source;
    source << std::ifstream(entry.path(), std::ios::binary).rdbuf();
    RejectingTemplate of{entry.path().filename(), source.str(), "hermes"};
    const text::MarkedEncoder encoder(text::TokenizerOf(of), of.source);
    const auto detected = text::DetectOutputFormat(*text::TemplateOf(of), encoder);
    if (detected.ok()) of.output = (*detected)->name();
    ReturningWorld world(of, of.output);
    array first = {Msg("user", "go")};
    world.next = world.engine->tokenizer->Encode("x", true);
    if (const auto outcome = world.Ask(kChatClient, world.Open().api_key(), first, false); !outcome.status.ok()) {
      std::printf("%-60s takes not even a question with a tool: %s\n", of.name.c_str(),
                  std::string(outcome.status.message()).c_str());
      continue;
    }
    std::mt19937 random(13);
    Verdict verdict;
    verdict.rewrites = true;
    text::Outputs outputs(**text::FindOutputFormat(of.output), 5);
    for (int trial = 0; trial < 300; ++trial) {
      std::vector<int32_t> ids = world.engine->tokenizer->Encode(outputs.Next(), true);
      if (ids.empty()) continue;
      const bool cut = trial / std::size(kClients) % 2 == 0;
      if (cut) ids.resize(1 + random() % ids.size());
      const Client& client = kClients[trial % std::size(kClients)];
      ExpectReturns(world, client, ids, cut, false, random, of.name + " " + of.output + " " + client.dialect, verdict);
      if (HasFatalFailure()) break;
    }
    std::printf("%-60s %-12s %5lld continued, forked %s\n", of.name.c_str(), of.output.c_str(),
                static_cast<long long>(verdict.calls), testing::PrintToString(verdict.forks).c_str());
  }
}

}  // namespace
}  // namespace ingot::gateway
