#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <fstream>
#include <random>
#include <sstream>
#include <thread>

#include "base/big_integer.h"
#include "base/json.h"
#include "test_paths.h"
#include "text/jinja/template.h"

namespace ingot::text::jinja {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

RenderOptions With(const std::string& json, int32_t source = 0) {
  RenderOptions options;
  const base::json::value variables = *base::ParseJsonExactly(json);
  for (const auto& field : variables.get_object()) {
    options.variables.emplace_back(std::string(field.key()), FromJson(field.value(), source));
  }
  return options;
}

absl::StatusOr<RenderedText> RenderSource(const std::string& source, const RenderOptions& options = {}) {
  const auto parsed = Template::Parse(source);
  if (!parsed.ok()) return parsed.status();
  return (*parsed)->Render(options);
}

std::string Text(const std::string& source, const std::string& variables = "{}") {
  const auto rendered = RenderSource(source, With(variables));
  return rendered.ok() ? rendered->text : std::string(rendered.status().message());
}

// Like Python's jinja2, whose integers have no largest value.
TEST(JinjaTest, IntegersBeyondInt64KeepTheirDigits) {
  const std::string variables =
      R"({"n": 18446744073709551615, "m": 12345678901234567890, "d": {"id": 12345678901234567890}})";
  EXPECT_EQ(Text("{{ n }} {{ n ~ '' }} {{ d | tojson }} {{ d }}", variables),
            R"(18446744073709551615 18446744073709551615 {"id": 12345678901234567890} {'id': 12345678901234567890})");
  EXPECT_EQ(Text("{{ n is number }} {{ n is integer }} {{ n is float }} {{ n == m }} {{ d.id == m }} {{ n | string | "
                 "length }}",
                 variables),
            "True True False False True 20");
  EXPECT_EQ(
      Text("{{ n }} {{ m }} {{ d | tojson }} {{ d }} {{ l }} {{ n is number }}{{ n is integer }}{{ n is mapping }} {{ "
           "n == n }} {{ '%s' % m }} {{ n | string }} {{ n | tojson }}",
           R"({"n": 18446744073709551616, "m": -9223372036854775809, "l": [-123456789012345678901234567890],
                     "d": {"id": 340282366920938463463374607431768211456}})"),
      "18446744073709551616 -9223372036854775809 {\"id\": 340282366920938463463374607431768211456} {'id': "
      "340282366920938463463374607431768211456} [-123456789012345678901234567890] TrueTrueFalse True "
      "-9223372036854775809 18446744073709551616 18446744073709551616");
}

// Python's jinja2 rendered every case (tests/text/peer/make_jinja_cases.py); a null text means that jinja2 raises.
TEST(JinjaTest, RendersLikeJinja2) {
  std::ifstream file(INGOT_SOURCE_DIR "/tests/text/testdata/jinja_cases.json");
  std::stringstream json;
  json << file.rdbuf();
  const auto golden = base::ParseJson(json.str());
  ASSERT_TRUE(golden.ok()) << golden.status();
  const RenderOptions options = With(base::PrintJson(*base::Find(*golden, "variables")));
  const auto& cases = base::Find(*golden, "cases")->get_array();
  EXPECT_GT(cases.size(), 90u);
  for (const auto& entry : cases) {
    const std::string name(base::Find(entry, "name")->get_string());
    const auto rendered = RenderSource(std::string(base::Find(entry, "template")->get_string()), options);
    const base::json::value& text = *base::Find(entry, "text");
    if (text.is_null()) {
      EXPECT_EQ(rendered.status().code(), absl::StatusCode::kInvalidArgument) << name;
      EXPECT_THAT(std::string(rendered.status().message()), StartsWith("chat template, line ")) << name;
    } else if (rendered.ok()) {
      EXPECT_EQ(rendered->text, std::string(text.get_string())) << name;
    } else {
      ADD_FAILURE() << name << ": " << rendered.status();
    }
  }
}

TEST(JinjaTest, ErrorsNameTheLine) {
  EXPECT_EQ(Text("a\n{% for x in [1] %}\n\n{{ raise_exception('no ' ~ x) }}{% endfor %}"),
            "chat template, line 4: no 1");
  EXPECT_EQ(Text("\n{{ a.b.c }}"), "chat template, line 2: UndefinedError: 'a' is undefined");
  EXPECT_THAT(Text("{% if x %}\n{% endfor %}"), HasSubstr("line 2"));
  EXPECT_THAT(Text("x\n{{ 'a }}"), HasSubstr("line 2"));
  EXPECT_THAT(Text("{% macro m() %}\n{{ 1 / 0 }}{% endmacro %}\n\n{{ m() }}"), HasSubstr("line 2: ZeroDivision"));
  EXPECT_THAT(Text("\xff"), HasSubstr("UTF-8"));
}

TEST(JinjaTest, ErrorsQuoteOnlyTheBeginningOfALongText) {
  const std::string variables = "{\"w\": \"" + std::string(70'000, 'w') + "\", \"d\": {}}";
  for (const char* source : {"{{ raise_exception(w) }}", "{{ d[w].x }}", "{{ w + 1 }}"}) {
    const std::string text = Text(source, variables);
    EXPECT_THAT(text, StartsWith("chat template, line 1: ")) << source;
    EXPECT_LE(text.size(), 1100u) << source;
  }
  EXPECT_LE(Text("{{ " + std::string(70'000, 'w') + "() }}").size(), 1100u);
  EXPECT_LE(Text("{% " + std::string(70'000, 'w') + " %}").size(), 1100u);
}

TEST(JinjaTest, StrftimeReadsTheGivenClock) {
  RenderOptions options;
  options.now = {86400 * 200, 123456000};
  EXPECT_EQ(RenderSource("{{ strftime_now('%Y %j %f %%') }}", options)->text, "1970 201 123456 %");
}

// The bytes of the rendered text that are marked as outside text, in parentheses. Outside text is marked wherever it
// ends up; the template's text never is.
std::string Outside(const std::string& source, const std::string& variables) {
  const auto rendered = RenderSource(source, With(variables, 7));
  if (!rendered.ok()) return std::string(rendered.status().message());
  std::string out = rendered->text;
  for (auto mark = rendered->marks.rbegin(); mark != rendered->marks.rend(); ++mark) {
    EXPECT_EQ(mark->source, 7);
    out.insert(mark->end, ")");
    out.insert(mark->begin, "(");
  }
  return out;
}

TEST(JinjaMarksTest, FollowOutsideTextThroughCopies) {
  const std::string variables = R"({"s": " ab,cd ", "d": {"k": "v\"w", "n": 1}})";
  EXPECT_EQ(Outside("<{{ s }}>", variables), "<( ab,cd )>");
  EXPECT_EQ(Outside("{{ '<' ~ s.strip() + '>' }}", variables), "<(ab,cd)>");
  EXPECT_EQ(Outside("{{ s | trim | replace(',', '|') }}", variables), "(ab)|(cd)");
  EXPECT_EQ(Outside("{{ s.split(',')[1] ~ 'x' }}", variables), "(cd )x");
  EXPECT_EQ(Outside("{{ ['x', s[1:3], 'y'] | join('-') }}", variables), "x-(ab)-y");
  EXPECT_EQ(Outside("{{ d | tojson }}", variables), R"({("k"): ("v\"w"), ("n"): 1})");
  EXPECT_EQ(Outside("{{ d }}", variables), R"({('k'): ('v"w'), ('n'): 1})");
  EXPECT_EQ(Outside("{% set x %}<{{ s }}>{% endset %}{{ x }}", variables), "<( ab,cd )>");
  EXPECT_EQ(Outside("{% macro m(a) %}[{{ a }}]{% endmacro %}{{ m(s) }}", variables), "[( ab,cd )]");
  EXPECT_EQ(Outside("{{ '%s!' % s }}{{ '{}?'.format(d.k) }}", variables), "( ab,cd )!(v\"w)?");
  EXPECT_EQ(Outside("{% for c in s.strip()[:2] %}{{ c }}.{% endfor %}", variables), "(a).(b).");
  EXPECT_EQ(Outside("{{ '\\n' ~ s | indent(2, true) }}", variables), "\n  ( ab,cd )");
}

TEST(JinjaMarksTest, CoverComputedTextsWhole) {
  EXPECT_EQ(Outside("<{{ s | upper }}>{{ ('x' ~ s) | title }}", R"({"s": "ab"})"), "<(AB)>(Xab)");
  EXPECT_EQ(Outside("{{ s | e }}", R"({"s": "a<b"})"), "(a&lt;b)");
}

// A slice of all items is as deep as its list.
TEST(JinjaTest, SlicesCountAsNesting) {
  const auto nest = [](int times) {
    return RenderSource(absl::StrCat("{% set ns = namespace(x=[]) %}{% for i in range(", times,
                                     ") %}{% set ns.x = [ns.x][::-1] %}{% endfor %}x"));
  };
  EXPECT_TRUE(nest(kMaxDepth - 1).ok());
  EXPECT_TRUE(absl::IsResourceExhausted(nest(kMaxDepth).status()));
}

TEST(JinjaTest, PassesOverTrackedMessagesAreReported) {
  RenderOptions options = With(R"({"messages": [{"c": "a"}, {"c": "b"}, {"c": "d"}]})");
  for (const Value& message : options.variables[0].second.seq()->items) options.tracked.push_back(message);
  const auto rendered = *RenderSource(
      "{% for m in messages %}{% endfor %}{% for m in messages[1:] %}<{{ m.c }}>{% endfor %}"
      "{% set x %}{% for m in messages %}{{ m.c }}{% endfor %}{% endset %}",
      options);
  EXPECT_EQ(rendered.text, "<b><d>");
  std::vector<std::array<size_t, 3>> passes;
  for (const auto& pass : rendered.passes) {
    passes.push_back(std::array<size_t, 3>{pass.index, pass.begin, pass.end});
  }
  EXPECT_EQ(passes, (std::vector<std::array<size_t, 3>>{{1, 0, 3}, {2, 3, 6}}));
}

TEST(JinjaTest, GenerationBlocksAreReported) {
  const auto rendered = *RenderSource("a{% generation %}bc{% endgeneration %}d{% generation %}{% endgeneration %}");
  EXPECT_EQ(rendered.text, "abcd");
  EXPECT_EQ(rendered.generations, (std::vector<std::pair<size_t, size_t>>{{1, 3}, {4, 4}}));
}

// Templates that would run for long, fill memory or overflow the stack.
TEST(JinjaLimitsTest, HostileTemplatesAreStopped) {
  const std::string nest(5000, '('), nested(5000, ')');
  std::string sum = "1", blocks, chain = "x";
  for (int i = 0; i < 5000; ++i) sum += " + 1";
  for (int i = 0; i < 1000; ++i) blocks += "{% if true %}";
  for (int i = 0; i < 5000; ++i) chain += ".x";
  const std::vector<std::string> hostile = {
      "{% for a in range(100000) %}{% for b in range(100000) %}{% endfor %}{% endfor %}",
      "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
      "{% macro m() %}{% call m() %}{% endcall %}{{ caller() }}{% endmacro %}{% call m() %}x{% endcall %}",
      "{{ 'aaaaaaaaaa' * 1000000000000 }}",
      "{{ [0] * 1000000000000 }}",
      "{% set ns = namespace(x='ab') %}{% for i in range(100) %}{% set ns.x = ns.x ~ ns.x %}{% endfor %}",
      "{% set ns = namespace(x=[1]) %}{% for i in range(100) %}{% set ns.x = ns.x + ns.x %}{% endfor %}",
      "{% set ns = namespace(x=[]) %}{% for i in range(100000) %}{% set ns.x = [ns.x] %}{% endfor %}",
      "{% set ns = namespace(x=[1]) %}{% for i in range(200) %}{% set ns.x = [ns.x, ns.x] %}{% endfor %}{{ ns.x }}",
      "{% set ns = namespace(x=[1]) %}{% for i in range(200) %}{% set ns.x = [ns.x, ns.x] %}{% endfor %}"
      "{{ ns.x | tojson }}",
      "{% set a = namespace(x=[1], y=[1]) %}{% for i in range(200) %}{% set a.x = [a.x, a.x] %}{% set a.y = [a.y, a.y] "
      "%}"
      "{% endfor %}{{ a.x == a.y }}",
      "{{ '%999999999d' % 1 }}",
      "{{ '{:>999999999}'.format(1) }}",
      "{{ 'x'.center(99999999999) }}",
      "{{ 'x' | center(99999999999) }}",
      "{{ 'a\\nb' | indent(99999999999) }}",
      "{{ [1] | batch(99999999999, 0) | list }}",
      "{{ [1] | slice(99999999999) | list }}",
      "{{ [1] | tojson(indent=99999999999) }}",
      "{% for x in [1] recursive %}{{ loop([1]) }}{% endfor %}",
      "{{ 9223372036854775807 + 1 }}",
      "{{ 2 ** 100 }}",
      "{{ 10 ** 10 ** 10 }}",
      "{{ " + nest + "1" + nested + " }}",
      "{{ " + sum + " }}",
      "{{ " + chain + " }}",
      blocks,
  };
  RenderOptions options;  // a hundredth of the defaults, which stop the slowest of these in about a second
  options.limits.steps = 200'000;
  options.limits.bytes = 10'000'000;
  for (const std::string& source : hostile) {
    const auto rendered = RenderSource(source, options);
    EXPECT_FALSE(rendered.ok()) << source.substr(0, 100);
    const auto code = rendered.status().code();
    EXPECT_TRUE(code == absl::StatusCode::kResourceExhausted || code == absl::StatusCode::kInvalidArgument)
        << rendered.status();
  }
}

// Chains of objects that contain one another are freed without recursion, and cycles are freed at all. The sanitizers
// check this.
TEST(JinjaLimitsTest, ObjectsThatHoldEachOtherAreFreed) {
  for (const char* source : {
           "{% set ns = namespace() %}{% set ns.me = ns %}{% set ns.list = [ns] %}{{ ns.nothing }}",
           "{% set ns = namespace(x=0) %}{% for i in range(50000) %}{% set ns.x = namespace(y=ns.x) %}{% endfor %}",
           "{% set ns = namespace(m=0) %}{% for i in range(20000) %}{% set p = ns.m %}{% macro m() %}{{ p }}{% "
           "endmacro %}"
           "{% set ns.m = m %}{% endfor %}",
           "{% set ns = namespace(l=0) %}{% for i in range(20000) %}{% set p = ns.l %}{% for j in [1] if j %}"
           "{% set ns.l = loop %}{% endfor %}{% endfor %}",
           "{% for i in [1] %}{{ '' if loop.changed(loop) }}{% endfor %}",
           "{% set ns = namespace() %}{% for i in [1, 2] %}{% set ns.c = loop.cycle %}{% endfor %}{% set c = ns.c('a', "
           "'b') %}",
       }) {
    const auto rendered = RenderSource(source);
    EXPECT_TRUE(rendered.ok()) << source << ": " << rendered.status();
    if (rendered.ok()) {
      EXPECT_EQ(rendered->text, "") << source;
    }
  }
}

// Printing a dict as JSON costs the same in every rendering, whether the dict was printed before or not.
TEST(JinjaLimitsTest, PrintingJsonCostsTheSameInEveryRendering) {
  const auto parsed = Template::Parse("{% for m in messages %}{{ m | tojson }}{% endfor %}");
  ASSERT_TRUE(parsed.ok());
  RenderOptions options;
  const auto json = base::ParseJson(R"([{"role": "user", "content": "a\u00e9"}, {"n": [1, 2.5, {"x": null}]}, {}])");
  options.variables.emplace_back("messages", FromJson(*json, 3));
  const auto least = [&](uint64_t Limits::* limit) {
    for (uint64_t value = 1;; ++value) {
      options.limits = {};
      options.limits.*limit = value;
      const auto rendered = (*parsed)->Render(options);
      if (rendered.ok()) return value;
      EXPECT_EQ(rendered.status().code(), absl::StatusCode::kResourceExhausted);
    }
  };
  // The second search prints dicts that were printed before.
  const uint64_t steps = least(&Limits::steps), bytes = least(&Limits::bytes);
  EXPECT_EQ(least(&Limits::steps), steps);
  EXPECT_EQ(least(&Limits::bytes), bytes);
  RenderOptions fresh;
  fresh.variables.emplace_back("messages", FromJson(*json, 3));
  fresh.limits.steps = steps - 1;
  EXPECT_FALSE((*parsed)->Render(fresh).ok());
  fresh.limits.steps = steps;
  EXPECT_TRUE((*parsed)->Render(fresh).ok());
  fresh.variables.back().second = FromJson(*json, 3);
  fresh.limits = {};
  fresh.limits.bytes = bytes - 1;
  EXPECT_FALSE((*parsed)->Render(fresh).ok());
  fresh.limits.bytes = bytes;
  EXPECT_TRUE((*parsed)->Render(fresh).ok());
}

TEST(JinjaLimitsTest, ThreadsThatPrintTheSameDictGetTheSameText) {
  const auto parsed = Template::Parse("{{ tool | tojson }}");
  ASSERT_TRUE(parsed.ok());
  for (int round = 0; round < 50; ++round) {
    RenderOptions options;
    options.variables.emplace_back("tool", FromJson(base::json::object{{"name", "f"}, {"round", round}}, 3));
    std::vector<std::string> texts(4);
    std::vector<std::thread> threads;
    for (std::string& text : texts) threads.emplace_back([&] { text = (*parsed)->Render(options)->text; });
    for (std::thread& thread : threads) thread.join();
    for (const std::string& text : texts) EXPECT_EQ(text, absl::StrCat(R"({"name": "f", "round": )", round, "}"));
  }
}

TEST(JinjaLimitsTest, LimitsComeFromTheCaller) {
  RenderOptions options;
  options.limits.steps = 1000;
  EXPECT_EQ(RenderSource("{% for i in range(2000) %}x{% endfor %}", options).status().code(),
            absl::StatusCode::kResourceExhausted);
  options = {};
  options.limits.output_bytes = 100;
  EXPECT_EQ(RenderSource("{{ 'x' * 60 }}{{ 'x' * 60 }}", options).status().code(),
            absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(RenderSource("{{ 'x' * 60 }}", options).ok());
}

// Templates made of random pieces of Jinja render or are refused.
TEST(JinjaFuzzTest, AnySourceIsRenderedOrRejected) {
  const std::vector<std::string> pieces = {"{{",
                                           "}}",
                                           "{%",
                                           "%}",
                                           "{#",
                                           "#}",
                                           "-",
                                           "+",
                                           " ",
                                           "\n",
                                           "if",
                                           "else",
                                           "endif",
                                           "for",
                                           "in",
                                           "endfor",
                                           "x",
                                           "'a'",
                                           "\"",
                                           "1",
                                           "1.5",
                                           "(",
                                           ")",
                                           "[",
                                           "]",
                                           "{",
                                           "}",
                                           ":",
                                           ",",
                                           ".",
                                           "|",
                                           "~",
                                           "*",
                                           "**",
                                           "//",
                                           "%",
                                           "=",
                                           "==",
                                           "<",
                                           "is",
                                           "not",
                                           "and",
                                           "or",
                                           "defined",
                                           "set",
                                           "endset",
                                           "macro",
                                           "endmacro",
                                           "call",
                                           "endcall",
                                           "m",
                                           "loop",
                                           "namespace",
                                           "tojson",
                                           "upper",
                                           "join",
                                           "map",
                                           "select",
                                           "sort",
                                           "items",
                                           "split",
                                           "raw",
                                           "endraw",
                                           "generation",
                                           "endgeneration",
                                           "filter",
                                           "endfilter",
                                           "with",
                                           "endwith",
                                           "recursive",
                                           "break",
                                           "continue",
                                           "true",
                                           "none",
                                           "messages",
                                           "content",
                                           "role",
                                           "é",
                                           "\\",
                                           "{{ x }}",
                                           "{% if x %}",
                                           "{% endif %}",
                                           "{% for m in messages %}",
                                           "{% endfor %}",
                                           "{{ m.content | trim }}",
                                           "raise_exception('x')",
                                           "range(3)"};
  std::mt19937 rng(5);
  RenderOptions options = With(R"({"x": [1, "b", null], "messages": [{"role": "user", "content": " é "}]})");
  options.limits.steps = 20000;
  int rendered = 0;
  for (int trial = 0; trial < 30000; ++trial) {
    std::string source;
    for (int i = rng() % 14; i >= 0; --i) {
      source += pieces[rng() % pieces.size()];
      if (rng() % 3 == 0) source += ' ';
    }
    if (rng() % 2 == 0) source = "{{ " + source + " }}";
    rendered += RenderSource(source, options).ok();
  }
  EXPECT_GT(rendered, 1000);
}

}  // namespace
}  // namespace ingot::text::jinja
