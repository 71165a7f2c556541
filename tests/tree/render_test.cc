#include "tree/render.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "absl/strings/str_split.h"
#include "base/hostile_text.h"
#include "base/printable.h"
#include "tree/makers.h"

namespace ingot::tree {
namespace {

using testing::HasSubstr;

v1::EpisodeTree Forked() {
  v1::EpisodeTree tree;
  tree.mutable_episode()->set_episode_id("e1");
  tree.mutable_episode()->mutable_task()->set_task_id("t1");
  tree.mutable_episode()->set_state(v1::EPISODE_FINISHED);
  tree.mutable_episode()->set_reward(0.5);
  (*tree.mutable_episode()->mutable_call_rewards())["call-1"] = -1;
  (*tree.mutable_episode()->mutable_signals())["turns"] = 2;
  AddCall(tree, {Prompt({'a', 'b'})}, {Sampled({'c'}, 3)});
  AddCall(tree, {Prompt({'a', 'b'}), Sampled({'c'}, 3), Prompt({'\n', 'd'})}, {Sampled({'e'}, 3), Sampled({'f'}, 4)});
  AddCall(tree, {Prompt({'a', 'b'}), Sampled({'c'}, 3), Prompt({'\x1b', 'd'})}, {Sampled({'g'}, 4)})
      .set_fork_cause("edited");
  return tree;
}

TEST(RenderTreeTest, ChainsStayInTheirColumnAndForksAreIndented) {
  RenderOptions options;
  options.ascii = true;
  EXPECT_EQ(*RenderTree(Forked(), Letters, options),
            "episode e1  task t1  group 0 sample 0 attempt 0  finished  reward 0.5\n"
            "3 calls, 10 tokens (16 as recorded by calls)\n"
            "signal turns = 2\n"
            "prompt 2 tokens \"ab\"\n"
            "sampled 1 token, version 3, logprob -0.500, call 0 stop \"c\"\n"
            "|- prompt 2 tokens \"\\nd\"\n"
            "|  sampled 2 tokens, version 3-4, logprob -0.500, call 1 stop reward -1 \"ef\"\n"
            "`- prompt 2 tokens \"\\x1bd\"\n"
            "   sampled 1 token, version 4, logprob -0.500, call 2 stop forked: edited \"g\"\n");
  EXPECT_THAT(*RenderTree(Forked(), Letters), HasSubstr("└─ prompt"));
}

TEST(RenderTreeTest, ACallShowsItsBranchAndRole) {
  v1::EpisodeTree tree;
  v1::Call& call = AddCall(tree, {Prompt({'a'})}, {Sampled({'b'}, 1)});
  call.set_role("white");
  EXPECT_THAT(*RenderTree(tree, Letters), HasSubstr("call 0 stop as 'white' "));
  call.set_branch("main");
  EXPECT_THAT(*RenderTree(tree, Letters), HasSubstr("call 0 stop in 'main' as 'white' "));
}

TEST(RenderTreeTest, AnOpenEpisodeShowsThePostedSignals) {
  v1::EpisodeTree tree = Forked();
  tree.mutable_episode()->set_state(v1::EPISODE_OPEN);
  EXPECT_THAT(*RenderTree(tree, Letters), HasSubstr("  open  reward 0.5\n"));
  tree.mutable_episode()->clear_reward();
  EXPECT_THAT(*RenderTree(tree, Letters), HasSubstr("  open\n"));
}

TEST(RenderTreeTest, InvalidUtf8IsEscaped) {
  v1::EpisodeTree tree;
  std::vector<int32_t> bytes;
  // e acute; a lone continuation byte; overlong; a surrogate; beyond Unicode; a truncated character.
  for (const char c : std::string("\xC3\xA9|\xA9|\xC0\xAF|\xED\xA0\x80|\xF4\x90\x80\x80|\xE2\x82")) {
    bytes.push_back(static_cast<uint8_t>(c));
  }
  AddCall(tree, {Prompt(bytes)}, {});
  EXPECT_THAT(*RenderTree(tree, Letters), HasSubstr("\"\xC3\xA9|\\xa9|\\xc0\\xaf|\\xed\\xa0\\x80|"
                                                    "\\xf4\\x90\\x80\\x80|\\xe2\\x82\""));
}

TEST(RenderTreeTest, NoNameSteersTheTerminal) {
  for (const std::string& name : base::HostileTexts()) {
    v1::EpisodeTree tree;
    v1::Episode& episode = *tree.mutable_episode();
    episode.set_episode_id(name);
    episode.mutable_task()->set_task_id(name);
    episode.set_detail(name);
    (*episode.mutable_signals())[name] = 1;
    v1::Call& call = AddCall(tree, {Prompt({'a'})}, {Sampled({'b'}, 1)});
    call.set_branch(name);
    call.set_fork_cause(name);
    const std::string text = *RenderTree(tree, [&](std::span<const int32_t>) { return name; });
    EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 6) << text;
    for (const auto line : absl::StrSplit(text, '\n')) EXPECT_TRUE(base::IsPrintable(std::string(line))) << line;
  }
}

TEST(RenderTreeTest, LongTextsLoseTheirMiddle) {
  v1::EpisodeTree tree;
  AddCall(tree, {Prompt(std::vector<int32_t>(500, 'x'))}, {});
  RenderOptions options;
  options.max_text_bytes = 9;
  EXPECT_THAT(*RenderTree(tree, Letters, options), HasSubstr("call 0 stop \"xxxxxx\" ... \"xxx\"\n"));
}

TEST(RenderTreeTest, DeepTreesNeedNoStackAndBoundedIndent) {
  v1::EpisodeTree tree;
  std::vector<int32_t> spine;
  for (int i = 0; i < 2000; ++i) {
    spine.push_back('s');
    AddCall(tree, {Prompt(spine)}, {Sampled({'x'}, 1)});
  }
  const auto text = RenderTree(tree, Letters);
  ASSERT_TRUE(text.ok()) << text.status();
  EXPECT_LT(text->size(), 4000u * 250);
}

TEST(RenderTreeTest, AnEmptyTreeIsRenderedADamagedOneIsAnError) {
  v1::EpisodeTree tree;
  EXPECT_TRUE(RenderTree(tree, Letters).ok());
  AddCall(tree, {}, {Sampled({'x'}, 1)});
  EXPECT_TRUE(RenderTree(tree, Letters).ok());
  tree.clear_segments();
  EXPECT_EQ(RenderTree(tree, Letters).status().code(), absl::StatusCode::kDataLoss);
}

}  // namespace
}  // namespace ingot::tree
