#include "text/tokenizer/bpe.h"

#include <algorithm>
#include <atomic>
#include <unordered_set>

#include "text/tokenizer/bpe_tables.h"
#include "text/unicode/unicode.h"

namespace ingot::text {
namespace {

constexpr size_t kShortPiece = 40;  // symbols; up to this many, a scan for the best pair is faster than a heap
constexpr size_t kCutAbove = 24;    // bytes; longer pieces are cut at borders that no token crosses

struct Symbol {
  int32_t id;
  MergeTable::Merge merge;  // with its right neighbor
};

void MergeShort(const MergeTable& merges, std::vector<Symbol>& symbols) {
  size_t count = symbols.size();
  for (size_t i = 0; i + 1 < count; ++i) symbols[i].merge = merges.Find(symbols[i].id, symbols[i + 1].id);
  symbols[count - 1].merge = {};
  while (count > 1) {
    size_t best = 0;
    for (size_t i = 1; i + 1 < count; ++i) {
      if (symbols[i].merge.rank < symbols[best].merge.rank) best = i;
    }
    if (symbols[best].merge.rank == MergeTable::kNone) break;
    symbols[best].id = symbols[best].merge.result;
    std::copy(symbols.begin() + best + 2, symbols.begin() + count, symbols.begin() + best + 1);
    --count;
    symbols[best].merge = best + 1 < count ? merges.Find(symbols[best].id, symbols[best + 1].id) : MergeTable::Merge();
    if (best > 0) symbols[best - 1].merge = merges.Find(symbols[best - 1].id, symbols[best].id);
  }
  symbols.resize(count);
}

// Uses a heap of (rank, place) and a list linked by place. A heap entry is stale if its rank is no longer the pair's
// rank.
void MergeLong(const MergeTable& merges, std::vector<Symbol>& symbols) {
  const auto count = static_cast<uint32_t>(symbols.size());
  std::vector<uint32_t> next(count);
  std::vector<uint32_t> previous(count);
  std::vector<uint64_t> heap;
  const auto entry = [](uint32_t rank, uint32_t place) { return static_cast<uint64_t>(rank) << 32 | place; };
  for (uint32_t i = 0; i < count; ++i) {
    next[i] = i + 1;
    previous[i] = i - 1;
    symbols[i].merge = i + 1 < count ? merges.Find(symbols[i].id, symbols[i + 1].id) : MergeTable::Merge();
    if (symbols[i].merge.rank != MergeTable::kNone) heap.push_back(entry(symbols[i].merge.rank, i));
  }
  std::make_heap(heap.begin(), heap.end(), std::greater<>());
  const auto look_up = [&](uint32_t place) {
    symbols[place].merge =
        next[place] < count ? merges.Find(symbols[place].id, symbols[next[place]].id) : MergeTable::Merge();
    if (symbols[place].merge.rank == MergeTable::kNone) return;
    heap.push_back(entry(symbols[place].merge.rank, place));
    std::push_heap(heap.begin(), heap.end(), std::greater<>());
  };
  while (!heap.empty()) {
    const auto rank = static_cast<uint32_t>(heap.front() >> 32);
    const auto place = static_cast<uint32_t>(heap.front());
    std::pop_heap(heap.begin(), heap.end(), std::greater<>());
    heap.pop_back();
    if (symbols[place].id < 0 || symbols[place].merge.rank != rank) continue;
    const uint32_t right = next[place];
    symbols[place].id = symbols[place].merge.result;
    symbols[right].id = -1;
    next[place] = next[right];
    if (next[place] < count) previous[next[place]] = place;
    look_up(place);
    if (place > 0) look_up(previous[place]);
  }
  std::erase_if(symbols, [](const Symbol& symbol) { return symbol.id < 0; });
}

// One thread's cache of pieces for one model. A later piece with the same hash overwrites the slot.
class PieceCache {
 public:
  static constexpr size_t kSlots = 1 << 15;
  static constexpr size_t kMaxBytes = 28;
  static constexpr size_t kMaxIds = 8;
  struct Slot {
    uint8_t size = 0;  // 0 = empty
    uint8_t count = 0;
    char text[kMaxBytes] = {};
    int32_t ids[kMaxIds] = {};
  };

  PieceCache() : slots_(kSlots) {}
  Slot& SlotOf(uint64_t hash) { return slots_[hash & (kSlots - 1)]; }

 private:
  std::vector<Slot> slots_;
};

// Returns this thread's cache for `model`. A thread has four caches, and a fifth model replaces the oldest.
PieceCache& CacheOf(uint64_t model) {
  struct Entry {
    uint64_t model = 0;
    std::unique_ptr<PieceCache> cache;
  };
  thread_local std::array<Entry, 4> entries;
  thread_local size_t oldest = 0;
  for (Entry& entry : entries) {
    if (entry.model == model) return *entry.cache;
  }
  Entry& entry = entries[oldest++ % entries.size()];
  entry.model = model;
  entry.cache = std::make_unique<PieceCache>();
  return *entry.cache;
}

std::atomic<uint64_t> next_model{1};

}  // namespace

struct Bpe::Tables {
  BpeDefinition definition;  // without tokens
  TextTable texts;
  MergeTable merges;
  BorderFilter borders;
  bool may_cut = false;
  size_t longest_token = 0;           // bytes
  std::array<int32_t, 256> byte_ids;  // only with `bytes`: the ids of single bytes; -1 = none
  // The ids of single characters, in pages of 256; -1 = none.
  std::vector<std::array<int32_t, 256>> character_ids;
  std::array<uint16_t, 0x1100> character_page{};
  uint64_t model = next_model.fetch_add(1, std::memory_order_relaxed);

  int32_t IdOfCharacter(uint32_t c) const { return character_ids[character_page[c >> 8]][c & 255]; }
  size_t Longest() const;
  void ReadCharacters(const std::vector<std::string>& tokens);
  void ReadBorders(const std::vector<std::string>& tokens);
  void ReadSymbols(std::string_view piece, std::vector<Symbol>& symbols) const;
  size_t CutAfter(std::string_view text) const;
};

void Bpe::Tables::ReadCharacters(const std::vector<std::string>& tokens) {
  byte_ids.fill(-1);
  character_ids.emplace_back().fill(-1);
  for (size_t id = 0; id < tokens.size(); ++id) {
    const std::string& token = tokens[id];
    if (token.empty()) continue;
    if (definition.bytes) {
      if (token.size() == 1) byte_ids[static_cast<uint8_t>(token[0])] = static_cast<int32_t>(id);
      continue;
    }
    const CodePoint c = DecodeAt(token, 0);
    if (c.size != token.size()) continue;
    uint16_t& page = character_page[c.value >> 8];
    if (page == 0) {
      page = static_cast<uint16_t>(character_ids.size());
      character_ids.emplace_back().fill(-1);
    }
    character_ids[page][c.value & 255] = static_cast<int32_t>(id);
  }
}

size_t Bpe::Tables::Longest() const {
  const auto known = [](const std::array<int32_t, 256>& ids) {
    return std::none_of(ids.begin(), ids.end(), [](int32_t id) { return id < 0; });
  };
  const bool complete = definition.bytes ? known(byte_ids) : definition.byte_fallback && known(definition.fallback_ids);
  if (!complete && (definition.unk < 0 || definition.fuse_unk)) return 0;
  constexpr size_t kCharacter = 4;  // bytes
  return complete ? longest_token : std::max(longest_token, kCharacter);
}

// Text may be split only if every character has its own symbols: a known character, or bytes or an `unk` that no merge
// uses. If an unknown character were dropped, its neighbors would meet. If fused, it would cross the border.
void Bpe::Tables::ReadBorders(const std::vector<std::string>& tokens) {
  may_cut = !definition.bytes && !definition.ignore_merges;
  if (!may_cut) return;
  const bool complete =
      definition.byte_fallback &&
      std::none_of(definition.fallback_ids.begin(), definition.fallback_ids.end(), [](int32_t id) { return id < 0; });
  if (!complete && (definition.unk < 0 || definition.fuse_unk)) may_cut = false;
  std::unordered_set<int32_t> special(definition.fallback_ids.begin(), definition.fallback_ids.end());
  special.insert(definition.unk);
  for (const auto& merge : definition.merges) {
    if (special.contains(merge.left) || special.contains(merge.right)) may_cut = false;
  }
  if (!may_cut) return;
  std::unordered_set<uint64_t> pairs;
  // Only pairs inside a result matter. Both parts of a merge are results or single characters, so this finds all pairs.
  for (const auto& merge : definition.merges) {
    const std::string& left = tokens[merge.left];
    const uint32_t a = DecodeAt(left, base::StartOf(left, left.size() - 1)).value;
    const uint32_t b = DecodeAt(tokens[merge.right], 0).value;
    pairs.insert(static_cast<uint64_t>(a) << 32 | b);
  }
  borders.Reserve(pairs.size());
  for (const uint64_t pair : pairs) borders.Insert(static_cast<uint32_t>(pair >> 32), static_cast<uint32_t>(pair));
}

void Bpe::Tables::ReadSymbols(std::string_view piece, std::vector<Symbol>& symbols) const {
  int unknown = 0;  // 1 = an unknown character will become `unk`
  const auto add = [&](int32_t id) { symbols.push_back({id, {}}); };
  for (size_t at = 0; at < piece.size();) {
    int32_t id = -1;
    size_t size = 1;
    if (definition.bytes) {
      id = byte_ids[static_cast<uint8_t>(piece[at])];
    } else {
      const CodePoint c = DecodeAt(piece, at);
      id = IdOfCharacter(c.value);
      size = c.size;
    }
    if (id >= 0) {
      if (unknown > 0) add(definition.unk);
      unknown = 0;
      add(id);
    } else {
      bool all = definition.byte_fallback && !definition.bytes;
      for (size_t i = 0; all && i < size; ++i) all = definition.fallback_ids[static_cast<uint8_t>(piece[at + i])] >= 0;
      if (all) {
        for (size_t i = 0; i < size; ++i) add(definition.fallback_ids[static_cast<uint8_t>(piece[at + i])]);
      } else if (definition.unk >= 0) {
        if (unknown > 0 && !definition.fuse_unk) add(definition.unk);
        unknown = 1;
      }
    }
    at += size;
  }
  if (unknown > 0) add(definition.unk);
}

// Returns the first border where `text` may be cut, or its end if there is none.
size_t Bpe::Tables::CutAfter(std::string_view text) const {
  CodePoint c = DecodeAt(text, 0);
  for (size_t at = c.size; at < text.size();) {
    const CodePoint next = DecodeAt(text, at);
    if (!borders.MayContain(c.value, next.value)) return at;
    at += next.size;
    c = next;
  }
  return text.size();
}

Bpe::Bpe(BpeDefinition definition)
    : tables_([&definition] {
        auto tables = std::make_unique<Tables>();
        const std::vector<std::string> tokens = std::move(definition.tokens);
        tables->definition = std::move(definition);
        size_t bytes = 0;
        for (const std::string& token : tokens) {
          bytes += token.size();
          tables->longest_token = std::max(tables->longest_token, token.size());
        }
        tables->texts.Reserve(tokens.size(), bytes);
        for (size_t id = 0; id < tokens.size(); ++id) {
          if (!tokens[id].empty()) tables->texts.Insert(tokens[id], static_cast<int32_t>(id));
        }
        const auto& merges = tables->definition.merges;
        tables->merges.Reserve(merges.size());
        for (size_t rank = 0; rank < merges.size(); ++rank) {
          tables->merges.Set(merges[rank].left, merges[rank].right, {static_cast<uint32_t>(rank), merges[rank].result});
        }
        tables->ReadCharacters(tokens);
        tables->ReadBorders(tokens);
        tables->definition.merges.clear();
        tables->definition.merges.shrink_to_fit();
        return tables;
      }()),
      longest_(tables_->Longest()) {}

Bpe::~Bpe() = default;

size_t Bpe::CacheBytes() { return PieceCache::kSlots * sizeof(PieceCache::Slot); }

void Bpe::Encode(std::string_view piece, std::vector<int32_t>& ids) const {
  const Tables& tables = *tables_;
  if (piece.size() <= kCutAbove || !tables.may_cut) return EncodeCached(piece, ids);
  while (!piece.empty()) {
    const size_t cut = tables.CutAfter(piece);
    EncodeCached(piece.substr(0, cut), ids);
    piece.remove_prefix(cut);
  }
}

void Bpe::EncodeCached(std::string_view piece, std::vector<int32_t>& ids) const {
  if (piece.empty()) return;
  if (piece.size() > PieceCache::kMaxBytes) return EncodePlainly(piece, ids);
  PieceCache::Slot& slot = CacheOf(tables_->model).SlotOf(HashBytes(piece));
  if (slot.size == piece.size() && std::memcmp(slot.text, piece.data(), piece.size()) == 0) {
    ids.insert(ids.end(), slot.ids, slot.ids + slot.count);
    return;
  }
  const size_t before = ids.size();
  EncodePlainly(piece, ids);
  const size_t count = ids.size() - before;
  if (count > PieceCache::kMaxIds) return;
  slot.size = static_cast<uint8_t>(piece.size());
  slot.count = static_cast<uint8_t>(count);
  std::memcpy(slot.text, piece.data(), piece.size());
  std::copy(ids.begin() + before, ids.end(), slot.ids);
}

void Bpe::EncodePlainly(std::string_view piece, std::vector<int32_t>& ids) const {
  if (tables_->definition.ignore_merges) {
    const int32_t id = tables_->texts.Find(piece);
    if (id >= 0) return ids.push_back(id);
  }
  thread_local std::vector<Symbol> symbols;
  symbols.clear();
  tables_->ReadSymbols(piece, symbols);
  if (symbols.size() > kShortPiece) {
    MergeLong(tables_->merges, symbols);
  } else if (symbols.size() > 1) {
    MergeShort(tables_->merges, symbols);
  }
  for (const Symbol& symbol : symbols) ids.push_back(symbol.id);
  if (symbols.capacity() > (1 << 20)) std::vector<Symbol>().swap(symbols);  // frees the memory of a rare, huge piece
}

}  // namespace ingot::text
