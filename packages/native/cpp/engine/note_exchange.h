// What the two sides say to each other about exposed memory. A note is answered before the next one, so at most one frame of
// each kind is under way in a direction: one buffer for each is enough, and one control slot.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

namespace verbmq {

using note_bytes = std::vector<uint8_t>;

class note_exchange {
 public:
  /// Says something, or answers; false when it is not this side's turn to.
  bool ask(note_bytes said) { return begin(asking_, question_, std::move(said)); }
  bool reply(note_bytes said) {
    if (!owes_answer_) return false;
    owes_answer_ = false;
    return begin(replying_, answer_, std::move(said));
  }

  // To be sent, or nothing.
  const note_bytes* question() const noexcept { return asking_ == turn::waits ? &question_ : nullptr; }
  const note_bytes* answer() const noexcept { return replying_ == turn::waits ? &answer_ : nullptr; }
  void question_sent() noexcept { asking_ = turn::said; }
  void answer_sent() noexcept { replying_ = turn::nothing; }

  /// Something that arrived; false when it is not the peer's turn.
  bool hear_question(const uint8_t* at, uint32_t bytes) {
    // The peer may ask again only when it has our answer.
    if (owes_answer_ || replying_ != turn::nothing) return false;
    owes_answer_ = true;
    heard_question_.assign(at, at + bytes);
    return true;
  }
  bool hear_answer(const uint8_t* at, uint32_t bytes) {
    if (asking_ != turn::said) return false;
    asking_ = turn::nothing;
    heard_answer_.assign(at, at + bytes);
    return true;
  }
  note_bytes take_question() { return std::exchange(heard_question_, {}); }
  note_bytes take_answer() { return std::exchange(heard_answer_, {}); }

 private:
  enum class turn { nothing, waits, said };

  static bool begin(turn& of, note_bytes& target, note_bytes said) {
    if (of != turn::nothing) return false;
    of = turn::waits;
    target = std::move(said);
    return true;
  }

  turn asking_ = turn::nothing;
  turn replying_ = turn::nothing;
  bool owes_answer_ = false;
  note_bytes question_;
  note_bytes answer_;
  note_bytes heard_question_;
  note_bytes heard_answer_;
};

}  // namespace verbmq
