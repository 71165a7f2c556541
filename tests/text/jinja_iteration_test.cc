// Renderings that take over what earlier ones wrote, beside renderings that do not.
#include <gtest/gtest.h>

#include <random>
#include <thread>

#include "base/json.h"
#include "text/jinja/iteration_cache.h"
#include "text/jinja/iteration_memo.h"
#include "text/jinja/iteration_run.h"
#include "text/jinja/template.h"
#include "text/jinja/tracked_index.h"
#include "text/jinja_rendered.h"

namespace ingot::text::jinja {
namespace {

Value Json(const std::string& text, int32_t source) { return FromJson(*base::ParseJson(text), source); }

// A conversation that goes on.
struct Growing {
  struct Message {
    Value dict;
    std::shared_ptr<IterationCache> kept = std::make_shared<IterationCache>();
  };
  std::vector<Message> messages;
  std::vector<std::pair<std::string, Value>> others;
  size_t together = 0;
  std::shared_ptr<RunCache> runs;  // null: no runs are kept

  void Add(const std::string& json) { messages.push_back({Json(json, static_cast<int32_t>(messages.size()))}); }
  // From now on, runs over the messages that there are.
  void Settle() {
    together = messages.size();
    const auto earlier = std::exchange(runs, std::make_shared<RunCache>());
    if (earlier != nullptr) runs->TakeOver(*earlier);
  }
  RenderOptions Options(size_t count, bool kept) const {
    RenderOptions options;
    options.variables = others;
    std::vector<Value> list;
    for (size_t i = 0; i < count; ++i) {
      list.push_back(messages[i].dict);
      options.tracked.items.push_back({messages[i].dict, kept ? messages[i].kept.get() : nullptr});
    }
    if (kept && together <= count) {
      options.tracked.together = together;
      options.tracked.runs = runs.get();
    }
    options.variables.emplace_back("messages", MakeList(std::move(list)));
    options.now.tv_sec = 1;
    return options;
  }
};

// Returns whether it renders.
bool Check(const Template& parsed, const Growing& growing, size_t count, const std::string& source) {
  const auto fresh = parsed.Render(growing.Options(count, false)), kept = parsed.Render(growing.Options(count, true));
  EXPECT_EQ(fresh.status(), kept.status()) << source;
  if (fresh.ok() && kept.ok()) ExpectSame(*kept, *fresh, source);
  for (const bool prompted : {false, true}) {
    const auto one = parsed.RenderAtPrompt(growing.Options(count, false), prompted);
    const auto other = parsed.RenderAtPrompt(growing.Options(count, true), prompted);
    EXPECT_EQ(one.status(), other.status()) << source;
    if (!one.ok() || !other.ok()) continue;
    ExpectSame(other->rendered, one->rendered, source);
    EXPECT_EQ(other->prompt, one->prompt) << source;
    EXPECT_EQ(other->prompt_begin, one->prompt_begin) << source;
    EXPECT_EQ(other->with_prompt, one->with_prompt) << source;
  }
  return fresh.ok();
}

// How many of the messages' iterations are kept and were used.
size_t Used(const Growing& growing, uint64_t loops) {
  size_t used = 0;
  for (const Growing::Message& message : growing.messages) {
    for (uint64_t loop = 1; loop <= loops; ++loop) {
      const auto memo = message.kept->Find(loop);
      used += memo.has_value() && *memo != nullptr && (*memo)->used;
    }
  }
  return used;
}
constexpr uint64_t kLoops = 100'000;  // more than the tests parse

// The same of runs.
size_t UsedRuns(const Growing& growing) {
  size_t used = 0;
  for (uint64_t loop = 1; growing.runs != nullptr && loop <= kLoops; ++loop) {
    const auto memo = growing.runs->Find(loop);
    used += memo.has_value() && *memo != nullptr && (*memo)->used;
  }
  return used;
}

const char* const kTurns[] = {
    R"({"role": "system", "content": "be <brief>"})",
    R"({"role": "user", "content": "first é"})",
    R"({"role": "assistant", "content": "", "tool_calls": [{"name": "f", "arguments": {"a": 1}}]})",
    R"({"role": "tool", "content": "result"})",
    R"({"role": "assistant", "content": "said", "reasoning_content": "why"})",
    R"({"role": "user", "content": "second"})",
    R"({"role": "assistant", "content": "again\n"})",
    R"({"role": "user", "content": ""})",
};

// Renders each beginning of the conversation in turn. Returns how many iterations were taken over in the end.
size_t Grow(const std::string& source) {
  const auto parsed = Template::Parse(source);
  EXPECT_TRUE(parsed.ok()) << source;
  Growing growing;
  growing.others = {{"eos", Value::Text("</s>")}, {"tools", Json(R"([{"name": "f"}])", -1)}};
  for (const char* turn : kTurns) {
    growing.Add(turn);
    Check(**parsed, growing, growing.messages.size(), source);
    Check(**parsed, growing, (growing.messages.size() + 1) / 2, source);
    Check(**parsed, growing, growing.messages.size(), source);
  }
  return Used(growing, kLoops);
}

// Renders a conversation of which the first `settled` messages are settled, as it grows. Whether a run was taken over.
bool GrowSettled(const std::string& source, size_t settled) {
  const auto parsed = Template::Parse(source);
  EXPECT_TRUE(parsed.ok()) << source;
  Growing growing;
  bool used = false;
  for (const char* turn : kTurns) {
    growing.Add(turn);
    if (growing.messages.size() == settled) growing.Settle();
    EXPECT_TRUE(Check(**parsed, growing, growing.messages.size(), source)) << source;
    if (growing.messages.size() > settled + 1) used = used || UsedRuns(growing) > 0;
  }
  return used;
}

TEST(JinjaIterationTest, IterationsOverWhatIsSettledAreTakenOverTogether) {
  for (const size_t settled : {1u, 3u, 6u}) {
    for (const char* source : {
             "{% for m in messages %}<{{ m.role }}>{{ m.content }}{{ eos }}{% endfor %}",
             "{% for m in messages[1:] %}{{ loop.index0 }}{{ m.role }}{% endfor %}{% for m in messages %}{{ m.content "
             "}}"
             "{% endfor %}",
             "{% for m in messages %}{{ m.role }}{% if loop.last %}|{% endif %}{% endfor %}",
             "{% for m in messages %}{{ m.role }}{{ loop.nextitem.role if loop.nextitem }}{% endfor %}",
             "{% for m in messages %}{{ m.role }}{% if not loop.last %}{{ messages[loop.index0 + 1].role }}{% endif %}"
             "{% if not loop.first %}{{ messages[loop.index0 - 1].role }}{% endif %}"
             "{{ loop.previtem.role if loop.previtem }}{% endfor %}",
             "{% set ns = namespace(n=0) %}{% for m in messages %}{{ ns.n }}{% set ns.n = ns.n + 1 %}{% endfor %}"
             "{{ ns.n }}",
             "{% set ns = namespace(last=-1) %}{% for m in messages[::-1] %}{% if m.role == 'user' and ns.last < 0 %}"
             "{% set ns.last = messages | length - 1 - loop.index0 %}{% endif %}{% endfor %}"
             "{% for m in messages %}{{ m.role }}{{ loop.index0 > ns.last }}{{ ns.last }}{% endfor %}",
             "{% for m in messages %}{% generation %}{{ m.content }}g{% endgeneration %}{% endfor %}",
             "{% for m in messages %}{{ m.role }}{% continue %}x{% else %}none{% endfor %}",
             "{% for m in messages %}{% if m.role != 'system' %}{{ m.content }}{% endif %}{% endfor %}",
         }) {
      EXPECT_TRUE(GrowSettled(source, settled)) << source;
    }
    for (const char* source : {
             "{% for m in messages %}{{ m.role }}{{ loop.revindex }}{% endfor %}",
             "{% for m in messages %}{% if m.role == 'system' %}{{ strftime_now('%s') }}{% endif %}{{ m.role }}"
             "{% endfor %}",
             "{% for m in messages %}{{ m.role }}{{ messages | length }}{% endfor %}",
             "{% for m in messages if m.role != 'tool' %}{{ m.role }}{% endfor %}",
         }) {
      EXPECT_FALSE(GrowSettled(source, settled)) << source;
    }
  }
}

// A loop over `messages[::-1]` with that body, in which `ns.n` is set, and which writes nothing.
std::string Looking(const std::string& body) {
  return "{% set ns = namespace(n=-1) %}{% for m in messages[::-1] %}" + body + "{% endfor %}{{ ns.n }}";
}

TEST(JinjaIterationTest, LoopsThatLookBackwardsAreTakenOverFromTheSettledOn) {
  const std::string find = "{% if m.role == 'user' and ns.n == -1 %}{% set ns.n = i %}{% endif %}";
  for (const size_t settled : {2u, 3u, 6u}) {
    for (const std::string& body : {
             "{% set i = (messages | length - 1) - loop.index0 %}" + find,
             "{% set i = messages | count - loop.index %}" + find,
             "{% set i = loop.length - 5 - loop.index0 %}" + find,
             "{% set i = loop.revindex0 %}" + find,
             "{% set i = loop.revindex + 2 * 3 %}" + find,
             "{% set i = m.content ~ loop.first ~ loop.last %}" + find,
             "{% set i = (loop.nextitem or m).role ~ (loop.previtem or m).role %}" + find,
             "{% set i = messages[loop.revindex0].role %}" + find,
             std::string("{% if m.role == 'user' %}{% set ns.n = m.content %}{% continue %}{% endif %}"),
         }) {
      EXPECT_TRUE(GrowSettled(Looking(body), settled)) << body;
    }
    for (const std::string& body : {
             "{% set i = loop.index0 %}" + find,
             "{% set i = messages | length %}" + find,
             "{% set i = messages | length + loop.index0 %}" + find,
             "{% set i = messages[1:] | length - loop.index0 %}" + find,
             "{% set i = loop.length %}" + find,
             "{% set i = (messages | length - loop.index0) * 2 - messages | length %}" + find,
         }) {
      EXPECT_FALSE(GrowSettled(Looking(body), settled)) << body;
    }
    EXPECT_TRUE(
        GrowSettled("{% set ns = namespace(n=0) %}{% for m in messages %}{% if m.role == 'user' %}"
                    "{% set ns.n = loop.index0 %}{% endif %}{% endfor %}{{ ns.n }}",
                    settled));
  }
}

// When more are settled, the run over those before is taken over as a part of theirs.
TEST(JinjaIterationTest, ARunGoesIntoTheRunOfMore) {
  for (const std::string& source : {
           std::string("{% for m in messages %}<{{ m.role }}>{{ m.content }}{{ eos }}{% endfor %}"),
           std::string("{% for m in messages[1:] %}{{ m.role }}{% if loop.last %}|{% endif %}{% endfor %}"),
           std::string("{% for m in messages %}{{ m.role }}{{ loop.nextitem.role if loop.nextitem }}{% endfor %}"),
           std::string("{% set ns = namespace(n=0) %}{% for m in messages %}{{ ns.n }}{% set ns.n = ns.n + 1 %}"
                       "{% endfor %}{{ ns.n }}"),
           Looking("{% if m.role == 'system' %}{% set ns.n = loop.revindex0 %}{% endif %}"),
           Looking("{% set ns.n = m.role ~ (loop.nextitem or m).role %}"),
       }) {
    const auto parsed = Template::Parse(source);
    ASSERT_TRUE(parsed.ok()) << source;
    Growing growing;
    std::vector<std::shared_ptr<const RunMemo>> before;
    for (const char* turn : kTurns) {
      growing.Add(turn);
      const size_t count = growing.messages.size();
      if (count == 3 || count == 5) growing.Settle();
      EXPECT_TRUE(Check(**parsed, growing, count, source)) << source;
      for (const auto& run : before) EXPECT_TRUE(run->used.exchange(false) || count != 5) << source;
      before.clear();
      if (count != 4) continue;
      for (uint64_t loop = 1; loop <= kLoops; ++loop) {
        const auto memo = growing.runs->Find(loop);
        if (memo.has_value() && *memo != nullptr) before.push_back(*memo);
      }
      ASSERT_EQ(before.size(), 1u) << source;
      before[0]->used = false;
    }
  }
}

// The list whose length counts is another one, as long as the loop in one rendering and not in the next.
TEST(JinjaIterationTest, WhereAnItemStandsFromTheEndIsToldByListsAsLongAsTheLoop) {
  const std::string source = Looking("{% set ns.n = other | length - loop.index %}");
  const auto parsed = Template::Parse(source);
  Growing growing;
  for (const char* turn : kTurns) {
    growing.Add(turn);
    if (growing.messages.size() == 3) growing.Settle();
    growing.others = {{"other", MakeList(std::vector<Value>(growing.messages.size()))}};
    Check(**parsed, growing, growing.messages.size(), source);
  }
  EXPECT_GT(UsedRuns(growing), 0u);
  growing.others = {{"other", MakeList(std::vector<Value>(2))}};
  Check(**parsed, growing, growing.messages.size(), source);
}

TEST(JinjaIterationTest, WhatIsKeptHasAShareInWhatItRead) {
  const auto parsed = *Template::Parse(
      "{% for m in messages %}{{ m.role }}{{ loop.nextitem.role if loop.nextitem }}{% if not loop.last %}"
      "{{ messages[loop.index0 + 1].role }}{% endif %}{% endfor %}");
  Growing growing;
  growing.Add(kTurns[0]);
  growing.Add(kTurns[1]);
  const Value first = growing.messages[0].dict;
  Value second = growing.messages[1].dict;
  growing.messages[0].dict = Borrowed(first);
  growing.messages[1].dict = Borrowed(second);
  const std::weak_ptr<const Dict> read = second.dict();
  ASSERT_TRUE(parsed->Render(growing.Options(2, true)).ok());
  growing.messages.pop_back();
  second = Value();
  EXPECT_FALSE(read.expired());
  growing.messages[0].kept.reset();
  EXPECT_TRUE(read.expired());
}

TEST(JinjaIterationTest, TrackedDictsAreFoundInAnyOrder) {
  for (const size_t count : {0u, 1u, 2u, 7u, 300u}) {
    std::vector<Tracked> items;
    for (size_t i = 0; i < count; ++i) items.push_back({i % 10 == 9 ? Value() : DictBuilder().Take()});
    const TrackedIndex index(items);
    std::mt19937 random(3);
    for (int round = 0; round < 1000; ++round) {
      EXPECT_EQ(index.Find(DictBuilder().Take()), std::nullopt);
      if (count == 0) continue;
      const size_t at = random() % count;
      EXPECT_EQ(index.Find(items[at].dict), items[at].dict.is_dict() ? std::optional(at) : std::nullopt);
    }
  }
}

TEST(JinjaIterationTest, WhatIsTakenOverTogetherIsWhatItWouldBe) {
  for (const size_t settled : {1u, 3u, 6u}) {
    GrowSettled(
        "{% set ns = namespace(n=0) %}{% for m in messages[::-1] %}{% set ns.n = loop.index0 %}{% endfor %}"
        "{% for m in messages %}{{ ns.n }}{{ m.role }}{% endfor %}",
        settled);
    GrowSettled("{% set n = messages | length %}{% for m in messages %}{{ n }}{{ m.role }}{% endfor %}", settled);
    GrowSettled("{% for m in messages %}{{ messages[-1].role }}{{ m.role }}{% endfor %}", settled);
  }
}

TEST(JinjaIterationTest, WhatABodyReadsDecidesWhetherItIsTakenOver) {
  constexpr size_t kAll = std::size(kTurns);
  EXPECT_EQ(Grow("{% for m in messages %}<{{ m.role }}>{{ m.content }}{{ eos }}{% endfor %}"), kAll);
  EXPECT_EQ(Grow("{% for m in messages %}{% if tools %}t{% endif %}{{ missing }}{{ m.content | upper }}{% endfor %}"),
            kAll);
  EXPECT_EQ(Grow("{% for m in messages %}{{ m.role }}{% if loop.last %}|{% endif %}{% endfor %}"), kAll);
  EXPECT_EQ(Grow("{% for m in messages %}{{ m.role }}{% if not loop.last %}{{ messages[loop.index0 + 1].role }}"
                 "{% endif %}{% endfor %}"),
            kAll);
  EXPECT_EQ(Grow("{% for m in messages %}{{ m.role }}{{ loop.previtem.role if loop.previtem }}{% endfor %}"), kAll);
  EXPECT_EQ(Grow("{% macro p(x) %}[{{ x.role ~ eos }}]{% endmacro %}{% for m in messages %}{{ p(m) }}{% endfor %}"),
            kAll);
  EXPECT_EQ(Grow("{% for m in messages %}{% generation %}{{ m.content }}g{% endgeneration %}{% endfor %}"), kAll);
  EXPECT_EQ(Grow("{% for m in messages %}{{ m.role }}{% continue %}x{% else %}none{% endfor %}"), kAll);
  EXPECT_EQ(Grow("{% set ns = namespace(n=0) %}{% for m in messages %}{{ ns.n }}{% set ns.n = ns.n + 1 %}{% endfor %}"
                 "{{ ns.n }}"),
            kAll);
  EXPECT_EQ(Grow("{% for m in messages %}{% set n = namespace(x=m.role) %}{% set n.x = n.x ~ '!' %}{{ n.x }}"
                 "{% for c in m.tool_calls %}{{ c.name }}{{ loop.index }}{{ c.arguments | tojson }}{% endfor %}"
                 "{% set b %}<{{ m.content }}>{% endset %}{{ b }}{% endfor %}"),
            kAll);
}

TEST(JinjaIterationTest, WhatMayDifferIsAlwaysRun) {
  for (const char* source : {
           "{% for m in messages %}{{ m.role }}{{ messages | length }}{% endfor %}",
           "{% for m in messages %}{{ m.role }}{% for x in messages %}{{ m.role }}{% endfor %}{% endfor %}",
           "{% for m in messages %}{{ strftime_now('%s') }}{% endfor %}",
           "{% set j = joiner(',') %}{% for m in messages %}{{ j() }}{{ m.role }}{% endfor %}",
           "{% set c = cycler('a', 'b') %}{% for m in messages %}{{ c.next() }}{{ m.role }}{% endfor %}",
           "{% for m in messages %}{{ loop.cycle('a', 'b') }}{% endfor %}",
           "{% for m in messages %}{{ loop.changed(m.role) }}{% endfor %}",
           "{% for m in messages %}{{ loop }}{% endfor %}",
           "{% for m in messages %}{% set l = loop %}{{ l.index }}{% endfor %}",
           "{% for m in messages if m.role != 'tool' %}{{ m.role }}{{ loop.last }}{% endfor %}",
           "{% set ns = namespace(n=0) %}{% set d = {'n': ns} %}{% for r in [1, 2] %}{% for m in messages %}{{ d.n.n }}"
           "{% endfor %}{% set ns.n = 1 %}{% endfor %}",
           "{% set ns = namespace(l=[]) %}{% for m in messages %}{{ ns.l | length }}{% set ns.l = ns.l + [m] %}"
           "{% endfor %}",
           "{% set a = namespace(n=0) %}{% set b = a %}{% for m in messages %}{% set a.n = 5 %}{{ b.n }}"
           "{% set b.n = 0 %}{% endfor %}",
           "{% set g = messages | map(attribute='role') %}{% for m in messages %}{{ g | first }}{% endfor %}",
           "{% for m in messages %}{{ m.role }}{% if loop.index == 2 %}{% break %}{% endif %}{% endfor %}",
       }) {
    const size_t used = Grow(source);
    EXPECT_LE(used, std::string_view(source).find("break") == std::string_view::npos ? 0u : 1u) << source;
  }
}

// Two names of one namespace, in one rendering and not in the other.
TEST(JinjaIterationTest, NamesOfOneNamespaceAreNotTwo) {
  const std::string source =
      "{% set a = namespace(n=3) %}{% set b = namespace(n=3) %}{% if one %}{% set b = a %}{% endif %}"
      "{% for m in messages %}{% set a.n = 5 %}{{ b.n }};{% set a.n = 3 %}{% endfor %}";
  const auto parsed = Template::Parse(source);
  ASSERT_TRUE(parsed.ok());
  Growing growing;
  for (const char* turn : kTurns) growing.Add(turn);
  for (const bool settled : {false, true}) {
    if (settled) growing.Settle();
    for (const bool one : {false, true, false}) {
      growing.others = {{"one", Value(one)}};
      Check(**parsed, growing, growing.messages.size(), source);
    }
  }
}

TEST(JinjaIterationTest, WhatIsNeverTakenOverIsNotKeptForLong) {
  const std::string source = "{% for m in messages %}{{ m.role }}{{ x }}{% endfor %}";
  const auto parsed = Template::Parse(source);
  Growing growing;
  growing.Add(kTurns[0]);
  const auto kept = [&] {
    size_t count = 0;
    for (uint64_t loop = 1; loop <= kLoops; ++loop) {
      const auto memo = growing.messages[0].kept->Find(loop);
      count += memo.has_value() && *memo != nullptr;
    }
    return count;
  };
  for (int64_t x = 0; x < 3; ++x) {
    growing.others = {{"x", Value(x)}};
    EXPECT_TRUE((*parsed)->Render(growing.Options(1, true)).ok());
    EXPECT_EQ(kept(), 1u);
  }
  for (int64_t x = 3; x < 6; ++x) {
    growing.others = {{"x", Value(x)}};
    EXPECT_EQ((*parsed)->Render(growing.Options(1, true))->text, absl::StrCat("system", x));
  }
  EXPECT_EQ(kept(), 0u);
}

TEST(JinjaIterationTest, ThreadsMayRenderOneConversation) {
  const std::string source =
      "{% set ns = namespace(n=0) %}{% for m in messages %}{{ x }}{{ m.content }}{{ ns.n }}{% set ns.n = loop.index %}"
      "{% if loop.last %}|{% endif %}{% endfor %}";
  const auto parsed = *Template::Parse(source);
  Growing growing;
  for (const char* turn : kTurns) {
    growing.Add(turn);
    if (growing.messages.size() == 3) growing.Settle();
  }
  std::vector<std::thread> threads;
  for (int64_t t = 0; t < 4; ++t) {
    threads.emplace_back([&growing, &parsed, &source, t] {
      Growing own = growing;  // the same dicts, with what is kept of them
      own.others = {{"x", Value(t % 2)}};
      for (size_t i = 0; i < 200; ++i) Check(*parsed, own, 1 + i % own.messages.size(), source);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(JinjaIterationTest, RandomTemplates) {
  const std::vector<std::string> before = {"{% set ns = namespace(n=0, s='') %}",
                                           "{% set a = namespace(n=1) %}",
                                           "{% set b = ns %}",
                                           "{% set y = messages[0].role %}",
                                           "{% set messages = messages[1:] %}",
                                           "{% set d = {'n': ns, 'm': messages} %}",
                                           "{% set l = [ns] %}",
                                           "{% set j = joiner(', ') %}",
                                           "{% macro p(q) %}({{ q }}{{ x }}{{ ns.n }}){% endmacro %}",
                                           "{% macro up() %}{% set ns.n = ns.n + 1 %}{% endmacro %}",
                                           "{% for m in messages[::-1] %}{% set ns.n = loop.index0 %}{% endfor %}"};
  const std::vector<std::string> body = {"{{ m.content }}",
                                         "<{{ m.role }}>",
                                         "{% if loop.last %}|{% endif %}",
                                         "{% if loop.first %}^{% endif %}",
                                         "{{ loop.index0 }}",
                                         "{{ loop.length }}",
                                         "{{ loop.previtem.role }}",
                                         "{{ loop.nextitem is defined }}",
                                         "{{ messages[loop.index0 - 1].role }}",
                                         "{{ messages[loop.index0 + 1].role }}",
                                         "{{ messages[-1].content }}",
                                         "{{ messages | length }}",
                                         "{{ messages[1:] }}",
                                         "{{ x }}",
                                         "{{ y }}",
                                         "{{ eos }}",
                                         "{% set y = m.role %}",
                                         "{% set x = x ~ 'z' %}",
                                         "{{ ns.n }}",
                                         "{% set ns.n = ns.n + 1 %}",
                                         "{% set ns.s = ns.s ~ m.role %}",
                                         "{{ ns.s }}",
                                         "{% set ns.n = m.role %}",
                                         "{{ a.n }}",
                                         "{% set a.n = 2 %}",
                                         "{{ b.n }}",
                                         "{% set b.n = 7 %}",
                                         "{{ d.n.n }}",
                                         "{{ l[0].n }}",
                                         "{{ d['m'] | length }}",
                                         "{{ j() }}",
                                         "{{ p(m.role) }}",
                                         "{{ p(ns) }}",
                                         "{{ up() }}",
                                         "{% if x %}",
                                         "{% if m.content %}",
                                         "{% else %}",
                                         "{% endif %}",
                                         "{% for c in m.tool_calls %}",
                                         "{{ c.name }}",
                                         "{% endfor %}",
                                         "{% for k in messages %}",
                                         "{{ k.role }}",
                                         "{% set t %}",
                                         "{% endset %}",
                                         "{{ t }}",
                                         "{% generation %}",
                                         "{% endgeneration %}",
                                         "{% break %}",
                                         "{% continue %}",
                                         "{{ m }}",
                                         "{% set z = namespace(k=m) %}",
                                         "{{ z.k.role }}",
                                         "{% set z.k = 1 %}",
                                         "{{ m.content | trim | tojson }}",
                                         "{{ m.tool_calls | tojson }}",
                                         "{{ 'a' + m.content + eos }}",
                                         "{{ loop.cycle('o', 'e') }}",
                                         "{{ loop.changed(m.role) }}",
                                         "{{ add_generation_prompt }}"};
  const std::vector<std::string> after = {"{{ ns.n }}",
                                          "{{ ns.s }}",
                                          "{{ a.n }}",
                                          "{{ y }}",
                                          "{{ j() }}",
                                          "{% for m in messages %}{{ m.role }}{% endfor %}",
                                          "{% if add_generation_prompt %}<a>{% endif %}"};
  const std::vector<std::string> look = {
      "{% set ns.n = loop.index0 %}",
      "{% set i = messages | length - 1 - loop.index0 %}",
      "{% set i = loop.revindex %}",
      "{% set ns.n = (messages | length - loop.index) + 2 %}",
      "{% set ns.n = messages | length + loop.index0 %}",
      "{% set ns.n = messages[loop.revindex0 - 1].role %}",
      "{% set ns.n = messages[messages | length - loop.index].role %}",
      "{% set ns.n = messages[loop.index0 - 1].role %}",
      "{% set ns.n = loop.previtem.role ~ loop.first %}",
      "{% if loop.first %}{% set ns.s = 'f' %}{% endif %}",
      "{% if loop.last %}{% set a.n = ns.n %}{% endif %}",
      "{% if m.role == 'user' and not ns.s %}{% set ns.s = i ~ m.content %}{% endif %}",
      "{% if ns.n %}{% set ns.n = x %}{% endif %}",
      "{% set messages = [m] %}",
      "{% set ns.s = m.content %}{% continue %}",
      "{% if m.role == 'tool' %}{% break %}{% endif %}"};
  std::mt19937 random(7);
  const auto some = [&](const std::vector<std::string>& pieces, size_t most) {
    std::string text;
    for (size_t count = random() % (most + 1); count-- > 0;) text += pieces[random() % pieces.size()];
    return text;
  };
  size_t rendered = 0, used = 0, runs = 0;
  for (int round = 0; round < 7000; ++round) {
    std::string source = some(before, 5);
    if (random() % 2 == 0) {
      source += "{% set ns = namespace(n=0, s='') %}{% set a = namespace(n=1) %}{% for m in messages[::-1] %}" +
                some(look, 4) + "{% endfor %}";
    }
    source += "{% for m in messages %}" + some(body, 8) + "{% endfor %}" + some(after, 3);
    const auto parsed = Template::Parse(source);
    if (!parsed.ok()) continue;
    Growing growing;
    growing.others = {{"eos", Value::Text("</s>")}, {"x", Value()}};
    for (const char* turn : kTurns) {
      growing.Add(turn);
      if (random() % 8 == 0) growing.Settle();
      if (random() % 4 == 0) growing.others[1].second = random() % 2 == 0 ? Value(true) : Value::Text("x");
      rendered += Check(**parsed, growing, growing.messages.size(), source);
      if (random() % 4 == 0) Check(**parsed, growing, 1 + random() % growing.messages.size(), source);
      if (testing::Test::HasFailure()) FAIL() << source;
    }
    if (round % 50 == 0) used += Used(growing, kLoops), runs += UsedRuns(growing);
  }
  EXPECT_GT(rendered, 5000u);
  EXPECT_GT(used, 50u);
  EXPECT_GT(runs, 4u);
}

}  // namespace
}  // namespace ingot::text::jinja
