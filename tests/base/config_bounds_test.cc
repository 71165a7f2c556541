// Bounds and choices of a configuration's keys, and sections whose keys their structs declare.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "base/bounds.h"
#include "base/config.h"

namespace ingot::base {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

struct Server {
  std::string name;
  int32_t port = 80;
  std::string kind = "http";
  double timeout_s = 1;
};

void Bind(Schema& schema, Server& o) {
  schema.Field("name", &o.name, "its name");
  schema.Field("port", &o.port, "where it listens", InRange(1, 65535));
  schema.Choice("kind", &o.kind, {"http", "file"}, "how it is asked");
  schema.Field("timeout_s", &o.timeout_s, "of one request", Positive());
}

struct Pool {
  int64_t size = 8;
  double share = 0.5, clip = 0;
  std::string order = "strict";
  std::vector<Server> servers;
};

void Bind(Schema& schema, Pool& o) {
  schema.Field("size", &o.size, "slots", Positive());
  schema.Field("share", &o.share, "of all slots", Fraction());
  schema.Field("clip", &o.clip, "greatest ratio; 0: off", Above(1).OrZero());
  schema.Choice("order", &o.order, {"strict", "windowed", "greedy"}, "which slot is next");
  schema.List("servers", &o.servers, "where it asks");
  schema.Renamed("slots", "size");
}

struct Root {
  std::string data;
  Pool pool;
};

void Bind(Schema& schema, Root& o) {
  schema.Field("data.path", &o.data, "file");
  schema.Shorthand("data", [](const std::string&) -> absl::StatusOr<std::string> { return std::string("data.path"); });
  schema.Section("pool", o.pool);
}

Schema SchemaOf(Root& run) {
  Schema schema;
  schema.Section("run", run);
  return schema;
}

std::string LoadError(const std::string& yaml) {
  Root run;
  return std::string(SchemaOf(run).LoadText(yaml, "run.yaml").message());
}

TEST(ConfigBounds, KeysOfASectionAreRelativeToIt) {
  Root run;
  Schema schema = SchemaOf(run);
  EXPECT_THAT(schema.Keys(), ElementsAre("run.data.path", "run.pool.size", "run.pool.share", "run.pool.clip",
                                         "run.pool.order", "run.pool.servers"));
  ASSERT_EQ(schema.LoadText("run: {data: a.jsonl, pool: {size: 3, order: greedy, servers: [{port: 7}]}}", "run.yaml"),
            absl::OkStatus());
  EXPECT_EQ(run.data, "a.jsonl");
  EXPECT_EQ(run.pool.size, 3);
  EXPECT_EQ(run.pool.order, "greedy");
  EXPECT_EQ(run.pool.servers[0].port, 7);
  EXPECT_THAT(std::string(schema.Set("run.pool.slots=2").message()), HasSubstr("nearest known key is 'run.pool.size'"));
}

TEST(ConfigBounds, AValueOutOfBoundsIsRejectedWhereItIsSet) {
  EXPECT_EQ(LoadError("run:\n  pool:\n    size: 0"), "run.yaml:3: run.pool.size is 0: it must be greater than 0");
  EXPECT_EQ(LoadError("run: {pool: {share: 1.5}}"), "run.yaml:1: run.pool.share is 1.5: it must be in (0, 1]");
  EXPECT_EQ(LoadError("run: {pool: {clip: 0.5}}"), "run.yaml:1: run.pool.clip is 0.5: it must be 0, or greater than 1");
  EXPECT_EQ(LoadError("run: {pool: {clip: 0}}"), "");
  EXPECT_THAT(LoadError("run: {pool: {order: any}}"), HasSubstr("expected one of strict | windowed | greedy, got any"));
  EXPECT_EQ(LoadError("run: {pool: {servers: [{}, {port: 0}]}}"),
            "run.yaml:1: port is 0: it must be in [1, 65535] (in run.pool.servers[1])");
  Root run;
  EXPECT_EQ(SchemaOf(run).Set("run.pool.size=-1").message(), "--set run.pool.size is -1: it must be greater than 0");
}

TEST(ConfigBounds, OptionsThatCodeSetsAreCheckedByTheSameDeclaration) {
  Pool pool{.servers = {{}, {}}};
  EXPECT_EQ(CheckBounds(pool), absl::OkStatus());
  pool.servers[1].port = 1 << 16;
  EXPECT_EQ(CheckBounds(pool).message(), "servers[1].port is 65536: it must be in [1, 65535]");
  pool.servers[0].kind = "ftp";
  EXPECT_EQ(CheckBounds(pool).message(), "servers[0].kind is 'ftp': it must be http or file");
  pool.order = "any";
  EXPECT_EQ(CheckBounds(pool).message(), "order is 'any': it must be one of strict, windowed, greedy");
  pool.share = kNan;
  EXPECT_EQ(CheckBounds(pool).message(), "share is nan: it must be finite and in (0, 1]");
  Root run{.data = "", .pool = pool};
  EXPECT_EQ(CheckBounds(run).message(), "pool.share is nan: it must be finite and in (0, 1]");
}

TEST(ConfigBounds, EachNumberOfAMappingIsHeldToTheBound) {
  std::map<std::string, double> weights = {{"math", 2}};
  Schema schema;
  schema.Field("domains", &weights, "weight of each", InRange(0, 1e9));
  ASSERT_EQ(schema.Set("domains={code: 0.5, logic: 3}"), absl::OkStatus());
  EXPECT_EQ(weights, (std::map<std::string, double>{{"code", 0.5}, {"logic", 3}}));
  const std::string yaml = schema.EffectiveYaml();
  EXPECT_EQ(schema.LoadText(yaml, "again.yaml"), absl::OkStatus()) << yaml;
  EXPECT_EQ(schema.EffectiveYaml(), yaml);
  EXPECT_EQ(schema.Set("domains={code: -1}").message(),
            "--set domains has -1 for 'code': it must be in [0, 1000000000]");
  EXPECT_THAT(std::string(schema.Set("domains={code: many}").message()), HasSubstr("code: expected a finite number"));
  EXPECT_THAT(std::string(schema.Set("domains=[1]").message()), HasSubstr("expected a mapping of numbers"));
}

TEST(ConfigBounds, ExplainNamesTheBound) {
  Root run;
  const std::string text = *SchemaOf(run).Explain("run.pool");
  EXPECT_THAT(text, HasSubstr("run.pool.size  (int, greater than 0, default 8)\n    slots\n"));
  EXPECT_THAT(text, HasSubstr("run.pool.order  (strict | windowed | greedy, default strict)"));
  EXPECT_THAT(text, HasSubstr("run.pool.servers[].port  (int, in [1, 65535], default 80)"));
}

TEST(Bounds, ContainTheirClosedEndsOnly) {
  struct Case {
    Bound bound;
    std::vector<double> inside, outside;
    std::string text;
  };
  const std::vector<Case> cases = {
      {Positive(), {1e-300, 1e300}, {0, -1}, "greater than 0"},
      {NotNegative(), {0, 1}, {-1e-300}, "0 or greater"},
      {Above(1), {1.5}, {1}, "greater than 1"},
      {AtLeast(2), {2}, {1}, "at least 2"},
      {InRange(-7, 19), {-7, 19}, {-8, 20}, "in [-7, 19]"},
      {LeftOpen(0, 86400), {86400}, {0, 86401}, "in (0, 86400]"},
      {RightOpen(0, 1), {0, 0.5}, {1}, "in [0, 1)"},
      {Open(0, 1), {0.5}, {0, 1}, "in (0, 1)"},
      {InRange(1e-6, 1e12), {1e-6}, {0}, "in [1e-06, 1000000000000]"},
      {Above(1).OrZero(), {0, 2}, {0.5, 1}, "0, or greater than 1"},
  };
  for (const Case& c : cases) {
    for (const double value : c.inside) EXPECT_TRUE(c.bound.Contains(value)) << c.text << " " << value;
    for (const double value : c.outside) EXPECT_FALSE(c.bound.Contains(value)) << c.text << " " << value;
    for (const double value : {kNan, kInfinity, -kInfinity}) EXPECT_FALSE(c.bound.Contains(value)) << c.text;
    EXPECT_EQ(c.bound.Text(), c.text);
  }
  EXPECT_EQ(Bound().Text(), "");
}

}  // namespace
}  // namespace ingot::base
