// Time by a counter that starts anew, as a processor's may when the machine has slept: it goes on, and is right again soon.
#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include "engine/duration_clock.h"

namespace {

constexpr uint64_t ms = 1'000'000;
constexpr uint64_t counts_per_ms = 3'000'000;

uint64_t system_ns = 1'000'000 * ms;
int looks = 0;

uint64_t system_now() {
  ++looks;
  return system_ns;
}

class machine {
 public:
  uint64_t count = 36'000'000 * counts_per_ms;  // ten hours
  verbmq::counted_time time{count, system_now};

  uint64_t now() { return time.at(count); }
  /// How long the clock takes it for.
  uint64_t pass(uint64_t for_ms) {
    const uint64_t before = now();
    system_ns += for_ms * ms;
    count += for_ms * counts_per_ms;
    return now() - before;
  }
};

void expect(bool holds, const char* what) {
  if (holds) return;
  std::printf("%s\n", what);
  std::exit(1);
}

bool about(uint64_t ns, uint64_t expected_ms) {
  return ns >= expected_ms * ms - ms / 1000 && ns <= expected_ms * ms + ms / 1000;
}

void expect_counted(machine& of, const char* what) {
  const int before = looks;
  for (int n = 0; n < 5; ++n) expect(about(of.pass(1), 1), what);
  expect(looks == before, "the system's clock was looked at though the rate is known");
}

}  // namespace

int main() {
  machine one;
  expect(about(one.pass(30), 30), "time is wrong before the rate is known");
  expect_counted(one, "time is wrong by the counter");

  one.count = counts_per_ms;
  system_ns += 3'600'000 * ms;
  expect(about(one.pass(1), 1), "time stands still when the counter has started anew");
  expect(about(one.pass(30), 30), "time is wrong when the counter has started anew");
  expect_counted(one, "time is wrong by the counter that has started anew");

  // One count less, as on another core.
  one.count = counts_per_ms - 1;
  expect(about(one.pass(30), 30), "time is wrong when the counter is a little behind");
  expect_counted(one, "time is wrong by the counter that was a little behind");
  std::printf("right\n");
}
