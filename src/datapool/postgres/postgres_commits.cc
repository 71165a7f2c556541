#include "datapool/postgres/postgres_commits.h"

#include <string_view>

#include "absl/strings/numbers.h"

namespace ingot::datapool {
namespace {

// Returns 0 for text that is not a number, such as the value of a missing row.
int64_t NumberOf(std::string_view text) {
  int64_t number = 0;
  return absl::SimpleAtoi(base::View(text), &number) ? number : 0;
}

// Returns the number in each shard's row on the server. 0 = there is no row or no table.
absl::StatusOr<std::vector<int64_t>> StoredNumbers(PostgresConnection& connection,
                                                   const std::vector<PostgresCommits>& shards) {
  std::string tables, sql;
  for (size_t i = 0; i < shards.size(); ++i) {
    absl::StrAppend(&tables, tables.empty() ? "" : " union all ", "select ", i, " where to_regclass('", shards[i].table,
                    "') is not null");
  }
  INGOT_ASSIGN_OR_RETURN(const PostgresRows present, connection.Execute(tables));
  std::vector<int64_t> numbers(shards.size(), 0);
  for (int row = 0; row < present.size(); ++row) {
    const auto i = static_cast<size_t>(NumberOf(present.Value(row, 0)));
    if (i >= shards.size()) continue;
    const std::string value =
        absl::StrCat("(select convert_from(value, 'UTF8') from ", shards[i].table, " where family = 0 and key = '");
    absl::StrAppend(&sql, sql.empty() ? "" : " union all ", "select ", i, ", ", value, "run'), ", value, shards[i].key,
                    "')");
  }
  if (sql.empty()) return numbers;
  INGOT_ASSIGN_OR_RETURN(const PostgresRows rows, connection.Execute(sql));
  for (int row = 0; row < rows.size(); ++row) {
    const auto i = static_cast<size_t>(NumberOf(rows.Value(row, 0)));
    if (i >= shards.size()) continue;
    const std::string_view run = rows.Value(row, 1);
    const bool another_runs = !run.empty() && run != shards[i].run_id;
    numbers[i] = another_runs ? shards[i].acknowledged : NumberOf(rows.Value(row, 2));
  }
  return numbers;
}

}  // namespace

absl::StatusOr<std::string> MissingCommits(PostgresConnection& connection, const std::vector<PostgresCommits>& shards) {
  if (shards.empty()) return std::string();
  INGOT_ASSIGN_OR_RETURN(const std::vector<int64_t> numbers, StoredNumbers(connection, shards));
  for (size_t i = 0; i < shards.size(); ++i) {
    const PostgresCommits& shard = shards[i];
    if (numbers[i] >= shard.acknowledged) continue;
    return absl::StrCat("PostgreSQL at ", connection.lead()->name(), " is missing acknowledged records of ",
                        shard.table, ": it has ", numbers[i], " of this process's commits, and commit ",
                        shard.acknowledged, " was acknowledged by ", shard.by,
                        ". It is not used. Stop it, and promote a server that has them. To continue without them, stop "
                        "this process and start the run again");
  }
  return std::string();
}

}  // namespace ingot::datapool
