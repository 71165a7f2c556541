// A list whose entries are shared by its copies: a conversation is copied for each call that changes something of it,
// and is mostly what it was. An entry also carries what has been made of it, so that it is made once for all of them.
//
//   MessageList later = earlier;            // no message is copied
//   later.Mutable(3).reasoning = "...";     // this one is
//   later.Derived<Key>(3, &tag, [](const Message& m) { return KeyOf(m); });   // made once for every list that has it
//
// A long list is copied and gone over in each of those calls, though only its end is new. Its beginning can be settled:
// those entries are then one thing that copies share, and what has been made of all of them together is kept with it.
// When more are settled, what was made of those before is there for what is made of more (TakeOfEarlier).
//
// Values of it are not thread safe; entries may be shared by lists of different threads.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <initializer_list>
#include <iterator>
#include <memory>
#include <utility>
#include <vector>

#include "base/mutex.h"

namespace ingot::text {

template <typename T>
class SharedList {
 public:
  SharedList() = default;
  SharedList(std::initializer_list<T> entries) {
    for (const T& entry : entries) push_back(entry);
  }

  size_t size() const { return settled() + rest_.size(); }
  bool empty() const { return size() == 0; }
  const T& operator[](size_t i) const { return At(i)->value; }
  const T& back() const { return At(size() - 1)->value; }

  void push_back(T value) { rest_.push_back(std::make_shared<Entry>(std::move(value))); }
  void clear() {
    settled_.reset();
    rest_.clear();
  }
  // Those that are added are T().
  void resize(size_t count) {
    if (count < settled()) Unsettle();
    const size_t before = rest_.size();
    rest_.resize(count - settled());
    for (size_t i = before; i < rest_.size(); ++i) rest_[i] = std::make_shared<Entry>(T());
  }

  // How many entries of the beginning are settled.
  size_t settled() const { return settled_ == nullptr ? 0 : settled_->entries.size(); }
  // Settles the first `count` entries. Changing a settled one later takes as long as this: none is settled then.
  // REQUIRES: not fewer than are settled already.
  void Settle(size_t count) {
    const size_t before = settled();
    if (count == before) return;
    const auto end = rest_.begin() + static_cast<std::ptrdiff_t>(count - before);
    auto all = std::make_shared<Settled>();
    all->entries.reserve(count);
    if (settled_ != nullptr) {
      all->entries = settled_->entries;
      all->earlier = before;
      all->made_of_earlier.Copy(settled_->made);
    }
    all->entries.insert(all->entries.end(), rest_.begin(), end);
    settled_ = std::move(all);
    rest_.erase(rest_.begin(), end);
    shared_.set = true;  // what is made of them may hold lists of them
  }
  // A list of what is settled.
  SharedList SettledPart() const {
    SharedList part;
    part.settled_ = settled_;
    part.shared_.set = true;
    return part;
  }
  // Takes what is settled of `other` in the place of as many entries of its own; no others are settled then.
  // REQUIRES: it has as many.
  void TakeSettled(const SharedList& other) {
    if (settled() != other.settled()) {
      Unsettle();
      rest_.erase(rest_.begin(), rest_.begin() + static_cast<std::ptrdiff_t>(other.settled()));
    }
    settled_ = other.settled_;
    shared_.set = true;
  }
  // Whether the same is settled in both.
  bool SharesSettled(const SharedList& other) const { return settled_ == other.settled_; }
  // Whether what is settled of `other` was settled here before more was, or could have been.
  bool ContinuesSettled(const SharedList& other) const {
    if (other.settled() > settled()) return false;
    return other.settled_ == nullptr ||
           std::equal(other.settled_->entries.begin(), other.settled_->entries.end(), settled_->entries.begin());
  }
  // What was kept of the settled entries together; null: nothing. A tag is the address of what stands for it, and has
  // one type.
  template <typename Made>
  std::shared_ptr<const Made> OfSettled(const void* tag) const {
    return settled_ == nullptr ? nullptr : std::static_pointer_cast<const Made>(settled_->made.Find(tag));
  }
  // Replaces it. REQUIRES: some are settled.
  template <typename Made>
  void KeepOfSettled(const void* tag, std::shared_ptr<const Made> made) const {
    settled_->made.Keep(tag, std::move(made));
  }
  // What was kept of the entries that were settled before more were, and how many those are. Given once, to whoever
  // makes the same of more. Null: nothing.
  template <typename Made>
  std::pair<std::shared_ptr<const Made>, size_t> TakeOfEarlier(const void* tag) const {
    if (settled_ == nullptr) return {};
    return {std::static_pointer_cast<const Made>(settled_->made_of_earlier.Take(tag)), settled_->earlier};
  }

  // To be changed: a copy of its own, if this list was copied or is a copy. What was made of it is forgotten.
  T& Mutable(size_t i) {
    if (i < settled()) Unsettle();
    std::shared_ptr<Entry>& entry = rest_[i - settled()];
    if (shared_.set) {
      entry = std::make_shared<Entry>(entry->value);
    } else {
      entry->made.Forget();
    }
    return entry->value;
  }

  // The entry becomes a copy of it that `change` has changed. That is made once for every list that has the entry, as
  // long as `is_changed` says of the copy that it is what `change` makes. Tags as for Derived.
  template <typename IsChanged, typename Change>
  void Exchange(size_t i, const void* tag, const IsChanged& is_changed, const Change& change) {
    if (i < settled()) Unsettle();
    std::shared_ptr<Entry>& entry = rest_[i - settled()];
    auto copy = std::static_pointer_cast<const Entry>(entry->made.Find(tag));
    if (copy == nullptr || !is_changed(copy->value)) {
      auto made = std::make_shared<Entry>(entry->value);
      change(made->value);
      entry->made.Keep(tag, made);
      copy = std::move(made);
    }
    entry = std::const_pointer_cast<Entry>(std::move(copy));
    shared_.set = true;  // with the lists that exchange it later
  }

  // Its entries, each with what has been made of it. Whoever holds them says when they are freed.
  std::vector<std::shared_ptr<const void>> Parts() const {
    std::vector<std::shared_ptr<const void>> parts;
    parts.reserve(size());
    for (size_t i = 0; i < size(); ++i) parts.push_back(At(i));
    return parts;
  }

  // What `make` makes of an entry. Made once per entry and tag; a tag is the address of what stands for it, and has one
  // type. Threads that ask at once may both make it.
  template <typename Made, typename F>
  std::shared_ptr<const Made> Derived(size_t i, const void* tag, const F& make) const {
    const Entry& entry = *At(i);
    if (auto known = entry.made.Find(tag)) return std::static_pointer_cast<const Made>(std::move(known));
    auto made = std::make_shared<const Made>(make(entry.value));
    entry.made.Keep(tag, made);
    return made;
  }
  // Replaces what was made of it.
  template <typename Made>
  void SetDerived(size_t i, const void* tag, std::shared_ptr<const Made> made) const {
    At(i)->made.Keep(tag, std::move(made));
  }

  class const_iterator {
   public:
    using iterator_category = std::forward_iterator_tag;
    using value_type = T;
    using difference_type = std::ptrdiff_t;
    using pointer = const T*;
    using reference = const T&;
    const_iterator() = default;
    const_iterator(const SharedList& list, size_t at) : list_(&list), at_(at) {}
    reference operator*() const { return (*list_)[at_]; }
    pointer operator->() const { return &(*list_)[at_]; }
    const_iterator& operator++() {
      ++at_;
      return *this;
    }
    const_iterator operator++(int) {
      const_iterator before = *this;
      ++at_;
      return before;
    }
    const_iterator operator+(size_t count) const { return {*list_, at_ + count}; }
    bool operator==(const const_iterator& other) const { return at_ == other.at_; }
    difference_type operator-(const const_iterator& other) const {
      return static_cast<difference_type>(at_) - static_cast<difference_type>(other.at_);
    }

   private:
    const SharedList* list_ = nullptr;
    size_t at_ = 0;
  };
  const_iterator begin() const { return {*this, 0}; }
  const_iterator end() const { return {*this, size()}; }

 private:
  // What has been made of something, by tag.
  class MadeOf {
   public:
    std::shared_ptr<const void> Find(const void* tag) const ABSL_LOCKS_EXCLUDED(mu_) {
      base::MutexLock lock(mu_);
      for (const auto& [of, made] : made_) {
        if (of == tag) return made;
      }
      return nullptr;
    }
    void Keep(const void* tag, std::shared_ptr<const void> made) ABSL_LOCKS_EXCLUDED(mu_) {
      base::MutexLock lock(mu_);
      for (auto& [of, kept] : made_) {
        if (of == tag) {
          kept.swap(made);  // what it was goes when the lock has gone
          return;
        }
      }
      made_.emplace_back(tag, std::move(made));
    }
    std::shared_ptr<const void> Take(const void* tag) ABSL_LOCKS_EXCLUDED(mu_) {
      base::MutexLock lock(mu_);
      const auto known = std::find_if(made_.begin(), made_.end(), [&](const auto& made) { return made.first == tag; });
      if (known == made_.end()) return nullptr;
      std::shared_ptr<const void> taken = std::move(known->second);
      made_.erase(known);
      return taken;
    }
    void Copy(const MadeOf& other) ABSL_LOCKS_EXCLUDED(mu_) {
      std::vector<std::pair<const void*, std::shared_ptr<const void>>> made;
      {
        base::MutexLock lock(other.mu_);
        made = other.made_;
      }
      base::MutexLock lock(mu_);
      made_ = std::move(made);
    }
    void Forget() ABSL_LOCKS_EXCLUDED(mu_) {
      base::MutexLock lock(mu_);
      made_.clear();
    }

   private:
    mutable base::Mutex mu_;
    std::vector<std::pair<const void*, std::shared_ptr<const void>>> made_ ABSL_GUARDED_BY(mu_);
  };

  struct Entry {
    explicit Entry(T v) : value(std::move(v)) {}

    T value;
    mutable MadeOf made;
  };
  struct Settled {
    std::vector<std::shared_ptr<Entry>> entries;
    mutable MadeOf made;
    size_t earlier = 0;              // how many were settled before more were
    mutable MadeOf made_of_earlier;  // what was made of those
  };

  const std::shared_ptr<Entry>& At(size_t i) const {
    const size_t before = settled();
    return i < before ? settled_->entries[i] : rest_[i - before];
  }
  void Unsettle() {
    if (settled_ == nullptr) return;
    rest_.insert(rest_.begin(), settled_->entries.begin(), settled_->entries.end());
    settled_.reset();
  }

  // Set in a list that was copied and in the copy, which may then be of different threads: how many lists have an entry
  // at this moment does not say what another thread has done with it.
  struct Shared {
    Shared() = default;
    Shared(const Shared& other) : set(true) { other.set = true; }
    Shared& operator=(const Shared& other) {
      set = other.set = true;
      return *this;
    }
    Shared(Shared&& other) noexcept : set(other.set.load()) {}
    Shared& operator=(Shared&& other) noexcept {
      set = other.set.load();
      return *this;
    }
    mutable std::atomic<bool> set{false};
  };

  std::shared_ptr<const Settled> settled_;  // null: none is
  std::vector<std::shared_ptr<Entry>> rest_;
  Shared shared_;
};

}  // namespace ingot::text
