#include "reward/verifiers/fenced_blocks.h"

#include <algorithm>
#include <optional>

#include "absl/strings/ascii.h"

namespace ingot::reward {
namespace {

constexpr int kTabStop = 4;
constexpr int kMaxIndent = 3;  // maximum indent for a fence or marker; deeper ones are indented code or text
constexpr int kLongestListNumber = 9;
constexpr size_t kMaxContainers = 64;  // nesting limit; deeper markers are text, which bounds the cost of each line

// The unread part of a line, with functions to read indentation. Columns count from the line's start, because tabs end
// at tab stops.
class Line {
 public:
  explicit Line(std::string_view text) : text_(text) {}

  // Returns the number of whitespace columns from here.
  int Indent() const {
    int column = column_;
    for (size_t i = at_; i < text_.size() && (text_[i] == ' ' || text_[i] == '\t'); ++i)
      column = After(text_[i], column);
    return column - column_;
  }
  // Skips up to `columns` whitespace columns, possibly only part of a tab.
  void SkipIndent(int columns) {
    const int end = column_ + columns;
    while (column_ < end && at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t')) {
      if (const int after = After(text_[at_], column_); after > end) {
        column_ = end;
        is_split_ = true;
      } else {
        column_ = after;
        is_split_ = false;
        ++at_;
      }
    }
  }
  // Skips characters that are one column each.
  void Skip(size_t characters) {
    at_ += characters;
    column_ += static_cast<int>(characters);
  }
  // Returns the text after the whitespace.
  std::string_view words() const {
    const size_t first = text_.find_first_not_of(" \t", at_);
    return first == std::string_view::npos ? "" : text_.substr(first);
  }
  bool blank() const { return words().empty(); }
  std::string rest() const {
    if (!is_split_) return std::string(text_.substr(std::min(at_, text_.size())));
    return std::string(static_cast<size_t>(After('\t', column_) - column_), ' ') + std::string(text_.substr(at_ + 1));
  }

 private:
  static int After(char space, int column) {
    return space == '\t' ? column + kTabStop - column % kTabStop : column + 1;
  }
  const std::string_view text_;
  size_t at_ = 0;
  int column_ = 0;
  bool is_split_ = false;  // part of the tab at at_ is skipped
};

// An open block quote or list item.
struct Container {
  int item_indent = 0;    // columns before a list item's content; 0 = a block quote
  bool is_empty = false;  // still empty; a blank line ends such an item
};

struct Fence {
  char mark;
  size_t length;
  int indent;
};

bool TakeQuote(Line& line) {
  const int indent = line.Indent();
  if (indent > kMaxIndent || !line.words().starts_with('>')) return false;
  line.SkipIndent(indent);
  line.Skip(1);
  line.SkipIndent(1);
  return true;
}

// Returns the length of the list marker at the start of `words`, or 0 if there is none.
size_t MarkerLength(std::string_view words) {
  if (words.empty()) return 0;
  size_t length = 0;
  if (words[0] == '-' || words[0] == '+' || words[0] == '*') {
    length = 1;
  } else {
    while (length < words.size() && absl::ascii_isdigit(words[length])) ++length;
    if (length == 0 || length > kLongestListNumber || length == words.size()) return 0;
    if (words[length] != '.' && words[length] != ')') return 0;
    ++length;
  }
  return length == words.size() || words[length] == ' ' || words[length] == '\t' ? length : 0;
}

// Returns whether this is a thematic break, which is not a list item: three or more of the same mark and nothing else.
bool IsBreak(std::string_view words) {
  if (words.empty() || (words[0] != '*' && words[0] != '-' && words[0] != '_')) return false;
  const auto is_other = [mark = words[0]](char c) { return c != mark && c != ' ' && c != '\t'; };
  return std::none_of(words.begin(), words.end(), is_other) && std::count(words.begin(), words.end(), words[0]) > 2;
}

// `in_paragraph` = the line may continue a paragraph, which empty items and numbers other than 1 cannot interrupt.
std::optional<Container> TakeItem(Line& line, bool in_paragraph) {
  const int indent = line.Indent();
  const std::string_view words = line.words();
  const size_t marker = MarkerLength(words);
  if (indent > kMaxIndent || marker == 0 || IsBreak(words)) return std::nullopt;
  const bool is_empty = words.find_first_not_of(" \t", marker) == std::string_view::npos;
  const bool is_later = absl::ascii_isdigit(words[0]) && (marker != 2 || words[0] != '1');
  if (in_paragraph && (is_empty || is_later)) return std::nullopt;
  line.SkipIndent(indent);
  line.Skip(marker);
  // With five or more columns, the item begins with indented code, one column after its marker.
  const int space = is_empty || line.Indent() > kTabStop ? 1 : line.Indent();
  line.SkipIndent(space);
  return Container{indent + static_cast<int>(marker) + space, is_empty};
}

// Returns whether the line continues this container. If so, skips the container's prefix.
bool Continues(Container& container, Line& line) {
  if (container.item_indent == 0) return TakeQuote(line);
  if (line.blank() ? container.is_empty : line.Indent() < container.item_indent) return false;
  container.is_empty = false;
  line.SkipIndent(container.item_indent);
  return true;
}

size_t RunLength(std::string_view words, char mark) { return std::min(words.find_first_not_of(mark), words.size()); }

std::optional<Fence> Opening(const Line& line) {
  const std::string_view words = line.words();
  if (line.Indent() > kMaxIndent || words.empty() || (words[0] != '`' && words[0] != '~')) return std::nullopt;
  const size_t length = RunLength(words, words[0]);
  const bool is_inline = words[0] == '`' && words.find('`', length) != std::string_view::npos;
  return length < 3 || is_inline ? std::nullopt : std::optional(Fence{words[0], length, line.Indent()});
}

bool Closes(const Fence& fence, const Line& line) {
  const std::string_view words = line.words();
  const size_t length = RunLength(words, fence.mark);
  return line.Indent() <= kMaxIndent && length >= fence.length &&
         words.find_first_not_of(" \t", length) == std::string_view::npos;
}

class Reader {
 public:
  void Read(Line line) {
    size_t kept = 0;
    while (kept < containers_.size() && Continues(containers_[kept], line)) ++kept;
    const bool is_inside = kept == containers_.size();
    if (fence_.has_value() && is_inside) return Continue(line);
    fence_.reset();  // a block ends with its container
    const std::vector<Container> opened = TakeContainers(line, in_paragraph_ && is_inside);
    const std::optional<Fence> fence = Opening(line);
    const bool is_text = !line.blank() && !fence.has_value() && !IsHeading(line);
    // A paragraph may continue without its containers' prefixes.
    if (in_paragraph_ && !is_inside && opened.empty() && is_text) return;
    in_paragraph_ = is_text && (line.Indent() <= kMaxIndent || (in_paragraph_ && is_inside && opened.empty()));
    containers_.resize(kept);
    containers_.insert(containers_.end(), opened.begin(), opened.end());
    containers_.resize(std::min(containers_.size(), kMaxContainers));
    fence_ = fence;
    if (fence_.has_value()) blocks_.emplace_back();
  }
  std::vector<std::string> Take() { return std::move(blocks_); }

 private:
  void Continue(Line line) {
    if (Closes(*fence_, line)) return fence_.reset();
    line.SkipIndent(fence_->indent);
    blocks_.back() += line.rest() + "\n";
  }
  static std::vector<Container> TakeContainers(Line& line, bool in_paragraph) {
    std::vector<Container> opened;
    while (opened.size() < kMaxContainers) {
      if (TakeQuote(line)) {
        opened.emplace_back();
      } else if (const auto item = TakeItem(line, in_paragraph && opened.empty())) {
        opened.push_back(*item);
      } else {
        break;
      }
    }
    return opened;
  }
  static bool IsHeading(const Line& line) {
    const std::string_view words = line.words();
    const size_t level = RunLength(words, '#');
    const bool is_title =
        level > 0 && level <= 6 && (level == words.size() || words[level] == ' ' || words[level] == '\t');
    return line.Indent() <= kMaxIndent && (is_title || IsBreak(words));
  }

  std::vector<Container> containers_;
  bool in_paragraph_ = false;   // the last line was text, which the next one may continue
  std::optional<Fence> fence_;  // fence of the open block, which is the last one in blocks_
  std::vector<std::string> blocks_;
};

}  // namespace

std::vector<std::string> FencedBlocks(std::string_view markdown) {
  Reader reader;
  for (size_t from = 0; from < markdown.size();) {
    const size_t end = std::min(markdown.find_first_of("\r\n", from), markdown.size());
    reader.Read(Line(markdown.substr(from, end - from)));
    from = end + (markdown.substr(end, 2) == "\r\n" ? 2 : 1);
  }
  return reader.Take();
}

}  // namespace ingot::reward
