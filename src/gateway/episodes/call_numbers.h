// The sequence numbers of an episode's calls: which calls are recorded, in flight, or perhaps recorded. Not thread safe:
// Episode calls it under its lock.
//
//   Begin -> pending -> CountRecorded: recorded
//                    -> End: used by a call that only the pool knows, or returned
//   returned, and its append was lost -> Settle: recorded, used, or free
//
//   1. A returned number is reused once no higher number is in use.
//   2. CallReward.turn counts pending, recorded and used numbers in their order.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/status.h"
#include "proto/datapool.pb.h"
#include "proto/gateway.pb.h"

namespace ingot::gateway {

class CallNumbers {
 public:
  // The calls at an earlier gateway.
  struct Earlier {
    int32_t next = 0;                         // number of the next call
    int32_t first = 0;                        // after the trunk's calls, if the episode has a trunk
    int32_t first_turn = 0;                   // number of the trunk's calls
    int32_t unrecorded = 0;                   // numbers below `next` that no recorded call has
    std::map<int32_t, std::string> recorded;  // ids of recorded calls by sequence number
  };
  CallNumbers() = default;
  explicit CallNumbers(Earlier earlier);

  // Calls that are recorded or in flight, including the trunk's.
  int32_t made() const { return next_ - unrecorded_; }
  // The number of a new call, which follows all calls that are recorded or in flight.
  int32_t Begin();
  // What the pool has under the number of a call that ends without a record here.
  struct Unrecorded {
    bool used = false;  // another call, such as a call that was recorded although the response was lost
    std::optional<v1::AppendCallRequest> lost = {};  // perhaps the call: this was sent, and the response was lost
  };
  // A call that was not recorded gives its number back, unless the number is used. False: it was recorded.
  bool End(int32_t sequence, Unrecorded left);
  void CountRecorded(const std::string& call_id, int32_t sequence);
  // Forgets the calls before all calls in flight: a session begins a new history.
  void ForgetEarlier();

  // Appends whose responses were lost and whose numbers are below numbers in use.
  std::vector<v1::AppendCallRequest> LostAppends() const;
  // The pool's response to a lost append that was sent again.
  void Settle(const v1::Call& call, const absl::Status& answer);
  // Whether a number is used by a call with an unknown id; Note gets the id from the pool's records.
  bool HasUnknown() const { return !used_.empty(); }
  void Note(const v1::EpisodeTree& stored);

  // A place between two calls.
  struct Place {
    std::string call_id;  // the episode's last recorded call; empty = no call
    int32_t calls = 0;    // the sequence number after that call
  };
  Place LastPlace() const;
  // The id of the recorded call that a reward names. 404: there is none. UNAVAILABLE: it is named by its number, and
  // LostAppends are not settled.
  absl::StatusOr<std::string> Find(const v1::CallReward& named, const std::string& episode_id) const;
  // Whether the reward names calls only by ids, and all of them are recorded as far as is known here.
  bool Holds(const v1::EpisodeRewardRequest& posted) const;

 private:
  // The id of the recorded call that a client names so; empty = none.
  std::string RecordedAs(const std::string& sent) const;
  // The recorded call at this place (CallReward.turn); empty = none. Calls in flight and calls that only the pool knows
  // already have places.
  std::string CallAt(int32_t turn) const;
  // Whether the pool may have a call with this number, and other calls have higher numbers.
  bool IsUnsettled(int32_t sequence) const {
    return sequence < next_ && lost_.contains(sequence) && !pending_.contains(sequence);
  }
  // The pool has a call with this number: no other call gets it.
  void TakeNumber(int32_t sequence);

  int32_t next_ = 0;
  int32_t first_ = 0;                        // after the trunk's calls
  int32_t first_turn_ = 0;                   // the place of the first of recorded_, pending_ and used_
  int32_t unrecorded_ = 0;                   // numbers below the next one that no recorded call has, nor one in flight
  std::map<int32_t, std::string> recorded_;  // call ids by sequence number
  std::set<int32_t> returned_;               // reused once no higher number is in use
  std::set<int32_t> pending_;                // numbers of calls that are neither recorded nor over
  std::set<int32_t> used_;                   // numbers of calls that only the pool knows
  // Appends whose answers were lost, by number: not recorded, as far as is known here.
  std::map<int32_t, v1::AppendCallRequest> lost_;
};

}  // namespace ingot::gateway
