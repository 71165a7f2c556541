// RenderAtPrompt equals Render with add_generation_prompt false or true, whatever the template does with the flag.
#include <gtest/gtest.h>

#include <fstream>
#include <random>
#include <sstream>

#include "base/json.h"
#include "test_paths.h"
#include "text/jinja/jinja_rendered.h"
#include "text/jinja/template.h"

namespace ingot::text::jinja {
namespace {

RenderOptions Conversation() {
  RenderOptions options;
  const auto json = base::ParseJson(R"({"x": [1, "b", null], "eos": "</s>", "messages": [
      {"role": "system", "content": "s"}, {"role": "user", "content": " é "}, {"role": "assistant", "content": "a"},
      {"role": "user", "content": "q"}]})");
  for (const auto& field : json->get_object()) {
    options.variables.emplace_back(std::string(field.key()), FromJson(field.value(), 3));
  }
  for (const auto& [name, value] : options.variables) {
    if (name != "messages") continue;
    for (const Value& message : value.seq()->items) options.tracked.push_back(message);
  }
  options.now.tv_sec = 1;
  return options;
}

// Returns whether the template renders.
bool Check(const std::string& source, RenderOptions options) {
  const auto parsed = Template::Parse(source);
  if (!parsed.ok()) return false;
  RenderOptions flagged = options;
  flagged.variables.emplace_back("add_generation_prompt", Value(false));
  const auto without = (*parsed)->Render(flagged);
  flagged.variables.back().second = Value(true);
  const auto with = (*parsed)->Render(flagged);
  for (const bool prompted : {false, true}) {
    const auto got = (*parsed)->RenderAtPrompt(options, prompted);
    const absl::Status expected = !without.ok() ? without.status() : prompted ? with.status() : absl::OkStatus();
    EXPECT_EQ(got.status(), expected) << source;
    if (!got.ok() || !expected.ok()) continue;
    ExpectSame(got->rendered, prompted ? *with : *without, source);
    EXPECT_EQ(got->with_prompt, with.status()) << source;
    if (!with.ok()) {
      EXPECT_EQ(got->prompt, "") << source;
      continue;
    }
    size_t same = 0;
    while (same < std::min(with->text.size(), without->text.size()) && with->text[same] == without->text[same]) ++same;
    EXPECT_EQ(got->prompt_begin, same) << source;
    EXPECT_EQ(got->prompt, with->text.substr(same)) << source;
  }
  if (!without.ok()) return false;
  return true;
}

const char kLoop[] = "{% for m in messages %}<{{ m.role + '>' + m.content }}{% endfor %}";

TEST(JinjaPromptTest, EqualsTwoRenderings) {
  const std::string loop = kLoop;
  const std::vector<std::string> sources = {
      loop + "{% if add_generation_prompt %}<assistant>{% endif %}",
      loop + "{% if add_generation_prompt and eos is defined %}<a>{% else %}{{ eos }}{% endif %}!",
      loop + "{% if add_generation_prompt %}{% set y = 'a' %}{% endif %}{{ y }}",
      "{% set y = 'b' %}" + loop + "{% if not add_generation_prompt %}{% set y = y + 'a' %}{% endif %}{{ y }}",
      "{% set ns = namespace(n=0) %}" + loop +
          "{% if add_generation_prompt %}{% set ns.n = ns.n + 1 %}{% endif %}{{ ns.n }}",
      "{% set ns = namespace(n=0) %}{% macro up() %}{% set ns.n = ns.n + 1 %}{{ ns.n }}{% endmacro %}" + loop +
          "{{ up() }}{{ add_generation_prompt }}{{ up() }}",
      "{% macro p() %}{{ add_generation_prompt }}{% endmacro %}" + loop + "{{ p() }}",
      "{% set g = x | map('string') %}" + loop + "{{ add_generation_prompt }}{{ g | join(',') }}",
      "{% set g = x | map('string') %}" + loop + "{% if add_generation_prompt or 'b' in g %}{% endif %}{{ 'b' in g }}",
      "{% for m in messages %}{% if loop.last and add_generation_prompt %}<last>{% endif %}{{ m.role }}{% endfor "
      "%}",
      "{% if not add_generation_prompt is defined %}{% set add_generation_prompt = false %}{% endif %}" + loop +
          "{% if add_generation_prompt %}<a>{% endif %}",
      "{% set add_generation_prompt = 'mine' %}" + loop + "{{ add_generation_prompt }}",
      loop + "{% if add_generation_prompt %}{{ missing.field }}{% endif %}",
      loop + "{% if add_generation_prompt %}{{ 1 + 'a' }}{% endif %}",
      loop + "{% if add_generation_prompt %}{{ raise_exception('no') }}{% endif %}",
      "{{ 1 + 'a' }}{{ add_generation_prompt }}",
      loop,
      "no loop at all"};
  for (const std::string& source : sources) {
    Check(source, Conversation());
  }
}

TEST(JinjaPromptTest, EqualsTwoRenderingsOfKnownTemplates) {
  std::ifstream file(INGOT_SOURCE_DIR "/tests/text/testdata/jinja_cases.json");
  std::stringstream json;
  json << file.rdbuf();
  const auto golden = base::ParseJson(json.str());
  RenderOptions options;
  options.now.tv_sec = 1;
  for (const auto& field : base::Find(*golden, "variables")->get_object()) {
    options.variables.emplace_back(std::string(field.key()), FromJson(field.value(), 0));
  }
  int rendered = 0;
  for (const auto& entry : base::Find(*golden, "cases")->get_array()) {
    const std::string source(base::Find(entry, "template")->get_string());
    rendered += Check(source, options);
    rendered += Check(source + "{% if add_generation_prompt %}<a>{% endif %}", options);
  }
  EXPECT_GT(rendered, 100);
}

TEST(JinjaPromptTest, EqualsTwoRenderingsOfRandomTemplates) {
  const std::vector<std::string> pieces = {"{% if add_generation_prompt %}",
                                           "{% if x %}",
                                           "{% endif %}",
                                           "{% else %}",
                                           "{{ add_generation_prompt }}",
                                           "{% set y = x %}",
                                           "{% set y = add_generation_prompt %}",
                                           "{{ y }}",
                                           "{% set ns = namespace(n=1) %}",
                                           "{% set ns.n = 2 %}",
                                           "{{ ns.n }}",
                                           "{% for m in messages %}",
                                           "{% endfor %}",
                                           "{{ m.content + eos + 'z' }}",
                                           "{{ 'a' + 1 }}",
                                           "{{ 1 + 2 + 3 }}",
                                           "{{ eos + eos | safe + '<' }}",
                                           "{% break %}",
                                           "text",
                                           "{{ x | join }}",
                                           "{% set g = x | map('string') %}",
                                           "{{ g | list }}",
                                           "{% generation %}",
                                           "{% endgeneration %}",
                                           "{% macro f(a) %}{{ a }}{{ add_generation_prompt }}{% endmacro %}",
                                           "{{ f(eos) }}"};
  std::mt19937 rng(9);
  int rendered = 0;
  for (int trial = 0; trial < 20000; ++trial) {
    std::string source;
    for (int i = rng() % 10; i >= 0; --i) source += pieces[rng() % pieces.size()];
    rendered += Check(source, Conversation());
  }
  EXPECT_GT(rendered, 1000);
}

}  // namespace
}  // namespace ingot::text::jinja
