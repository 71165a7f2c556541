#include "grammar/schema_formats.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace ingot::grammar {
namespace {

// Allows February 29 only in leap years.
#define INGOT_DATE                                                                                           \
  R"((\d{4}-((0[13578]|1[02])-(0[1-9]|[12]\d|3[01])|(0[469]|11)-(0[1-9]|[12]\d|30)|02-(0[1-9]|1\d|2[0-8])))" \
  R"(|(\d\d(0[48]|[2468][048]|[13579][26])|([02468][048]|[13579][26])00)-02-29))"
#define INGOT_TIME R"(([01]\d|2[0-3]):[0-5]\d:[0-5]\d(\.\d{1,9})?(Z|[+-]([01]\d|2[0-3]):[0-5]\d))"
#define INGOT_TIME_SPAN R"(T(\d+H(\d+M(\d+S)?)?|\d+M(\d+S)?|\d+S))"
#define INGOT_LABEL R"([A-Za-z0-9]([A-Za-z0-9-]{0,28}[A-Za-z0-9])?)"
#define INGOT_HOST INGOT_LABEL R"((\.)" INGOT_LABEL R"(){0,7})"
#define INGOT_ATOM R"([A-Za-z0-9!#$%&'*+/=?^_`{|}~-]{1,31})"
#define INGOT_BYTE R"((25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d))"
#define INGOT_HEX R"([0-9A-Fa-f])"
#define INGOT_GROUP INGOT_HEX "{1,4}"
#define INGOT_GROUPS(before, after) "(" INGOT_GROUP ":){1," before "}(:" INGOT_GROUP "){1," after "}"

constexpr std::pair<std::string_view, std::string_view> kFormats[] = {
    {"date", "^" INGOT_DATE "$"},
    {"time", "^" INGOT_TIME "$"},
    {"date-time", "^" INGOT_DATE "T" INGOT_TIME "$"},
    {"duration", R"(^P(\d+W|(\d+Y(\d+M(\d+D)?)?|\d+M(\d+D)?|\d+D)()" INGOT_TIME_SPAN ")?|" INGOT_TIME_SPAN ")$"},
    {"email", "^" INGOT_ATOM R"((\.)" INGOT_ATOM ")?@" INGOT_HOST "$"},
    {"hostname", "^" INGOT_HOST "$"},
    {"ipv4", "^(" INGOT_BYTE R"(\.){3})" INGOT_BYTE "$"},
    {"ipv6", "^((" INGOT_GROUP ":){7}" INGOT_GROUP "|(" INGOT_GROUP ":){1,7}:|:(:" INGOT_GROUP "){1,7}|::|"  //
     INGOT_GROUPS("6", "1") "|" INGOT_GROUPS("5", "2") "|" INGOT_GROUPS("4", "3") "|"                        //
     INGOT_GROUPS("3", "4") "|" INGOT_GROUPS("2", "5") "|" INGOT_GROUPS("1", "6") ")$"},
    {"uuid", "^" INGOT_HEX "{8}-(" INGOT_HEX "{4}-){3}" INGOT_HEX "{12}$"},
};

}  // namespace

std::string_view FormatPattern(std::string_view format) {
  const auto* const found =
      std::find_if(std::begin(kFormats), std::end(kFormats), [format](const auto& row) { return row.first == format; });
  return found == std::end(kFormats) ? std::string_view() : found->second;
}

}  // namespace ingot::grammar
